//! The sandbox for testing an agent, with its own home, project and model.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use takeback_script::{Request, Server};

use super::model::ScriptedModel;
use super::npm::AgentCache;
use super::process::{self, ProgramOutput};
use super::program::{AgentProgram, Turn};
use super::snapshot::Snapshot;
use super::terminal::Terminal;
use crate::Failure;
use crate::run::target_directory;

pub(crate) struct Sandbox {
    pub(crate) program: &'static AgentProgram,
    pub(crate) model: ScriptedModel,
    directory: PathBuf,
    path: String,
    takeback: PathBuf,
    server: Server,
}

/// The files of the project: an example of each kind of file that a rollback has to restore.
const FILES: [(&str, &str); 6] = [
    ("src/main.py", "print('hello')\n"),
    ("src/deep/er/data.bin", "\u{0}\u{1}\u{2} no text\r\n"),
    ("src/run.sh", "#!/bin/sh\nexit 0\n"),
    ("README.md", "# A project\n"),
    (".gitignore", ".env\n"),
    (".env", "KEY=value\n"),
];

impl Sandbox {
    pub(crate) fn new(
        program: &'static AgentProgram,
        installed: &Path,
        cache: &AgentCache,
    ) -> Result<Sandbox, Failure> {
        // Several versions of an agent may be tested at the same time.
        let version = installed.file_name().unwrap_or(program.name.as_ref());
        Sandbox::new_in(program, installed, cache, &version.to_string_lossy())
    }

    /// Creates a sandbox in a directory with this name.
    pub(crate) fn new_in(
        program: &'static AgentProgram,
        installed: &Path,
        cache: &AgentCache,
        name: &str,
    ) -> Result<Sandbox, Failure> {
        let directory = cache.directory().join("scratch").join(name);
        let project = directory.join("project");
        let model = ScriptedModel::new(program, project.clone());
        let server = Server::start({
            let model = model.clone();
            move |request| model.choose_reply(request)
        });
        let failed = |error: std::io::Error| format!("cannot prepare the sandbox: {error}");
        let sandbox = Sandbox {
            program,
            model,
            path: cache.search_path(installed),
            takeback: target_directory().join("debug").join("takeback"),
            server: server.map_err(failed)?,
            directory,
        };
        sandbox.create_files().map_err(failed)?;
        let mut git = sandbox.command_for(Path::new("git"));
        sandbox.run_logged(git.args(["init", "--quiet", "."]), "git-init")?;
        Ok(sandbox)
    }

