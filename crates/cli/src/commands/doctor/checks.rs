//! Checks of the store, the ledger, and the time that an agent waits for a hook.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;
use takeback_ledger::ListOptions;
use takeback_tree::PinState;
use takeback_undo::{ClockJump, DirectoryState, Opened};

use super::Problem;
use crate::commands::checkpoints::prune::PROTECTED;
use crate::commands::list;
use crate::context::Context;
use crate::failure;
use crate::output::{self, Progress};

#[derive(Serialize)]
pub(crate) struct StoreView {
    pub(super) bytes: u64,
    pub(super) max_bytes: u64,
    pub(super) workspaces: usize,
    /// The number of workspaces whose directory no longer exists.
    pub(super) orphans: usize,
    pub(super) checkpoints: usize,
    pub(super) failures: Vec<String>,
    /// A span of time that does not count toward the age of checkpoints, because takeback was not
    /// running or the clock jumped.
    pub(super) clock_jump: Option<ClockJump>,
}

pub(crate) fn check_store(
    opened: &Opened,
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Option<StoreView> {
    let verify = "run `takeback checkpoints verify` for details";
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
        let size = output::bytes(status.store_bytes);
        let limit = output::bytes(status.max_bytes);
        let message = format!("the store takes {size}, more than its limit of {limit}");
        problems.push(match status.can_shrink {
            true => {
                let hint = "`takeback checkpoints prune` deletes the oldest checkpoints";
                Problem::new(message, hint)
            }
            false => {
                let hint = "raise `max_total_size_mb` in config.toml";
                Problem::new(format!("{message}: {PROTECTED}"), hint)
            }
        });
    }
    let describe = |missed: &takeback_undo::Failure| {
        format!(
            "{}: {}",
            output::tilde(&missed.workspace.0, context),
            list::describe_failure(missed)
        )
    };
    let failures: Vec<String> = status.failures.iter().map(describe).collect();
    for failure in &failures {
        problems.push(Problem::new(
            failure,
            "fix the cause, then run `takeback checkpoint` there, or `takeback doctor --clear`, to \
             clear this",
        ));
    }
    let is_orphan = |state: DirectoryState| matches!(state, DirectoryState::Orphan);
    Some(StoreView {
        bytes: status.store_bytes,
        max_bytes: status.max_bytes,
        workspaces: status.workspaces.len(),
        orphans: status.workspaces.iter().filter(|known| is_orphan(known.state)).count(),
        checkpoints: status.workspaces.iter().map(|known| known.checkpoints).sum(),
        failures,
        clock_jump: status.clock_jump,
    })
}

/// Reads every object of every checkpoint.
pub(super) fn verify_store(opened: &Opened, problems: &mut Vec<Problem>) {
    if !opened.has_store() {
        return;
    }
    let Ok(store) = opened.store() else { return };
    let bar = Progress::counting("verifying", "objects");
    let report = match store.verify(&|done, total| bar.step(done, Some(total))) {
        Ok(report) if report.is_whole() => return,
        Ok(report) => report,
        Err(error) => {
            let hint = "run `takeback checkpoints verify` for details";
            problems.push(Problem::new(failure::chain(&error), hint));
            return;
        }
    };
    let damaged = report.pins.iter().filter(|pin| pin.state != PinState::Whole).count();
    let all = report.pins.len();
    let packs = output::count(report.packs.len(), "damaged pack");
    let message = format!("{damaged} of {all} checkpoints and steps are damaged; {packs}");
    let hint = "`takeback checkpoints verify` names them; \
                `takeback checkpoints repair` saves what is intact";
    problems.push(Problem::new(message, hint));
}

#[derive(Serialize)]
pub(crate) struct LedgerView {
    pub(super) bytes: u64,
    pub(super) sessions: usize,
    /// The number of events that are in the spool, but not yet in the ledger.
    pub(super) spool: usize,
}

