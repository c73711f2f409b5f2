//! Where an agent is tested: a home, a project and a model of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use takeback_script::{Request, Server};

use super::npm::Cache;
use super::process::{self, Said};
use super::programs::{Program, Turn};
use super::script::Script;
use super::snapshot::Snapshot;
use crate::Failure;
use crate::run::target_directory;

pub(crate) struct Stage {
    pub(crate) program: &'static Program,
    pub(crate) script: Script,
    directory: PathBuf,
    path: String,
    takeback: PathBuf,
    server: Server,
}

/// Everything that a rollback has to get right, in small.
const FILES: [(&str, &str); 6] = [
    ("src/main.py", "print('hello')\n"),
    ("src/deep/er/data.bin", "\u{0}\u{1}\u{2} no text\r\n"),
    ("src/run.sh", "#!/bin/sh\nexit 0\n"),
    ("README.md", "# A project\n"),
    (".gitignore", ".env\n"),
    (".env", "KEY=value\n"),
];

impl Stage {
    pub(crate) fn new(
        program: &'static Program,
        installed: &Path,
        cache: &Cache,
    ) -> Result<Stage, Failure> {
        let directory = cache.directory().join("scratch").join(program.name);
        let project = directory.join("project");
        let script = Script::new(program, project.clone());
        let server = Server::start({
            let script = script.clone();
            move |request| script.reply(request)
        });
        let failed = |error: std::io::Error| format!("cannot set the stage: {error}");
        let stage = Stage {
            program,
            script,
            path: cache.path(installed),
            takeback: target_directory().join("debug").join("takeback"),
            server: server.map_err(failed)?,
            directory,
        };
        stage.build().map_err(failed)?;
        let mut git = stage.command(Path::new("git"));
        stage.run(git.args(["init", "--quiet", "."]), "git-init")?;
        Ok(stage)
    }

    fn build(&self) -> std::io::Result<()> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        fs::create_dir_all(self.logs())?;
        let project = self.project();
        write(&project, FILES.map(|(path, content)| (path.to_owned(), content.to_owned())))?;
        fs::create_dir_all(project.join("src/empty"))?;
        symlink("main.py", project.join("src/link"))?;
        fs::set_permissions(project.join("src/run.sh"), fs::Permissions::from_mode(0o755))?;
        write(&self.home(), (self.program.configuration)(&self.server.url(), &project))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What all programs said, and what the model was asked.
    fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// What is in the project. Its repository is the business of others.
    pub(crate) fn files(&self) -> Result<Snapshot, Failure> {
        Snapshot::of(&self.project(), ".git")
    }

    /// What is in the home directory, but for takeback's own.
    pub(crate) fn configuration(&self) -> Result<Snapshot, Failure> {
        Snapshot::of(&self.home(), ".takeback")
    }

    /// Lets the agent do a turn, and returns what it said and what the model was asked.
    pub(crate) fn turn(&self, turn: Turn<'_>, name: &str) -> Result<(Said, Vec<Request>), Failure> {
        let before = self.server.log().len();
        let words = (self.program.words)(&self.home(), turn);
        let said = self.agent(&words, name);
        let asked = self.server.log().split_off(before);
        // For whoever wants to know why it failed.
        let lines = asked.iter().map(|entry| {
            let body = entry.request.as_ref().map(|request| &request.body);
            format!("{}\n", json!({ "method": entry.method, "path": entry.path, "body": body }))
        });
        let log = self.logs().join(format!("{name}.requests"));
        fs::write(log, lines.collect::<String>()).map_err(|error| format!("{name}: {error}"))?;
        Ok((said?, asked.into_iter().filter_map(|entry| entry.request).collect()))
    }

    /// Has the agent look at the package that we make for it, or take it.
    pub(crate) fn look_at_package(&self) -> Result<(), Failure> {
        let steps = self.program.package_steps;
        let package = self.directory.join("package");
        let files =
            takeback_agents::find_agent(self.program.name).and_then(takeback_agents::build_package);
        match files {
            None if steps.is_empty() => return Ok(()),
            None => return Err("there is no package".to_owned()),
            Some(files) => {
                let files = files.into_iter();
                let files = files.map(|file| (file.path.display().to_string(), file.content));
                write(&package, files).map_err(|error| error.to_string())?;
            }
        }
        for step in steps {
            let place = |word: &&str| word.replace("{}", &package.display().to_string());
            self.agent(&step.iter().map(place).collect::<Vec<_>>(), "package")?;
        }
        Ok(())
    }

    /// Ends what the agent left running.
    pub(crate) fn leave(&self) -> Result<(), Failure> {
        match self.program.leave {
            [] => Ok(()),
            words => {
                let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                self.agent(&words, "leave").map(drop)
            }
        }
    }

    fn agent(&self, words: &[String], name: &str) -> Result<Said, Failure> {
        let mut command = self.command(Path::new(self.program.name));
        command.args(words).envs((self.program.environment)(&self.server.url()));
        self.run(&mut command, name)
    }

    /// Runs takeback.
    pub(crate) fn takeback(&self, words: &[&str], name: &str) -> Result<(), Failure> {
        self.run(self.command(&self.takeback).args(words), name).map(drop)
    }

    /// Runs takeback, and returns the document it prints.
    pub(crate) fn ask(&self, words: &[&str], name: &str) -> Result<Value, Failure> {
        let said = self.run(self.command(&self.takeback).args(words).arg("--json"), name)?;
        serde_json::from_str(&said.stdout)
            .map_err(|error| format!("{name}: {error}\n{}", said.all()))
    }

    /// A program in the project that knows nothing of whoever runs the tests.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", self.home());
        command.env("TERM", "dumb").env("LANG", "C.UTF-8").current_dir(self.project());
        command
    }

    fn run(&self, command: &mut Command, name: &str) -> Result<Said, Failure> {
        process::run(command, &self.logs(), name)
    }
}

fn write(
    directory: &Path,
    files: impl IntoIterator<Item = (String, String)>,
) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for (path, content) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        fs::write(path, content)?;
    }
    Ok(())
}
