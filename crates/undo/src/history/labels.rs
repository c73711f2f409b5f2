//! Labels: names and protection that checkpoints get after they have been taken. A checkpoint
//! itself never changes, because its id is derived from its record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{Durability, replace_file};
use takeback_tree::{Store, StoreError, WorkspaceId};

use super::record::Checkpoint;
use super::take::{NameError, check_name};
use super::workspace::WorkspaceRef;
use super::{FindError, History};
use crate::hook::state;
use crate::retention::wait_for_workspace;

/// The label of one checkpoint. It replaces the name and the protection in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
}

/// The labels of a workspace, by the ids of the checkpoints.
pub(crate) type Labels = BTreeMap<String, Label>;

/// A change to a checkpoint's name or protection. `None` leaves a property as it is.
#[derive(Clone, Debug, Default)]
pub struct LabelChange {
    /// The new name. `Some(None)` removes the name.
    pub name: Option<Option<String>>,
    /// True if the checkpoint must never be pruned.
    pub pinned: Option<bool>,
}

/// The reason why a label was not changed. After such an error, all labels are as before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum LabelError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("another process is using the workspace")]
    Busy,
}

/// Changes the name or the protection of the checkpoint with the given row number, step, name or
/// id.
///
/// ```
/// use takeback_undo::history::{find_workspace, label_checkpoint, open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, LabelChange, OpenOptions, Opened};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// take_checkpoint(&opened, &workspace, &CheckpointOptions::default())?;
/// let workspace = find_workspace(&opened, &project)?;
/// let change = LabelChange { name: Some(Some("good".into())), pinned: Some(true) };
/// let checkpoint = label_checkpoint(&workspace, "1", &change)?;
/// assert!(checkpoint.record.is_protected());
/// # Ok(())
/// # }
/// ```
pub fn label_checkpoint(
    workspace: &WorkspaceRef<'_>,
    checkpoint: &str,
    change: &LabelChange,
) -> Result<Checkpoint, LabelError> {
    if let Some(Some(name)) = &change.name {
        check_name(name)?;
    }
    let store = workspace.store();
    let _guard = wait_for_workspace(store, workspace.id())?.ok_or(LabelError::Busy)?;
    let history = History::read(store, workspace.id())?;
    let mut found = history.find(store, checkpoint)?.checkpoint.clone();
    if let Some(Some(name)) = &change.name {
        let is_taken = |known: &Checkpoint| {
            known.record.name.as_ref() == Some(name) && known.pin.id != found.pin.id
        };
        if history.all.iter().any(is_taken) {
            return Err(NameError::Taken(name.clone()).into());
        }
    }
    let record = &mut found.record;
    record.name = change.name.clone().unwrap_or_else(|| record.name.take());
    record.pinned = change.pinned.unwrap_or(record.pinned);
    let label = Label { name: record.name.clone(), pinned: record.pinned };
    let mut labels = read_labels(store, workspace.id());
    labels.insert(found.pin.id.to_string(), label);
    // Labels of deleted checkpoints are no longer needed.
    labels.retain(|id, _| history.all.iter().any(|known| known.pin.id.to_string() == *id));
    write_labels(store, workspace.id(), &labels)?;
    Ok(found)
}

/// Returns the time at which the checkpoints of a workspace, or their labels, last changed.
pub fn history_changed_at(store: &Store, workspace: &WorkspaceId) -> Option<SystemTime> {
    let labels = std::fs::metadata(labels_path(store, workspace)).and_then(|file| file.modified());
    store.pins_changed_at(workspace).max(labels.ok())
}

/// Reads the labels of a workspace.
pub(crate) fn read_labels(store: &Store, workspace: &WorkspaceId) -> Labels {
    state::read(&labels_path(store, workspace)).unwrap_or_default()
}

/// Replaces the labels of a workspace. The change is durable, because labels protect checkpoints
/// from pruning. The caller holds the workspace's lock.
fn write_labels(store: &Store, workspace: &WorkspaceId, labels: &Labels) -> Result<(), StoreError> {
    let text = serde_json::to_vec(labels).expect("plain data becomes JSON");
    let path = labels_path(store, workspace);
    let written = replace_file(&path, &text, Durability::Synced);
    written.map_err(|source| StoreError::Io { action: "write", path, source })
}

/// Replaces the names and the protection in a workspace's records with those in its labels.
pub(super) fn apply_labels(store: &Store, workspace: &WorkspaceId, all: &mut [Checkpoint]) {
    let labels = read_labels(store, workspace);
    if labels.is_empty() {
        return;
    }
    for Checkpoint { pin, record } in all {
        if let Some(Label { name, pinned }) = labels.get(&pin.id.to_string()) {
            record.name.clone_from(name);
            record.pinned = *pinned;
        }
    }
}

/// Copies the labels of all workspaces to the store of a mirror.
pub(crate) fn copy_labels(from: &Store, to: &Store) -> Result<(), StoreError> {
    for workspace in to.pinned_workspaces()? {
        let labels = read_labels(from, &workspace);
        if labels != read_labels(to, &workspace) {
            write_labels(to, &workspace, &labels)?;
        }
    }
    Ok(())
}

/// Adds labels to a workspace, before the checkpoints with these labels are moved to it. The caller
/// holds the workspace's lock.
pub(crate) fn add_labels(
    store: &Store,
    workspace: &WorkspaceId,
    moved: Labels,
) -> Result<(), StoreError> {
    if moved.is_empty() {
        return Ok(());
    }
    let mut labels = read_labels(store, workspace);
    labels.extend(moved);
    write_labels(store, workspace, &labels)
}

fn labels_path(store: &Store, workspace: &WorkspaceId) -> PathBuf {
    store.notes(workspace).join("labels")
}
