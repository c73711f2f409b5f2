//! Applying a plan.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use rustix::fs::{AtFlags, Mode as Permissions, OFlags};
use rustix::io::Errno;
use takeback_base::durable;
use takeback_base::{hex, paths};

use super::draft::is_directory;
use super::journal::{Journal, JournalPin};
use super::moves::{
    change_mode, exchange, looks_same, make_directory, move_aside, read_file, remove_directory,
    rename_new, set_mode,
};
use super::owners;
use super::plan::stat_beneath;
use super::recover::Direction;
use super::{Plan, RestoreError, RestoreOutcome, Step};
use crate::beneath::{self, Root, Stat};
use crate::compare::Node;
use crate::fault;
use crate::lock::Lock;
use crate::object::{Mode, ObjectKind};
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::pins::Pin;
use crate::store::{Store, StoreError};
use crate::threads::prepare_threads;

/// The maximum number of staged files or directories that are open at the same time.
const BATCH: usize = 128;

/// Applies a plan that is not blocked and whose starting state is captured and pinned. If this
/// succeeds, the caller must end the journal.
pub(super) fn apply_plan(
    lock: &mut Lock<'_>,
    plan: &Plan,
    safety: &Pin,
    record: Option<&JournalPin>,
) -> Result<RestoreOutcome, RestoreError> {
    if plan.steps.is_empty() && record.is_none() {
        return Ok(RestoreOutcome::default());
    }
    // The new commit is written before anything changes, so that the later change of the pin needs
    // hardly any disk space.
    if let Some(record) = record {
        lock.prepare_message(safety, &record.done)?;
    }
    let directory = lock.directory.clone();
    let failed = || StoreError::io("write the journal in", &directory);
    let (root, store) = (lock.workspace().root(), lock.store());
    let journal = Journal::begin(plan, record.cloned(), root, &directory, &store.temporary())
        .map_err(|error| failed()(error))?;
    let seen = plan.steps.iter().map(|planned| planned.seen).collect();
    let restore = Restore { root, store, journal, seen };
    let result = restore
        .stage_files()
        .and_then(|()| Ok(Journal::start_moving(&directory).map_err(failed())?))
        .and_then(|()| restore.move_files())
        .and_then(|outcome| {
            if let Some(record) = record {
                lock.change_message(&safety.name, &record.done)?;
            }
            restore.clean_up(outcome)
        });
    let failure = match result {
        Ok(outcome) => return Ok(outcome),
        Err(failure) => failure,
    };
    let reverted = (|| {
        // From now on, any process that finds the journal reverts the restore.
        Journal::start_reverting(&directory).map_err(failed())?;
        let left = restore.settle(Direction::Back)?;
        if let Some(record) = record {
            lock.change_message(&safety.name, &record.attempt)?;
        }
        Journal::end(&directory).map_err(failed())?;
        Ok(left)
    })();
    Err(match reverted {
        Ok(left) => failure.with_left(left),
        Err(revert) => {
            RestoreError::NotReverted { failure: Box::new(failure), revert: Box::new(revert) }
        }
    })
}

/// A restore in progress.
pub(super) struct Restore<'a> {
    pub(super) root: &'a Root,
    pub(super) store: &'a Store,
    pub(super) journal: Journal,
    /// For each step, the expected stat of its file. Empty in a recovery, which compares content
    /// instead.
    pub(super) seen: Vec<Option<Stat>>,
}

/// The action of a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Action {
    MakeDirectory,
    Put,
    Replace,
    ChangeMode,
    Delete,
    RemoveDirectory,
}

impl Step {
    pub(super) fn action(&self) -> Action {
        let is_directory = |node: &Node| node.mode.is_directory();
        match (&self.from, &self.to) {
            (None, Some(to)) if is_directory(to) => Action::MakeDirectory,
            (None, Some(_)) => Action::Put,
            (Some(from), Some(to)) if is_directory(from) && is_directory(to) => Action::ChangeMode,
            (Some(from), Some(to)) if from.mode.is_same_kind(to.mode) && from.oid == to.oid => {
                Action::ChangeMode
            }
            (Some(_), Some(_)) => Action::Replace,
            (Some(from), None) if is_directory(from) => Action::RemoveDirectory,
            (_, None) => Action::Delete,
        }
    }

