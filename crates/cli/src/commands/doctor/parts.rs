//! The store, the ledger, and how long an agent waits.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use takeback_ledger::ListOptions;
use takeback_undo::{Keeper, WorkspaceState};

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
    keeper: &Keeper,
    context: &Context,
    problems: &mut Vec<Problem>,
) -> Option<StoreView> {
    let verify = "`takeback checkpoints verify` tells more";
    let status = match keeper.status() {
        Ok(status) => status,
        Err(error) => {
            problems.push(Problem::new(failure::chain(&error), verify));
            return None;
        }
    };
    if keeper.has_store()
        && let Err(error) = keeper.store()
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
    let is_orphan = |state: WorkspaceState| matches!(state, WorkspaceState::Orphan);
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
        let message = format!("{} to be entered in the ledger", output::count(spool, "report"));
        problems.push(Problem::new(message, "`takeback sessions` enters what can be entered"));
    }
    Some(LedgerView { bytes, sessions, spool })
}

#[derive(Serialize)]
pub(super) struct SpeedView {
    /// How long a hook takes at least.
    pub(super) hook_ms: f64,
}

/// How often it is tried. The fastest counts: whatever else the machine does is not ours.
const TRIES: usize = 5;

/// Slower than this gets in the way.
const SLOW_MS: f64 = 250.0;

pub(super) fn speed(context: &Context, problems: &mut Vec<Problem>) -> Option<SpeedView> {
    let measured = (|| {
        let program = std::env::current_exe()?;
        // What is tried is nobody's history.
        let scratch = std::env::temp_dir().join(format!("takeback-doctor-{}", std::process::id()));
        fs::create_dir(&scratch)?;
        let tries = (0..TRIES).map(|_| {
            let mut command = Command::new(&program);
            command.arg("--home").arg(&scratch).arg("-C").arg(&context.directory);
            command.args(["hook", "generic"]).env_remove("TAKEBACK_CHECKPOINTS");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let start = Instant::now();
            let mut child = command.spawn()?;
            let event = br#"{"event": "before_tool", "agent": "doctor", "tool": "read"}"#;
            child.stdin.take().map(|mut stdin| stdin.write_all(event)).transpose()?;
            child.wait()?;
            Ok(start.elapsed())
        });
        let best =
            tries.collect::<std::io::Result<Vec<Duration>>>().map(|all| all.into_iter().min());
        fs::remove_dir_all(&scratch)?;
        best
    })();
    match measured {
        Ok(best) => {
            let hook_ms = best?.as_secs_f64() * 1e3;
            if hook_ms > SLOW_MS {
                let message = format!("a hook takes {hook_ms:.0} ms");
                let hint = "is takeback's directory on a slow or remote disk?";
                problems.push(Problem::new(message, hint));
            }
            Some(SpeedView { hook_ms })
        }
        Err(error) => {
            let hint = "agents could not run it either";
            problems.push(Problem::new(format!("the hook cannot be run: {error}"), hint));
            None
        }
    }
}
