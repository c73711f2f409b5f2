//! A user's session at a terminal, as text.

use std::fs::{self, File};
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::transcript;

/// A scratch directory with a home and a project, and a transcript of the commands that were run
/// there.
pub(crate) struct Session {
    directory: Directory,
    transcript: String,
    /// A function that is applied to each line of the transcript.
    replace: fn(&str) -> String,
}

/// The directory of a session.
enum Directory {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Session {
    pub(crate) fn new() -> Session {
        Session::in_directory(Directory::Temporary(tempfile::tempdir().unwrap()))
    }

    /// Creates a session in a directory that is not deleted at the end of the test.
    pub(crate) fn at(directory: &Path) -> Session {
        fs::create_dir(directory).unwrap();
        Session::in_directory(Directory::Kept(directory.to_owned()))
    }

    fn in_directory(directory: Directory) -> Session {
        let session = Session { directory, transcript: String::new(), replace: str::to_owned };
        fs::create_dir(session.project()).unwrap();
        session
    }

    pub(crate) fn base(&self) -> PathBuf {
        let path = match &self.directory {
            Directory::Temporary(directory) => directory.path(),
            Directory::Kept(directory) => directory,
        };
        fs::canonicalize(path).unwrap()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base().join("project")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap()
    }

    /// Prepares to run `takeback` in the project.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_takeback"));
        command.args(arguments).current_dir(self.project()).env_clear();
        command.env("HOME", self.base()).env("TZ", "UTC");
        command
    }

    /// Starts `takeback` without waiting for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.env("PATH", "/bin:/usr/bin");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// True if a path in the project exists, even as a broken link.
    pub(crate) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.project().join(path)).is_ok()
    }

    /// Returns the store's directory for its only workspace.
    pub(crate) fn workspace_directory(&self) -> PathBuf {
        first_in(&self.base().join(".takeback/checkpoints/store/workspaces"))
    }

    /// Locks the only workspace in the store, as another takeback process would, until the file is
    /// closed.
    pub(crate) fn lock_workspace(&self) -> File {
        let lock = File::open(self.workspace_directory().join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Sets a function that is applied to each later line of the transcript, to replace text that
    /// differs between runs.
    pub(crate) fn replace(&mut self, replace: fn(&str) -> String) {
        self.replace = replace;
    }

    /// Runs `takeback` and adds its output to the transcript.
    pub(crate) fn takeback(&mut self, arguments: &[&str]) {
        let output = self.output(arguments);
        let words = [&["$", "takeback"], arguments].concat();
        let mut seen = words.join(" ") + "\n";
        seen.push_str(&String::from_utf8(output.stdout).unwrap());
        for line in String::from_utf8(output.stderr).unwrap().lines() {
            seen.push_str(&format!("! {line}\n"));
        }
        match output.status.code() {
            Some(0) => {}
            code => seen.push_str(&format!("[exit {code:?}]\n")),
        }
        for line in self.normalize(&seen).lines() {
            self.transcript.push_str(&(self.replace)(line));
            self.transcript.push('\n');
        }
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.output(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
    }

    /// Compares the transcript with the expected one. With `UPDATE=1` in the environment, writes
    /// the actual transcript into the test instead.
    #[track_caller]
    pub(crate) fn assert(&mut self, expected: &str) {
        let seen = std::mem::take(&mut self.transcript);
        let trimmed = expected.trim_start_matches('\n');
        let is_updated = seen != trimmed
            && std::env::var_os("UPDATE").is_some()
            && transcript::replace(Location::caller(), trimmed, &seen);
        if !is_updated {
            assert_eq!(seen, trimmed, "\n{seen}");
        }
    }

    /// Replaces ids, times and directories, which are different in every run.
    fn normalize(&self, text: &str) -> String {
        let text = text.replace(&*self.base().to_string_lossy(), "~");
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let words = line.split_inclusive([' ', '\n', '"']);
            // In a list, the age of a checkpoint follows its id.
            let mut is_after_id = false;
            for word in words {
                let core = word.trim_end_matches([' ', '\n', '"', '.', ',', '`']);
                let rest = &word[core.len()..];
                let is_id = matches!(core.len(), 7 | 40)
                    && core.bytes().all(|byte| byte.is_ascii_hexdigit());
                let is_date =
                    core.len() == 10 && core.starts_with("20") && core.matches('-').count() == 2;
                let is_clock = core.len() == 5 && core.as_bytes()[2] == b':';
                let is_age = is_after_id
                    && (core == "now"
                        || core
                            .strip_suffix(['m', 'h'])
                            .is_some_and(|age| age.parse::<u8>().is_ok()));
                is_after_id = is_id || (is_after_id && core.is_empty());
                if is_age {
                    out.truncate(out.trim_end_matches(' ').len());
                    out.push_str("  ");
                }
                out.push_str(match () {
                    () if is_age => "<age>",
                    () if is_id => "<id>",
                    () if is_date => "<date>",
                    () if is_clock => "<time>",
                    () => core,
                });
                out.push_str(rest);
            }
        }
        out
    }
}

/// Returns the first entry of a directory.
pub(crate) fn first_in(directory: &Path) -> PathBuf {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}

/// Says why something is not tested on this machine. `cargo xtask test` collects these lines.
pub(crate) fn tell_skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Returns what a process wrote to standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
