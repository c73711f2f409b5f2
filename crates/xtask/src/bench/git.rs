//! The usual way to take checkpoints: a git shadow repository with its fastest settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use super::scratch::io_failure;
use crate::Failure;

pub(crate) struct Shadow {
    directory: PathBuf,
    tree: PathBuf,
}

impl Shadow {
    pub(crate) fn new(directory: PathBuf, tree: &Path) -> Result<Shadow, Failure> {
        fs::create_dir_all(&directory).map_err(io_failure("create", &directory))?;
        let shadow = Shadow { directory, tree: tree.to_owned() };
        process::run_to_end(&mut shadow.git_command(&["init", "--quiet"]))?;
        for (key, value) in [("core.untrackedCache", "true"), ("gc.auto", "0")] {
            process::run_to_end(&mut shadow.git_command(&["config", key, value]))?;
        }
        Ok(shadow)
    }

    fn git_command(&self, arguments: &[&str]) -> Command {
        let mut command = process::clean_command("git");
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

    /// Saves the current tree with four commands. Returns the tree's id.
    pub(crate) fn save_checkpoint(&self) -> Result<String, Failure> {
        process::run_to_end(&mut self.git_command(&["add", "-A"]))?;
        let tree = process::read_output(&mut self.git_command(&["write-tree"]))?;
        let commit =
            process::read_output(&mut self.git_command(&["commit-tree", "-m", "bench", &tree]))?;
        process::run_to_end(&mut self.git_command(&["update-ref", "refs/heads/bench", &commit]))?;
        Ok(tree)
    }

    /// Restores a tree by its id.
    pub(crate) fn restore_tree(&self, tree: &str) -> Result<(), Failure> {
        process::run_to_end(&mut self.git_command(&["read-tree", "-u", "--reset", tree]))
    }

    pub(crate) fn objects_directory(&self) -> PathBuf {
        self.directory.join("objects")
    }
}
