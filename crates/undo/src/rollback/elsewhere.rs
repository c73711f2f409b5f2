//! Restores the files outside the workspace that the turns being taken back changed. Each such path
//! was captured as a workspace of its own.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::errors::error_chain;
use takeback_tree::{
    AnyPath, BlockedPath, KeptPath, KeptReason, Mode, ObjectError, Oid, Plan, RelPath, Store,
    StoreError, Workspace, WorkspaceError, WorkspaceId, WorkspaceInfo,
};

use super::apply::{leave_notices, restore_files};
use super::plan::{find_changed_since, plan_files};
use super::planned::{Goal, Planned, PlannedWork, RollbackView, TargetState};
use super::{Request, RollbackError, Scope};
use crate::Opened;
use crate::history::authorship::{Segment, Timeline};
use crate::history::claim::Doubt;
use crate::history::record::{Action, CallRef, Checkpoint, Record, TurnId};
use crate::history::workspace::revive_workspace;
use crate::history::{History, RevivedDirectories, Row, TakeError};

/// The part of a rollback that is outside the workspace: one directory or file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct ElsewhereView {
    pub workspace: AnyPath,
    pub restored: Vec<RelPath>,
    pub deleted: Vec<RelPath>,
    /// The restored and deleted files that others changed after the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<RelPath>,
    /// The files that others may have changed, and that stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<RelPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedPath>,
    pub safety_checkpoint: Option<Oid>,
}

/// Adds what the turns that a plan takes back changed outside the workspace. A failure is a warning:
/// it does not hold up the workspace itself.
pub(super) fn add_elsewhere(
    opened: &Opened,
    store: &Store,
    own: &WorkspaceId,
    history: &History,
    request: &Request,
    planned: &mut Planned,
) {
    if !reaches_elsewhere(request) {
        return;
    }
    let undone = planned.view.row.filter(|_| planned.work.goal.action == Action::UndoTurn);
    let taken_back = match undone {
        Some(row) => TakenBack::of_row(history, row),
        None => TakenBack::since(history, planned.work.goal.checkpoint),
    };
    for (info, history) in read_others(store, own) {
        let place = Place { opened, history: &history, path: &info.path, main: planned };
        let group = match &planned.work.goal.reverses {
            Some((safety, _)) => place.plan_reversal(*safety),
            None => place.plan_return(&taken_back),
        };
        match group {
            Ok(Some((group, left))) => {
                planned.view.elsewhere.push(ElsewhereView::of(&group, left));
                planned.work.elsewhere.push(group);
            }
            Ok(None) => {}
            Err(error) => {
                let (path, error) = (info.path.0.display(), error_chain(&error));
                planned.view.warnings.push(format!("{path} stays as it is: {error}"));
            }
        }
    }
}

/// True if a request is about files outside the workspace, too.
fn reaches_elsewhere(request: &Request) -> bool {
    !request.workspace_only && request.paths.is_empty() && request.scope != Scope::Chat
}

/// Reads the histories of all workspaces but one.
fn read_others<'s>(
    store: &'s Store,
    own: &WorkspaceId,
) -> impl Iterator<Item = (WorkspaceInfo, History)> + use<'s> {
    let own = own.clone();
    let workspaces = store.pinned_workspaces().unwrap_or_default().into_iter();
    workspaces.filter(move |id| *id != own).filter_map(|id| {
        let info = store.workspace_info(&id).ok()??;
        Some((info, History::read(store, &id).ok()?))
    })
}

/// Returns true if an undo of a row's turn would restore files outside the workspace. Takes no lock:
/// the caller holds that of the workspace.
pub(super) fn has_changes_elsewhere(
    workspace: &Workspace<'_>,
    history: &History,
    row: usize,
    request: &Request,
) -> bool {
    let store = workspace.store();
    let taken_back = TakenBack::of_row(history, row);
    reaches_elsewhere(request)
        && read_others(store, workspace.id()).any(|(info, history)| {
            let events = taken_back.find_events(&history);
            let target = find_target(&history, &events);
            let changed = ChangedFiles::of(store, &history, &taken_back, &events);
            let above = info.path.0.parent().filter(|_| info.single_file);
            let directory = above.unwrap_or(&info.path.0);
            target.zip(changed.ok()).is_some_and(|(target, changed)| {
                changed.is_left_as_changed(store, &target.pin.tree, directory)
            })
        })
}