    /// Returns the final mode of the directory that this step creates or changes.
    fn final_mode(&self) -> Option<Mode> {
        self.to.map(|to| to.mode).filter(|mode| mode.is_directory())
    }

    /// Returns the step that reverts this one.
    pub(super) fn reversed(&self) -> Step {
        Step { from: self.to, to: self.from, ..self.clone() }
    }
}

/// Returns the numbers of the steps in the order in which they are performed. First, swaps remove
/// the files and directories that are in the way. Then directories are created from the top down,
/// and files are written. Finally, files are deleted, and directories are removed from the bottom
/// up.
pub(super) fn order_steps(steps: &[Step]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    let phase = |step: &Step| match (step.action(), step.swap) {
        (Action::Delete, true) => 0,
        (Action::RemoveDirectory, true) => 1,
        (Action::MakeDirectory, _) => 2,
        (Action::Put | Action::Replace | Action::ChangeMode, _) => 3,
        (Action::Delete, false) => 4,
        (Action::RemoveDirectory, false) => 5,
    };
    order.sort_by(|a, b| {
        let (a, b) = (&steps[*a], &steps[*b]);
        phase(a).cmp(&phase(b)).then_with(|| match a.action() {
            Action::RemoveDirectory => b.path.cmp(&a.path),
            _ => a.path.cmp(&b.path),
        })
    });
    order
}

/// Returns a function that turns a system error at this path into a [`RestoreError`].
pub(super) fn failed_at(path: &RelPath) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.clone();
    move |source| RestoreError::Io { path, source }
}

/// True if a file could not be written because there was no space for it.
fn lacks_space<T>(result: &Result<T, RestoreError>) -> bool {
    let is_full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    matches!(result, Err(RestoreError::Io { source, .. }) if is_full(source.kind()))
}

