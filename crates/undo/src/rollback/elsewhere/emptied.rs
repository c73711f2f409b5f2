//! Directories in the workspace that become empty only once the repositories in them are gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use takeback_tree::{KeptPath, KeptReason, Workspace};

use crate::rollback::planned::{Planned, RollbackView};

/// Plans to remove directories that contain only repositories, if these repositories are also
/// removed. The workspace's own plan keeps such directories, because they are not empty.
pub(super) fn plan_emptied(planned: &mut Planned) {
    let Planned { work, view } = planned;
    let root = work.workspace.0.as_path();
    let below = |place: &Path, view: &RollbackView| -> Vec<PathBuf> {
        view.deleted.iter().map(|path| place.join(path.as_path())).collect()
    };
    let mut gone: BTreeSet<PathBuf> = below(root, view).into_iter().collect();
    for group in &work.elsewhere {
        let place = group.work.workspace.0.as_path();
        gone.extend(below(place, &group.view));
        if place.ends_with(".git") && is_emptied(place, &gone) {
            gone.insert(place.to_owned());
        }
    }
    remove_kept(view, |kept| {
        let directory = root.join(kept.path.as_path());
        is_emptied(&directory, &gone) && gone.insert(directory)
    });
}

/// Removes the directories that the rollback kept only because a repository was in them.
pub(super) fn remove_emptied(workspace: &Workspace<'_>, view: &mut RollbackView) {
    remove_kept(view, |kept| workspace.remove_if_empty(&kept.path));
}

/// Calls `is_removed` for each directory that was kept because it is not empty, innermost first.
/// Moves the removed directories from the list of kept directories to the list of deleted ones.
fn remove_kept(view: &mut RollbackView, mut is_removed: impl FnMut(&KeptPath) -> bool) {
    let kept = std::mem::take(&mut view.kept).into_iter().rev();
    let (removed, kept): (Vec<KeptPath>, Vec<KeptPath>) =
        kept.partition(|kept| kept.reason == KeptReason::NotEmpty && is_removed(kept));
    view.kept = kept;
    view.kept.reverse();
    view.deleted.extend(removed.into_iter().map(|kept| kept.path));
    view.deleted.sort();
}

/// Returns true if everything in a directory will be gone. A directory that cannot be listed may
/// contain something that stays.
fn is_emptied(directory: &Path, gone: &BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.into_iter().all(|entry| entry.is_ok_and(|entry| gone.contains(&entry.path())))
}