/// Restores the parts of a rollback that are outside the workspace.
pub(super) fn apply_elsewhere(
    opened: &Opened,
    groups: Vec<Planned>,
    workspace: &Path,
    safety: Oid,
    view: &mut RollbackView,
) {
    for (number, group) in groups.into_iter().enumerate() {
        let shown = &mut view.elsewhere[number];
        if group.view.changes_no_file() {
            continue;
        }
        match apply_group(opened, group, safety) {
            Ok(done) => {
                (shown.restored, shown.deleted) = (done.restored, done.deleted);
                (shown.blocked, shown.safety_checkpoint) = (done.skipped, done.safety_checkpoint);
                view.warnings.extend(done.warnings);
            }
            Err(error) => {
                (shown.restored, shown.deleted) = (Vec::new(), Vec::new());
                let (path, error) = (shown.workspace.0.display(), error_chain(&error));
                view.warnings.push(format!("{path} stays as it is: {error}"));
            }
        }
    }
    remove_emptied(workspace, view);
}

/// Removes the directories that the rollback kept only because a repository was in them.
fn remove_emptied(workspace: &Path, view: &mut RollbackView) {
    let (emptied, kept) = std::mem::take(&mut view.kept).into_iter().rev().partition(|kept| {
        kept.reason == KeptReason::NotEmpty
            && fs::remove_dir(workspace.join(kept.path.as_path())).is_ok()
    });
    let emptied: Vec<KeptPath> = emptied;
    view.kept = kept;
    view.kept.reverse();
    view.deleted.extend(emptied.into_iter().map(|kept| kept.path));
    view.deleted.sort();
}

fn apply_group(
    opened: &Opened,
    group: Planned,
    part_of: Oid,
) -> Result<RollbackView, RollbackError> {
    let Planned { mut work, mut view } = group;
    work.goal.part_of = Some(part_of);
    let (workspace, _revived) = revive_workspace(opened, &work.workspace.0)?;
    let mut lock = opened.lock(&workspace)?;
    if let Some(safety) = restore_files(opened, &mut lock, &mut work, &mut view)? {
        view.safety_checkpoint = Some(safety.pin.id);
        leave_notices(opened, &workspace, &work, safety.record.moment(), &mut view);
    }
    lock.end_restore();
    // A failure only slows down the next capture.
    let _ = lock.finish(opened.system_time());
    if workspace.path().ends_with(".git") {
        // This fails unless it is empty. An empty one is no repository, and hides one above it.
        let _ = fs::remove_dir(workspace.path());
    }
    Ok(view)
}

/// The session, the turn and the id of a call.
type CallKey = (String, TurnId, String);

fn key_of(call: &CallRef) -> CallKey {
    (call.session.clone(), call.turn.clone(), call.id.clone())
}

/// The calls and rollbacks that a plan takes back.
#[derive(Default)]
struct TakenBack {
    /// The turns that are taken back as a whole.
    turns: HashSet<(String, TurnId)>,
    /// The calls that were made in the workspace since the checkpoint.
    calls: HashSet<CallKey>,
    /// The calls that were made before. Agents reuse the names of turns.
    earlier: HashSet<CallKey>,
    /// The safety checkpoints of the rollbacks that were made since.
    rollbacks: HashSet<Oid>,
}

impl TakenBack {
    /// Finds everything that happened since a checkpoint.
    fn since(history: &History, checkpoint: Oid) -> TakenBack {
        let seq = history.all.iter().find(|known| known.pin.id == checkpoint);
        let seq = seq.map_or(u64::MAX, |known| known.pin.name.seq);
        let rows = history.rows().filter(|row| row.first().pin.name.seq >= seq);
        let mut taken_back = TakenBack { turns: turns_of(rows), ..TakenBack::default() };
        for known in &history.all {
            if known.record.rollback.is_some() && known.pin.name.seq >= seq {
                taken_back.rollbacks.insert(known.pin.id);
            }
            let Some(call) = &known.record.call else { continue };
            let calls = match known.start_of(call) < seq {
                true => &mut taken_back.earlier,
                false => &mut taken_back.calls,
            };
            calls.insert(key_of(call));
        }
        taken_back
    }

