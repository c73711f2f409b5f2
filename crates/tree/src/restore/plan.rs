//! Making a plan: what differs, what may be touched, what is in the way.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::fd::AsFd;

use crate::beneath::{self, Root, Stat};
use crate::capture::{Capture, CaptureError, CaptureOptions, Uncovered};
use crate::compare::{Difference, Node, compare, lookup};
use crate::object::Mode;
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::restore::guard::Guard;
use crate::restore::{
    Blocked, BlockedReason, Kept, KeptReason, Plan, PlanError, PlannedStep, Recovery, Step, Target,
};
use crate::workspace::Lock;

impl Lock<'_> {
    /// Plans to return the workspace to `target`: all of it, or these files and directories.
    ///
    /// Captures the present on the way, with everything that the plan overwrites or deletes:
    /// pin [`Plan::from`] before applying.
    pub fn plan(
        &mut self,
        target: &Target<'_>,
        paths: &[RelPath],
        options: &CaptureOptions<'_>,
    ) -> Result<Plan, PlanError> {
        if matches!(self.recovery, Some(Recovery::Failed(_))) {
            return Err(PlanError::Unfinished);
        }
        let mut named = options.named.to_vec();
        let mut blocked = Vec::new();
        let mut present =
            self.capture_readable(&CaptureOptions { named: &named, ..options.clone() })?;
        loop {
            let planner = Planner { lock: self, target, paths, present: &present };
            let differences = planner.differences()?;
            let mut in_the_way = planner.in_the_way(&differences)?;
            in_the_way.retain(|path| !named.contains(path));
            if in_the_way.is_empty() || !blocked.is_empty() {
                return planner.plan(differences, blocked);
            }
            named.extend(in_the_way.iter().cloned());
            match self.capture_readable(&CaptureOptions { named: &named, ..options.clone() }) {
                Ok(capture) => present = capture,
                Err(CaptureError::TooManyFiles { .. }) => {
                    let too_many = |path| Blocked { path, reason: BlockedReason::TooManyFiles };
                    blocked.extend(in_the_way.into_iter().map(too_many));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Of permissions, a silent target knows only whether a file may be executed: the others are as
/// they are now. Whether something is left that differs.
fn forgive_permissions(difference: &mut Difference) -> bool {
    const EXECUTABLE: u32 = 0o100;
    if let (Some(from), Some(to)) = (difference.from, &mut difference.to) {
        let executable = |mode: Mode| mode.permissions() & EXECUTABLE;
        let is_like = from.mode.is_directory() && to.mode.is_directory()
            || from.mode.is_file()
                && to.mode.is_file()
                && executable(from.mode) == executable(to.mode);
        if is_like {
            to.mode = from.mode;
        }
    }
    match (difference.from, difference.to) {
        (Some(from), Some(to)) if from.mode.is_directory() => from.mode != to.mode,
        (from, to) => from != to,
    }
}

struct Planner<'a, 'w> {
    lock: &'a Lock<'w>,
    target: &'a Target<'a>,
    paths: &'a [RelPath],
    present: &'a Capture,
}

impl Planner<'_, '_> {
    fn root(&self) -> &Root {
        self.lock.workspace().root()
    }

    /// Whether the caller asked for this path, or for everything.
    fn is_asked_for(&self, path: &RelPath) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|asked| path.starts_with(asked))
    }

    fn is_asked_by_name(&self, path: &RelPath) -> bool {
        self.paths.contains(path)
    }

    /// Where the present and the target differ, as far as it was asked for. Directories that lead
    /// to something asked for count if they are missing.
    fn differences(&self) -> Result<Vec<Difference>, PlanError> {
        // What a restore made and somebody removed since is undone already.
        let asked = self.paths.iter().filter(|_| self.target.undoes.is_none());
        for path in asked {
            let in_target =
                || Ok::<_, PlanError>(lookup(self.lock.store(), self.target.tree, path)?.is_some());
            if self.live(path)?.is_none() && !in_target()? {
                return Err(PlanError::NoSuchPath(path.clone()));
            }
        }
        let leads_there = |difference: &Difference| {
            difference.to.is_some_and(|node| node.mode.is_directory())
                && difference.from.is_none_or(|node| !node.mode.is_directory())
                && self.paths.iter().any(|asked| asked.starts_with(&difference.path))
        };
        let mut differences = compare(self.lock.store(), self.present.tree, self.target.tree)?;
        if self.target.silent {
            differences.retain_mut(forgive_permissions);
        }
        differences
            .retain(|difference| self.is_asked_for(&difference.path) || leads_there(difference));
        Ok(differences)
    }

    /// What is at a path now, whether it is captured or not.
    fn live(&self, path: &RelPath) -> Result<Option<Stat>, PlanError> {
        live(self.root(), path).map_err(|source| PlanError::Io { path: path.clone(), source })
    }

    /// Whether a path is still as the restore that is to be undone left it.
    fn is_undone(&self, path: &RelPath, from: Option<Node>) -> bool {
        // What is gone from the store cannot say.
        let left = |tree| lookup(self.lock.store(), tree, path).ok();
        self.target.undoes.and_then(left).is_some_and(|left| left == from)
    }

    /// Paths that the plan will replace and that are not, or not all, captured.
    fn in_the_way(&self, differences: &[Difference]) -> Result<Vec<RelPath>, PlanError> {
        let mut then = Guard::new(self.lock.store(), self.target.tree, self.target.filter);
        let swaps = swaps(differences);
        let mut found = Vec::new();
        let mut absent: HashSet<&RelPath> = HashSet::new();
        for Difference { path, from, to } in differences {
            let Some(to) = to else { continue };
            let is_directory =
                |node: &Option<Node>| node.is_some_and(|node| node.mode.is_directory());
            if is_directory(from) && !to.mode.is_directory() {
                found.push(path.clone());
            } else if from.is_none() {
                let parent = path.parent().expect("a difference is below the root");
                // What is not there has nothing in it.
                if absent.contains(&parent) {
                    absent.insert(path);
                    continue;
                }
                match self.live(path)? {
                    // What is left alone anyway is in nobody's way.
                    Some(_)
                        if !to.mode.is_directory()
                            && !self.is_asked_by_name(path)
                            && !ancestors(path).any(|above| swaps.contains(&above))
                            && then.guards(path)? => {}
                    Some(stat) if !(stat.is_directory() && to.mode.is_directory()) => {
                        found.push(path.clone());
                    }
                    Some(_) => {}
                    None => {
                        absent.insert(path);
                    }
                }
            }
        }
        Ok(found)
    }

    fn plan(
        &self,
        differences: Vec<Difference>,
        mut blocked: Vec<Blocked>,
    ) -> Result<Plan, PlanError> {
        let store = self.lock.store();
        let mut then = Guard::new(store, self.target.tree, self.target.filter);
        let mut now = Guard::new(store, self.present.tree, &self.present.filter);
        let not_covered: HashSet<&RelPath> =
            self.target.uncovered.iter().map(|uncovered| &uncovered.path).collect();
        let swaps = swaps(&differences);
        let is_swapped = |path: &RelPath| ancestors(path).any(|above| swaps.contains(&above));

        let (mut guarded, mut kept, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut emptied: Vec<(RelPath, Node)> = Vec::new();
        for Difference { path, from, to } in differences {
            let swap = is_swapped(&path);
            let is_directory = |node: Node| node.mode.is_directory();
            let leads_only = !self.is_asked_for(&path);
            if leads_only
                && (from.is_some() || self.live(&path)?.is_some_and(|stat| !stat.is_directory()))
            {
                blocked.push(Blocked { path, reason: BlockedReason::ParentReplaced });
                continue;
            }
            match (from, to) {
                (Some(from), None) if is_directory(from) => {
                    if swap {
                        steps.push(Step::new(path, Some(from), None, swap));
                    } else if !covers(&not_covered, &path)
                        && (!self.target.silent || from.oid != Oid::EMPTY_TREE)
                    {
                        emptied.push((path, from));
                    }
                }
                (Some(from), None) => {
                    if swap || self.is_undone(&path, Some(from)) {
                        steps.push(Step::new(path, Some(from), None, swap));
                    } else if covers(&not_covered, &path)
                        || (self.target.silent && then.leaves_out(&path)?)
                    {
                        kept.push(Kept { path, reason: KeptReason::NotCovered });
                    } else if !self.is_asked_by_name(&path)
                        && (then.guards(&path)? || now.guards(&path)?)
                    {
                        guarded.push(path);
                    } else {
                        steps.push(Step::new(path, Some(from), None, swap));
                    }
                }
                (None, Some(to)) => match self.live(&path)? {
                    None => steps.push(Step::new(path, None, Some(to), swap)),
                    // Not captured itself, but a directory keeps what is in it.
                    Some(stat) if stat.is_directory() && is_directory(to) => {
                        let from = Node { mode: Mode::directory(stat.mode), oid: Oid::EMPTY_TREE };
                        if from.mode != to.mode {
                            steps.push(Step::new(path, Some(from), Some(to), swap));
                        }
                    }
                    Some(_) if !swap && !self.is_asked_by_name(&path) && then.guards(&path)? => {
                        guarded.push(path);
                    }
                    Some(_) => blocked.push(self.uncapturable(path)),
                },
                (Some(from), Some(to))
                    if from.mode.same_kind(to.mode)
                        || !(is_directory(from) || is_directory(to)) =>
                {
                    let is_free = is_directory(to)
                        || self.is_asked_by_name(&path)
                        || self.is_undone(&path, Some(from));
                    if !is_free && then.guards(&path)? {
                        guarded.push(path);
                    } else {
                        steps.push(Step::new(path, Some(from), Some(to), swap));
                    }
                }
                (Some(from), Some(to)) => {
                    if is_directory(from)
                        && let Some(rest) = self.not_captured_in(&path)?
                    {
                        blocked.push(self.uncapturable(rest));
                    }
                    steps.push(Step::new(path.clone(), Some(from), None, true));
                    steps.push(Step::new(path, None, Some(to), true));
                }
                (None, None) => {}
            }
        }
        self.empty_directories(emptied, &mut steps, &mut kept)?;
        self.not_saved(&not_covered, &steps, &mut kept)?;
        let writes = paths(&steps, |step| step.to.is_some());
        let plan = Plan {
            from: self.present.tree,
            to: self.target.tree,
            uncovered: self.present.uncovered.clone(),
            filter: self.present.filter.clone(),
            deletes: paths(&steps, |step| step.to.is_none())
                .into_iter()
                .filter(|path| !writes.contains(path))
                .collect(),
            writes,
            guarded,
            kept,
            blocked,
            steps: Vec::new(),
            loosened: Vec::new(),
        };
        self.prepare(plan, steps)
    }

    /// Of directories that the target does not have, those go that will have nothing left in them.
    fn empty_directories(
        &self,
        emptied: Vec<(RelPath, Node)>,
        steps: &mut Vec<Step>,
        kept: &mut Vec<Kept>,
    ) -> Result<(), PlanError> {
        let mut going: HashSet<RelPath> =
            steps.iter().filter(|step| step.to.is_none()).map(|step| step.path.clone()).collect();
        for (path, node) in emptied.into_iter().rev() {
            let io = |source| PlanError::Io { path: path.clone(), source };
            let directory = self.root().directory(path.as_bytes()).map_err(io)?;
            let names = beneath::names(directory).map_err(io)?;
            if names.iter().all(|name| going.contains(&path.join(name))) {
                going.insert(path.clone());
                steps.push(Step::new(path, Some(node), None, false));
            } else {
                kept.push(Kept { path, reason: KeptReason::NotEmpty });
            }
        }
        Ok(())
    }

    /// What came since and is not captured stays, and is named.
    fn not_saved(
        &self,
        not_covered: &HashSet<&RelPath>,
        steps: &[Step],
        kept: &mut Vec<Kept>,
    ) -> Result<(), PlanError> {
        let written: HashSet<&RelPath> = steps.iter().map(|step| &step.path).collect();
        for Uncovered { path, .. } in &self.present.uncovered {
            let is_new = !covers(not_covered, path)
                && !written.contains(path)
                && lookup(self.lock.store(), self.target.tree, path)?
                    .is_none_or(|node| node.mode.is_directory());
            if is_new && self.is_asked_for(path) {
                kept.push(Kept { path: path.clone(), reason: KeptReason::NotSaved });
            }
        }
        kept.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Something below a directory that its capture does not hold.
    fn not_captured_in(&self, directory: &RelPath) -> Result<Option<RelPath>, PlanError> {
        let mut pending = vec![directory.clone()];
        while let Some(path) = pending.pop() {
            let io = |source| PlanError::Io { path: path.clone(), source };
            let node = lookup(self.lock.store(), self.present.tree, &path)?;
            let Some(node) = node.filter(|node| node.mode.is_directory()) else {
                return Ok(Some(path));
            };
            let captured = self.lock.store().tree(&node.oid)?;
            let directory = match self.root().directory(path.as_bytes()) {
                Ok(directory) => directory,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io(error)),
            };
            for name in beneath::names(directory.as_fd()).map_err(io)? {
                match captured.iter().find(|entry| entry.name == name) {
                    Some(entry) if entry.mode.is_directory() => pending.push(path.join(&name)),
                    Some(_) => {}
                    None => return Ok(Some(path.join(&name))),
                }
            }
        }
        Ok(None)
    }

    /// Why something that was to be captured is not.
    fn uncapturable(&self, path: RelPath) -> Blocked {
        let found =
            self.present.uncovered.iter().find(|uncovered| path.starts_with(&uncovered.path));
        let reason = found.map_or(BlockedReason::Uncapturable, |uncovered: &Uncovered| {
            BlockedReason::Uncovered(uncovered.reason.clone())
        });
        Blocked { path, reason }
    }

    /// Adds to the steps where they stage their files and what they expect to find, and to the
    /// plan which directories have to be made writable.
    fn prepare(&self, mut plan: Plan, steps: Vec<Step>) -> Result<Plan, PlanError> {
        let going: HashSet<RelPath> = steps
            .iter()
            .filter(|step| {
                step.from.is_some_and(|node| node.mode.is_directory()) && step.to.is_none()
            })
            .map(|step| step.path.clone())
            .collect();
        let mut stages: BTreeMap<RelPath, RelPath> = BTreeMap::new();
        let mut touched: BTreeSet<RelPath> = BTreeSet::new();
        for mut step in steps {
            let parent = step.path.parent().expect("no step is about the root");
            let stage = match stages.get(&parent) {
                Some(stage) => stage.clone(),
                None => {
                    let stays = |path: &RelPath| {
                        let is_directory = self.live(path)?.is_some_and(|stat| stat.is_directory());
                        Ok::<_, PlanError>(is_directory && !going.contains(path))
                    };
                    let mut stage = parent.clone();
                    while !stage.is_root() && !stays(&stage)? {
                        stage = stage.parent().expect("not the root");
                    }
                    stages.insert(parent.clone(), stage.clone());
                    stage
                }
            };
            touched.extend([parent, stage.clone()]);
            step.stage = stage;
            // As of the capture, not as of now: what changed since is in no checkpoint.
            let is_file = step.from.is_some_and(|node| !node.mode.is_directory());
            let seen = if is_file { self.lock.seen(&step.path) } else { None };
            plan.steps.push(PlannedStep { step, seen });
        }
        for path in touched {
            if let Some(stat) = self.live(&path)?
                && stat.is_directory()
                && stat.mode & 0o300 != 0o300
            {
                plan.loosened.push((path, stat.mode & 0o7777));
            }
        }
        Ok(plan)
    }
}

impl Step {
    fn new(path: RelPath, from: Option<Node>, to: Option<Node>, swap: bool) -> Step {
        Step { path, from, to, stage: RelPath::root(), swap }
    }
}

/// Paths at which a directory and something else change places.
fn swaps(differences: &[Difference]) -> HashSet<RelPath> {
    let is_swap = |difference: &&Difference| match (difference.from, difference.to) {
        (Some(from), Some(to)) => from.mode.is_directory() != to.mode.is_directory(),
        _ => false,
    };
    differences.iter().filter(is_swap).map(|difference| difference.path.clone()).collect()
}

/// A path and the directories above it, without the root.
fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(Some(path.clone()), RelPath::parent).take_while(|path| !path.is_root())
}

/// Whether one of the topmost paths is this one or above it.
fn covers(topmost: &HashSet<&RelPath>, path: &RelPath) -> bool {
    !topmost.is_empty() && ancestors(path).any(|above| topmost.contains(&above))
}

fn paths(steps: &[Step], which: impl Fn(&Step) -> bool) -> Vec<RelPath> {
    let set: BTreeSet<&RelPath> =
        steps.iter().filter(|step| which(step)).map(|step| &step.path).collect();
    set.into_iter().cloned().collect()
}

/// What is at a path, without following links on the way. A way that is not there leads to
/// nothing.
pub(super) fn live(root: &Root, path: &RelPath) -> io::Result<Option<Stat>> {
    if path.is_root() {
        return beneath::stat_fd(root).map(Some);
    }
    let (parent, name) = split(path.as_bytes());
    let nothing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    };
    match root.directory(parent).and_then(|directory| beneath::stat_at(directory, name)) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if nothing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
