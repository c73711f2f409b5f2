//! The store, the ledger, and how long an agent waits.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;
use takeback_ledger::ListOptions;
use takeback_undo::{DirectoryState, Opened};

use super::Problem;
use crate::commands::rollback;
use crate::context::Context;
use crate::failure;
use crate::output;

#[derive(Serialize)]
pub(super) struct StoreView {
    pub(super) bytes: u64,
    pub(super) max_bytes: u64,
    pub(super) workspaces: usize,
    /// Those whose directory is gone.
    pub(super) orphans: usize,
    pub(super) checkpoints: usize,
    pub(super) failures: Vec<String>,
}

pub(super) fn store(
    opened: &Opened,
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Option<StoreView> {
    let verify = "`takeback checkpoints verify` tells more";
    let status = match takeback_undo::retention::read_status(opened) {
        Ok(status) => status,
        Err(error) => {
            problems.push(Problem::new(failure::chain(&error), verify));
            return None;
        }
    };
    if opened.has_store()
        && let Err(error) = opened.store()
    {
        problems.push(Problem::new(failure::chain(&error), verify));
    }
    if status.store_bytes > status.max_bytes {
        let message = format!("the store takes {}", output::bytes(status.store_bytes));
        problems.push(Problem::new(message, "`takeback checkpoints prune` makes the oldest go"));
    }
    let describe = |missed: &takeback_undo::Failure| {
        format!("{}: {}", output::tilde(&missed.workspace.0, context), rollback::describe(missed))
    };
    let failures: Vec<String> = status.failures.iter().map(describe).collect();
    for failure in &failures {
        problems.push(Problem::new(failure, "the next checkpoint that succeeds clears this"));
    }
    let is_orphan = |state: DirectoryState| matches!(state, DirectoryState::Orphan);
    Some(StoreView {
        bytes: status.store_bytes,
        max_bytes: status.max_bytes,
        workspaces: status.workspaces.len(),
        orphans: status.workspaces.iter().filter(|known| is_orphan(known.state)).count(),
        checkpoints: status.workspaces.iter().map(|known| known.checkpoints).sum(),
        failures,
    })
}

#[derive(Serialize)]
pub(super) struct LedgerView {
    pub(super) bytes: u64,
    pub(super) sessions: usize,
    /// Reports that wait to be entered.
    pub(super) spool: usize,
}

pub(super) fn ledger(context: &Context, problems: &mut Vec<Problem>) -> Option<LedgerView> {
    let path = context.ledger_path();
    let bytes = fs::metadata(&path).map(|metadata| metadata.len()).ok()?;
    let listed = || -> Result<usize, String> {
        let redact = takeback_ledger::Options::default();
        let ledger =
            takeback_ledger::Ledger::open(&path, &redact).map_err(|e| failure::chain(&e))?;
        let all = ListOptions { archived: true, ..ListOptions::default() };
        Ok(ledger.sessions(&all).map_err(|error| failure::chain(&error))?.len())
    };
    let sessions = listed().unwrap_or_else(|error| {
        problems.push(Problem::new(error, "`takeback sessions verify` tells more"));
        0
    });
    let spool = fs::read_dir(context.home.join("spool")).map_or(0, Iterator::count);
    if spool > 0 {
        let message =
            format!("{} wait to be entered in the ledger", output::count(spool, "report"));
        problems.push(Problem::new(message, "`takeback sessions` enters what can be entered"));
    }
    Some(LedgerView { bytes, sessions, spool })
}

#[derive(Serialize)]
pub(super) struct SpeedView {
    /// How long the process of a hook takes at least.
    pub(super) hook_ms: f64,
    /// What capturing this workspace adds before a call that may change it, if it has checkpoints.
    pub(super) capture_ms: Option<f64>,
}

/// How often it is tried. The fastest counts: whatever else the machine does is not ours.
const TRIES: usize = 5;

/// Slower than this gets in the way.
const SLOW_MS: f64 = 1000.0;

pub(super) fn speed(
    opened: &Opened,
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Option<SpeedView> {
    let hook_ms = match fastest(|| run_hook(context)) {
        Ok(best) => best,
        Err(error) => {
            let hint = "agents could not run it either";
            problems.push(Problem::new(format!("the hook cannot be run: {error}"), hint));
            return None;
        }
    };
    let capture_ms = capture(opened, context, problems);
    let all = hook_ms + capture_ms.unwrap_or_default();
    if all > SLOW_MS {
        let message =
            format!("an agent waits {all:.0} ms before each call that may change something");
        let hint = "`exclude` in config.toml leaves directories out that need no protection";
        problems.push(Problem::new(message, hint));
    }
    Some(SpeedView { hook_ms, capture_ms })
}

/// Milliseconds of the fastest of some tries.
fn fastest(mut work: impl FnMut() -> std::io::Result<()>) -> std::io::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// A hook without anything to do, so that nothing is written: it is told of no event.
fn run_hook(context: &Context) -> std::io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).args(["hook", "generic"]);
    command.env("TAKEBACK_CHECKPOINTS", "0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop)
}

fn capture(opened: &Opened, context: &Context, problems: &mut Vec<Problem>) -> Option<f64> {
    let root = opened.find_root(&context.directory).ok()?;
    let root = fs::canonicalize(root).ok()?;
    let status = takeback_undo::retention::read_status(opened).ok()?;
    // Looking makes no history.
    if !opened.settings().enabled || !status.workspaces.iter().any(|known| known.path.0 == root) {
        return None;
    }
    let captured = fastest(|| {
        takeback_undo::hook::warm_workspace(opened, &root).map_err(std::io::Error::other)
    });
    captured
        .map_err(|error| {
            let message = format!("this workspace cannot be captured: {}", failure::chain(&error));
            problems.push(Problem::new(message, "`takeback checkpoint` says more"));
        })
        .ok()
}