    /// Finds the calls of one row's turn.
    fn of_row(history: &History, number: usize) -> TakenBack {
        let Ok(row) = history.row(number) else { return TakenBack::default() };
        let seq = row.first().pin.name.seq;
        let calls = history.all.iter().filter_map(|known| {
            let call = known.record.call.as_ref()?;
            (known.start_of(call) < seq).then(|| key_of(call))
        });
        let earlier = calls.collect();
        TakenBack { turns: turns_of([row].into_iter()), earlier, ..TakenBack::default() }
    }

    fn contains(&self, call: &CallRef) -> bool {
        let key = key_of(call);
        let is_in_turn = self.turns.contains(&(call.session.clone(), call.turn.clone()));
        self.calls.contains(&key) || (is_in_turn && !self.earlier.contains(&key))
    }

    /// Lists the checkpoints and states of another place that belong to it, oldest first.
    fn find_events<'h>(&self, history: &'h History) -> Vec<&'h Checkpoint> {
        let is_event = |known: &&Checkpoint| {
            let Record { call, rollback, .. } = &known.record;
            let part_of = rollback.as_ref().and_then(|done| done.part_of);
            part_of.is_some_and(|safety| self.rollbacks.contains(&safety))
                || call.as_ref().is_some_and(|call| self.contains(call))
        };
        history.all.iter().filter(is_event).collect()
    }
}

fn turns_of<'h>(rows: impl Iterator<Item = Row<'h>>) -> HashSet<(String, TurnId)> {
    let turns = rows.filter_map(|row| row.turn());
    turns.map(|(session, turn)| (session.to_owned(), turn.clone())).collect()
}

/// Finds the checkpoint or state that a place had before the first of some events.
fn find_target<'h>(history: &'h History, events: &[&'h Checkpoint]) -> Option<&'h Checkpoint> {
    let before = |event: &&'h Checkpoint| {
        let Some(call) = event.record.call.as_ref() else { return Some(*event) };
        let Some(began) = call.began.as_ref() else { return Some(*event) };
        let start = event.start_of(call);
        let is_it =
            |known: &&Checkpoint| known.pin.name.seq < start && known.pin.tree == began.tree;
        history.all.iter().rev().find(is_it)
    };
    events.iter().find_map(before)
}

/// A plan for one place, and the files there that stay as they are.
type Group = (Planned, Vec<RelPath>);

/// A directory or file outside the workspace.
struct Place<'a> {
    opened: &'a Opened,
    history: &'a History,
    path: &'a AnyPath,
    /// The plan for the workspace.
    main: &'a Planned,
}

