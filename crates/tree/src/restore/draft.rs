//! A plan under construction: decides what to do with each path at which the current state and the
//! target differ.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::guard::Guard;
use super::owners;
use super::plan::Planner;
use super::{BlockedPath, BlockedReason, KeptPath, KeptReason, Plan, PlanError, PlannedStep, Step};
use crate::beneath;
use crate::capture::Uncovered;
use crate::compare::{Difference, Node, find_node};
use crate::object::Mode;
use crate::oid::Oid;
use crate::owner;
use crate::path::RelPath;

/// A plan under construction.
pub(super) struct Draft<'p, 'a, 'w> {
    planner: &'p Planner<'a, 'w>,
    target_guard: Guard<'p>,
    present_guard: Guard<'p>,
    /// The topmost paths that the target does not cover.
    not_covered: HashSet<&'p RelPath>,
    /// The paths at which a directory replaces a non-directory, or vice versa.
    swaps: HashSet<RelPath>,
    steps: Vec<Step>,
    guarded: Vec<RelPath>,
    kept: Vec<KeptPath>,
    blocked: Vec<BlockedPath>,
    privileged: Vec<RelPath>,
    unprivileged: Vec<RelPath>,
    disowned: Vec<RelPath>,
    /// Directories that the target does not have, each after its parent.
    emptied: Vec<(RelPath, Node)>,
}