    fn create_files(&self) -> std::io::Result<()> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        fs::create_dir_all(self.log_directory())?;
        let project = self.project();
        write_files(&project, FILES.map(|(path, content)| (path.to_owned(), content.to_owned())))?;
        fs::create_dir_all(project.join("src/empty"))?;
        symlink("main.py", project.join("src/link"))?;
        fs::set_permissions(project.join("src/run.sh"), fs::Permissions::from_mode(0o755))?;
        write_files(&self.home(), (self.program.configuration)(&self.server.url(), &project))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory with the output of all programs and the requests to the model.
    fn log_directory(&self) -> PathBuf {
        self.directory.join("logs")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// Reads the project, except for its repository.
    pub(crate) fn snapshot_project(&self) -> Result<Snapshot, Failure> {
        Snapshot::take(&self.project(), ".git")
    }

    /// Reads the home directory, except for takeback's own directory in it.
    pub(crate) fn snapshot_home(&self) -> Result<Snapshot, Failure> {
        Snapshot::take(&self.home(), ".takeback")
    }

    /// Runs one turn with the agent. Returns the agent's output and the requests to the model.
    pub(crate) fn run_turn(
        &self,
        turn: Turn<'_>,
        name: &str,
    ) -> Result<(ProgramOutput, Vec<Request>), Failure> {
        self.run_turn_in(&self.project(), turn, name)
    }

    /// Runs one turn with the agent in another directory.
    pub(crate) fn run_turn_in(
        &self,
        directory: &Path,
        turn: Turn<'_>,
        name: &str,
    ) -> Result<(ProgramOutput, Vec<Request>), Failure> {
        let before = self.server.log().len();
        let words = (self.program.words)(&self.home(), turn);
        let said = self.run_agent(&words, directory, name);
        let asked = self.server.log().split_off(before);
        // The log helps to find out why a test fails.
        let lines = asked.iter().map(|entry| {
            let body = entry.request.as_ref().map(|request| &request.body);
            format!("{}\n", json!({ "method": entry.method, "path": entry.path, "body": body }))
        });
        let log = self.log_directory().join(format!("{name}.requests"));
        fs::write(log, lines.collect::<String>()).map_err(|error| format!("{name}: {error}"))?;
        Ok((said?, asked.into_iter().filter_map(|entry| entry.request).collect()))
    }

    /// Starts the agent in a terminal.
    pub(crate) fn start_terminal(
        &self,
        directory: &Path,
        words: &[&str],
        name: &str,
    ) -> Result<Terminal, Failure> {
        let mut command = self.command_for(Path::new(self.program.name));
        command
            .current_dir(directory)
            .args(words)
            .envs((self.program.environment)(&self.server.url()));
        let log = fs::File::create(self.log_directory().join(format!("{name}.terminal")));
        Terminal::start(&command, log.map_err(|error| format!("{name}: {error}"))?)
    }

    /// Counts the requests to the model.
    pub(crate) fn count_requests(&self) -> usize {
        self.server.log().len()
    }

    /// Skips the first `after` requests to the model, and finds the next one that contains a text.
    pub(crate) fn find_request(&self, after: usize, text: &str) -> Option<Request> {
        let log = self.server.log().into_iter().skip(after);
        let mut requests = log.filter_map(|entry| entry.request);
        requests.find(|request| request.count_text(text) > 0)
    }

    /// Prepares a takeback command that starts the agent. Its standard error goes to a log.
    pub(crate) fn agent_command(&self, words: &[&str]) -> Result<Command, Failure> {
        let log = fs::File::create(self.log_directory().join("acp.stderr"));
        let mut command = self.command_for(&self.takeback);
        command.args(words).envs((self.program.environment)(&self.server.url()));
        command.stderr(log.map_err(|error| format!("cannot create a log: {error}"))?);
        Ok(command)
    }

    /// Runs takeback, and returns what it prints.
    pub(crate) fn print_takeback(&self, words: &[&str], name: &str) -> Result<String, Failure> {
        let said = self.run_logged(self.command_for(&self.takeback).args(words), name)?;
        Ok(said.stdout)
    }

    /// Makes the agent validate or install the package that takeback builds for it.
    pub(crate) fn check_package(&self) -> Result<(), Failure> {
        let steps = self.program.package_steps;
        let package = self.directory.join("package");
        let files =
            takeback_agents::find_agent(self.program.name).and_then(takeback_agents::build_package);
        match files {
            None if steps.is_empty() => return Ok(()),
            None => return Err("takeback builds no package for this agent".to_owned()),
            Some(files) => {
                let files = files.into_iter();
                let files = files.map(|file| (file.path.display().to_string(), file.content));
                write_files(&package, files).map_err(|error| error.to_string())?;
            }
        }
        for step in steps {
            let place = |word: &&str| word.replace("{}", &package.display().to_string());
            self.run_agent(
                &step.iter().map(place).collect::<Vec<_>>(),
                &self.project(),
                "package",
            )?;
        }
        Ok(())
    }

    /// Stops the processes that the agent left running.
    pub(crate) fn stop_agent(&self) -> Result<(), Failure> {
        match self.program.leave {
            [] => Ok(()),
            words => {
                let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                self.run_agent(&words, &self.project(), "leave").map(drop)
            }
        }
    }

    fn run_agent(
        &self,
        words: &[String],
        directory: &Path,
        name: &str,
    ) -> Result<ProgramOutput, Failure> {
        let mut command = self.command_for(Path::new(self.program.name));
        command
            .current_dir(directory)
            .args(words)
            .envs((self.program.environment)(&self.server.url()));
        self.run_logged(&mut command, name)
    }

    /// Runs takeback with these arguments.
    pub(crate) fn run_takeback(&self, words: &[&str], name: &str) -> Result<(), Failure> {
        self.run_logged(self.command_for(&self.takeback).args(words), name).map(drop)
    }

    /// Runs takeback, and returns the JSON document that it prints.
    pub(crate) fn query_takeback(&self, words: &[&str], name: &str) -> Result<Value, Failure> {
        let said =
            self.run_logged(self.command_for(&self.takeback).args(words).arg("--json"), name)?;
        serde_json::from_str(&said.stdout)
            .map_err(|error| format!("{name}: {error}\n{}", said.all_text()))
    }

    /// Prepares a command that runs a program in the project, without this process's environment.
    fn command_for(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", self.home());
        command.env("TERM", "dumb").env("LANG", "C.UTF-8").current_dir(self.project());
        command
    }

    fn run_logged(&self, command: &mut Command, name: &str) -> Result<ProgramOutput, Failure> {
        process::run_with_limit(command, &self.log_directory(), name)
    }
}

fn write_files(
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
