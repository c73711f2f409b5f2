//! Guarded files that git replaced during a call.
//!
//! If another commit tracks an ignored file, git overwrites the file without asking. Afterwards,
//! git may no longer track the file. A rollback brings the old file back if git certainly replaced
//! it during one of the calls that are taken back: the file changed while the call ran and has not
//! changed since, and its new content is in the repository. If the user had edited the file before
//! that call, the edited file comes back. All other changes to guarded files are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use takeback_tree::{
    DATABASE_SUFFIXES, GitDirectory, GitObjects, NewContent, NewEntry, ObjectError, Plan, RelPath,
    Store, StoreError, TreeEdit, Workspace,
};

use super::RollbackError;
use crate::history::History;
use crate::history::authorship::{NeighborCall, Node, PresentState, Segment, Timeline};
use crate::history::record::Checkpoint;

/// Finds the guarded files that a plan leaves unchanged even though git replaced them during calls
/// that are taken back. Returns the edits that bring the replaced files back. `named` lists the
/// paths that are captured regardless of the rules, and `reporting` lists the agents that report
/// the ends of their calls.
pub(super) fn find_replaced(
    workspace: &Workspace<'_>,
    history: &History,
    checkpoint: &Checkpoint,
    files: &Plan,
    named: &[RelPath],
    reporting: &BTreeSet<String>,
) -> Result<Vec<TreeEdit>, RollbackError> {
    let store = workspace.store();
    let present = PresentState { tree: files.from, uncovered: &files.uncovered, named };
    let timeline = Timeline::of(history, Some(present))
        .doubt_missing_ends(reporting)
        .with_neighbors(&NeighborCall::read_all(workspace)?);
    let paths: BTreeSet<RelPath> = files.guarded.iter().cloned().collect();
    let changes = timeline.find_last_changes(store, checkpoint.pin.name.seq, paths);
    let mut repositories = Repositories::new(workspace.path());
    let mut edits = Vec::new();
    for (path, changes) in changes.map_err(StoreError::from)? {
        let replaced = find_state_before(store, &path, &changes, &mut repositories);
        let Some((mode, oid)) = replaced.map_err(StoreError::from)? else { continue };
        if can_be_restored_alone(workspace, files, &path, (mode, oid)).map_err(StoreError::from)? {
            let to = Some(NewEntry { mode, content: NewContent::Object(oid) });
            edits.push(TreeEdit { path, to });
        }
    }
    Ok(edits)
}

/// Finds the file that was at a path before git replaced it. If git replaced it several times in a
/// row, returns the file from before the first time.
fn find_state_before(
    store: &Store,
    path: &RelPath,
    changes: &[Segment],
    repositories: &mut Repositories<'_>,
) -> Result<Option<Node>, ObjectError> {
    let mut replaced = None;
    for Segment { before, after, .. } in changes {
        let (Some(before), Some((mode, oid))) = (*before, *after) else { break };
        let is_file = !mode.is_directory() && !before.0.is_directory();
        if !is_file || !repositories.has_content(path, &store.blob(&oid)?) {
            break;
        }
        replaced = Some(before);
    }
    Ok(replaced)
}

/// Returns false for a file that is useless without other files: a database's log, or a database
/// with a log that may not match it.
fn can_be_restored_alone(
    workspace: &Workspace<'_>,
    files: &Plan,
    path: &RelPath,
    replaced: Node,
) -> Result<bool, ObjectError> {
    let store = workspace.store();
    let bytes = path.as_bytes();
    if DATABASE_SUFFIXES.iter().any(|suffix| bytes.ends_with(suffix)) {
        return Ok(false);
    }
    for suffix in DATABASE_SUFFIXES {
        let Ok(beside) = RelPath::new([bytes, suffix].concat()) else { continue };
        let present = store.find_entry(&files.from, &beside)?;
        let target = store.find_entry(&files.to, &beside)?;
        let is_on_disk = workspace.path().join(beside.as_path()).symlink_metadata().is_ok();
        let is_alone = present.is_none() && target.is_none() && !is_on_disk;
        let is_as_captured = || -> Result<bool, ObjectError> {
            Ok(store.find_entry(&files.to, path)? == Some(replaced))
        };
        if !is_alone && (present.is_none() || present != target || !is_as_captured()?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The repositories in a workspace, opened on first use.
struct Repositories<'w> {
    root: &'w Path,
    opened: BTreeMap<PathBuf, GitObjects>,
}

impl Repositories<'_> {
    fn new(root: &Path) -> Repositories<'_> {
        Repositories { root, opened: BTreeMap::new() }
    }

    /// Returns true if the innermost repository that contains the path has stored this content.
    fn has_content(&mut self, path: &RelPath, content: &[u8]) -> bool {
        let path = self.root.join(path.as_path());
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(self.root));
        let found = above.into_iter().find_map(|above| Some((above, GitDirectory::find(above)?)));
        let Some((directory, git)) = found else { return false };
        let open = || git.open_objects();
        self.opened.entry(directory.to_owned()).or_insert_with(open).has_content(content)
    }
}
