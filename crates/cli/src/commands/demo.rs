//! `takeback demo`: a scratch project, a scripted "agent" that wrecks it, and the way back.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde_json::json;
use takeback_undo::{Destination, Opened, Report, ReportedEvent, Request, ToolCall, ToolWork};

use crate::commands::{list, rollback};
use crate::context::Context;
use crate::failure::Failure;

/// Watch takeback work on a scratch project
#[derive(Args)]
pub(crate) struct Arguments {}

/// The files of the scratch project. A library in it is a separate repository.
const PROJECT: [(&str, &str); 7] = [
    ("src/cart.py", "def total(items):\n    return sum(item.price for item in items)\n"),
    ("src/shop.py", "from cart import total\n"),
    ("vendor/money/.git/HEAD", "ref: refs/heads/main\n"),
    ("vendor/money/money.py", "EURO = 100\n"),
    (".env", "PAYMENT_KEY=only-here-and-nowhere-else\n"),
    (".gitignore", ".env\n"),
    ("deploy.sh", "#!/bin/sh\necho deploying\n"),
];

/// The prompt of the scripted agent, and the commands it runs.
const PROMPT: &str = "tidy up the project";
const AGENT: [&str; 6] = [
    "rm -rf src vendor",
    "mkdir src && echo 'import everything' > src/rewrite.py",
    "rm .env",
    "chmod 644 deploy.sh",
    "if test -d .git; then git reset -q; fi",
    "echo done > notes.txt",
];

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if context.globals.json {
        return Err(Failure::new("the demonstration is for people: it has no --json"));
    }
    let failed =
        |error: io::Error| Failure::new("cannot set up the scratch project").because(&error);
    let scratch = Scratch::new().map_err(failed)?;
    let project = scratch.path.join("shop");
    make_project(&project).map_err(failed)?;
    let has_git = stage_something(&project);
    let context = context.in_home(&project, &scratch.path.join("home"));
    let opened = &context.open_with(crate::config::Config::default());
    let before = look(&project).map_err(failed)?;
    let staged_before = staged(&project);

    println!("A scratch project in {}:", project.display());
    before.iter().for_each(|line| println!("  {line}"));
    if has_git {
        println!("  staged in git: {}", staged_before.trim());
    }
    println!("\nAn agent with takeback's hooks is told: “{PROMPT}”");
    let agent = Agent { opened, directory: &project };
    agent.tell(ReportedEvent::TurnStart { prompt: Some(PROMPT.into()) })?;
    for (number, line) in AGENT.iter().enumerate() {
        println!("  $ {line}");
        agent.run(number, line).map_err(failed)??;
    }
    agent.tell(ReportedEvent::TurnEnd)?;
    println!("What is left:");
    look(&project).map_err(failed)?.iter().for_each(|line| println!("  {line}"));

    println!("\n$ takeback list --steps");
    list::print(true, &context)?;
    println!("\n$ takeback rollback 1 --index");
    let to = Destination::Checkpoint("1".into());
    let request = Request { index: has_git, ..Request::new(&project, to) };
    let view = takeback_undo::rollback::roll_back(opened, &request)?;
    rollback::render::print_result(&view, false, &context);

    println!();
    let after = look(&project).map_err(failed)?;
    after.iter().for_each(|line| println!("  {line}"));
    if after != before || staged(&project) != staged_before {
        return Err(Failure::new("the project was not restored exactly: please report this"));
    }
    println!(
        "\nEverything is back, byte for byte: the nested repository's files, .env, file modes"
    );
    println!(
        "{}",
        if has_git {
            "and what was staged."
        } else {
            "(git is not installed, so nothing was staged)."
        }
    );
    println!("\nNext, in your own project:");
    println!("  takeback install              protect the agents on this machine");
    println!("  takeback run -- <command>     protect an agent that has no hooks");
    println!("  takeback checkpoint           take a checkpoint by hand");
    println!("  takeback list                 list the checkpoints");
    println!("  takeback rollback 1           return to the newest one");
    Ok(ExitCode::SUCCESS)
}

/// The scripted agent: reports what it does, like a real one.
struct Agent<'a> {
    opened: &'a Opened,
    directory: &'a Path,
}

impl Agent<'_> {
    fn tell(&self, event: ReportedEvent) -> Result<(), Failure> {
        let report = Report {
            agent: "demo".into(),
            session: "1".into(),
            parent: None,
            turn: None,
            directory: self.directory.to_owned(),
            model: None,
            event,
        };
        match takeback_undo::hook::handle(self.opened, &report, &takeback_undo::Deadline::open())
            .failures
            .first()
        {
            Some(failure) => Err(Failure::new(failure)),
            None => Ok(()),
        }
    }

    fn run(&self, number: usize, line: &str) -> io::Result<Result<(), Failure>> {
        let call = ToolCall {
            id: Some(number.to_string()),
            tool: "Bash".into(),
            input: json!({ "command": line }),
            work: ToolWork::run_script(line),
        };
        if let Err(failure) = self.tell(ReportedEvent::BeforeTool(call.clone())) {
            return Ok(Err(failure));
        }
        let status = shell(self.directory, line).status()?;
        if !status.success() {
            return Ok(Err(Failure::new(format!("the scripted agent failed at `{line}`"))));
        }
        Ok(self.tell(ReportedEvent::AfterTool { call, outcome: Some("ok".into()) }))
    }
}

fn shell(directory: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(directory);
    command
}

/// Stages a change, if git is installed.
fn stage_something(project: &Path) -> bool {
    let line = "git init -q && git add src/cart.py && git add -f deploy.sh";
    let status = shell(project, line).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn staged(project: &Path) -> String {
    let output = shell(project, "git ls-files --cached").stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().replace('\n', " ")
}

/// A directory that is deleted when the demonstration is over.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Scratch> {
        let name = format!("takeback-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn make_project(project: &Path) -> io::Result<()> {
    for (path, content) in PROJECT {
        let path = project.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        fs::write(path, content)?;
    }
    fs::set_permissions(project.join(".env"), fs::Permissions::from_mode(0o600))?;
    fs::set_permissions(project.join("deploy.sh"), fs::Permissions::from_mode(0o755))
}

/// A line per file: mode, path, and the beginning of its content. The data of repositories is left
/// out, because takeback does not restore it.
fn look(project: &Path) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut pending = vec![project.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                if !path.ends_with(".git") {
                    pending.push(path);
                }
                continue;
            }
            let name = path.strip_prefix(project).unwrap_or(&path).display().to_string();
            let content = fs::read_to_string(&path)?;
            let first = content.lines().next().unwrap_or_default();
            lines.push(format!("{:o}  {name:<22} {first}", metadata.permissions().mode() & 0o7777));
        }
    }
    lines.sort_by(|a, b| a[3..].cmp(&b[3..]));
    Ok(lines)
}
