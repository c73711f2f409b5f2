//! Making a plan: compares the current state with the target, and decides how to handle each
//! difference.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;

use super::draft::{Draft, ancestors, find_swaps, is_directory};
use super::guard::Guard;
use super::{BlockedPath, BlockedReason, Plan, PlanError, Recovery, RestoreTarget};
use crate::beneath::{self, Root, Stat};
use crate::capture::databases::database_of;
use crate::capture::{Capture, CaptureOptions};
use crate::compare::{Difference, Node, compare_trees, find_node};
use crate::git::GitDirectory;
use crate::git::index::TrackedPaths;
use crate::lock::Lock;
use crate::object::Mode;
use crate::path::{RelPath, split};

impl Lock<'_> {
    /// Plans to return the workspace to `target`: all of it, or only `paths`.
    ///
    /// Also captures the current state, including everything that the plan overwrites or deletes.
    /// The limit on the number of files does not apply. Pin [`Plan::from`] before applying the
    /// plan.
    pub fn plan(
        &mut self,
        target: &RestoreTarget<'_>,
        paths: &[RelPath],
        options: &CaptureOptions<'_>,
    ) -> Result<Plan, PlanError> {
        self.plan_without(target, paths, &[], options)
    }

    /// Plans as [`Lock::plan`] does, but leaves the `skipped` paths unchanged, along with all paths
    /// that cannot be restored without them.
    pub fn plan_without(
        &mut self,
        target: &RestoreTarget<'_>,
        paths: &[RelPath],
        skipped: &[RelPath],
        options: &CaptureOptions<'_>,
    ) -> Result<Plan, PlanError> {
        if matches!(self.recovery, Some(Recovery::Failed(_))) {
            return Err(PlanError::Unfinished);
        }
        let mut in_the_way = Vec::new();
        let mut present = self.capture_for_restore(options, &in_the_way)?;
        loop {
            let tracked = OnceCell::new();
            let planner =
                Planner { lock: self, target, paths, skipped, present: &present, tracked };
            let differences = planner.find_differences()?;
            let mut uncaptured = planner.find_uncaptured_in_the_way(&differences)?;
            uncaptured.extend(planner.find_uncaptured_since_restore()?);
            uncaptured.retain(|path| !in_the_way.contains(path));
            if uncaptured.is_empty() {
                return planner.make_plan(differences);
            }
            in_the_way.extend(uncaptured);
            present = self.capture_for_restore(options, &in_the_way)?;
        }
    }
}

/// Drops the differences in permissions that a target with [`RestoreTarget::silent`] does not
/// record: all except a file's executable bit. Returns true if a difference remains.
fn forgive_permissions(difference: &mut Difference) -> bool {
    const EXECUTABLE: u32 = 0o100;
    if let (Some(from), Some(to)) = (difference.from, &mut difference.to) {
        let executable = |mode: Mode| mode.permissions() & EXECUTABLE;
        let is_alike = from.mode.is_directory() && to.mode.is_directory()
            || from.mode.is_file()
                && to.mode.is_file()
                && executable(from.mode) == executable(to.mode);
        if is_alike {
            to.mode = from.mode;
        }
    }
    match (difference.from, difference.to) {
        (Some(from), Some(to)) if from.mode.is_directory() => from.mode != to.mode,
        (from, to) => from != to,
    }
}

/// Everything that a plan depends on.
pub(super) struct Planner<'a, 'w> {
    pub(super) lock: &'a Lock<'w>,
    pub(super) target: &'a RestoreTarget<'a>,
    pub(super) paths: &'a [RelPath],
    /// The paths that are left unchanged.
    pub(super) skipped: &'a [RelPath],
    pub(super) present: &'a Capture,
    /// The paths that git tracks now. They are read on first use.
    tracked: OnceCell<TrackedPaths>,
}

