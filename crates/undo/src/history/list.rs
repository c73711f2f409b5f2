//! The list of a workspace's checkpoints, for the terminal, JSON output and agents.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_base::errors::error_chain;
use takeback_ledger::{CallTurns, LedgerError, Time};
use takeback_tree::{AnyPath, Oid, RelPath, StoreError, WorkspaceError};

use super::counts::count_changes;
use super::record::{Checkpoint, TurnId};
use super::workspace::{
    WorkspaceRef, find_inner_history, find_workspace, known_workspaces, revive_workspace,
};
use super::{History, Row, TakeError};
use crate::Opened;
use crate::hook::state::WorkspaceState;
use crate::retention::failures::Failure;
use crate::rollback::is_interrupted;

/// The longest time that a list waits for the ledger to be up to date.
const LEDGER_WAIT: Duration = Duration::from_millis(200);

/// The checkpoints of a workspace.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct List {
    pub workspace: AnyPath,
    /// The rows, newest first.
    pub checkpoints: Vec<RowView>,
    /// The failures in this workspace, such as missed checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The reasons why some checkpoints could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// The repositories inside the workspace. The workspace's checkpoints do not contain their
    /// histories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RelPath>,
    /// The reason why the ledger could not be read. In that case, prompts and effects are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_error: Option<String>,
    /// The listed directory's own history, from before the directory became part of this workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<List>>,
}

/// One row of the list.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct RowView {
    pub number: usize,
    pub id: Oid,
    pub time: String,
    pub name: Option<String>,
    pub pinned: bool,
    /// `turn` or `manual`.
    pub kind: &'static str,
    pub reason: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub turn: Option<TurnId>,
    pub tool: Option<String>,
    pub prompt: Option<String>,
    pub files_changed: Option<u64>,
    pub insertions: Option<u64>,
    pub deletions: Option<u64>,
    pub effects: Vec<EffectView>,
    pub uncovered: UncoveredView,
    /// The databases that were captured while they were being written to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<RelPath>,
    /// True if the agent had moved on before the capture was complete.
    pub late: bool,
    /// True if a rollback took the turn back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
    pub steps: Vec<StepView>,
}

/// A checkpoint before a call of a turn.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct StepView {
    /// The number that identifies the step for `rollback`, such as `3.2`.
    pub number: String,
    pub id: Oid,
    pub time: String,
    pub reason: String,
    pub tool: Option<String>,
    pub call: Option<String>,
    pub late: bool,
}

/// A command whose effect no rollback reverses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct EffectView {
    pub kind: String,
    pub command: String,
}

/// The paths that a checkpoint does not cover.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct UncoveredView {
    pub count: usize,
    pub paths: Vec<RelPath>,
}

/// Another workspace that has checkpoints.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct OtherWorkspace {
    pub path: AnyPath,
    /// The time of the last capture or restore.
    pub last_touched: Time,
}

/// Lists the checkpoints of the workspace that a path belongs to. Creates nothing: without a store,
/// the list is empty.
///
/// ```
/// use takeback_undo::history::{list_checkpoints, open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, OpenOptions, Opened};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// let list = list_checkpoints(&opened, &project)?;
/// assert_eq!(list.checkpoints[0].name.as_deref(), Some("start"));
/// # Ok(())
/// # }
/// ```
pub fn list_checkpoints(opened: &Opened, path: &Path) -> Result<List, TakeError> {
    let mut list = if opened.has_store() {
        let workspace = find_workspace(opened, path)?;
        finish_interrupted(opened, &workspace);
        let inner = match find_inner_history(opened, path)? {
            Some(inner) => Some(Box::new(list_workspace(opened, &inner)?)),
            None => None,
        };
        List { inner, ..list_workspace(opened, &workspace)? }
    } else {
        let failed = |source| WorkspaceError::Open { path: path.to_owned(), source };
        let workspace = AnyPath(opened.find_root(path).map_err(failed)?);
        let (checkpoints, failures, unreadable) = (Vec::new(), Vec::new(), Vec::new());
        let repositories = Vec::new();
        let (ledger_error, inner) = (None, None);
        List { workspace, checkpoints, failures, unreadable, repositories, ledger_error, inner }
    };
    if list.ledger_error.is_none() {
        list.ledger_error = opened.ledger().err().map(|error| error_chain(&error));
    }
    list.failures = opened.failures();
    list.failures.retain(|failure| failure.workspace == list.workspace);
    Ok(list)
}

