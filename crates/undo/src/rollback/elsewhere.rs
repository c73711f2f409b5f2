//! Restores the files outside the workspace that the turns being taken back changed. Each such path
//! was captured as a workspace of its own.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use takeback_base::errors::error_chain;
use takeback_tree::{
    AnyPath, BlockedPath, KeptPath, KeptReason, Oid, Plan, RelPath, Store, StoreError, Workspace,
    WorkspaceError, WorkspaceId,
};

use super::apply::{check_root, leave_notices, restore_files};
use super::plan::{find_changed_since, plan_files};
use super::planned::{Goal, Planned, PlannedWork, RollbackView, TargetState};
use super::{Request, RollbackError, Scope};
use crate::Opened;
use crate::history::record::{Action, CallRef, Checkpoint, Kind, TurnId};
use crate::history::workspace::revive_workspace;
use crate::history::{History, RevivedDirectories, TakeError};

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
    /// The files that others changed since, and that stay as they are.
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
    if request.workspace_only || !request.paths.is_empty() || request.scope == Scope::Chat {
        return;
    }
    let calls = TakenBack::of(history, planned);
    let workspaces = store.pinned_workspaces().unwrap_or_default();
    for id in workspaces.into_iter().filter(|id| id != own) {
        let Ok(Some(info)) = store.workspace_info(&id) else { continue };
        let Ok(history) = History::read(store, &id) else { continue };
        let place = Place { opened, history: &history, path: &info.path, main: planned };
        let group = match &planned.work.goal.reverses {
            Some((safety, _)) => place.plan_reversal(*safety),
            None => place.plan_return(&calls),
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

/// Restores the parts of a rollback that are outside the workspace.
pub(super) fn apply_elsewhere(
    opened: &Opened,
    groups: Vec<Planned>,
    workspace: &Workspace<'_>,
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
fn remove_emptied(workspace: &Workspace<'_>, view: &mut RollbackView) {
    let (emptied, kept) = std::mem::take(&mut view.kept).into_iter().rev().partition(|kept| {
        kept.reason == KeptReason::NotEmpty && workspace.remove_if_empty(&kept.path)
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
    check_root(&workspace, &work)?;
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
        let _ = workspace.remove_root_if_empty();
    }
    Ok(view)
}

/// The session, the turn and the id of a call.
type CallKey = (String, TurnId, String);

fn key_of(call: &CallRef) -> CallKey {
    (call.session.clone(), call.turn.clone(), call.id.clone())
}

/// The calls that a plan takes back.
struct TakenBack {
    /// The turns that are taken back as a whole.
    turns: HashSet<(String, TurnId)>,
    /// The calls that were made in the workspace since the checkpoint.
    calls: HashSet<CallKey>,
    /// The calls that were made before. Agents reuse the names of turns.
    earlier: HashSet<CallKey>,
}

impl TakenBack {
    fn of(history: &History, planned: &Planned) -> TakenBack {
        let id = planned.work.goal.checkpoint;
        let seq = history.all.iter().find(|known| known.pin.id == id);
        let seq = seq.map_or(u64::MAX, |known| known.pin.name.seq);
        let undone = planned.view.row.filter(|_| planned.work.goal.action == Action::UndoTurn);
        let rows = history.rows().filter(|row| match undone {
            Some(number) => row.number == number,
            None => row.first().pin.name.seq >= seq,
        });
        let turns = rows.filter_map(|row| row.turn());
        let turns = turns.map(|(session, turn)| (session.to_owned(), turn.clone()));
        let turns: HashSet<(String, TurnId)> = turns.collect();
        let (mut calls, mut earlier) = (HashSet::new(), HashSet::new());
        for Checkpoint { pin, record } in &history.all {
            let Some(call) = &record.call else { continue };
            let began = call.began.as_ref().map(|began| began.seq + record.shift(pin));
            if began.unwrap_or(pin.name.seq) < seq {
                earlier.insert(key_of(call));
            } else if undone.is_none() {
                calls.insert(key_of(call));
            }
        }
        TakenBack { turns, calls, earlier }
    }

    fn contains(&self, call: &CallRef) -> bool {
        let key = key_of(call);
        let is_in_turn = self.turns.contains(&(call.session.clone(), call.turn.clone()));
        self.calls.contains(&key) || (is_in_turn && !self.earlier.contains(&key))
    }
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
    /// Plans to return to before the first call that is taken back, for the files that these calls
    /// changed.
    fn plan_return(&self, calls: &TakenBack) -> Result<Option<Group>, RollbackError> {
        let is_taken_back = |known: &&Checkpoint| {
            known.record.call.as_ref().is_some_and(|call| calls.contains(call))
        };
        let taken: Vec<&Checkpoint> = self.history.all.iter().filter(is_taken_back).collect();
        let first = taken.iter().find(|known| known.record.kind == Kind::Call);
        let Some(target) = first.copied() else { return Ok(None) };
        let store = self.opened.store()?;
        let changed = ChangedFiles::of(store, &taken)?;
        if changed.is_nothing() {
            return Ok(None);
        }
        let (workspace, revived) = self.open()?;
        let mut goal = self.goal(target);
        goal.paths = changed.paths;
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
        let mut left = Vec::new();
        if goal.action == Action::UndoTurn && (changed.is_open || !others.is_empty()) {
            // The undo of a turn keeps what others did since.
            left = std::mem::take(&mut others);
            if changed.is_open {
                // A file that is not there has no edits to keep.
                let is_there = |path: &&RelPath| {
                    workspace
                        .path()
                        .join(path.as_path())
                        .symlink_metadata()
                        .is_ok_and(|found| !found.is_dir())
                };
                let all = files.writes.iter().chain(&files.deletes);
                left = all.filter(is_there).cloned().collect();
            }
            goal.untouched = left.clone();
            files = plan_files(self.opened, &mut lock, &mut goal)?;
        }
        let _ = lock.finish(self.opened.system_time());
        Ok(self.make_group(revived.identity_of(&workspace), goal, files, others, left))
    }

    /// Plans to reverse the part of a rollback that was made here.
    fn plan_reversal(&self, reversed: Oid) -> Result<Option<Group>, RollbackError> {
        let part = self.history.all.iter().find_map(|safety| {
            let done = safety.record.rollback.as_ref()?;
            (done.part_of == Some(reversed)).then_some((safety, done))
        });
        let Some((safety, done)) = part else { return Ok(None) };
        let (workspace, revived) = self.open()?;
        let mut goal = self.goal(safety);
        goal.reverses = Some((safety.pin.id, done.tree));
        (goal.paths, goal.untouched) = (done.paths.clone(), done.skipped.clone());
        let mut lock = self.opened.lock(&workspace)?;
        let files = plan_files(self.opened, &mut lock, &mut goal)?;
        let others = find_changed_since(workspace.store(), &files, &done.tree);
        let _ = lock.finish(self.opened.system_time());
        let root = revived.identity_of(&workspace);
        Ok(self.make_group(root, goal, files, others, Vec::new()))
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
        root: Option<(u64, u64)>,
        goal: Goal,
        files: Plan,
        others: Vec<RelPath>,
        left: Vec<RelPath>,
    ) -> Option<Group> {
        let mut view = RollbackView::new(&goal, Vec::new());
        (view.restored, view.deleted) = (files.writes.clone(), files.deletes.clone());
        (view.blocked, view.skipped) = (files.blocked.clone(), goal.skipped.clone());
        view.others = others;
        view.add_owners(&goal, &files);
        if view.changes_no_file() && view.blocked.is_empty() && left.is_empty() {
            return None;
        }
        let work = PlannedWork {
            workspace: self.path.clone(),
            root,
            goal,
            files: Some(files),
            newest: self.history.newest(),
            sessions: self.history.sessions(),
            elsewhere: Vec::new(),
        };
        Some((Planned { work, view }, left))
    }
}

/// The files that calls changed in one place.
struct ChangedFiles {
    paths: Vec<RelPath>,
    /// True if all files may have been changed: a call never ended, or deleted the whole place.
    is_everything: bool,
    /// True if the end of a call is unknown.
    is_open: bool,
    /// The state after the last call whose end is known.
    last: Option<Oid>,
}

impl ChangedFiles {
    fn of(store: &Store, taken: &[&Checkpoint]) -> Result<ChangedFiles, RollbackError> {
        let (mut paths, mut last) = (Vec::new(), None);
        let mut ended: HashSet<&str> = HashSet::new();
        for Checkpoint { pin, record } in taken {
            let Some(call) = &record.call else { continue };
            let Some(began) = &call.began else { continue };
            ended.insert(&call.id);
            let changes = store.changed_paths(&began.tree, &pin.tree).map_err(StoreError::from)?;
            paths.extend(changes.into_iter().map(|change| change.path));
            last = Some(pin.tree);
        }
        let calls = taken.iter().filter_map(|known| known.record.call.as_ref());
        let open: Vec<&CallRef> = calls.filter(|call| !ended.contains(call.id.as_str())).collect();
        let is_everything = open.iter().any(|call| call.named.is_empty());
        paths.extend(open.iter().flat_map(|call| call.named.iter().cloned()));
        paths.sort();
        paths.dedup();
        if is_everything {
            paths.clear();
        }
        Ok(ChangedFiles { paths, is_everything, is_open: !open.is_empty(), last })
    }

    fn is_nothing(&self) -> bool {
        self.paths.is_empty() && !self.is_everything
    }
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