impl<'a> Planner<'a, '_> {
    pub(super) fn root(&self) -> &Root {
        self.lock.workspace().root()
    }

    /// True if the caller asked for this path, or for everything.
    pub(super) fn is_asked_for(&self, path: &RelPath) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|asked| path.starts_with(asked))
    }

    /// True if the user asks for a file by name, or if a call that is being taken back named it.
    fn is_asked_by_name(&self, path: &RelPath) -> bool {
        self.paths.contains(path) || self.target.released.contains(path)
    }

    /// True if a guarded file may be changed: it is asked for by name, or git tracks it now.
    ///
    /// If git tracks it now, a checkout, a merge or a similar command has replaced the ignored
    /// file, or the user has added it to git. The file is then restored like every other file that
    /// git tracks.
    pub(super) fn may_change_guarded(&self, path: &RelPath) -> bool {
        let tracked = || {
            let read = |git: GitDirectory| TrackedPaths::read(&git.index_path());
            let git = || GitDirectory::find(self.lock.workspace().path());
            self.tracked.get_or_init(|| git().map(read).unwrap_or_default())
        };
        let bytes = path.as_bytes();
        self.is_asked_by_name(path)
            || tracked().contains(bytes)
            || database_of(bytes).is_some_and(|database| tracked().contains(database))
    }

    /// Finds the requested paths at which the current state and the target differ. Includes missing
    /// directories above a requested path.
    fn find_differences(&self) -> Result<Vec<Difference>, PlanError> {
        self.check_paths_exist()?;
        let leads_there = |difference: &Difference| {
            is_directory(difference.to)
                && !is_directory(difference.from)
                && self.paths.iter().any(|asked| asked.starts_with(&difference.path))
        };
        let store = self.lock.store();
        let mut differences = compare_trees(store, self.present.tree, self.target.tree)?;
        if self.target.silent {
            differences.retain_mut(forgive_permissions);
        }
        differences
            .retain(|difference| self.is_asked_for(&difference.path) || leads_there(difference));
        if !self.skipped.is_empty() {
            self.drop_skipped(&mut differences)?;
        }
        Ok(differences)
    }

    /// Drops the differences at skipped paths, and the differences that cannot be applied unless
    /// the skipped paths change as well.
    fn drop_skipped(&self, differences: &mut Vec<Difference>) -> Result<(), PlanError> {
        // A directory can be replaced only together with everything in it.
        let held = find_swaps(differences)
            .into_iter()
            .filter(|swap| self.skipped.iter().any(|path| path.starts_with(swap)));
        let mut tops: HashSet<RelPath> = held.collect();
        // Nothing can be restored below a path that does not become a directory.
        for path in self.skipped {
            let in_target = find_node(self.lock.store(), self.target.tree, path)?;
            let is_one =
                self.stat_present(path).ok().flatten().is_some_and(|stat| stat.is_directory());
            if !is_one || !is_directory(in_target) {
                tops.insert(path.clone());
            }
        }
        differences.retain(|difference| {
            !self.skipped.contains(&difference.path)
                && !ancestors(&difference.path).any(|above| tops.contains(&above))
        });
        Ok(())
    }

    /// Fails if a requested path is neither in the workspace nor in the target.
    fn check_paths_exist(&self) -> Result<(), PlanError> {
        // If a restore created a path and the user has since removed it, there is nothing left to
        // undo.
        if self.target.undoes.is_some() {
            return Ok(());
        }
        for path in self.paths {
            let is_in_target = || -> Result<bool, PlanError> {
                Ok(find_node(self.lock.store(), self.target.tree, path)?.is_some())
            };
            // A path whose `lstat` fails may exist. The plan blocks it if it cannot be restored.
            if matches!(self.stat_present(path), Ok(None)) && !is_in_target()? {
                return Err(PlanError::NoSuchPath(path.clone()));
            }
        }
        Ok(())
    }

    /// Stats a path in the workspace, captured or not.
    pub(super) fn stat_present(&self, path: &RelPath) -> Result<Option<Stat>, PlanError> {
        stat_beneath(self.root(), path)
            .map_err(|source| PlanError::Io { path: path.clone(), source })
    }

    /// True if a path has not changed since the restore that is being undone.
    pub(super) fn is_as_restored(&self, path: &RelPath, present: Option<Node>) -> bool {
        // If the state after the restore cannot be read, every path is assumed to have changed
        // since.
        let node_in = |tree| find_node(self.lock.store(), tree, path).ok();
        !self.was_passed_over(path)
            && self.target.undoes.and_then(node_in).is_some_and(|left| left == present)
    }

    /// True if a file existed before the restore that is being undone, and was not captured. That
    /// restore did not change the file, because it was guarded.
    fn was_passed_over(&self, path: &RelPath) -> bool {
        self.target.uncovered.iter().any(|uncovered| uncovered.path == *path)
    }

    /// Finds the paths that the plan will replace and that are not fully captured.
    fn find_uncaptured_in_the_way(
        &self,
        differences: &[Difference],
    ) -> Result<Vec<RelPath>, PlanError> {
        let mut target_guard = Guard::new(self.lock.store(), self.target.tree, self.target.filter);
        let swaps = find_swaps(differences);
        let mut in_the_way = Vec::new();
        let mut absent: HashSet<&RelPath> = HashSet::new();
        for Difference { path, from, to } in differences {
            let Some(to) = to else { continue };
            if is_directory(*from) && !to.mode.is_directory() {
                in_the_way.push(path.clone());
                continue;
            }
            if from.is_some() {
                continue;
            }
            // Everything below a missing directory is also missing.
            let parent = path.parent().expect("a difference is below the root");
            if absent.contains(&parent) {
                absent.insert(path);
                continue;
            }
            let stat = match self.stat_present(path) {
                Ok(Some(stat)) => stat,
                Ok(None) => {
                    absent.insert(path);
                    continue;
                }
                // The draft will block this path.
                Err(_) => continue,
            };
            // A guarded file will be left unchanged, so it is not in the way.
            let is_left_alone = !to.mode.is_directory()
                && !ancestors(path).any(|above| swaps.contains(&above))
                && target_guard.is_guarded(path)?
                && !self.may_change_guarded(path);
            let are_directories = stat.is_directory() && to.mode.is_directory();
            if !is_left_alone && !are_directories {
                in_the_way.push(path.clone());
            }
        }
        Ok(in_the_way)
    }

    /// Finds the files that the current capture lacks, although the restore that is being undone
    /// created or changed them. Such files are too large, or excluded by the rules.
    fn find_uncaptured_since_restore(&self) -> Result<Vec<RelPath>, PlanError> {
        let store = self.lock.store();
        let Some(led_to) = self.target.undoes else { return Ok(Vec::new()) };
        // If the state after the restore cannot be read, it is unknown which files the restore
        // created.
        let Ok(differences) = compare_trees(store, self.present.tree, led_to) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for Difference { path, from, to } in differences {
            let is_file = from.is_none() && to.is_some_and(|to| !to.mode.is_directory());
            if is_file
                && self.is_asked_for(&path)
                && !self.was_passed_over(&path)
                && matches!(self.stat_present(&path), Ok(Some(stat)) if !stat.is_directory())
                && find_node(store, self.target.tree, &path)? != to
            {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn make_plan(&self, differences: Vec<Difference>) -> Result<Plan, PlanError> {
        let mut draft = Draft::new(self, &differences);
        for difference in differences {
            draft.add_difference(difference)?;
        }
        draft.remove_emptied_directories();
        draft.keep_unsaved_paths()?;
        Ok(draft.finish())
    }

    /// Searches below a directory for a path that the capture of the current state lacks.
    pub(super) fn find_uncaptured_in(
        &self,
        directory: &RelPath,
    ) -> Result<Option<RelPath>, PlanError> {
        let mut pending = vec![directory.clone()];
        while let Some(path) = pending.pop() {
            let io = |source| PlanError::Io { path: path.clone(), source };
            let node = find_node(self.lock.store(), self.present.tree, &path)?;
            let Some(node) = node.filter(|node| node.mode.is_directory()) else {
                return Ok(Some(path));
            };
            let captured = self.lock.store().tree(&node.oid)?;
            let directory = match self.root().open_directory(path.as_bytes()) {
                Ok(directory) => directory,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io(error)),
            };
            for name in beneath::list_names(directory.as_fd()).map_err(io)? {
                match captured.iter().find(|entry| entry.name == name) {
                    Some(entry) if entry.mode.is_directory() => pending.push(path.join(&name)),
                    Some(_) => {}
                    None => return Ok(Some(path.join(&name))),
                }
            }
        }
        Ok(None)
    }

    /// Blocks a path that is in the way and was not captured. Says why the path was not captured,
    /// if that is known.
    pub(super) fn block_uncapturable(&self, path: RelPath) -> BlockedPath {
        let mut uncovered = self.present.uncovered.iter();
        let uncovered = uncovered.find(|uncovered| path.starts_with(&uncovered.path));
        let reason = uncovered.map_or(BlockedReason::Uncapturable, |uncovered| {
            BlockedReason::Uncovered(uncovered.reason.clone())
        });
        BlockedPath::new(path, reason)
    }

    /// Finds the directory in which the files for `directory` are staged: the nearest one, from
    /// `directory` upwards, that exists before, during and after the restore. `known` caches the
    /// results, so that each directory is checked only once, and no directory below a missing one
    /// is checked.
    pub(super) fn find_stage(
        &self,
        directory: &RelPath,
        removed: &HashSet<RelPath>,
        known: &mut HashMap<RelPath, RelPath>,
    ) -> RelPath {
        let mut unknown = Vec::new();
        let mut above = directory.clone();
        let mut stage = loop {
            if let Some(stage) = known.get(&above) {
                break stage.clone();
            }
            if above.is_root() {
                break above;
            }
            let parent = above.parent().expect("only the root has no parent");
            unknown.push(std::mem::replace(&mut above, parent));
        };
        while let Some(directory) = unknown.pop() {
            let is_above_there = directory.parent().as_ref() == Some(&stage);
            let exists = || {
                let stat = self.stat_present(&directory).ok().flatten();
                stat.is_some_and(|stat| stat.is_directory())
            };
            if is_above_there && !removed.contains(&directory) && exists() {
                stage = directory.clone();
            }
            known.insert(directory, stage.clone());
        }
        stage
    }
}

/// Stats a path without following links. Returns `None` if the path, or a directory above it, does
/// not exist.
pub(super) fn stat_beneath(root: &Root, path: &RelPath) -> io::Result<Option<Stat>> {
    if path.is_root() {
        return beneath::stat_fd(root).map(Some);
    }
    let (parent, name) = split(path.as_bytes());
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    };
    match root.open_directory(parent).and_then(|directory| beneath::stat_at(directory, name)) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
