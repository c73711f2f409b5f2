//! What changed since a checkpoint.

use takeback_tree::{Diff, DiffError, DiffOptions, RelPath, StoreError, Workspace};

use crate::history::History;
use crate::keeper::Keeper;
use crate::record::Checkpoint;

/// A checkpoint could not be compared with the present.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum CompareError {
    #[error("{0} is neither in the checkpoint nor in the workspace")]
    NoSuchPath(RelPath),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Diff(#[from] DiffError),
}

impl Keeper {
    /// What changed from a checkpoint to now: everywhere, or in these files and directories.
    pub fn diff(
        &self,
        workspace: &Workspace<'_>,
        history: &History,
        checkpoint: &Checkpoint,
        paths: &[RelPath],
    ) -> Result<Diff, CompareError> {
        let mut lock = self.lock(workspace)?;
        let options = DiffOptions { paths, ..DiffOptions::new(&self.rules) };
        let named = history.named();
        let capture = self.capture_options(&self.rules, &named);
        let diff = lock.diff(&checkpoint.pin.tree, &capture, &options)?;
        for path in paths {
            let is_in = |tree| Ok(workspace.store().entry(tree, path)?.is_some());
            let is_known = is_in(&diff.from).and_then(|then| Ok(then || is_in(&diff.to)?));
            if !is_known.map_err(DiffError::Object)? {
                return Err(CompareError::NoSuchPath(path.clone()));
            }
        }
        // It was only a look; what was captured on the way speeds up the next one.
        let _ = lock.finish(self.system_time());
        Ok(diff)
    }
}
