//! What is measured: the program as a whole, and the library in this process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use takeback_tree::{Capture, CaptureOptions, CaptureRules, ForbiddenRoots, RestoreTarget, Store};

use super::process;
use super::scratch::{Scratch, failed};
use crate::Failure;

/// The program `takeback`, as it was built beside this one.
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn beside(this: &Path) -> Program {
        Program(this.with_file_name("takeback"))
    }

    /// What an agent runs when something happens.
    pub(crate) fn hook(&self, home: &Home) -> Command {
        let mut command = process::command(&self.0);
        command.arg("--home").arg(&home.directory).args(["hook", "generic"]);
        command
    }

    /// What an agent keeps running instead.
    pub(crate) fn rpc(&self, home: &Home) -> Command {
        let mut command = process::command(&self.0);
        command.arg("--home").arg(&home.directory).arg("rpc");
        command
    }

    /// A checkpoint of a tree, as a process of its own.
    pub(crate) fn checkpoint(&self, home: &Home, tree: &Path) -> Command {
        let mut command = process::command(&self.0);
        command.arg("--home").arg(&home.directory).arg("-C").arg(tree);
        command.args(["checkpoint", "--json"]);
        command
    }
}

/// Takeback's directory.
pub(crate) struct Home {
    directory: PathBuf,
}

impl Home {
    /// With an empty store: a store is made once for all workspaces, so making it does not count.
    pub(crate) fn new(scratch: &Scratch) -> Result<Home, Failure> {
        let home = Home { directory: scratch.fresh("home") };
        let store = home.store();
        std::fs::create_dir_all(&store).map_err(failed("create", &store))?;
        Store::open(&store).map_err(explain)?;
        Ok(home)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("checkpoints/store")
    }
}

/// An error with what caused it.
pub(crate) fn explain(error: impl std::error::Error) -> Failure {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Captures a tree as a new process would, starting from what is on the disk.
pub(crate) fn checkpoint(store: &Path, tree: &Path, pin: bool) -> Result<Capture, Failure> {
    let now = SystemTime::now();
    let store = Store::open(store).map_err(explain)?;
    let workspace = store.workspace(tree, &ForbiddenRoots::default()).map_err(explain)?;
    let mut lock = workspace.lock().map_err(explain)?;
    let options = CaptureOptions { rules: &CaptureRules::default(), named: &[], now };
    let capture = lock.capture(&options).map_err(explain)?;
    if pin {
        lock.pin(capture.tree, now, "bench\n").map_err(explain)?;
    }
    lock.finish(now).map_err(explain)?;
    Ok(capture)
}

/// Brings back a state that was captured: journalled, durable and verified. Returns how long that
/// took without saving the present first, and with it.
pub(crate) fn restore(
    store: &Path,
    tree: &Path,
    to: &Capture,
) -> Result<(Duration, Duration), Failure> {
    let start = Instant::now();
    let now = SystemTime::now();
    let store = Store::open(store).map_err(explain)?;
    let workspace = store.workspace(tree, &ForbiddenRoots::default()).map_err(explain)?;
    let mut lock = workspace.lock().map_err(explain)?;
    let options = CaptureOptions { rules: &CaptureRules::default(), named: &[], now };
    let target = RestoreTarget {
        tree: to.tree,
        filter: &to.filter,
        uncovered: &to.uncovered,
        undoes: None,
        silent: false,
    };
    let plan = lock.plan(&target, &[], &options).map_err(explain)?;
    let safety = lock.pin(plan.from, now, "bench\n").map_err(explain)?;
    let saved = Instant::now();
    lock.apply(&plan, &safety).map_err(explain)?;
    let applied = saved.elapsed();
    lock.finish(now).map_err(explain)?;
    Ok((applied, start.elapsed()))
}

/// Packs everything together.
pub(crate) fn collect_garbage(store: &Path) -> Result<(), Failure> {
    Store::open(store).map_err(explain)?.gc().map(drop).map_err(explain)
}
