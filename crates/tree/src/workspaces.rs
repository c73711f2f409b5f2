//! All workspaces in a store: lists them, moves pins from one to another, and forgets them. The
//! directories of the workspaces need not exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use takeback_base::durable::{self, FileLock};
use takeback_base::hex;
use takeback_base::lock_wait::{LockWait, find_holder};

use crate::fault;
use crate::lock::{read_seq, write_seq};
use crate::pins::{PinName, SEQ_END, WorkspaceId};
use crate::restore;
use crate::store::{Store, StoreError};
use crate::workspace::Workspace;

/// The right to change a workspace's pins, even if the workspace's directory does not exist. While
/// a process holds this right, no other process can capture or restore the workspace.
#[derive(Debug)]
pub struct WorkspaceGuard {
    directory: PathBuf,
    _lock: FileLock,
}

impl WorkspaceGuard {
    /// True if a restore was interrupted. The next [`Workspace::lock`] will finish or revert it,
    /// for which it needs the existing pins.
    pub fn has_unfinished_restore(&self) -> bool {
        restore::is_unfinished(&self.directory)
    }
}

/// The reason why some or all pins of a workspace were not moved. Another attempt moves the
/// remaining pins.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum MoveError {
    /// A restore was interrupted, and its journal refers to the old directory.
    #[error("an interrupted restore of workspace {0} must be finished first")]
    Unfinished(WorkspaceId),
    #[error("the workspaces belong to different stores")]
    OtherStore,
    /// There are no numbers left for the pins.
    #[error("the pins of workspace {0} have numbers that are too large")]
    Numbers(WorkspaceId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// True if a restore of a workspace is under way or was interrupted.
    pub fn has_unfinished_restore(&self, id: &WorkspaceId) -> bool {
        restore::is_unfinished(&self.workspace_directory(id))
    }

    /// True if a restore of a workspace was interrupted and no other process is finishing or
    /// reverting it.
    pub fn has_interrupted_restore(&self, id: &WorkspaceId) -> bool {
        self.has_unfinished_restore(id) && matches!(self.try_lock_workspace(id), Ok(Some(_)))
    }

    /// Lists all workspaces that have pins or a directory in the store.
    pub fn workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let mut workspaces = self.pinned_workspaces()?;
        workspaces
            .extend(self.parse_names_in::<WorkspaceId>(&self.directory().join("workspaces"))?);
        workspaces.sort();
        workspaces.dedup();
        Ok(workspaces)
    }

    /// Returns the directory for the caller's own notes about a workspace: see
    /// [`Workspace::notes`].
    pub fn notes(&self, id: &WorkspaceId) -> PathBuf {
        self.workspace_directory(id).join("notes")
    }

    /// Locks a workspace whose directory need not exist. Returns `None` if another process has
    /// locked it.
    pub fn try_lock_workspace(
        &self,
        id: &WorkspaceId,
    ) -> Result<Option<WorkspaceGuard>, StoreError> {
        let lock = self.lock_directory_with(id, FileLock::try_exclusive)?;
        Ok(lock.map(|lock| WorkspaceGuard { directory: self.workspace_directory(id), _lock: lock }))
    }

    /// Locks a workspace whose directory need not exist. Waits for other processes for at most one
    /// second, unless [`Store::set_lock_wait`] sets another time. Returns `None` if the workspace
    /// is still locked after that.
    pub fn wait_for_workspace(
        &self,
        id: &WorkspaceId,
    ) -> Result<Option<WorkspaceGuard>, StoreError> {
        let wait = self.lock_wait.unwrap_or(LockWait::silent(Duration::from_secs(1)));
        let lock = self.lock_directory_with(id, |path| FileLock::exclusive_within(path, &wait))?;
        Ok(lock.map(|lock| WorkspaceGuard { directory: self.workspace_directory(id), _lock: lock }))
    }

    /// Locks the directory of a workspace. Waits while another process has it locked.
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
                // The workspace was forgotten after its directory was found or created.
                Err(error) if is_gone(&error) && attempts < MAX_ATTEMPTS => attempts += 1,
                // The workspace was forgotten during the wait. The locked file no longer exists, so
                // the lock excludes no other process.
                Ok(Some(lock)) if !lock.is_at(&path) => {}
                result => return result.map_err(StoreError::io("lock", &path)),
            }
        }
    }

    /// Removes everything that the store keeps about a workspace. Returns false and removes nothing
    /// if the workspace has pins or an unfinished restore, or if another process has locked it.
    pub fn forget_workspace(&self, id: &WorkspaceId) -> Result<bool, StoreError> {
        if !self.workspace_directory(id).exists() && !self.refs_of(id).exists() {
            return Ok(false);
        }
        let Some(guard) = self.try_lock_workspace(id)? else { return Ok(false) };
        if guard.has_unfinished_restore() || !self.pin_names(id)?.is_empty() {
            return Ok(false);
        }
        let _lock = self.lock_shared()?;
        self.discard_workspace(id)?;
        Ok(true)
    }

    /// Removes everything that the store keeps about a workspace without pins. The caller must hold
    /// the locks of the workspace and the store.
    fn discard_workspace(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        // The directory stays if another program has put files into it.
        let _ = fs::remove_dir(self.refs_of(id));
        let directory = self.workspace_directory(id);
        self.keep_seq(&directory).map_err(StoreError::io("write", &self.highest_seq()))?;
        let aside = self.temporary().join(hex::random_digits(16));
        // A rename removes the directory in one step, so that no process finds only part of it. If
        // this process is killed, the directory is removed later.
        fault::point("forget")
            .and_then(|()| fs::rename(&directory, &aside))
            .map_err(StoreError::io("remove", &directory))?;
        let _ = fs::remove_dir_all(&aside);
        Ok(())
    }

    /// Returns the path of a file that holds a pin number. No forgotten workspace has assigned this
    /// number or a higher one.
    pub(crate) fn highest_seq(&self) -> PathBuf {
        self.directory().join("seq")
    }

    /// Makes sure that the pin numbers of a workspace are never assigned again after it is
    /// forgotten.
    fn keep_seq(&self, directory: &Path) -> io::Result<()> {
        let highest = self.highest_seq();
        let next = read_seq(&directory.join("seq"));
        fault::point("keep seq")?;
        let _lock = FileLock::exclusive(&highest)?;
        match next > read_seq(&highest) {
            true => write_seq(&highest, next)?.sync_data(),
            false => Ok(()),
        }
    }

    /// Moves the pins of the workspace `from` to `to`, where they come before the existing pins,
    /// and forgets `from`. This is meant for a directory that was renamed. Returns the number of
    /// moved pins.
    ///
    /// The moved pins keep their numbers. The existing pins of `to` get larger numbers where
    /// needed, so that they come after the moved pins, in order. Waits until no other process has
    /// locked either workspace; the caller must hold neither lock. If the move is interrupted at
    /// any point, no pin is lost, and another call completes it.
    pub fn move_workspace(&self, from: &WorkspaceId, to: &Workspace<'_>) -> Result<u64, MoveError> {
        if to.store().uuid() != self.uuid() {
            return Err(MoveError::OtherStore);
        }
        let is_known = self.workspace_directory(from).exists() || self.refs_of(from).exists();
        let to = to.id();
        if from == to || !is_known {
            return Ok(0);
        }
        // Locks are always taken in the same order, because otherwise two processes that move in
        // opposite directions would wait for each other forever.
        let _first = self.lock_directory(from.min(to))?;
        let _second = self.lock_directory(from.max(to))?;
        let _lock = self.lock_shared()?;
        if restore::is_unfinished(&self.workspace_directory(from)) {
            return Err(MoveError::Unfinished(from.clone()));
        }
        let pins = self.pin_names(from)?;
        if let Some(last) = pins.last() {
            self.raise_numbers(to, last.seq)?;
        }
        // The newest pins are moved first, so that the remaining pins are always older than the
        // moved ones.
        for pin in pins.iter().rev() {
            self.rename_pin(pin, &PinName { workspace: to.clone(), seq: pin.seq })?;
        }
        self.sync_refs(&[to, from])?;
        self.carry_next_seq(from, to)?;
        self.discard_workspace(from)?;
        Ok(pins.len() as u64)
    }

    /// Raises the numbers of a workspace's pins so that all are larger than `last`.
    fn raise_numbers(&self, workspace: &WorkspaceId, last: u64) -> Result<(), MoveError> {
        let refs = self.refs_of(workspace);
        if !refs.exists() {
            durable::create_directory(&refs).map_err(StoreError::io("create", &refs))?;
            durable::sync_directory(&self.refs_directory())
                .map_err(StoreError::io("write", &refs))?;
        }
        let pins = self.pin_names(workspace)?;
        let seqs: Vec<u64> = pins.iter().map(|pin| pin.seq).collect();
        let raised = &pins[..count_raised(&seqs, last)];
        if raised.last().is_some_and(|pin| pin.seq + last >= SEQ_END) {
            return Err(MoveError::Numbers(workspace.clone()));
        }
        // The numbers of the newest pins are raised first, so that each new number is unused.
        for pin in raised.iter().rev() {
            self.rename_pin(pin, &PinName { workspace: workspace.clone(), seq: pin.seq + last })?;
        }
        Ok(self.sync_refs(&[workspace])?)
    }

    /// Renames a pin. The new name must not exist yet. The caller must hold the locks of both
    /// workspaces.
    fn rename_pin(&self, from: &PinName, to: &PinName) -> Result<(), StoreError> {
        let [from, to] = [from, to].map(|name| self.directory().join(name.to_string()));
        fault::point("pin rename")
            .and_then(|()| durable::rename_new(&from, &to))
            .or_else(|error| match error.kind() {
                // Another process has just deleted the pin.
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

    /// Makes sure that no pin number that either workspace has assigned is ever assigned again.
    fn carry_next_seq(&self, from: &WorkspaceId, to: &WorkspaceId) -> Result<(), StoreError> {
        let [from, path] = [from, to].map(|id| self.workspace_directory(id).join("seq"));
        let last = self.pin_names(to)?.last().map_or(0, |pin| pin.seq);
        let next = read_seq(&from).max(read_seq(&path)).max(last + 1);
        fault::point("seq write")
            .and_then(|()| write_seq(&path, next).map(drop))
            .map_err(StoreError::io("write", &path))
    }

    fn refs_of(&self, id: &WorkspaceId) -> PathBuf {
        self.refs_directory().join(id.to_string())
    }
}

/// The maximum number of times that a directory may vanish before it is locked. If it vanishes more
/// often, there is another problem.
const MAX_ATTEMPTS: u32 = 1000;

/// True for the errors that occur if a directory vanishes while it is being created or used.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

/// Counts the numbers at the beginning of `seqs` that must be increased by `room`, so that all
/// numbers are larger than `room` and still in order. Numbers that an earlier call has already
/// raised are not counted.
fn count_raised(seqs: &[u64], room: u64) -> usize {
    let fits = |count: &usize| {
        let before = count.checked_sub(1).map_or(0, |last| seqs[last] + room);
        seqs[*count] > room.max(before)
    };
    (0..seqs.len()).find(fits).unwrap_or(seqs.len())
}

#[cfg(test)]
mod tests;
