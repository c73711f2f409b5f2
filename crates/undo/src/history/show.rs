//! One turn or checkpoint in full.

use std::path::Path;

use serde::Serialize;
use takeback_tree::{Head, Oid, RelPath, StoreError, TreeChange, Uncovered};

use super::counts::list_changes;
use super::list::{EffectView, List, RowView, StepView, list_checkpoints};
use super::record::{Checkpoint, Kind, TurnId};
use super::workspace::{WorkspaceRef, find_workspace_with};
use super::{FindError, History, TakeError};
use crate::Opened;

/// A turn or checkpoint in full.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct CheckpointView {
    pub id: Oid,
    /// The number in the list: `2`, or `2.3` for a step.
    pub number: Option<String>,
    pub time: String,
    /// `turn`, `step`, `manual`, or `safety` for a checkpoint that was taken before a rollback.
    pub kind: &'static str,
    pub name: Option<String>,
    pub pinned: bool,
    pub late: bool,
    pub reason: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub turn: Option<TurnId>,
    pub tool: Option<String>,
    pub prompt: Option<String>,
    /// The number of files and symlinks in the checkpoint.
    pub files: Option<u64>,
    pub repository: Option<Head>,
    pub steps: Vec<StepView>,
    /// The files that the turn changed. For other rows, the files that changed between this row and
    /// the next.
    pub changes: Vec<TreeChange>,
    pub effects: Vec<EffectView>,
    pub uncovered: Vec<Uncovered>,
    /// The databases that other processes wrote to during the capture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<RelPath>,
}

/// The reason why a checkpoint could not be shown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ShowError {
    Take(#[from] TakeError),
    Find(#[from] FindError),
    Store(#[from] StoreError),
}

/// Finds a checkpoint of the workspace that a path belongs to, and returns everything that is known
/// about the checkpoint. `checkpoint` is a number, a name or an id.
///
/// ```
/// use takeback_undo::history::{open_workspace, show_checkpoint, take_checkpoint};
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
/// // A checkpoint can be given by its number, its name or its id.
/// let view = show_checkpoint(&opened, &project, "start")?;
/// assert_eq!(view.number.as_deref(), Some("1"));
/// assert_eq!(view.id, show_checkpoint(&opened, &project, "1")?.id);
/// # Ok(())
/// # }
/// ```
pub fn show_checkpoint(
    opened: &Opened,
    path: &Path,
    checkpoint: &str,
) -> Result<CheckpointView, ShowError> {
    let workspace = find_workspace_with(opened, path, checkpoint)?;
    let list = list_checkpoints(opened, path)?;
    show_listed(opened, &workspace, list, checkpoint)
}

/// Shows a checkpoint of a workspace whose list has already been read.
fn show_listed(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    list: List,
    checkpoint: &str,
) -> Result<CheckpointView, ShowError> {
    let history = History::read(workspace.store, &workspace.id)?;
    let found = history.find(workspace.store, checkpoint)?;
    let inner = list.inner.into_iter().flat_map(|inner| inner.checkpoints);
    let mut rows = list.checkpoints.into_iter().chain(inner);
    let row = rows.find(|row| is_part(row, found.checkpoint));
    let view = CheckpointView::new(found.checkpoint);
    match row {
        Some(row) if found.is_step => Ok(view.with_turn(row)),
        Some(row) => {
            let changes = list_changes(opened, workspace, &history.row(row.number)?)?;
            Ok(view.with_row(row, changes))
        }
        None => Ok(view),
    }
}

/// Returns true if a checkpoint is the given row of the list, or one of its steps.
fn is_part(row: &RowView, checkpoint: &Checkpoint) -> bool {
    let id = checkpoint.pin.id;
    row.id == id || row.steps.iter().any(|step| step.id == id)
}

impl CheckpointView {
    /// Builds a view from the record.
    pub fn new(checkpoint: &Checkpoint) -> CheckpointView {
        let record = &checkpoint.record;
        let call = record.call.as_ref();
        CheckpointView {
            id: checkpoint.pin.id,
            number: None,
            time: record.time.clone(),
            kind: match record.kind {
                Kind::Manual => "manual",
                Kind::Call | Kind::After | Kind::State => "step",
                Kind::Safety => "safety",
            },
            name: record.name.clone(),
            pinned: record.pinned,
            late: record.late,
            reason: record.reason.clone(),
            agent: call.map(|call| call.agent.clone()),
            session: call.map(|call| call.session.clone()),
            turn: call.map(|call| call.turn.clone()),
            tool: call.map(|call| call.tool.clone()).filter(|tool| !tool.is_empty()),
            prompt: None,
            files: record.files,
            repository: record.repository.clone(),
            steps: Vec::new(),
            changes: Vec::new(),
            effects: Vec::new(),
            uncovered: record.uncovered.clone(),
            unsettled: record.unsettled.clone(),
        }
    }

    /// Adds the details of the turn that a step belongs to.
    fn with_turn(self, row: RowView) -> CheckpointView {
        let step = row.steps.into_iter().find(|step| step.id == self.id);
        CheckpointView { number: step.map(|step| step.number), prompt: row.prompt, ..self }
    }

    /// Adds the details of a row of the list.
    pub fn with_row(self, row: RowView, changes: Vec<TreeChange>) -> CheckpointView {
        CheckpointView {
            number: Some(row.number.to_string()),
            kind: row.kind,
            prompt: row.prompt,
            steps: row.steps,
            changes,
            effects: row.effects,
            ..self
        }
    }
}