impl Restore<'_> {
    /// Writes all new files durably under temporary names. Also makes directories writable where
    /// needed, but touches nothing else.
    fn stage_files(&self) -> Result<(), RestoreError> {
        // If a directory cannot be made writable, the steps that need it fail, and each error gives
        // the path of its step.
        let _ = self.loosen_directories(&self.journal.steps);
        let mut failures = Vec::new();
        let writes = |step: &Step| matches!(step.action(), Action::Put | Action::Replace);
        let numbers: Vec<usize> = (0..self.journal.steps.len())
            .filter(|number| writes(&self.journal.steps[*number]))
            .collect();
        prepare_threads();
        for batch in numbers.chunks(BATCH) {
            let stage = |number: &usize| self.stage_file(*number, &self.journal.steps[*number]);
            let mut results: Vec<_> = batch.par_iter().map(stage).collect();
            // While a large file was being written, it may have taken up the space that the other
            // files needed. By now, the incomplete large file has been removed, so the other files
            // can be written in a second attempt.
            if results.iter().filter(|result| lacks_space(result)).count() > 1 {
                for (number, result) in batch.iter().zip(&mut results) {
                    if lacks_space(result) {
                        *result = stage(number);
                    }
                }
            }
            let mut staged: Vec<File> = Vec::new();
            for result in results {
                match result {
                    Ok(file) => staged.extend(file),
                    // All results are examined, so that all paths that fail are reported together.
                    Err(failure) => failures.push(failure),
                }
            }
            let staged: Vec<&File> = staged.iter().collect();
            let first = &self.journal.steps[batch[0]].path;
            fault::point("stage sync")
                .and_then(|()| durable::sync_files(&staged))
                .map_err(failed_at(first))?;
        }
        if failures.is_empty() { Ok(()) } else { Err(RestoreError::of_several(failures)) }
    }

    /// Writes the temporary file of a step. Returns the open file, or `None` for a symlink.
    pub(super) fn stage_file(
        &self,
        number: usize,
        step: &Step,
    ) -> Result<Option<File>, RestoreError> {
        let to = step.to.expect("only steps that write a file are staged");
        let content = self.store.blob(&to.oid)?;
        self.store.handled.fetch_add(1, Ordering::Relaxed);
        let name = self.journal.temporary_name(number);
        let heir = match owners::is_public(to.mode) {
            true => owners::find_heir(self.root, &step.path, &step.stage),
            false => None,
        };
        let write = || -> io::Result<Option<File>> {
            fault::point("stage")?;
            let stage = self.root.open_directory(step.stage.as_bytes())?;
            if to.mode.is_symlink() {
                rustix::fs::symlinkat(
                    paths::from_bytes(&content),
                    &stage,
                    paths::from_bytes(&name),
                )?;
                heir.map_or(Ok(()), |heir| owners::give(stage.as_fd(), &name, heir))?;
                return Ok(None);
            }
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(
                &stage,
                paths::from_bytes(&name),
                flags,
                Permissions::from(0o600),
            )?;
            let mut file = File::from(fd);
            let written = file
                .write_all(&content)
                .and_then(|()| heir.map_or(Ok(()), |heir| owners::give(stage.as_fd(), &name, heir)))
                .and_then(|()| set_mode(&file, to.mode));
            if written.is_err() {
                // An incomplete file must not take up space that other files need.
                let _ = rustix::fs::unlinkat(&stage, paths::from_bytes(&name), AtFlags::empty());
            }
            written.map(|()| Some(file))
        };
        write().map_err(failed_at(&step.path))
    }

    /// Moves all files into place and verifies them. The old files stay under temporary names.
    fn move_files(&self) -> Result<RestoreOutcome, RestoreError> {
        let steps = &self.journal.steps;
        let mut outcome = RestoreOutcome::default();
        let mut failures = Vec::new();
        for number in order_steps(steps) {
            let step = &steps[number];
            fault::point("move").map_err(failed_at(&step.path))?;
            match self.perform_step(number, step, self.seen[number]) {
                Ok(true) => {}
                Ok(false) => outcome.kept.push(step.path.clone()),
                Err(failure) => failures.push(failure),
            }
        }
        if !failures.is_empty() {
            return Err(RestoreError::of_several(failures));
        }
        self.set_final_modes(steps, 0o700)?;
        fault::point("verify").map_err(failed_at(&RelPath::root()))?;
        prepare_threads();
        let failures: Vec<RestoreError> =
            steps.par_iter().filter_map(|step| self.verify_step(step).err()).collect();
        if !failures.is_empty() {
            return Err(RestoreError::of_several(failures));
        }
        self.sync_directories(steps)?;
        Ok(outcome)
    }

    /// Removes the old files after the new ones have been verified.
    fn clean_up(&self, mut outcome: RestoreOutcome) -> Result<RestoreOutcome, RestoreError> {
        let steps = &self.journal.steps;
        for (number, step) in steps.iter().enumerate() {
            fault::point("clean up").map_err(failed_at(&step.path))?;
            let saved = self.save_if_written(number, step).map_err(failed_at(&step.path))?;
            outcome.saved.extend(saved);
            self.discard_temporaries(number, step).map_err(failed_at(&step.path))?;
        }
        self.set_final_modes(steps, 0)?;
        let touched = |which: fn(&Step) -> bool| -> BTreeSet<&RelPath> {
            steps.iter().filter(|step| which(step)).map(|step| &step.path).collect()
        };
        let restored = touched(|step| step.to.is_some());
        let gone = touched(|step| step.to.is_none());
        outcome.deleted = gone
            .into_iter()
            .filter(|path| !restored.contains(path) && !outcome.kept.contains(path))
            .cloned()
            .collect();
        outcome.restored = restored.into_iter().cloned().collect();
        Ok(outcome)
    }

    /// Performs one step. `seen` is the stat that the file at the step's path is expected to have.
    /// Returns false for a directory that is not removed because it is no longer empty.
    pub(super) fn perform_step(
        &self,
        number: usize,
        step: &Step,
        seen: Option<Stat>,
    ) -> Result<bool, RestoreError> {
        let changed = || RestoreError::Changed(step.path.clone());
        let Some((directory, name)) =
            self.open_parent(&step.path).map_err(failed_at(&step.path))?
        else {
            return Err(changed());
        };
        let stage =
            self.root.open_directory(step.stage.as_bytes()).map_err(failed_at(&step.path))?;
        let temporary = self.journal.temporary_name(number);
        let (place, aside) = ((directory.as_fd(), &name[..]), (stage.as_fd(), &temporary[..]));
        let done = match step.action() {
            Action::MakeDirectory => make_directory(place).and_then(|made| {
                let above = step.path.parent().expect("no step changes the root");
                let heir = owners::find_heir(self.root, &above, &above);
                heir.map_or(Ok(()), |heir| owners::give(place.0, place.1, heir))?;
                Ok(made)
            }),
            Action::Put => rename_new(aside.0, aside.1, place.0, place.1).map(|()| true),
            Action::Replace => exchange(place, aside, &self.old_name(number), seen),
            Action::ChangeMode if is_directory(step.to) => Ok(true),
            Action::ChangeMode => {
                let mode = step.to.expect("a step that changes a mode has a new mode").mode;
                looks_same(beneath::stat_at(place.0, place.1), seen).and_then(|same| {
                    if same {
                        change_mode(place.0, place.1, mode).map(|()| true)
                    } else {
                        Ok(false)
                    }
                })
            }
            Action::Delete => move_aside(place, aside, seen),
            Action::RemoveDirectory => match remove_directory(place) {
                Ok(false) if !step.swap => return Ok(false),
                done => done,
            },
        };
        match done {
            Ok(true) => Ok(true),
            Ok(false) => Err(changed()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
            {
                Err(changed())
            }
            Err(error) => Err(failed_at(&step.path)(error)),
        }
    }

    /// Saves an old file under a visible name if another process, which still had the file open,
    /// wrote to it after it was moved aside. No checkpoint holds this new content.
    fn save_if_written(&self, number: usize, step: &Step) -> io::Result<Option<RelPath>> {
        if !matches!(step.action(), Action::Replace | Action::Delete) {
            return Ok(None);
        }
        let path = step.stage.join(&self.journal.temporary_name(number));
        let Some((directory, name)) = self.open_parent(&path)? else { return Ok(None) };
        match looks_same(beneath::stat_at(directory, &name), self.seen[number]) {
            Ok(false) => self.save_under_other_name(&path, &step.path).map(Some),
            Ok(true) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renames a temporary file to a visible name. Returns its new path.
    pub(super) fn save_under_other_name(
        &self,
        from: &RelPath,
        original: &RelPath,
    ) -> io::Result<RelPath> {
        let stage = from.parent().expect("a temporary file is in a directory");
        let mut name = original.name().to_vec();
        name.truncate(200);
        name.extend_from_slice(format!(".takeback-saved-{}", hex::random_digits(16)).as_bytes());
        let directory = self.root.open_directory(stage.as_bytes())?;
        rename_new(directory.as_fd(), from.name(), directory.as_fd(), &name)?;
        Ok(stage.join(&name))
    }

    /// Opens the directory of a path. Returns the directory and the last name of the path, or
    /// `None` if the directory does not exist.
    pub(super) fn open_parent(&self, path: &RelPath) -> io::Result<Option<(OwnedFd, Vec<u8>)>> {
        let (parent, name) = split(path.as_bytes());
        match self.root.open_directory(parent) {
            Ok(directory) => Ok(Some((directory, name.to_vec()))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) || Errno::from_io_error(&error) == Some(Errno::LOOP) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a path in the workspace. Returns the node that a tree would have for it, and its stat.
    pub(super) fn read_node(&self, path: &RelPath) -> io::Result<Option<(Node, Stat)>> {
        let Some(stat) = stat_beneath(self.root, path)? else { return Ok(None) };
        let Some((directory, name)) = self.open_parent(path)? else { return Ok(None) };
        let Some(mode) = stat.entry_mode() else {
            // A socket or a device cannot be in a tree, but the path does exist.
            return Ok(Some((Node { mode: Mode(stat.mode), oid: Oid::ZERO }, stat)));
        };
        let oid = if mode.is_directory() {
            Oid::ZERO
        } else if mode.is_symlink() {
            Oid::of(ObjectKind::Blob, &beneath::read_link(directory, &name)?)
        } else {
            Oid::of(ObjectKind::Blob, &read_file(directory.as_fd(), &name, stat.mode)?)
        };
        Ok(Some((Node { mode, oid }, stat)))
    }

    /// Checks that a path has the state that its step should produce.
    fn verify_step(&self, step: &Step) -> Result<(), RestoreError> {
        let node = self.read_node(&step.path).map_err(failed_at(&step.path))?.map(|(node, _)| node);
        let as_planned = match (step.to, node) {
            (Some(to), node) if to.mode.is_directory() => is_directory(node),
            (Some(to), node) => node == Some(to),
            // In a swap, another step writes to the path. In other steps, a directory may have been
            // kept.
            (None, node) => node.is_none() || step.swap || is_directory(node),
        };
        if as_planned { Ok(()) } else { Err(RestoreError::Unverified(step.path.clone())) }
    }

    /// Makes the directories in which the restore changes names writable, from the top down.
    pub(super) fn loosen_directories(&self, steps: &[Step]) -> Result<(), RestoreError> {
        let listed = self.journal.loosened.iter().map(|(path, _)| path);
        let made = steps.iter().filter(|step| step.final_mode().is_some()).map(|step| &step.path);
        let paths: BTreeSet<&RelPath> = listed.chain(made).collect();
        for path in paths {
            match stat_beneath(self.root, path).map_err(failed_at(path))? {
                Some(stat) if stat.is_directory() && stat.mode & 0o700 != 0o700 => {
                    self.set_mode(path, Mode::directory(stat.mode | 0o700))
                        .map_err(failed_at(path))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the final modes of directories, from the bottom up. The bits in `extra` are added, to
    /// keep directories writable until the end. If there are such bits, only directories that steps
    /// create or change get their modes, because all other directories are already writable.
    pub(super) fn set_final_modes(&self, steps: &[Step], extra: u32) -> Result<(), RestoreError> {
        let loosened = self.journal.loosened.iter().filter(|_| extra == 0);
        let mut modes: std::collections::BTreeMap<&RelPath, Mode> =
            loosened.map(|(path, mode)| (path, Mode::directory(*mode))).collect();
        modes.extend(steps.iter().filter_map(|step| Some((&step.path, step.final_mode()?))));
        for (path, mode) in modes.into_iter().rev() {
            fault::point("final mode").map_err(failed_at(path))?;
            let wanted = Mode(mode.0 | extra);
            match stat_beneath(self.root, path).map_err(failed_at(path))? {
                Some(stat) if stat.entry_mode() == Some(wanted) => {}
                Some(stat) if stat.is_directory() => {
                    self.set_mode(path, wanted).map_err(failed_at(path))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_mode(&self, path: &RelPath, mode: Mode) -> io::Result<()> {
        let (parent, name) = split(path.as_bytes());
        if path.is_root() {
            return set_mode(self.root, mode);
        }
        change_mode(self.root.open_directory(parent)?.as_fd(), name, mode)
    }

    /// Syncs all directories in which names changed.
    pub(super) fn sync_directories(&self, steps: &[Step]) -> Result<(), RestoreError> {
        let parents = steps.iter().filter_map(|step| step.path.parent());
        let paths: BTreeSet<RelPath> =
            steps.iter().map(|step| step.stage.clone()).chain(parents).collect();
        let paths: Vec<RelPath> = paths.into_iter().collect();
        for batch in paths.chunks(BATCH) {
            // A directory that no longer exists need not be synced.
            let open =
                |path: &RelPath| self.root.open_directory(path.as_bytes()).ok().map(File::from);
            let directories: Vec<File> = batch.iter().filter_map(open).collect();
            let directories: Vec<&File> = directories.iter().collect();
            fault::point("directory sync")
                .and_then(|()| durable::sync_files(&directories))
                .map_err(failed_at(&batch[0]))?;
        }
        Ok(())
    }

    fn old_name(&self, number: usize) -> Vec<u8> {
        [&self.journal.temporary_name(number)[..], b".old"].concat()
    }

    /// Lists the names under which files of a step may have been set aside.
    pub(super) fn temporary_names(&self, number: usize) -> [Vec<u8>; 2] {
        [self.journal.temporary_name(number), self.old_name(number)]
    }

    /// Removes the temporary files of a step.
    pub(super) fn discard_temporaries(&self, number: usize, step: &Step) -> io::Result<()> {
        self.temporary_names(number)
            .iter()
            .try_for_each(|name| self.unlink_if_exists(&step.stage.join(name)))
    }

    pub(super) fn unlink_if_exists(&self, path: &RelPath) -> io::Result<()> {
        let Some((directory, name)) = self.open_parent(path)? else { return Ok(()) };
        // In a directory that is not writable, the call that removes a file may fail even if there
        // is no such file.
        if matches!(beneath::stat_at(&directory, &name), Err(error) if error.kind() == io::ErrorKind::NotFound)
        {
            return Ok(());
        }
        match rustix::fs::unlinkat(directory, paths::from_bytes(&name), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