pub(crate) fn check_ledger(context: &Context, problems: &mut Vec<Problem>) -> Option<LedgerView> {
    let path = context.ledger_path();
    let bytes = fs::metadata(&path).map(|metadata| metadata.len()).ok()?;
    let listed = || -> Result<usize, String> {
        let redact = takeback_ledger::LedgerOptions::default();
        let ledger =
            takeback_ledger::Ledger::open(&path, &redact).map_err(|e| failure::chain(&e))?;
        let all = ListOptions { archived: true, ..ListOptions::default() };
        Ok(ledger.sessions(&all).map_err(|error| failure::chain(&error))?.len())
    };
    let sessions = listed().unwrap_or_else(|error| {
        problems.push(Problem::new(error, "run `takeback sessions verify` for details"));
        0
    });
    let spool = count_spool(context);
    if spool > 0 {
        let message = format!("the ledger has not imported {}", output::count(spool, "event"));
        problems.push(Problem::new(message, "run `takeback sessions` to import them"));
    }
    Some(LedgerView { bytes, sessions, spool })
}

/// Reads the whole ledger. A ledger that cannot be opened is reported by [`check_ledger`].
pub(super) fn verify_ledger(context: &Context, problems: &mut Vec<Problem>) {
    let path = context.ledger_path();
    let options = takeback_ledger::LedgerOptions::default();
    if !path.exists() {
        return;
    }
    let Ok(ledger) = takeback_ledger::Ledger::open(&path, &options) else { return };
    let bar = Progress::counting("verifying", "messages");
    let found = match ledger.verify(&|done, total| bar.step(done, Some(total))) {
        Ok(report) => report.problems,
        Err(error) => vec![failure::chain(&error)],
    };
    if let Some(first) = found.first() {
        let count = output::count(found.len(), "problem");
        let message = format!("the ledger has {count}: {first}");
        let hint = "`takeback sessions verify` lists them; \
                    `takeback sessions repair` fixes what can be fixed";
        problems.push(Problem::new(message, hint));
    }
}

/// Counts the events that are waiting in the spool.
fn count_spool(context: &Context) -> usize {
    let entries = fs::read_dir(context.home.join("spool")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json")).count()
}

#[derive(Serialize)]
pub(super) struct HookSpeed {
    /// The time that the fastest of several hook processes took, in milliseconds.
    pub(super) hook_ms: f64,
    /// The time that the fastest of several captures of this workspace took, in milliseconds. Null
    /// if the workspace has no checkpoints.
    pub(super) capture_ms: Option<f64>,
}

/// The number of measurements. Only the fastest measurement counts, because other processes can
/// only slow a measurement down.
const MEASUREMENTS: usize = 5;

/// The time, in milliseconds, above which waiting for a hook counts as a problem.
const SLOW_MS: f64 = 1000.0;

pub(super) fn measure_hook(
    opened: &Opened,
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Option<HookSpeed> {
    let hook_ms = match measure_fastest(|| run_hook(context)) {
        Ok(best) => best,
        Err(error) => {
            let hint = "agents cannot run it either; reinstall takeback";
            problems.push(Problem::new(format!("cannot run the hook: {error}"), hint));
            return None;
        }
    };
    let capture_ms = measure_capture(opened, context, problems);
    let all = hook_ms + capture_ms.unwrap_or_default();
    if all > SLOW_MS {
        let message =
            format!("an agent waits {all:.0} ms before each tool call that may change files");
        let hint = "add directories that need no protection to `exclude` in config.toml";
        problems.push(Problem::new(message, hint));
    }
    Some(HookSpeed { hook_ms, capture_ms })
}

/// Runs the given work several times and returns how long the fastest run took, in milliseconds.
fn measure_fastest(mut work: impl FnMut() -> std::io::Result<()>) -> std::io::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..MEASUREMENTS {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// Runs a hook without an event and with checkpoints switched off, so that it writes nothing.
fn run_hook(context: &Context) -> std::io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).args(["hook", "generic"]);
    command.env("TAKEBACK_CHECKPOINTS", "0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop)
}

fn measure_capture(opened: &Opened, context: &Context, problems: &mut Vec<Problem>) -> Option<f64> {
    let root = opened.find_root(&context.directory).ok()?;
    let root = fs::canonicalize(root).ok()?;
    let status = takeback_undo::retention::read_status(opened).ok()?;
    // This check must not create a history for a workspace that has none.
    if !opened.settings().enabled || !status.workspaces.iter().any(|known| known.path.0 == root) {
        return None;
    }
    let captured = measure_fastest(|| {
        takeback_undo::hook::warm_workspace(opened, &root).map_err(std::io::Error::other)
    });
    captured
        .map_err(|error| {
            let message = format!("cannot capture this workspace: {}", failure::chain(&error));
            problems.push(Problem::new(message, "run `takeback checkpoint` for details"));
        })
        .ok()
}