/// Finishes or reverts a restore of this workspace that was cut off.
pub(crate) fn finish_interrupted(opened: &Opened, workspace: &WorkspaceRef<'_>) {
    if is_interrupted(workspace.store, &workspace.id)
        && let Ok((workspace, _revived)) = revive_workspace(opened, &workspace.path)
    {
        // Taking the lock finishes or reverts the restore, and reports the result.
        let _ = opened.lock(&workspace);
    }
}

/// Lists the checkpoints of exactly this workspace. Failures and inner histories are not listed.
pub fn list_workspace(opened: &Opened, workspace: &WorkspaceRef<'_>) -> Result<List, StoreError> {
    let history = History::read(workspace.store, &workspace.id)?;
    Ok(list_history(opened, workspace, &history, usize::MAX))
}

/// Lists the newest checkpoints of a history: at most `limit` rows.
pub(crate) fn list_history(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    history: &History,
    limit: usize,
) -> List {
    // Without the ledger, the list has no prompts and no effects.
    let ledger = opened.complete_ledger(LEDGER_WAIT);
    let mut ledger_error = None;
    let mut note_error = |error: LedgerError| ledger_error = Some(error_chain(&error));
    let mut turns = ledger.as_ref().map(|ledger| ledger.call_turns());
    let effects = turns.as_mut().map(|turns| {
        effects_by_row(turns, workspace, history, limit).unwrap_or_else(|error| {
            note_error(error);
            Vec::new()
        })
    });
    let mut effects = effects.unwrap_or_default().into_iter();
    let mut counts = count_changes(opened, workspace, history, limit).into_iter();
    let in_force = history.standing().in_force;
    let rows = history.rows().take(limit).map(|row| {
        let counts = counts.next().flatten();
        RowView {
            prompt: turns.as_mut().and_then(|turns| {
                find_prompt(turns, &row).unwrap_or_else(|error| {
                    note_error(error);
                    None
                })
            }),
            files_changed: counts.map(|counts| counts.files),
            insertions: counts.map(|counts| counts.insertions),
            deletions: counts.map(|counts| counts.deletions),
            effects: effects.next().unwrap_or_default(),
            taken_back: row.turn().is_some() && !in_force.contains(&row.number),
            ..RowView::new(&row)
        }
    });
    let checkpoints = rows.collect();
    let path = AnyPath(workspace.path.clone());
    let (failures, unreadable) = (Vec::new(), history.unreadable.clone());
    let repositories = WorkspaceState::new(workspace.store.notes(&workspace.id)).repositories();
    let (workspace, inner) = (path, None);
    List { workspace, checkpoints, failures, unreadable, repositories, ledger_error, inner }
}

/// Finds the other workspaces that have checkpoints, most recently used first.
pub fn find_other_workspaces(
    opened: &Opened,
    path: &Path,
) -> Result<Vec<OtherWorkspace>, TakeError> {
    if !opened.has_store() {
        return Ok(Vec::new());
    }
    let own = find_workspace(opened, path)?.id;
    let others = known_workspaces(opened)?.into_iter().filter(|(known, _)| known.id != own);
    let view = |(known, last_touched): (WorkspaceRef<'_>, Time)| OtherWorkspace {
        path: AnyPath(known.path),
        last_touched,
    };
    Ok(others.map(view).collect())
}

