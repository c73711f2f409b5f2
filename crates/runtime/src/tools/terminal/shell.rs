//! The shell that runs commands.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use super::family::Family;

/// The search path for programs if the environment does not contain one.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A script that waits for a line, and then runs the command without input. The line is sent once
/// the watchdog knows about the command.
const GATE: &str = "read -r takeback_gate && exec \"$1\" -c \"$2\" </dev/null";

/// The programs and the environment of commands.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    /// bash, or else sh.
    program: PathBuf,
    pub(super) posix: PathBuf,
    /// The program `setsid`, which starts another program in a new session.
    setsid: Option<PathBuf>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Shell {
    pub(super) fn find(environment: &[(OsString, OsString)]) -> Shell {
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        let find =
            |name| std::env::split_paths(path).find_map(|directory| find_in(&directory, name));
        let posix = find("sh").unwrap_or_else(|| PathBuf::from("/bin/sh"));
        Shell {
            program: find("bash").unwrap_or_else(|| posix.clone()),
            posix,
            setsid: find("setsid"),
            environment: environment.to_vec(),
        }
    }

    /// Prepares a script. The script runs as soon as a line is written to the input of the child,
    /// and never if this process dies before that. The script's output and errors go into one pipe,
    /// in order. The script has no input and no terminal, so a program that asks a question fails
    /// instead of waiting.
    pub(super) fn prepare(
        &self,
        script: &str,
        directory: &Path,
        output: io::PipeWriter,
    ) -> io::Result<(Child, Family)> {
        let is_session = self.setsid.is_some();
        let mut command = match &self.setsid {
            Some(setsid) => {
                let mut command = Command::new(setsid);
                command.arg(&self.posix);
                command
            }
            None => Command::new(&self.posix),
        };
        // With `setsid`, the child must not lead a process group, because `setsid` would then have
        // to fork.
        if !is_session {
            command.process_group(0);
        }
        let child = command
            .args(["-c", GATE, "sh"])
            .arg(&self.program)
            .arg(script)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("PWD", directory)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let id = id.expect("a process has a positive id");
        Ok((child, Family { id, is_session }))
    }
}

fn find_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    let found = path.metadata().ok()?;
    // A relative path would depend on the directory of the command.
    let is_program = found.is_file() && found.permissions().mode() & 0o111 != 0;
    (is_program && path.is_absolute()).then_some(path)
}
