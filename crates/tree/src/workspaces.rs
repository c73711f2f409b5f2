//! The workspaces of a store as a whole: which there are, moving one's pins to another, and
//! forgetting one. Their own directories need not exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::CWD;
use takeback_base::durable::{self, FileLock};
use takeback_base::hex;
use takeback_base::lock_wait::{LockWait, find_holder};

use crate::fault;
use crate::pins::{PinName, SEQ_END, WorkspaceId};
use crate::restore;
use crate::store::{Store, StoreError};
use crate::workspace::{Workspace, read_seq, write_seq};

/// The right to change a workspace's pins, without the workspace itself. Nobody captures or
/// restores it meanwhile.
#[derive(Debug)]
pub struct WorkspaceGuard {
    directory: PathBuf,
    _lock: FileLock,
}

impl WorkspaceGuard {
    /// Whether a restore was cut off, and is to be finished or reverted by the next
    /// [`Workspace::lock`]: it needs the pins that there are.
    pub fn has_unfinished_restore(&self) -> bool {
        restore::is_unfinished(&self.directory)
    }
}

/// The pins of a workspace were not moved, or not all: moving them again goes on.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// A restore was cut off, and its journal knows only the old place.
    #[error("a restore of workspace {0} was cut off and must be finished first")]
    Unfinished(WorkspaceId),
    /// The other workspace is one of another store.
    #[error("the workspaces are of different stores")]
    OtherStore,
    /// There are no numbers left for the pins.
    #[error("the pins of workspace {0} have numbers that are too large")]
    Numbers(WorkspaceId),
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// All workspaces that have pins or a directory in the store.
    pub fn workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let mut workspaces = self.pinned_workspaces()?;
        workspaces.extend(self.names_in::<WorkspaceId>(&self.directory().join("workspaces"))?);
        workspaces.sort();
        workspaces.dedup();
        Ok(workspaces)
    }

    /// A directory for what callers keep about a workspace, as [`Workspace::notes`].
    pub fn notes(&self, id: &WorkspaceId) -> PathBuf {
        self.workspace_directory(id).join("notes")
    }

    /// Locks a workspace that need not exist any more; `None` if somebody is at work on it.
    pub fn try_lock_workspace(
        &self,
        id: &WorkspaceId,
    ) -> Result<Option<WorkspaceGuard>, StoreError> {
        let lock = self.lock_directory_with(id, FileLock::try_exclusive)?;
        Ok(lock.map(|lock| WorkspaceGuard { directory: self.workspace_directory(id), _lock: lock }))
    }

    /// Locks a workspace that need not exist any more. Waits for other processes, a second unless
    /// [`Store::set_lock_wait`] says otherwise; `None` if one still uses the workspace then.
    pub fn wait_for_workspace(
        &self,
        id: &WorkspaceId,
    ) -> Result<Option<WorkspaceGuard>, StoreError> {
        let wait = self.lock_wait.unwrap_or(LockWait::silent(Duration::from_secs(1)));
        let lock = self.lock_directory_with(id, |path| FileLock::exclusive_within(path, &wait))?;
        Ok(lock.map(|lock| WorkspaceGuard { directory: self.workspace_directory(id), _lock: lock }))
    }

    /// Waits until no other process has this workspace locked.
    pub(crate) fn lock_directory(&self, id: &WorkspaceId) -> Result<FileLock, StoreError> {
        let lock = self.lock_directory_with(id, |path| match &self.lock_wait {
            Some(wait) => FileLock::exclusive_within(path, wait),
            None => FileLock::exclusive(path).map(Some),
        })?;
        let path = self.workspace_directory(id).join("lock");
        lock.ok_or_else(|| StoreError::Busy { holder: find_holder(&path) })
    }

    fn lock_directory_with(
        &self,
        id: &WorkspaceId,
        lock: impl Fn(&Path) -> io::Result<Option<FileLock>>,
    ) -> Result<Option<FileLock>, StoreError> {
        let directory = self.workspace_directory(id);
        let path = directory.join("lock");
        let mut attempts = 0;
        loop {
            let made = match directory.exists() {
                true => Ok(()),
                false => durable::create_directory(&directory),
            };
            match made.and_then(|()| lock(&path)) {
                // Forgotten between two of these steps.
                Err(error) if is_gone(&error) && attempts < ATTEMPTS => attempts += 1,
                // Forgotten while this waited: a lock on a file that is gone keeps nobody out.
                Ok(Some(lock)) if !lock.is_at(&path) => {}
                result => return result.map_err(StoreError::io("lock", &path)),
            }
        }
    }

    /// Removes the directory of a workspace that has no pins, no unfinished restore, and nobody
    /// at work on it. True if it was removed.
    pub fn forget_workspace(&self, id: &WorkspaceId) -> Result<bool, StoreError> {
        if !self.workspace_directory(id).exists() && !self.refs_of(id).exists() {
            return Ok(false);
        }
        let Some(guard) = self.try_lock_workspace(id)? else { return Ok(false) };
        if guard.has_unfinished_restore() || !self.pin_names(id)?.is_empty() {
            return Ok(false);
        }
        let _lock = self.share()?;
        self.discard(id)?;
        Ok(true)
    }

    /// Removes what the store has of a workspace without pins. The caller holds the workspace's
    /// lock and the store's.
    fn discard(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        // If it is not empty, there is something that is not ours.
        let _ = fs::remove_dir(self.refs_of(id));
        let directory = self.workspace_directory(id);
        let aside = self.temporary().join(hex::random_digits(16));
        // At once, so that nobody meets half of it. What is aside is swept if this process ends.
        fault::point("forget")
            .and_then(|()| fs::rename(&directory, &aside))
            .map_err(StoreError::io("remove", &directory))?;
        let _ = fs::remove_dir_all(&aside);
        Ok(())
    }

    /// Gives the pins of a workspace to another, before those that it has, and forgets the first
    /// one: for a directory that was renamed. Says how many pins were moved.
    ///
    /// The pins keep their numbers. Those of the other workspace that are not larger than all of
    /// these get larger ones, by the last of these, and so do as many more as that takes. Waits
    /// until nobody is at work on either; the caller must not be. If this is cut off anywhere, no
    /// pin is lost, and doing it again completes it.
    pub fn move_workspace(&self, from: &WorkspaceId, to: &Workspace<'_>) -> Result<u64, MoveError> {
        if to.store().uuid() != self.uuid() {
            return Err(MoveError::OtherStore);
        }
        let is_known = self.workspace_directory(from).exists() || self.refs_of(from).exists();
        let to = to.id();
        if from == to || !is_known {
            return Ok(0);
        }
        // Always in the same order: two who move in opposite directions would wait forever.
        let _first = self.lock_directory(from.min(to))?;
        let _second = self.lock_directory(from.max(to))?;
        let _lock = self.share()?;
        if restore::is_unfinished(&self.workspace_directory(from)) {
            return Err(MoveError::Unfinished(from.clone()));
        }
        let pins = self.pin_names(from)?;
        if let Some(last) = pins.last() {
            self.make_room(to, last.seq)?;
        }
        // From the last on: those that are left are always before those that were moved.
        for pin in pins.iter().rev() {
            self.rename_pin(pin, &PinName { workspace: to.clone(), seq: pin.seq })?;
        }
        self.sync_refs(&[to, from])?;
        self.carry_seq(from, to)?;
        self.discard(from)?;
        Ok(pins.len() as u64)
    }

    /// Raises the numbers of pins such that all are larger than `last`.
    fn make_room(&self, workspace: &WorkspaceId, last: u64) -> Result<(), MoveError> {
        let refs = self.refs_of(workspace);
        if !refs.exists() {
            durable::create_directory(&refs).map_err(StoreError::io("create", &refs))?;
            durable::sync_directory(&self.refs()).map_err(StoreError::io("write", &refs))?;
        }
        let pins = self.pin_names(workspace)?;
        let seqs: Vec<u64> = pins.iter().map(|pin| pin.seq).collect();
        let raised = &pins[..in_the_way(&seqs, last)];
        if raised.last().is_some_and(|pin| pin.seq + last >= SEQ_END) {
            return Err(MoveError::Numbers(workspace.clone()));
        }
        // From the last on, so that each number is free when it is given.
        for pin in raised.iter().rev() {
            self.rename_pin(pin, &PinName { workspace: workspace.clone(), seq: pin.seq + last })?;
        }
        Ok(self.sync_refs(&[workspace])?)
    }

    /// Gives a pin another name that is free. The caller holds both workspaces' locks.
    fn rename_pin(&self, from: &PinName, to: &PinName) -> Result<(), StoreError> {
        let [from, to] = [from, to].map(|name| self.directory().join(name.to_string()));
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        fault::point("pin rename")
            .and_then(|()| restore::rename_new(CWD, &bytes(&from), CWD, &bytes(&to)))
            .or_else(|error| match error.kind() {
                // Somebody has just unpinned it.
                io::ErrorKind::NotFound if !from.exists() => Ok(()),
                _ => Err(error),
            })
            .map_err(StoreError::io("rename", &from))
    }

    /// Makes the names of pins durable.
    fn sync_refs(&self, workspaces: &[&WorkspaceId]) -> Result<(), StoreError> {
        for workspace in workspaces {
            let refs = self.refs_of(workspace);
            let synced = fault::point("refs sync").and_then(|()| durable::sync_directory(&refs));
            durable::ignore_missing(synced).map_err(StoreError::io("write", &refs))?;
        }
        Ok(())
    }

    /// A number that one of the two has given out is not given out again.
    fn carry_seq(&self, from: &WorkspaceId, to: &WorkspaceId) -> Result<(), StoreError> {
        let [from, path] = [from, to].map(|id| self.workspace_directory(id).join("seq"));
        let last = self.pin_names(to)?.last().map_or(0, |pin| pin.seq);
        let next = read_seq(&from).max(read_seq(&path)).max(last + 1);
        fault::point("seq write")
            .and_then(|()| write_seq(&path, next).map(drop))
            .map_err(StoreError::io("write", &path))
    }

    fn refs_of(&self, id: &WorkspaceId) -> PathBuf {
        self.refs().join(id.to_string())
    }
}

/// So often a directory may be gone again before it is locked. More often, something is wrong.
const ATTEMPTS: u32 = 1000;

/// Whether this is what happens if a directory goes while it is made or used.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

/// How many of these numbers, from the first on, have to grow by `room` so that all are larger
/// than `room` and in the same order. If some of them have grown, these are the others.
fn in_the_way(seqs: &[u64], room: u64) -> usize {
    let fits = |count: &usize| {
        let before = count.checked_sub(1).map_or(0, |last| seqs[last] + room);
        seqs[*count] > room.max(before)
    };
    (0..seqs.len()).find(fits).unwrap_or(seqs.len())
}

#[cfg(test)]
mod tests;