impl RowView {
    fn new(row: &Row<'_>) -> RowView {
        let Checkpoint { pin, record } = row.first();
        let call = record.call.as_ref();
        let uncovered = &record.uncovered;
        let steps = (1..).zip(row.steps()).map(|(step, checkpoint)| StepView {
            number: format!("{}.{step}", row.number),
            id: checkpoint.pin.id,
            time: checkpoint.record.time.clone(),
            reason: checkpoint.record.reason.clone(),
            tool: checkpoint.record.call.as_ref().map(|call| call.tool.clone()),
            call: checkpoint.record.call.as_ref().map(|call| call.id.clone()),
            late: checkpoint.record.late,
        });
        RowView {
            number: row.number,
            id: pin.id,
            time: record.time.clone(),
            name: record.name.clone(),
            pinned: record.pinned,
            kind: if row.turn().is_some() { "turn" } else { "manual" },
            reason: record.reason.clone(),
            agent: call.map(|call| call.agent.clone()),
            session: call.map(|call| call.session.clone()),
            turn: call.map(|call| call.turn.clone()),
            tool: call.map(|call| call.tool.clone()),
            prompt: None,
            files_changed: None,
            insertions: None,
            deletions: None,
            effects: Vec::new(),
            uncovered: UncoveredView {
                count: uncovered.len(),
                paths: uncovered.iter().map(|path| path.path.clone()).collect(),
            },
            unsettled: record.unsettled.clone(),
            late: record.late,
            taken_back: false,
            steps: if row.turn().is_some() { steps.collect() } else { Vec::new() },
        }
    }
}

/// Finds the prompt of a row's turn.
fn find_prompt(turns: &mut CallTurns<'_>, row: &Row<'_>) -> Result<Option<String>, LedgerError> {
    let Some((session, _)) = row.turn() else { return Ok(None) };
    match find_ledger_turn(turns, row)? {
        Some(turn) => turns.ledger().prompt(session, turn.first_seq),
        None => Ok(None),
    }
}

/// Finds a row's turn in the ledger.
pub(super) fn find_ledger_turn(
    turns: &mut CallTurns<'_>,
    row: &Row<'_>,
) -> Result<Option<takeback_ledger::Turn>, LedgerError> {
    let call = row.turn().and_then(|_| row.first().record.call_id());
    match call.map(|call| turns.find(&call)) {
        // The session was deleted, or its events never reached the ledger.
        None | Some(Err(LedgerError::NoSuchSession(_))) => Ok(None),
        Some(turn) => turn,
    }
}

/// Lists the effects of a row's turn.
pub(crate) fn effects_of_row(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    row: &Row<'_>,
) -> Vec<EffectView> {
    let Some(ledger) = opened.complete_ledger(LEDGER_WAIT) else { return Vec::new() };
    let effects = effects_by_row(&mut ledger.call_turns(), workspace, row.history(), row.number);
    effects.map_or_else(|_| Vec::new(), |mut effects| effects.swap_remove(row.number - 1))
}

/// Lists, for each of the newest rows, the effects of the row's turn. The ledger knows the turn of
/// each effect. If no row belongs to that turn, the time of the effect determines the row.
fn effects_by_row(
    call_turns: &mut CallTurns<'_>,
    workspace: &WorkspaceRef<'_>,
    history: &History,
    limit: usize,
) -> Result<Vec<Vec<EffectView>>, LedgerError> {
    let rows: Vec<Row<'_>> = history.rows().take(limit).collect();
    let mut effects = vec![Vec::new(); rows.len()];
    let path = workspace.path.display().to_string();
    let known = call_turns.ledger().effects_with_sessions(&path)?;
    if known.is_empty() {
        return Ok(effects);
    }
    // Several rows may belong to the same turn. The newest of them gets the turn's effects.
    let mut places: HashMap<(&str, i64), usize> = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        if let Some(((session, _), turn)) = row.turn().zip(find_ledger_turn(call_turns, row)?) {
            places.entry((session, turn.turn)).or_insert(place);
        }
    }
    for (session, turn, effect) in known {
        let time = effect.time.unwrap_or_default();
        let row = places.get(&(session.as_str(), turn)).copied().or_else(|| {
            let is_after = |row: &Row<'_>| row.first().record.moment() <= time;
            rows.iter().position(|row| row.has_session(&session) && is_after(row))
        });
        if let Some(row) = row {
            effects[row].push(EffectView { kind: effect.kind, command: effect.command });
        }
    }
    Ok(effects)
}
