//! Takes checkpoints. A checkpoint is a capture that is pinned with its record and with the state
//! of the workspace's own repository.

use takeback_tree::{
    AnyPath, CaptureError, GitDirectory, Lock, Oid, PinError, PinName, StoreError, Workspace,
    WorkspaceError,
};

use super::History;
use super::record::{Checkpoint, Kind, Record, read_checkpoints};
use crate::Opened;
use crate::hook::state::{IndexState, WorkspaceState};

/// The reason why a checkpoint could not be taken.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum TakeError {
    Workspace(#[from] WorkspaceError),
    Store(#[from] StoreError),
    Capture(#[from] CaptureError),
    Pin(#[from] PinError),
    Name(#[from] NameError),
}

/// The reason why a name is not allowed for a checkpoint.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum NameError {
    #[error("{0:?} cannot be the name of a checkpoint: {1}")]
    Invalid(String, &'static str),
    #[error("this workspace already has a checkpoint named {0:?}")]
    Taken(String),
}

/// The options for a manual checkpoint.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CheckpointOptions {
    pub reason: Option<String>,
    pub name: Option<String>,
    /// True if the checkpoint must never be pruned.
    pub pinned: bool,
}

/// A checkpoint of the current state.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TakenCheckpoint {
    pub checkpoint: Checkpoint,
    /// False if the checkpoint already existed: nothing has changed since it was taken.
    pub is_new: bool,
}

/// Takes a checkpoint at the user's request, and clears the workspace's failures. An unchanged
/// workspace gets a new checkpoint only if the user gives a reason or a name, or asks to pin the
/// checkpoint.
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, OpenOptions, Opened};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let taken = take_checkpoint(&opened, &workspace, &CheckpointOptions::default())?;
/// assert!(taken.is_new);
/// // Nothing has changed, so there is nothing to keep.
/// assert!(!take_checkpoint(&opened, &workspace, &CheckpointOptions::default())?.is_new);
/// # Ok(())
/// # }
/// ```
pub fn take_checkpoint(
    opened: &Opened,
    workspace: &Workspace<'_>,
    options: &CheckpointOptions,
) -> Result<TakenCheckpoint, TakeError> {
    if let Some(name) = &options.name {
        check_name(name)?;
    }
    let mut lock = opened.lock(workspace)?;
    if let Some(name) = &options.name {
        let known = read_checkpoints(workspace.store(), workspace.id())?;
        if known.all.iter().any(|known| known.record.name.as_ref() == Some(name)) {
            return Err(NameError::Taken(name.clone()).into());
        }
    }
    lock.forget_limit();
    let capture = lock.capture(&opened.capture_options(workspace.path(), &[]))?;
    let _ = opened.failure_log().clear_failures(Some(&workspace.subject()));
    opened.note_findings(workspace.path(), &capture);
    let is_plain = options.reason.is_none() && options.name.is_none() && !options.pinned;
    if is_plain && let Some(checkpoint) = find_unchanged(&mut lock, capture.tree)? {
        lock.finish(opened.system_time())?;
        return Ok(TakenCheckpoint { checkpoint, is_new: false });
    }
    let reason = options.reason.as_deref().unwrap_or("taken by hand");
    let record = Record {
        name: options.name.clone(),
        pinned: options.pinned,
        ..new_record(opened, &mut lock, Kind::Manual, reason)?
    };
    let tree = capture.tree;
    let checkpoint = pin_tree(opened, &mut lock, tree, record.with_capture(capture))?;
    lock.finish(opened.system_time())?;
    Ok(TakenCheckpoint { checkpoint, is_new: true })
}

/// Returns the newest row's checkpoint if the files, HEAD and the index have not changed since it
/// was taken.
fn find_unchanged(lock: &mut Lock<'_>, tree: Oid) -> Result<Option<Checkpoint>, TakeError> {
    let workspace = lock.workspace();
    let history = History::read(workspace.store(), workspace.id())?;
    let newest = history.rows().next().map(|row| row.first().clone());
    let Some(newest) = newest.filter(|newest| newest.pin.tree == tree) else { return Ok(None) };
    let (head, attachment) = match find_repository(workspace) {
        Some(git) => (Some(git.head()), attach_index(lock, &git, newest.pin.name.seq)?),
        None => (None, None),
    };
    let is_same = newest.record.repository == head && newest.pin.attachment == attachment;
    Ok(is_same.then_some(newest))
}

/// Finds the repository of a workspace. A single file has none.
fn find_repository(workspace: &Workspace<'_>) -> Option<GitDirectory> {
    let is_directory = workspace.subject() == workspace.path();
    if is_directory { GitDirectory::find(workspace.path()) } else { None }
}

/// Creates a record for the next checkpoint of a workspace.
pub(crate) fn new_record(
    opened: &Opened,
    lock: &mut Lock<'_>,
    kind: Kind,
    reason: &str,
) -> Result<Record, StoreError> {
    let seq = lock.next_seq()?;
    let path = AnyPath(lock.workspace().subject());
    Ok(Record::new(path, seq, opened.now(), kind, reason))
}

/// Pins a tree with its record, and with the state of the workspace's own repository.
pub(crate) fn pin_tree(
    opened: &Opened,
    lock: &mut Lock<'_>,
    tree: Oid,
    mut record: Record,
) -> Result<Checkpoint, PinError> {
    let workspace = lock.workspace();
    let mut attachment = None;
    if let Some(git) = find_repository(workspace) {
        record.repository = Some(git.head());
        attachment = attach_index(lock, &git, record.seq)?;
    }
    let pin =
        lock.pin_with_attachment(tree, opened.system_time(), &record.message(), attachment)?;
    Ok(Checkpoint { pin, record })
}

/// Stores a copy of the repository's index, unless the last copy is still up to date.
fn attach_index(
    lock: &mut Lock<'_>,
    git: &GitDirectory,
    seq: u64,
) -> Result<Option<Oid>, PinError> {
    let workspace = lock.workspace();
    let hook_state = WorkspaceState::new(workspace.notes());
    let Some(stamp) = git.index_stamp() else { return Ok(None) };
    if let Some(known) = hook_state.index()
        && known.stamp == stamp
        && keeps_copy(workspace, &known)
        && lock.has_attachment(&known.attachment)
    {
        return Ok(Some(known.attachment));
    }
    let Some(copy) = git.copy_index() else { return Ok(None) };
    let attachment = lock.add_attachment(&copy)?;
    // The stamp describes the copy only if git did not write the index in the meantime.
    if git.index_stamp() == Some(stamp) {
        let _ = hook_state.set_index(&IndexState { stamp, attachment, seq });
    }
    Ok(Some(attachment))
}

/// Returns true if a checkpoint still has the copy of an index as its attachment. Looking up the
/// checkpoint's number is not enough: another checkpoint may now have that number.
fn keeps_copy(workspace: &Workspace<'_>, known: &IndexState) -> bool {
    let name = PinName { workspace: workspace.id().clone(), seq: known.seq };
    let pin = workspace.store().pin(&name).ok().flatten();
    pin.is_some_and(|pin| pin.attachment == Some(known.attachment))
}

/// Returns true if a checkpoint still exists.
pub(crate) fn has_pin(workspace: &Workspace<'_>, seq: u64) -> bool {
    let name = PinName { workspace: workspace.id().clone(), seq };
    workspace.store().pin_id(&name).is_ok_and(|id| id.is_some())
}

/// Words that have another meaning in places where a command expects the name of a checkpoint.
const RESERVED: [&str; 9] =
    ["undo", "redo", "diff", "list", "show", "search", "status", "now", "help"];

pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    let invalid = |why| Err(NameError::Invalid(name.to_owned(), why));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.is_empty() || name.chars().count() > 60 {
        return invalid("it must have 1 to 60 characters");
    }
    if name.starts_with('-') {
        return invalid("it looks like an option");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return invalid("it must not contain spaces or control characters");
    }
    if RESERVED.contains(&name) {
        return invalid("the word is a command");
    }
    if name.split('.').all(is_number) {
        return invalid("it looks like a row number");
    }
    if (6..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return invalid("it looks like an id");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_another_meaning_are_refused() {
        for name in ["", "-x", "--upload-pack", "1", "3.2", "abcdef", "undo", "a b", "a\u{1b}[m"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["before-refactoring", "v1.2", "abc", "früher", "release_3"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
