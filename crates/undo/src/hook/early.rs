//! Early captures of the paths that a call names. The first capture of a large workspace may take
//! longer than the agent waits, so these paths are captured beforehand, as separate workspaces.

use std::fs;
use std::path::Path;

use takeback_tree::{Oid, RelPath, WorkspaceError, can_be_made_again};

use super::call::CallContext;
use super::capture::capture_before;
use super::protected::{PathKind, ProtectedPath};
use super::repositories::measure;
use crate::Opened;

/// Workspaces with more files than this are large.
const MANY_FILES: u64 = 5_000;

/// The maximum number of named paths that are captured early.
const MAX_PATHS: usize = 16;

/// The maximum number of files in a directory that is captured early.
const MAX_FILES: u64 = 20_000;

/// The checkpoints of named paths, taken before their workspace was captured.
#[derive(Default)]
pub(super) struct EarlyCheckpoints(Vec<(ProtectedPath, Oid)>);

/// Captures the paths that a call names, if the workspace is large and has never been captured.
pub(super) fn capture_early(
    opened: &Opened,
    call: &CallContext<'_>,
    workspace: &ProtectedPath,
) -> EarlyCheckpoints {
    let is_late = call.deadline.late_turn().is_some();
    if is_late || workspace.named.is_empty() || !is_first_capture_long(opened, workspace) {
        return EarlyCheckpoints::default();
    }
    let paths = workspace.named.iter().filter_map(|named| find_place(opened, workspace, named));
    let capture = |place: ProtectedPath| {
        // A failure here is harmless, because the whole workspace is captured next.
        let checkpoint = capture_before(opened, &place, call, None).ok()?.checkpoint?;
        Some((place, checkpoint))
    };
    EarlyCheckpoints(paths.take(MAX_PATHS).filter_map(capture).collect())
}

fn is_first_capture_long(opened: &Opened, workspace: &ProtectedPath) -> bool {
    let is_known = workspace.open(opened).map(|workspace| workspace.was_scanned());
    matches!(is_known, Ok(false)) && measure(workspace.path(), MANY_FILES, u64::MAX).is_none()
}

fn find_place(
    opened: &Opened,
    workspace: &ProtectedPath,
    named: &RelPath,
) -> Option<ProtectedPath> {
    let path = workspace.path().join(named.as_path());
    let is_directory = fs::symlink_metadata(&path).ok()?.is_dir();
    let is_remade = |part: &std::ffi::OsStr| can_be_made_again(part.as_encoded_bytes(), false);
    if named.as_path().iter().any(is_remade) {
        return None;
    }
    if !is_directory {
        // The rules do not apply to a single file, so secrets would be captured despite the
        // user's settings.
        return (!workspace.rules.skip_private)
            .then(|| ProtectedPath::new(opened, PathKind::File(path.as_path().into())));
    }
    let mut place = ProtectedPath::new(opened, PathKind::Directory(path.as_path().into()));
    place.swept.push(RelPath::root());
    place.rules.max_files = place.rules.max_files.min(MAX_FILES);
    Some(place)
}

impl EarlyCheckpoints {
    /// Deletes the checkpoints, because the checkpoint of the workspace contains the same files.
    pub(super) fn discard(self, opened: &Opened) -> Result<(), WorkspaceError> {
        let store = opened.store()?;
        for (place, checkpoint) in &self.0 {
            let names = store.pin_names(&store.workspace_id(place.path()))?;
            for name in names {
                if store.pin_id(&name)? == Some(*checkpoint) {
                    store.unpin(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the paths of the checkpoints to the paths that are captured again after the call.
    pub(super) fn keep(self, protected: &mut Vec<ProtectedPath>) {
        protected.extend(self.0.into_iter().map(|(place, _)| place));
    }
}

/// Returns true if the workspace itself is among the captured paths.
pub(super) fn is_captured(protected: &[ProtectedPath], workspace: &Path) -> bool {
    protected.iter().any(|path| path.path() == workspace)
}
