//! `takeback demo`: a scripted agent wrecks a scratch project, and a rollback restores it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde_json::json;
use takeback_undo::{
    Deadline, Destination, Opened, Report, ReportedEvent, Request, ToolCall, ToolWork, hook,
};

use crate::commands::{list, rollback};
use crate::context::Context;
use crate::failure::Failure;

/// Try takeback on a scratch project
///
/// A scripted agent wrecks the project, and a rollback restores it. Nothing else on this machine is
/// touched.
#[derive(Args)]
pub(crate) struct Arguments {}

/// The files of the scratch project. One of its directories is a git repository in its own right.
const PROJECT: [(&str, &str); 7] = [
    ("src/cart.py", "def total(items):\n    return sum(item.price for item in items)\n"),
    ("src/shop.py", "from cart import total\n"),
    ("vendor/money/.git/HEAD", "ref: refs/heads/main\n"),
    ("vendor/money/money.py", "EURO = 100\n"),
    (".env", "PAYMENT_KEY=only-here-and-nowhere-else\n"),
    (".gitignore", ".env\n"),
    ("deploy.sh", "#!/bin/sh\necho deploying\n"),
];

/// The prompt that is given to the scripted agent.
const PROMPT: &str = "tidy up the project";

/// The commands that the scripted agent runs.
const COMMANDS: [&str; 6] = [
    "rm -rf src vendor",
    "mkdir src && echo 'import everything' > src/rewrite.py",
    "rm .env",
    "chmod 644 deploy.sh",
    "if test -d .git; then git reset -q; fi",
    "echo done > notes.txt",
];

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if context.globals.json {
        return Err(Failure::new("`demo` has no --json"));
    }
    let scratch = Scratch::new().map_err(describe_setup)?;
    let project = scratch.path.join("shop");
    make_project(&project).map_err(describe_setup)?;
    let has_git = stage_files(&project);
    let context = context.in_home(&project, &scratch.path.join("home"));
    let opened = &context.open_with(crate::config::Config::default());
    let before = ProjectState::read(&project)?;
    println!("A scratch project in {}:", project.display());
    before.print();
    wreck(&project, opened)?;
    restore(&project, opened, has_git, &context)?;
    let after = ProjectState::read(&project)?;
    println!();
    after.print();
    if after != before {
        return Err(Failure::new(
            "the project differs from its original state: please report this",
        ));
    }
    println!(
        "\nEverything is back, byte for byte: the files of the nested repository, .env, file modes"
    );
    println!("{}", if has_git { "and the staged files." } else { "(git is not installed)." });
    print_next_steps();
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::needless_pass_by_value, reason = "callers pass this function to map_err")]
fn describe_setup(error: io::Error) -> Failure {
    Failure::new("cannot set up the scratch project").because(&error)
}

/// Runs the scripted agent's turn, which wrecks the project.
fn wreck(project: &Path, opened: &Opened) -> Result<(), Failure> {
    println!("\nAn agent with takeback's hooks gets the prompt: “{PROMPT}”");
    let agent = Agent { opened, directory: project };
    agent.report(ReportedEvent::TurnStart { prompt: Some(PROMPT.into()) })?;
    for (number, line) in COMMANDS.iter().enumerate() {
        println!("  $ {line}");
        agent.run_line(number, line)?;
    }
    agent.report(ReportedEvent::TurnEnd)?;
    println!("What is left:");
    ProjectState::read(project)?.print();
    Ok(())
}

/// Rolls back the scripted agent's turn.
fn restore(
    project: &Path,
    opened: &Opened,
    has_git: bool,
    context: &Context,
) -> Result<(), Failure> {
    println!("\n$ takeback list --steps");
    list::print_list(true, false, context)?;
    println!("\n$ takeback rollback 1 --index");
    let to = Destination::Checkpoint("1".into());
    let request = Request { index: has_git, ..Request::new(project, to) };
    let view = takeback_undo::rollback::roll_back(opened, &request)?;
    rollback::render::print_result(&view, rollback::render::Report::Done, context);
    Ok(())
}

fn print_next_steps() {
    println!("\nNext, in one of your projects:");
    println!("  takeback install              protect the agents on this machine");
    println!("  takeback run -- <command>     protect an agent that has no hooks");
    println!("  takeback checkpoint           take a checkpoint by hand");
    println!("  takeback list                 list the checkpoints");
    println!("  takeback rollback 1           return to the newest checkpoint");
}

/// The scripted agent. It reports its calls, as a real agent does.
struct Agent<'a> {
    opened: &'a Opened,
    directory: &'a Path,
}

impl Agent<'_> {
    fn report(&self, event: ReportedEvent) -> Result<(), Failure> {
        let report = Report {
            agent: "demo".into(),
            session: "1".into(),
            parent: None,
            turn: None,
            directory: self.directory.to_owned(),
            model: None,
            event,
        };
        let handled = hook::handle(self.opened, &report, &Deadline::open());
        match handled.failures.first() {
            Some(failure) => Err(Failure::new(failure)),
            None => Ok(()),
        }
    }

    fn run_line(&self, number: usize, line: &str) -> Result<(), Failure> {
        let call = ToolCall {
            id: Some(number.to_string()),
            tool: "Bash".into(),
            input: json!({ "command": line }),
            work: ToolWork::run_script(line),
        };
        self.report(ReportedEvent::BeforeTool(call.clone()))?;
        let status = shell_command(self.directory, line).status().map_err(describe_setup)?;
        if !status.success() {
            return Err(Failure::new(format!("the scripted agent failed at `{line}`")));
        }
        self.report(ReportedEvent::AfterTool { call, outcome: Some("ok".into()) })
    }
}

fn shell_command(directory: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(directory);
    command
}

/// Turns the project into a git repository and stages some files. Returns false if git is not
/// installed.
fn stage_files(project: &Path) -> bool {
    let line = "git init -q && git add src/cart.py && git add -f deploy.sh";
    let status = shell_command(project, line).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Lists the files that are staged.
fn list_staged(project: &Path) -> String {
    let output = shell_command(project, "git ls-files --cached").stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().replace('\n', " ")
}

/// A temporary directory.
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

/// The files in the project, and the names of the staged files.
#[derive(PartialEq)]
struct ProjectState {
    /// The mode, path and first line of each file.
    files: Vec<String>,
    staged: String,
}

impl ProjectState {
    fn read(project: &Path) -> Result<ProjectState, Failure> {
        let files = list_files(project).map_err(describe_setup)?;
        Ok(ProjectState { files, staged: list_staged(project) })
    }

    fn print(&self) {
        self.files.iter().for_each(|line| println!("  {line}"));
        if !self.staged.is_empty() {
            println!("  staged in git: {}", self.staged.trim());
        }
    }
}

/// Lists the files in the project, except git's own files in `.git`.
fn list_files(project: &Path) -> io::Result<Vec<String>> {
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
