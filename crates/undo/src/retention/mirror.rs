//! The mirror: a second home with a copy of all checkpoints, in case the first one is deleted.
//!
//! The mirror is brought up to date after each turn. A checkpoint that disappears from the first
//! home stays in the mirror. The mirror has the same limits, but they are enforced separately.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use takeback_base::durable;
use takeback_base::errors::error_chain;
use takeback_base::paths::canonicalize_existing;
use takeback_ledger::{LedgerError, OpenError, Time};
use takeback_tree::{AnyPath, MirrorError, MirrorReport, Store, StoreError};

use super::PruneError;
use super::prune::{limit_rows, prune_if_due};
use crate::Opened;
use crate::history::labels::copy_labels;
use crate::hook::state;

/// The minimum time between two copies of the ledger, which is always copied as a whole.
const LEDGER_INTERVAL: Duration = Duration::from_secs(3600);

/// The state of the mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct MirrorStatus {
    pub path: AnyPath,
    /// The time at which the mirror was last brought up to date: RFC 3339 in UTC.
    pub updated: Option<String>,
}

/// The reason why the mirror is not up to date.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum UpdateMirrorError {
    /// The mirror would be captured, or deleted together with the home.
    #[error("the mirror must not be in {}", around.display())]
    Inside { around: PathBuf },
    #[error("other users can write to the mirror")]
    OpenToOthers,
    #[error("cannot use the mirror")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("cannot copy the ledger")]
    Ledger(#[from] LedgerError),
    #[error("cannot open the ledger")]
    OpenLedger(#[from] OpenError),
    #[error("cannot enforce the limits of the mirror")]
    Prune(#[from] PruneError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Brings the mirror up to date, if there is one. Remembers a failure until the next success.
pub fn update_mirror(opened: &Opened) -> Result<Option<MirrorReport>, UpdateMirrorError> {
    let Some(path) = opened.protection.mirror.clone() else { return Ok(None) };
    let updated = copy_home(opened, &path);
    match &updated {
        Ok(report) => {
            let _ = opened.failure_log().clear_failures(Some(&path));
            if !report.damaged.is_empty() {
                let count = report.damaged.len();
                let message =
                    format!("{count} damaged checkpoints could not be copied to the mirror");
                opened.note_failure(&path, &message);
            }
        }
        Err(error) => {
            let message = format!("the mirror is not up to date: {}", error_chain(error));
            opened.note_failure(&path, &message);
        }
    }
    updated.map(Some)
}

/// Reads the state of the mirror.
pub(super) fn read_mirror_status(opened: &Opened) -> Option<MirrorStatus> {
    let path = opened.protection.mirror.clone()?;
    let updated = state::read::<Time>(&updated_file(&path)).map(Time::rfc3339);
    Some(MirrorStatus { path: AnyPath(path), updated })
}

fn copy_home(opened: &Opened, path: &Path) -> Result<MirrorReport, UpdateMirrorError> {
    let store = opened.store()?;
    check_place(opened, store, path)?;
    durable::create_directory(&path.join("checkpoints"))?;
    if fs::metadata(path)?.mode() & 0o022 != 0 {
        return Err(UpdateMirrorError::OpenToOthers);
    }
    let mirror = store.open_mirror(path.join("checkpoints/store"))?;
    let report = store.copy_to_mirror(&mirror)?;
    // The labels are copied before the limits are enforced, because labels protect checkpoints from
    // pruning.
    copy_labels(store, &mirror)?;
    copy_ledger(opened, path)?;
    if report.pins > 0 {
        let second = opened.in_home(path);
        for workspace in mirror.pinned_workspaces()? {
            limit_rows(&second, &workspace)?;
        }
        prune_if_due(&second)?;
    }
    state::write(&updated_file(path), &opened.now())?;
    Ok(report)
}

/// Refuses a mirror that a capture would include, or that would be deleted together with the home.
fn check_place(opened: &Opened, store: &Store, path: &Path) -> Result<(), UpdateMirrorError> {
    let path = canonicalize_existing(path);
    let workspaces = store.workspaces()?.into_iter();
    let workspaces = workspaces.filter_map(|id| store.workspace_info(&id).ok().flatten());
    let paths = workspaces.map(|info| info.path.0).chain([canonicalize_existing(opened.home())]);
    match paths.into_iter().find(|around| path.starts_with(around)) {
        Some(around) => Err(UpdateMirrorError::Inside { around }),
        None => Ok(()),
    }
}

/// Copies the ledger, unless the last copy is recent.
fn copy_ledger(opened: &Opened, path: &Path) -> Result<(), UpdateMirrorError> {
    let copy = path.join("state.db");
    let copied = path.join("checkpoints/.ledger_copied");
    let last = state::read::<Time>(&copied).filter(|_| copy.exists());
    let is_recent =
        |last: Time| (opened.now().minus(LEDGER_INTERVAL)..=opened.now()).contains(&last);
    if last.is_some_and(is_recent) {
        return Ok(());
    }
    let Some(ledger) = opened.ledger()? else { return Ok(()) };
    ledger.copy_to(&copy)?;
    state::write(&copied, &opened.now())?;
    Ok(())
}

/// Returns the path of the file that holds the time at which the mirror was last brought up to
/// date.
fn updated_file(path: &Path) -> PathBuf {
    path.join("checkpoints/.updated")
}
