//! A running `takeback serve` that uses a scratch home.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::run::target_directory;

/// A scratch directory with a home, and a server for it.
pub(crate) struct Served {
    base: PathBuf,
    child: Child,
    /// The link with the token.
    pub(crate) link: String,
}

/// Returns the path of the built program.
pub(crate) fn program() -> PathBuf {
    target_directory().join("debug/takeback")
}

/// Prepares a takeback command that runs in `directory`, with the scratch directory as its home
/// directory.
pub(crate) fn takeback(base: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .env_clear()
        .env("HOME", base)
        .env("TZ", "UTC")
        .env("LANG", "C.UTF-8")
        .env("PATH", "/usr/bin:/bin");
    command.current_dir(directory).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

impl Served {
    pub(crate) fn start(base: &Path) -> Result<Served, Failure> {
        let mut child = takeback(base, base)
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run takeback serve: {error}"))?;
        let mut link = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut link).map_err(|error| error.to_string())?;
        let link = link.trim().to_owned();
        if link.is_empty() {
            return Err("takeback serve printed no link".into());
        }
        Ok(Served { base: base.to_owned(), child, link })
    }

    /// Returns the address without the token and the path: `http://127.0.0.1:4567`.
    pub(crate) fn origin(&self) -> &str {
        self.link.split("/?").next().unwrap_or(&self.link)
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Failure> {
        let path = self.base.join(path);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.base);
    }
}
