//! The measured subjects: the program as a whole, and the library in this process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use takeback_tree::{Capture, CaptureOptions, CaptureRules, ForbiddenRoots, RestoreTarget, Store};

use super::process;
use super::scratch::{Scratch, io_failure};
use crate::Failure;

/// The `takeback` program that was built together with this benchmark.
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn beside(this: &Path) -> Program {
        Program(this.with_file_name("takeback"))
    }

    /// Prepares the command that an agent runs when an event happens.
    pub(crate) fn hook_command(&self, home: &Home) -> Command {
        let mut command = process::clean_command(&self.0);
        command.arg("--home").arg(&home.directory).args(["hook", "generic"]);
        command
    }

    /// Prepares the command that an agent can keep running instead of starting hooks.
    pub(crate) fn rpc_command(&self, home: &Home) -> Command {
        let mut command = process::clean_command(&self.0);
        command.arg("--home").arg(&home.directory).arg("rpc");
        command
    }

    /// Prepares the command that takes a checkpoint of a tree.
    pub(crate) fn checkpoint_command(&self, home: &Home, tree: &Path) -> Command {
        let mut command = process::clean_command(&self.0);
        command.arg("--home").arg(&home.directory).arg("-C").arg(tree);
        command.args(["checkpoint", "--json"]);
        command
    }
}

/// A takeback home directory.
pub(crate) struct Home {
    directory: PathBuf,
}

impl Home {
    /// Creates a home with an empty store. A store is created once for all workspaces, so creating
    /// it is not measured.
    pub(crate) fn new(scratch: &Scratch) -> Result<Home, Failure> {
        let home = Home { directory: scratch.fresh_path("home") };
        let store = home.store_directory();
        std::fs::create_dir_all(&store).map_err(io_failure("create", &store))?;
        Store::open(&store).map_err(explain_error)?;
        Ok(home)
    }

    pub(crate) fn store_directory(&self) -> PathBuf {
        self.directory.join("checkpoints/store")
    }
}

/// Formats an error and its causes.
pub(crate) fn explain_error(error: impl std::error::Error) -> Failure {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Captures a tree as a new process would, starting from the state on disk.
pub(crate) fn capture_tree(store: &Path, tree: &Path, pin: bool) -> Result<Capture, Failure> {
    let now = SystemTime::now();
    let store = Store::open(store).map_err(explain_error)?;
    let workspace = store.workspace(tree, &ForbiddenRoots::default()).map_err(explain_error)?;
    let mut lock = workspace.lock().map_err(explain_error)?;
    let options = CaptureOptions { rules: &CaptureRules::default(), named: &[], swept: &[], now };
    let capture = lock.capture(&options).map_err(explain_error)?;
    if pin {
        lock.pin(capture.tree, now, "bench\n").map_err(explain_error)?;
    }
    lock.finish(now).map_err(explain_error)?;
    Ok(capture)
}

/// Restores a captured state durably, with a journal and verification. Returns how long the restore
/// took, and how long it took including the capture and pin of the current state.
pub(crate) fn restore_tree(
    store: &Path,
    tree: &Path,
    to: &Capture,
) -> Result<(Duration, Duration), Failure> {
    let start = Instant::now();
    let now = SystemTime::now();
    let store = Store::open(store).map_err(explain_error)?;
    let workspace = store.workspace(tree, &ForbiddenRoots::default()).map_err(explain_error)?;
    let mut lock = workspace.lock().map_err(explain_error)?;
    let options = CaptureOptions { rules: &CaptureRules::default(), named: &[], swept: &[], now };
    let target = RestoreTarget {
        tree: to.tree,
        filter: &to.filter,
        uncovered: &to.uncovered,
        undoes: None,
        released: &[],
        silent: false,
    };
    let plan = lock.plan(&target, &[], &options).map_err(explain_error)?;
    let safety = lock.pin(plan.from, now, "bench\n").map_err(explain_error)?;
    let saved = Instant::now();
    lock.apply(&plan, &safety).map_err(explain_error)?;
    let applied = saved.elapsed();
    lock.finish(now).map_err(explain_error)?;
    Ok((applied, start.elapsed()))
}

/// Packs all objects together.
pub(crate) fn collect_garbage(store: &Path) -> Result<(), Failure> {
    Store::open(store).map_err(explain_error)?.gc().map(drop).map_err(explain_error)
}