impl<'p, 'a, 'w> Draft<'p, 'a, 'w> {
    pub(super) fn new(
        planner: &'p Planner<'a, 'w>,
        differences: &[Difference],
    ) -> Draft<'p, 'a, 'w> {
        let Planner { lock, target, present, .. } = planner;
        let store = lock.store();
        Draft {
            planner,
            target_guard: Guard::new(store, target.tree, target.filter),
            present_guard: Guard::new(store, present.tree, &present.filter),
            not_covered: target.uncovered.iter().map(|uncovered| &uncovered.path).collect(),
            swaps: find_swaps(differences),
            steps: Vec::new(),
            guarded: Vec::new(),
            kept: Vec::new(),
            blocked: Vec::new(),
            privileged: Vec::new(),
            unprivileged: Vec::new(),
            disowned: Vec::new(),
            emptied: Vec::new(),
        }
    }

    pub(super) fn add_difference(&mut self, difference: Difference) -> Result<(), PlanError> {
        let Difference { path, from, to } = difference;
        if self.is_parent_replaced(&path, from) {
            self.blocked.push(BlockedPath::new(path, BlockedReason::ParentReplaced));
            return Ok(());
        }
        match (from, to) {
            (Some(from), None) if from.mode.is_directory() => self.add_extra_directory(path, from),
            (Some(from), None) => self.add_extra_file(path, from),
            (None, Some(to)) => self.add_missing(path, to),
            (Some(from), Some(to)) if from.mode.is_directory() != to.mode.is_directory() => {
                self.add_swap(path, from, to)
            }
            (Some(from), Some(to)) => self.add_changed(path, from, to),
            (None, None) => Ok(()),
        }
    }

    /// True if `path` is not requested itself, but is above a requested path, and is no longer a
    /// directory.
    fn is_parent_replaced(&self, path: &RelPath, from: Option<Node>) -> bool {
        if self.planner.is_asked_for(path) {
            return false;
        }
        let present = || self.planner.stat_present(path).ok().flatten();
        from.is_some() || present().is_some_and(|stat| !stat.is_directory())
    }

    /// True if the path, or a directory above it, is one of the swaps.
    fn is_swapped(&self, path: &RelPath) -> bool {
        !self.swaps.is_empty() && ancestors(path).any(|above| self.swaps.contains(&above))
    }

    fn push_step(&mut self, path: RelPath, from: Option<Node>, to: Option<Node>) {
        let swap = self.is_swapped(&path);
        self.steps.push(Step { path, from, to, stage: RelPath::root(), swap });
    }

    /// Determines who will own the written files, and which of these files may be setuid or setgid.
    fn settle_owners(&mut self) {
        let root = self.planner.root();
        for step in &mut self.steps {
            let (path, stage) = (&step.path, &step.stage);
            let Some(to) = step.to.as_mut().filter(|to| to.mode.is_file()) else { continue };
            let is_dropped = owners::drop_privileges(root, path, stage, &mut to.mode);
            if step.from == Some(*to) {
                continue;
            }
            if is_dropped {
                self.unprivileged.push(path.clone());
            } else if owner::is_privileged(to.mode.permissions()) {
                self.privileged.push(path.clone());
            }
            let is_new = step.from.is_none_or(|from| from.oid != to.oid);
            let has_heir = || owners::find_heir(root, path, stage).is_some();
            if is_new && !owners::is_public(to.mode) && has_heir() {
                self.disowned.push(path.clone());
            }
        }
        // Without its setuid or setgid bit, a file may be equal to the current file.
        self.steps.retain(|step| step.to.is_none() || step.from != step.to);
    }

    /// Decides what to do with a directory that only the current state has.
    fn add_extra_directory(&mut self, path: RelPath, from: Node) -> Result<(), PlanError> {
        let is_empty_and_unnamed = self.planner.target.silent && from.oid == Oid::EMPTY_TREE;
        if self.is_swapped(&path) {
            self.push_step(path, Some(from), None);
        } else if !covers(&self.not_covered, &path) && !is_empty_and_unnamed {
            self.emptied.push((path, from));
        }
        Ok(())
    }

    /// Decides what to do with a file that only the current state has.
    fn add_extra_file(&mut self, path: RelPath, from: Node) -> Result<(), PlanError> {
        let planner = self.planner;
        if self.is_swapped(&path) || planner.is_as_restored(&path, Some(from)) {
            self.push_step(path, Some(from), None);
        } else if covers(&self.not_covered, &path)
            || (planner.target.silent && self.target_guard.is_excluded(&path)?)
        {
            self.kept.push(KeptPath { path, reason: KeptReason::NotCovered });
        } else if (self.target_guard.is_guarded(&path)? || self.present_guard.is_guarded(&path)?)
            && !planner.may_change_guarded(&path)
        {
            self.guarded.push(path);
        } else {
            self.push_step(path, Some(from), None);
        }
        Ok(())
    }

    /// Decides what to do with a path that only the target has.
    fn add_missing(&mut self, path: RelPath, to: Node) -> Result<(), PlanError> {
        let planner = self.planner;
        let stat = match planner.stat_present(&path) {
            Ok(stat) => stat,
            Err(PlanError::Io { source, .. }) => {
                let reason = BlockedReason::Failed { error: source.to_string() };
                self.blocked.push(BlockedPath::new(path, reason));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match stat {
            None => self.push_step(path, None, Some(to)),
            // The directory exists but is not captured, so it keeps its content.
            Some(stat) if stat.is_directory() && to.mode.is_directory() => {
                let from = Node { mode: Mode::directory(stat.mode), oid: Oid::EMPTY_TREE };
                if from.mode != to.mode {
                    self.push_step(path, Some(from), Some(to));
                }
            }
            Some(_)
                if !self.is_swapped(&path)
                    && self.target_guard.is_guarded(&path)?
                    && !planner.may_change_guarded(&path) =>
            {
                self.guarded.push(path);
            }
            Some(_) => self.blocked.push(planner.block_uncapturable(path)),
        }
        Ok(())
    }

    /// Decides what to do with a file, symlink or directory that both states have.
    fn add_changed(&mut self, path: RelPath, from: Node, to: Node) -> Result<(), PlanError> {
        let is_free = to.mode.is_directory() || self.planner.is_as_restored(&path, Some(from));
        if !is_free
            && self.target_guard.is_guarded(&path)?
            && !self.planner.may_change_guarded(&path)
        {
            self.guarded.push(path);
        } else {
            self.push_step(path, Some(from), Some(to));
        }
        Ok(())
    }

    /// Decides what to do with a path at which a directory replaces a non-directory, or vice versa.
    fn add_swap(&mut self, path: RelPath, from: Node, to: Node) -> Result<(), PlanError> {
        if from.mode.is_directory()
            && let Some(uncaptured) = self.planner.find_uncaptured_in(&path)?
        {
            self.blocked.push(self.planner.block_uncapturable(uncaptured));
        }
        self.push_step(path.clone(), Some(from), None);
        self.push_step(path, None, Some(to));
        Ok(())
    }

    /// Adds steps for removing directories that the target lacks and that will be empty.
    pub(super) fn remove_emptied_directories(&mut self) {
        let removed = self.steps.iter().filter(|step| step.to.is_none());
        let mut removed: HashSet<RelPath> = removed.map(|step| step.path.clone()).collect();
        for (path, node) in std::mem::take(&mut self.emptied).into_iter().rev() {
            let directory = self.planner.root().open_directory(path.as_bytes());
            let names = directory.and_then(beneath::list_names);
            // A directory that cannot be listed may contain paths that are kept.
            let is_emptied = names
                .is_ok_and(|names| names.iter().all(|name| removed.contains(&path.join(name))));
            if is_emptied {
                removed.insert(path.clone());
                self.push_step(path, Some(node), None);
            } else {
                self.kept.push(KeptPath { path, reason: KeptReason::NotEmpty });
            }
        }
    }

    /// Marks paths as kept if they appeared after the target was captured and the current state
    /// does not cover them.
    pub(super) fn keep_unsaved_paths(&mut self) -> Result<(), PlanError> {
        let planner = self.planner;
        let written: HashSet<&RelPath> = self.steps.iter().map(|step| &step.path).collect();
        for Uncovered { path, .. } in &planner.present.uncovered {
            let is_new = !covers(&self.not_covered, path)
                && !written.contains(path)
                && find_node(planner.lock.store(), planner.target.tree, path)?
                    .is_none_or(|node| node.mode.is_directory());
            if is_new && planner.is_asked_for(path) {
                self.kept.push(KeptPath { path: path.clone(), reason: KeptReason::NotSaved });
            }
        }
        self.kept.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Plan {
        let planner = self.planner;
        let touched = self.assign_stages();
        self.settle_owners();
        let writes = paths_of(&self.steps, |step| step.to.is_some());
        let mut deletes = paths_of(&self.steps, |step| step.to.is_none());
        deletes.retain(|path| writes.binary_search(path).is_err());
        let loosened = self.find_unwritable(touched);
        let add_seen = |step: Step| {
            // This is the stat from the capture, not the current one, because no checkpoint holds
            // changes that were made after the capture.
            let is_file = step.from.is_some_and(|node| !node.mode.is_directory());
            let seen = if is_file { planner.lock.captured_stat(&step.path) } else { None };
            PlannedStep { step, seen }
        };
        Plan {
            from: planner.present.tree,
            to: planner.target.tree,
            uncovered: planner.present.uncovered.clone(),
            filter: planner.present.filter.clone(),
            writes,
            deletes,
            guarded: self.guarded,
            kept: self.kept,
            privileged: self.privileged,
            unprivileged: self.unprivileged,
            disowned: self.disowned,
            blocked: self.blocked,
            steps: self.steps.into_iter().map(add_seen).collect(),
            loosened,
        }
    }

    /// Assigns each step the directory in which it stages its file. Returns all directories in
    /// which the restore will change names.
    fn assign_stages(&mut self) -> BTreeSet<RelPath> {
        let removes_directory = |step: &&Step| {
            step.from.is_some_and(|node| node.mode.is_directory()) && step.to.is_none()
        };
        let removed: HashSet<RelPath> =
            self.steps.iter().filter(removes_directory).map(|step| step.path.clone()).collect();
        let mut stages: HashMap<RelPath, RelPath> = HashMap::new();
        let mut touched: BTreeSet<RelPath> = BTreeSet::new();
        for step in &mut self.steps {
            let parent = step.path.parent().expect("no step changes the root");
            step.stage = self.planner.find_stage(&parent, &removed, &mut stages);
            touched.extend([parent, step.stage.clone()]);
        }
        touched
    }

    /// Finds the directories that must temporarily be made writable, with their modes.
    fn find_unwritable(&self, directories: BTreeSet<RelPath>) -> Vec<(RelPath, u32)> {
        let mut unwritable = Vec::new();
        for path in directories {
            if let Ok(Some(stat)) = self.planner.stat_present(&path)
                && stat.is_directory()
                && stat.mode & 0o300 != 0o300
            {
                unwritable.push((path, stat.mode & 0o7777));
            }
        }
        unwritable
    }
}

pub(super) fn is_directory(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.mode.is_directory())
}

/// Finds the paths at which a directory replaces a non-directory, or vice versa.
pub(super) fn find_swaps(differences: &[Difference]) -> HashSet<RelPath> {
    let is_swap = |difference: &&Difference| match (difference.from, difference.to) {
        (Some(from), Some(to)) => from.mode.is_directory() != to.mode.is_directory(),
        _ => false,
    };
    differences.iter().filter(is_swap).map(|difference| difference.path.clone()).collect()
}

/// Lists a path and the directories above it, except the root.
pub(super) fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(Some(path.clone()), RelPath::parent).take_while(|path| !path.is_root())
}

/// True if one of the topmost paths is this path or is above it.
fn covers(topmost: &HashSet<&RelPath>, path: &RelPath) -> bool {
    !topmost.is_empty() && ancestors(path).any(|above| topmost.contains(&above))
}

/// Lists the paths of some steps, sorted and without duplicates.
fn paths_of(steps: &[Step], which: impl Fn(&Step) -> bool) -> Vec<RelPath> {
    let set: BTreeSet<&RelPath> =
        steps.iter().filter(|step| which(step)).map(|step| &step.path).collect();
    set.into_iter().cloned().collect()
}