impl Place<'_> {
    /// Plans to return to before the first event that is taken back, for the files that these events
    /// changed.
    fn plan_return(&self, taken_back: &TakenBack) -> Result<Option<Group>, RollbackError> {
        let events = taken_back.find_events(self.history);
        let Some(target) = find_target(self.history, &events) else { return Ok(None) };
        let store = self.opened.store()?;
        let changed =
            ChangedFiles::of(store, self.history, taken_back, &events).map_err(StoreError::from)?;
        if changed.is_nothing() {
            return Ok(None);
        }
        let (workspace, _revived) = self.open()?;
        let mut goal = self.goal(target);
        goal.paths = changed.paths();
        let mut lock = self.opened.lock(&workspace)?;
        // A file that the calls made and deleted again is no obstacle.
        goal.paths.retain(|path| {
            let was = store.find_entry(&target.pin.tree, path);
            let present = workspace.path().join(path.as_path());
            !matches!(was, Ok(None)) || present.symlink_metadata().is_ok()
        });
        if goal.paths.is_empty() && !changed.is_everything {
            return Ok(None);
        }
        let mut files = plan_files(self.opened, &mut lock, &mut goal)?;
        let mut others = match changed.last {
            Some(last) => find_changed_since(store, &files, &last),
            None => Vec::new(),
        };
        // Files that others may have changed stay, and the undo of a turn keeps later edits, too.
        let is_undo = goal.action == Action::UndoTurn;
        let is_file = |path: &&RelPath| {
            let found = workspace.path().join(path.as_path()).symlink_metadata();
            found.is_ok_and(|found| !found.is_dir())
        };
        let is_left = |path: &&RelPath| match is_undo {
            // A file that is not there has no edits to keep.
            true if changed.is_open => is_file(path),
            true => others.contains(path) || !changed.is_certain(path) && is_file(path),
            false => !changed.is_certain(path) && is_file(path),
        };
        let left: Vec<RelPath> =
            files.writes.iter().chain(&files.deletes).filter(is_left).cloned().collect();
        if !left.is_empty() {
            others.retain(|path| !left.contains(path));
            goal.untouched = left.clone();
            files = plan_files(self.opened, &mut lock, &mut goal)?;
        }
        let _ = lock.finish(self.opened.system_time());
        Ok(self.make_group(goal, files, others, left))
    }

    /// Plans to reverse the part of a rollback that was made here.
    fn plan_reversal(&self, reversed: Oid) -> Result<Option<Group>, RollbackError> {
        let part = self.history.all.iter().find_map(|safety| {
            let done = safety.record.rollback.as_ref()?;
            (done.part_of == Some(reversed)).then_some((safety, done))
        });
        let Some((safety, done)) = part else { return Ok(None) };
        let (workspace, _revived) = self.open()?;
        let mut goal = self.goal(safety);
        goal.reverses = Some((safety.pin.id, done.tree));
        (goal.paths, goal.untouched) = (done.paths.clone(), done.skipped.clone());
        let mut lock = self.opened.lock(&workspace)?;
        let files = plan_files(self.opened, &mut lock, &mut goal)?;
        let others = find_changed_since(workspace.store(), &files, &done.tree);
        let _ = lock.finish(self.opened.system_time());
        Ok(self.make_group(goal, files, others, Vec::new()))
    }

    /// Opens the place. One that is gone is made again, but not the directories above it: the whole
    /// tree may be on another machine or disk. Inside the workspace, the rollback itself brings them
    /// back.
    fn open(&self) -> Result<(Workspace<'_>, RevivedDirectories), RollbackError> {
        let path = &self.path.0;
        let is_inside = path.starts_with(&self.main.work.workspace.0);
        if !is_inside && !path.parent().is_some_and(Path::is_dir) {
            let source = io::Error::new(io::ErrorKind::NotFound, "the directory above it is gone");
            let error = WorkspaceError::Open { path: path.clone(), source };
            return Err(TakeError::from(error).into());
        }
        Ok(revive_workspace(self.opened, path)?)
    }

    fn goal(&self, target: &Checkpoint) -> Goal {
        let main = &self.main.work.goal;
        Goal {
            action: main.action,
            checkpoint: target.pin.id,
            index: None,
            state: TargetState::of(target),
            edits: None,
            reverses: None,
            paths: Vec::new(),
            untouched: Vec::new(),
            named: self.history.named_paths(),
            chats: Vec::new(),
            skip_blocked: main.skip_blocked,
            skipped: Vec::new(),
            part_of: None,
            imported: target.record.imported.is_some(),
        }
    }

    fn make_group(
        &self,
        goal: Goal,
        files: Plan,
        others: Vec<RelPath>,
        left: Vec<RelPath>,
    ) -> Option<Group> {
        let mut view = RollbackView::new(&goal, Vec::new());
        (view.restored, view.deleted) = (files.writes.clone(), files.deletes.clone());
        (view.blocked, view.skipped) = (files.blocked.clone(), goal.skipped.clone());
        view.others = others;
        if view.changes_no_file() && view.blocked.is_empty() && left.is_empty() {
            return None;
        }
        let work = PlannedWork {
            workspace: self.path.clone(),
            goal,
            files: Some(files),
            newest: self.history.newest(),
            sessions: self.history.sessions(),
            elsewhere: Vec::new(),
        };
        Some((Planned { work, view }, left))
    }
}

/// The files that events changed in one place.
struct ChangedFiles {
    certain: BTreeSet<RelPath>,
    /// The files that others may have changed.
    doubtful: BTreeSet<RelPath>,
    /// True if all files may have been changed: a call never ended, or deleted the whole place.
    is_everything: bool,
    /// True if the end of a call is unknown.
    is_open: bool,
    /// The state after the last event whose end is known.
    last: Option<Oid>,
}

