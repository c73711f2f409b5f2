//! Applying a plan, and finishing or reverting one that was cut off.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rayon::prelude::*;
use rustix::fs::{AtFlags, Mode as Permissions, OFlags};
use rustix::io::Errno;
use takeback_base::durable;
use takeback_base::{hex, paths};

use crate::beneath::{self, Root, Stat};
use crate::compare::Node;
use crate::fault;
use crate::object::{Kind, Mode};
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::restore::journal::{Journal, Phase};
use crate::restore::moves::{
    change_mode, exchange, make_directory, move_aside, read, remove_directory, rename_new, same,
    set_mode,
};
use crate::restore::plan::live;
use crate::restore::{Outcome, Plan, Recovery, RestoreError, Step};
use crate::store::{Store, StoreError};
use crate::workspace::Lock;

/// How many staged files are open at a time.
const BATCH: usize = 128;

/// Applies a plan that is not blocked and whose present state is pinned.
pub(super) fn apply(lock: &mut Lock<'_>, plan: &Plan) -> Result<Outcome, RestoreError> {
    if plan.steps.is_empty() {
        return Ok(Outcome::default());
    }
    let directory = lock.directory.clone();
    let failed = || StoreError::io("write the journal in", &directory);
    let journal =
        Journal::begin(plan, lock.workspace().root(), &directory, &lock.store().temporary())
            .map_err(|error| failed()(error))?;
    let seen = plan.steps.iter().map(|planned| planned.seen).collect();
    let run = Run { root: lock.workspace().root(), store: lock.store(), journal, seen };
    let result = run
        .stage()
        .and_then(|()| Ok(Journal::start_moving(&directory).map_err(failed())?))
        .and_then(|()| run.move_all());
    let failure = match result {
        Ok(outcome) => {
            // If it stays, the next command finds that all is done.
            let _ = Journal::end(&directory);
            return Ok(outcome);
        }
        Err(failure) => failure,
    };
    let reverted = (|| {
        // Whoever finds the journal from now on reverts too.
        Journal::start_reverting(&directory).map_err(failed())?;
        let left = run.settle(Direction::Back)?;
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

impl Lock<'_> {
    /// Finishes or reverts a restore that was cut off.
    pub(crate) fn recover(&mut self) {
        let directory: PathBuf = self.directory.clone();
        let (journal, phase) = match Journal::load(self.workspace().root(), &directory) {
            Ok(None) => return,
            Ok(Some(found)) => found,
            Err(error) => {
                let error = StoreError::io("read the journal in", &directory)(error);
                self.recovery = Some(Recovery::Failed(error.into()));
                return;
            }
        };
        let (root, store) = (self.workspace().root(), self.store());
        let run = Run { root, store, journal, seen: Vec::new() };
        let back = || {
            let failed = StoreError::io("write the journal in", &directory);
            Journal::start_reverting(&directory).map_err(failed)?;
            run.settle(Direction::Back).map(Recovery::Reverted)
        };
        let recovery = match phase {
            Phase::Staging => back(),
            Phase::Moving => run.settle(Direction::On).map(Recovery::Finished).or_else(|_| back()),
        };
        if recovery.is_ok() {
            // If it stays, the next command finds that everything is done.
            let _ = Journal::end(&directory);
        }
        self.recovery = Some(recovery.unwrap_or_else(Recovery::Failed));
    }
}

/// A restore under way.
struct Run<'a> {
    root: &'a Root,
    store: &'a Store,
    journal: Journal,
    /// The file that each step expects to find; empty in a recovery, which compares content.
    seen: Vec<Option<Stat>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    On,
    Back,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Action {
    MakeDirectory,
    Put,
    Replace,
    ChangeMode,
    Delete,
    RemoveDirectory,
}

impl Step {
    fn action(&self) -> Action {
        let is_directory = |node: &Node| node.mode.is_directory();
        match (&self.from, &self.to) {
            (None, Some(to)) if is_directory(to) => Action::MakeDirectory,
            (None, Some(_)) => Action::Put,
            (Some(from), Some(to)) if is_directory(from) && is_directory(to) => Action::ChangeMode,
            (Some(from), Some(to)) if from.mode.same_kind(to.mode) && from.oid == to.oid => {
                Action::ChangeMode
            }
            (Some(_), Some(_)) => Action::Replace,
            (Some(from), None) if is_directory(from) => Action::RemoveDirectory,
            (_, None) => Action::Delete,
        }
    }

    /// The mode that a directory has in the end, if this step makes or changes one.
    fn final_mode(&self) -> Option<Mode> {
        self.to.map(|to| to.mode).filter(|mode| mode.is_directory())
    }

    fn reversed(&self) -> Step {
        Step { from: self.to, to: self.from, ..self.clone() }
    }
}

/// The order of steps: what is in the way goes first; directories are made from the top and
/// removed from the bottom; deletes come last.
fn ordered(steps: &[Step]) -> Vec<usize> {
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

fn at(path: &RelPath) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.clone();
    move |source| RestoreError::Io { path, source }
}

impl Run<'_> {
    /// Writes all new files beside their places, durably. Nothing else is touched.
    fn stage(&self) -> Result<(), RestoreError> {
        self.loosen(&self.journal.steps)?;
        let writes = |step: &Step| matches!(step.action(), Action::Put | Action::Replace);
        let numbers: Vec<usize> = (0..self.journal.steps.len())
            .filter(|number| writes(&self.journal.steps[*number]))
            .collect();
        for batch in numbers.chunks(BATCH) {
            let stage = |number: &usize| self.stage_one(*number, &self.journal.steps[*number]);
            let staged: Vec<Option<File>> =
                batch.par_iter().map(stage).collect::<Result<_, _>>()?;
            let staged: Vec<&File> = staged.iter().flatten().collect();
            let first = &self.journal.steps[batch[0]].path;
            fault::point("stage sync")
                .and_then(|()| durable::sync_files(&staged))
                .map_err(at(first))?;
        }
        Ok(())
    }

    /// Writes the temporary file of a step. Returns it unless it is a symlink.
    fn stage_one(&self, number: usize, step: &Step) -> Result<Option<File>, RestoreError> {
        let to = step.to.expect("only what is written is staged");
        let content = self.store.blob(&to.oid)?;
        let name = self.journal.temporary(number);
        let write = || -> io::Result<Option<File>> {
            fault::point("stage")?;
            let stage = self.root.directory(step.stage.as_bytes())?;
            if to.mode.is_symlink() {
                rustix::fs::symlinkat(
                    paths::from_bytes(&content),
                    &stage,
                    paths::from_bytes(&name),
                )?;
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
            file.write_all(&content)?;
            set_mode(&file, to.mode)?;
            Ok(Some(file))
        };
        write().map_err(at(&step.path))
    }

    /// Moves everything into its place, checks it, and removes what was there before.
    fn move_all(&self) -> Result<Outcome, RestoreError> {
        let steps = &self.journal.steps;
        let mut outcome = Outcome::default();
        for number in ordered(steps) {
            let step = &steps[number];
            fault::point("move").map_err(at(&step.path))?;
            if !self.perform(number, step, self.seen[number])? {
                outcome.kept.push(step.path.clone());
            }
        }
        self.set_final_modes(steps, 0o700)?;
        fault::point("verify").map_err(at(&RelPath::root()))?;
        steps.par_iter().try_for_each(|step| self.verify(step))?;
        self.sync_directories(steps)?;
        for (number, step) in steps.iter().enumerate() {
            fault::point("clean up").map_err(at(&step.path))?;
            let saved = self.save_if_written(number, step).map_err(at(&step.path))?;
            outcome.saved.extend(saved);
            self.discard(number, step).map_err(at(&step.path))?;
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

    /// Finishes or reverts, from whatever state things are in. Looks at content, not at times.
    /// Returns the paths that somebody changed meanwhile: those are left alone.
    fn settle(&self, direction: Direction) -> Result<Vec<RelPath>, RestoreError> {
        let steps: Vec<Step> = match direction {
            Direction::On => self.journal.steps.clone(),
            Direction::Back => self.journal.steps.iter().map(Step::reversed).collect(),
        };
        // What really needs it fails with its own path.
        let _ = self.loosen(&steps);
        let mut left = Vec::new();
        for number in ordered(&steps) {
            let step = &steps[number];
            fault::point("settle").map_err(at(&step.path))?;
            match self.settle_one(number, step) {
                Err(RestoreError::Changed(path)) => left.push(path),
                result => result?,
            }
        }
        // For cleaning up; whether the modes can be set shows in the end.
        let _ = self.set_final_modes(&steps, 0o700);
        self.sync_directories(&steps)?;
        for (number, step) in steps.iter().enumerate() {
            self.put_aside_unknown(number, step, &mut left).map_err(at(&step.path))?;
            self.discard(number, step).map_err(at(&step.path))?;
        }
        self.set_final_modes(&steps, 0)?;
        left.sort();
        left.dedup();
        Ok(left)
    }

    /// Brings one path to where its step leads, if what is there is still ours to replace.
    fn settle_one(&self, number: usize, step: &Step) -> Result<(), RestoreError> {
        let present = self.node(&step.path).map_err(at(&step.path))?;
        let node = present.map(|(node, _)| node);
        let writes = matches!(step.action(), Action::Put | Action::Replace);
        let is_ours = match step.action() {
            _ if node == step.to => return Ok(()),
            // The mode comes in the end.
            _ if is_directory(step.to) && is_directory(node) => return Ok(()),
            // Whatever mode it has got to: it is the same file.
            Action::ChangeMode => node
                .zip(step.from)
                .is_some_and(|(node, from)| node.oid == from.oid && node.mode.same_kind(from.mode)),
            Action::RemoveDirectory => is_directory(node),
            _ => node == step.from || (writes && node.is_none()),
        };
        let has_stage = live(self.root, &step.stage).map_err(at(&step.stage))?;
        if !is_ours || !has_stage.is_some_and(|stat| stat.is_directory()) {
            return Err(RestoreError::Changed(step.path.clone()));
        }
        if writes {
            self.stage_again(number, step)?;
        }
        // What is gone already need not be replaced, only put.
        let from = step.from.filter(|_| node.is_some());
        let step = Step { from, ..step.clone() };
        self.perform(number, &step, present.map(|(_, stat)| stat)).map(drop)
    }

    /// Makes sure that the temporary file of a step is what it is to put in place.
    fn stage_again(&self, number: usize, step: &Step) -> Result<(), RestoreError> {
        let name = step.stage.join(&self.journal.temporary(number));
        let staged = self.node(&name).map_err(at(&name))?;
        if staged.map(|(node, _)| node) == step.to {
            return Ok(());
        }
        if let Some((node, _)) = staged {
            // What was moved out and is stored may go; anything else is somebody's.
            if Some(node) == step.from {
                self.unlink(&name).map_err(at(&name))?;
            } else {
                self.save_under_other_name(&name, &step.path).map_err(at(&name))?;
            }
        }
        if let Some(file) = self.stage_one(number, step)? {
            file.sync_data().map_err(at(&step.path))?;
        }
        Ok(())
    }

    /// An old file that somebody who had it open wrote to after it was moved aside: no checkpoint
    /// holds that, so it gets a name that people can see.
    fn save_if_written(&self, number: usize, step: &Step) -> io::Result<Option<RelPath>> {
        if !matches!(step.action(), Action::Replace | Action::Delete) {
            return Ok(None);
        }
        let path = step.stage.join(&self.journal.temporary(number));
        let Some((directory, name)) = self.parent(&path)? else { return Ok(None) };
        match same(beneath::stat_at(directory, &name), self.seen[number]) {
            Ok(false) => self.save_under_other_name(&path, &step.path).map(Some),
            Ok(true) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A temporary file that is neither old nor new content was moved out of a change in flight:
    /// it gets a name that people can see.
    fn put_aside_unknown(
        &self,
        number: usize,
        step: &Step,
        left: &mut Vec<RelPath>,
    ) -> io::Result<()> {
        for name in self.temporaries(number) {
            let path = step.stage.join(&name);
            if let Some((node, _)) = self.node(&path)?
                && Some(node) != step.from
                && Some(node) != step.to
                && !self.is_unfinished(&path, step)?
            {
                left.push(self.save_under_other_name(&path, &step.path)?);
            }
        }
        Ok(())
    }

    /// Whether a temporary file is one that was not completely staged: still with the mode that
    /// staging begins with, and a beginning of what is to be written.
    fn is_unfinished(&self, path: &RelPath, step: &Step) -> io::Result<bool> {
        let Some((directory, name)) = self.parent(path)? else { return Ok(false) };
        let Ok(file) = beneath::open_file(directory.as_fd(), &name) else { return Ok(false) };
        let stat = beneath::stat_fd(&file)?;
        if !stat.is_file() || stat.mode & 0o7777 != 0o600 {
            return Ok(false);
        }
        let mut content = Vec::new();
        io::Read::read_to_end(&mut &file, &mut content)?;
        let wanted = [step.to, step.from].into_iter().flatten();
        let begins = |node: Node| {
            !node.mode.is_directory()
                && self.store.blob(&node.oid).is_ok_and(|whole| whole.starts_with(&content))
        };
        Ok(wanted.into_iter().any(begins))
    }

    fn save_under_other_name(&self, from: &RelPath, original: &RelPath) -> io::Result<RelPath> {
        let stage = from.parent().expect("a temporary file is in a directory");
        let mut name = original.name().to_vec();
        name.truncate(200);
        name.extend_from_slice(format!(".takeback-saved-{}", hex::random_digits(16)).as_bytes());
        let directory = self.root.directory(stage.as_bytes())?;
        rename_new(directory.as_fd(), from.name(), directory.as_fd(), &name)?;
        Ok(stage.join(&name))
    }

    /// Does one step. `seen` is what is expected there. False for a directory that is not empty
    /// any more.
    fn perform(
        &self,
        number: usize,
        step: &Step,
        seen: Option<Stat>,
    ) -> Result<bool, RestoreError> {
        let changed = || RestoreError::Changed(step.path.clone());
        let Some((directory, name)) = self.parent(&step.path).map_err(at(&step.path))? else {
            return Err(changed());
        };
        let stage = self.root.directory(step.stage.as_bytes()).map_err(at(&step.stage))?;
        let temporary = self.journal.temporary(number);
        let (place, aside) = ((directory.as_fd(), &name[..]), (stage.as_fd(), &temporary[..]));
        let done = match step.action() {
            Action::MakeDirectory => make_directory(place),
            Action::Put => rename_new(aside.0, aside.1, place.0, place.1).map(|()| true),
            Action::Replace => exchange(place, aside, &self.old_name(number), seen),
            Action::ChangeMode if is_directory(step.to) => Ok(true),
            Action::ChangeMode => {
                let mode = step.to.expect("a mode is changed to something").mode;
                same(beneath::stat_at(place.0, place.1), seen).and_then(|same| {
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
            Err(error) => Err(at(&step.path)(error)),
        }
    }

    /// The directory of a path, and the name in it; `None` if there is no such directory.
    fn parent(&self, path: &RelPath) -> io::Result<Option<(OwnedFd, Vec<u8>)>> {
        let (parent, name) = split(path.as_bytes());
        match self.root.directory(parent) {
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

    /// What is at a path, as it would be in a tree.
    fn node(&self, path: &RelPath) -> io::Result<Option<(Node, Stat)>> {
        let Some(stat) = live(self.root, path)? else { return Ok(None) };
        let Some((directory, name)) = self.parent(path)? else { return Ok(None) };
        let Some(mode) = stat.entry_mode() else {
            // A socket or a device: nothing that a tree has, but something.
            return Ok(Some((Node { mode: Mode(stat.mode), oid: Oid::ZERO }, stat)));
        };
        let oid = if mode.is_directory() {
            Oid::ZERO
        } else if mode.is_symlink() {
            Oid::of(Kind::Blob, &beneath::read_link(directory, &name)?)
        } else {
            Oid::of(Kind::Blob, &read(directory.as_fd(), &name, stat.mode)?)
        };
        Ok(Some((Node { mode, oid }, stat)))
    }

    fn verify(&self, step: &Step) -> Result<(), RestoreError> {
        let node = self.node(&step.path).map_err(at(&step.path))?.map(|(node, _)| node);
        let as_planned = match (step.to, node) {
            (Some(to), node) if to.mode.is_directory() => is_directory(node),
            (Some(to), node) => node == Some(to),
            // In a swap something else takes the place; a directory may have been kept.
            (None, node) => node.is_none() || step.swap || is_directory(node),
        };
        if as_planned { Ok(()) } else { Err(RestoreError::Unverified(step.path.clone())) }
    }

    /// Makes directories writable that have to be written in, from the top down.
    fn loosen(&self, steps: &[Step]) -> Result<(), RestoreError> {
        let listed = self.journal.loosened.iter().map(|(path, _)| path);
        let made = steps.iter().filter(|step| step.final_mode().is_some()).map(|step| &step.path);
        let paths: BTreeSet<&RelPath> = listed.chain(made).collect();
        for path in paths {
            match live(self.root, path).map_err(at(path))? {
                Some(stat) if stat.is_directory() && stat.mode & 0o700 != 0o700 => {
                    self.set_mode(path, Mode::directory(stat.mode | 0o700)).map_err(at(path))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives directories the modes they are to have, from the bottom up. With `extra` bits for the
    /// time being, only those that are made or changed: the others are writable as they are.
    fn set_final_modes(&self, steps: &[Step], extra: u32) -> Result<(), RestoreError> {
        let loosened = self.journal.loosened.iter().filter(|_| extra == 0);
        let mut modes: std::collections::BTreeMap<&RelPath, Mode> =
            loosened.map(|(path, mode)| (path, Mode::directory(*mode))).collect();
        modes.extend(steps.iter().filter_map(|step| Some((&step.path, step.final_mode()?))));
        for (path, mode) in modes.into_iter().rev() {
            fault::point("final mode").map_err(at(path))?;
            let wanted = Mode(mode.0 | extra);
            match live(self.root, path).map_err(at(path))? {
                Some(stat) if stat.entry_mode() == Some(wanted) => {}
                Some(stat) if stat.is_directory() => {
                    self.set_mode(path, wanted).map_err(at(path))?;
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
        change_mode(self.root.directory(parent)?.as_fd(), name, mode)
    }

    fn sync_directories(&self, steps: &[Step]) -> Result<(), RestoreError> {
        let parents = steps.iter().filter_map(|step| step.path.parent());
        let paths: BTreeSet<RelPath> =
            steps.iter().map(|step| step.stage.clone()).chain(parents).collect();
        let paths: Vec<RelPath> = paths.into_iter().collect();
        for batch in paths.chunks(BATCH) {
            // A directory that is gone needs no sync.
            let open = |path: &RelPath| self.root.directory(path.as_bytes()).ok().map(File::from);
            let directories: Vec<File> = batch.iter().filter_map(open).collect();
            let directories: Vec<&File> = directories.iter().collect();
            fault::point("directory sync")
                .and_then(|()| durable::sync_files(&directories))
                .map_err(at(&batch[0]))?;
        }
        Ok(())
    }

    fn old_name(&self, number: usize) -> Vec<u8> {
        [&self.journal.temporary(number)[..], b".old"].concat()
    }

    fn temporaries(&self, number: usize) -> [Vec<u8>; 2] {
        [self.journal.temporary(number), self.old_name(number)]
    }

    /// Removes the temporary files of a step.
    fn discard(&self, number: usize, step: &Step) -> io::Result<()> {
        self.temporaries(number).iter().try_for_each(|name| self.unlink(&step.stage.join(name)))
    }

    fn unlink(&self, path: &RelPath) -> io::Result<()> {
        let Some((directory, name)) = self.parent(path)? else { return Ok(()) };
        // Asked first: what cannot be written to may still have nothing to remove.
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

fn is_directory(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.mode.is_directory())
}
