//! The usual way to do it: a shadow repository, with everything on that makes git fast at this.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use super::scratch::failed;
use crate::Failure;

pub(crate) struct Shadow {
    directory: PathBuf,
    tree: PathBuf,
}

impl Shadow {
    pub(crate) fn new(directory: PathBuf, tree: &Path) -> Result<Shadow, Failure> {
        fs::create_dir_all(&directory).map_err(failed("create", &directory))?;
        let shadow = Shadow { directory, tree: tree.to_owned() };
        process::run(&mut shadow.git(&["init", "--quiet"]))?;
        for (key, value) in [("core.untrackedCache", "true"), ("gc.auto", "0")] {
            process::run(&mut shadow.git(&["config", key, value]))?;
        }
        Ok(shadow)
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut command = process::command("git");
        command
            .args(arguments)
            .current_dir(&self.tree)
            .env("GIT_DIR", &self.directory)
            .env("GIT_WORK_TREE", &self.tree)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "bench");
            command.env(format!("GIT_{who}_EMAIL"), "bench@localhost");
        }
        command
    }

    /// Saves the tree as it is and returns its id: four commands.
    pub(crate) fn checkpoint(&self) -> Result<String, Failure> {
        process::run(&mut self.git(&["add", "-A"]))?;
        let tree = process::output(&mut self.git(&["write-tree"]))?;
        let commit = process::output(&mut self.git(&["commit-tree", "-m", "bench", &tree]))?;
        process::run(&mut self.git(&["update-ref", "refs/heads/bench", &commit]))?;
        Ok(tree)
    }

    /// Brings a tree back.
    pub(crate) fn restore(&self, tree: &str) -> Result<(), Failure> {
        process::run(&mut self.git(&["read-tree", "-u", "--reset", tree]))
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }
}