impl ChangedFiles {
    fn of(
        store: &Store,
        history: &History,
        taken_back: &TakenBack,
        events: &[&Checkpoint],
    ) -> Result<ChangedFiles, ObjectError> {
        let timeline = Timeline::of(history, None);
        let changes = timeline.collect_changes(store, |call, _| taken_back.contains(call))?;
        let is_doubtful = |segments: &[Segment]| {
            let mut doubts = segments.iter().filter_map(|segment| segment.doubt);
            doubts.any(|doubt| !matches!(doubt, Doubt::Late | Doubt::UnknownEnd))
        };
        let (doubtful, certain): (Vec<_>, Vec<_>) =
            changes.paths.into_iter().partition(|(_, segments)| is_doubtful(segments));
        let paths = |changes: Vec<(RelPath, _)>| changes.into_iter().map(|(path, _)| path);
        let mut certain: BTreeSet<RelPath> = paths(certain).collect();
        let mut doubtful: BTreeSet<RelPath> = paths(doubtful).collect();
        let (mut last, mut open): (_, Vec<&CallRef>) = (None, Vec::new());
        for Checkpoint { pin, record } in events {
            if let Some(done) = &record.rollback {
                let changes = store.changed_paths(&pin.tree, &done.tree)?;
                let changes = changes.into_iter().map(|change| change.path);
                certain.extend(changes.filter(|path| done.is_about(path)));
                last = Some(done.tree);
            } else if let Some(call) = &record.call {
                match call.began {
                    Some(_) => {
                        open.retain(|known| known.id != call.id);
                        last = Some(pin.tree);
                    }
                    None => open.push(call),
                }
            }
        }
        certain.extend(open.iter().flat_map(|call| call.named.iter().cloned()));
        let is_everything = open.iter().any(|call| call.named.is_empty());
        doubtful.retain(|path| !is_everything && !certain.contains(path));
        Ok(ChangedFiles { certain, doubtful, is_everything, is_open: !open.is_empty(), last })
    }

    fn is_nothing(&self) -> bool {
        self.certain.is_empty() && self.doubtful.is_empty() && !self.is_everything
    }

    /// The paths that a plan has to look at; empty for all.
    fn paths(&self) -> Vec<RelPath> {
        let all = self.certain.union(&self.doubtful);
        all.filter(|_| !self.is_everything).cloned().collect()
    }

    /// True if only these events can have changed a path.
    fn is_certain(&self, path: &RelPath) -> bool {
        self.is_everything || self.certain.contains(path)
    }

    /// True if a file is still as the events left it, and was different before them.
    fn is_left_as_changed(&self, store: &Store, before: &Oid, place: &Path) -> bool {
        if self.is_open {
            let is_missing = |path: &Path| path.symlink_metadata().is_err();
            let was_there = |path: &RelPath| matches!(store.find_entry(before, path), Ok(Some(_)));
            return (self.is_everything && is_missing(place))
                || self
                    .certain
                    .iter()
                    .any(|path| was_there(path) && is_missing(&place.join(path.as_path())));
        }
        let Some(last) = &self.last else { return false };
        self.certain.iter().any(|path| {
            let then = store.find_entry(before, path).ok();
            let after = store.find_entry(last, path).ok();
            then.zip(after).is_some_and(|(then, after)| {
                then != after && is_on_disk(store, after, &place.join(path.as_path()))
            })
        })
    }
}

/// Returns true if the file or link at a path is as a tree has it. The mode does not count.
fn is_on_disk(store: &Store, entry: Option<(Mode, Oid)>, path: &Path) -> bool {
    let Some((mode, oid)) = entry else { return path.symlink_metadata().is_err() };
    let content = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => return mode.is_directory(),
        Ok(found) if found.is_symlink() => {
            fs::read_link(path).map(|target| target.into_os_string().into_vec())
        }
        _ => fs::read(path),
    };
    !mode.is_directory()
        && content.is_ok_and(|content| store.blob(&oid).is_ok_and(|known| known == content))
}

impl ElsewhereView {
    /// True if files are restored or deleted.
    pub fn changes_files(&self) -> bool {
        !self.restored.is_empty() || !self.deleted.is_empty()
    }

    fn of(group: &Planned, left: Vec<RelPath>) -> ElsewhereView {
        let view = &group.view;
        ElsewhereView {
            workspace: group.work.workspace.clone(),
            restored: view.restored.clone(),
            deleted: view.deleted.clone(),
            others: view.others.clone(),
            left,
            blocked: [&view.blocked[..], &view.skipped].concat(),
            safety_checkpoint: None,
        }
    }
}
