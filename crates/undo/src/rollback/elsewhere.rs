//! Restores the files outside the workspace that were changed by the turns being taken back. Each
//! such path was captured as a workspace of its own.

mod changed_files;
mod emptied;
mod events;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::errors::error_chain;
use takeback_tree::{
    AnyPath, BlockedPath, Oid, Plan, RelPath, Store, StoreError, Workspace, WorkspaceError,
    WorkspaceId, WorkspaceInfo,
};

use self::changed_files::ChangedFiles;
use self::emptied::{plan_emptied, remove_emptied};
use self::events::{TakenBack, find_target};
use super::apply::{check_root, leave_notices, restore_files};
use super::plan::{find_changed_since, plan_files};
use super::planned::{Goal, Planned, PlannedWork, RollbackView, TargetState};
use super::{Request, RollbackError, Scope};
use crate::Opened;
use crate::history::record::{Action, Checkpoint};
use crate::history::workspace::revive_workspace;
use crate::history::{History, RevivedDirectories, TakeError};

/// A part of a rollback that is outside the workspace: one directory or file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct ElsewhereView {
    pub workspace: AnyPath,
    pub restored: Vec<RelPath>,
    pub deleted: Vec<RelPath>,
    /// The restored and deleted files that others changed after the agent had changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<RelPath>,
    /// The files that are left unchanged, because others may have changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<RelPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedPath>,
    pub safety_checkpoint: Option<Oid>,
    /// The reason why everything in this part is left unchanged, if the part failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Adds plans for the files outside the workspace that were changed by the turns being taken back.
/// If the request has paths, adds plans only for the repositories below them. A failure is recorded
/// in the view, so that the workspace itself can still be restored.
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
    // If the user asks for particular paths, only the repositories below them belong to the
    // request.
    let root = planned.work.workspace.0.clone();
    let asked: Vec<PathBuf> =
        planned.work.goal.paths.iter().map(|path| root.join(path.as_path())).collect();
    let is_asked =
        |path: &Path| request.paths.is_empty() || asked.iter().any(|asked| path.starts_with(asked));
    let mut failed = Vec::new();
    for (info, history) in read_others(store, own) {
        if !is_asked(&info.path.0) {
            continue;
        }
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
            // The parent directory is gone or not mounted.
            Err(error) if !has_parent(&info.path.0) => {
                let (path, error) = (info.path.0.display(), error_chain(&error));
                planned.view.warnings.push(format!("{path} is left unchanged: {error}"));
            }
            Err(error) => failed.push(ElsewhereView::failed(info.path, &error)),
        }
    }
    // The failed parts come last, so that the views before them correspond to the plans one to one.
    planned.view.elsewhere.extend(failed);
    plan_emptied(planned);
}

fn has_parent(path: &Path) -> bool {
    path.parent().is_some_and(Path::is_dir)
}

/// Returns true if a request also applies to files outside the workspace.
fn reaches_elsewhere(request: &Request) -> bool {
    !request.workspace_only && request.scope != Scope::Chat
}

/// Reads the histories of all other workspaces. A directory comes before the repository in it.
fn read_others<'s>(
    store: &'s Store,
    own: &WorkspaceId,
) -> impl Iterator<Item = (WorkspaceInfo, History)> + use<'s> {
    let others = store.pinned_workspaces().unwrap_or_default().into_iter().filter(|id| id != own);
    let with_info = |id| Some((store.workspace_info(&id).ok()??, id));
    let mut others: Vec<(WorkspaceInfo, WorkspaceId)> = others.filter_map(with_info).collect();
    others.sort_by(|(one, _), (other, _)| one.path.0.cmp(&other.path.0));
    others.into_iter().filter_map(|(info, id)| Some((info, History::read(store, &id).ok()?)))
}

/// Finds the rows whose undo would restore files outside the workspace. Reads the history of each
/// other workspace only once, because there can be many. Takes no lock: the caller holds the
/// workspace's lock.
pub(super) fn find_rows_elsewhere(
    workspace: &Workspace<'_>,
    history: &History,
    request: &Request,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    if !reaches_elsewhere(request) {
        return found;
    }
    let store = workspace.store();
    let rows = history.standing().in_force.into_iter();
    let mut rows: Vec<(usize, TakenBack)> =
        rows.map(|row| (row, TakenBack::of_row(history, row))).collect();
    for (info, other) in read_others(store, workspace.id()) {
        let above = info.path.0.parent().filter(|_| info.single_file);
        let directory = above.unwrap_or(&info.path.0);
        rows.retain(|(row, taken_back)| {
            let has_changes = has_changes_in(store, &other, directory, taken_back);
            if has_changes {
                found.insert(*row);
            }
            !has_changes
        });
    }
    found
}

/// Returns true if files in a directory outside the workspace are still as the given events left
/// them.
fn has_changes_in(
    store: &Store,
    history: &History,
    directory: &Path,
    taken_back: &TakenBack,
) -> bool {
    let events = taken_back.find_events(history);
    let Some(target) = find_target(history, &events) else { return false };
    let changed = ChangedFiles::of(store, history, taken_back, &events);
    changed.is_ok_and(|changed| changed.is_left_as_changed(store, &target.pin.tree, directory))
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
        if group.view.changes_no_file() && group.view.blocked.is_empty() {
            continue;
        }
        match apply_group(opened, group, workspace.path(), safety) {
            Ok(done) => {
                (shown.restored, shown.deleted) = (done.restored, done.deleted);
                (shown.blocked, shown.safety_checkpoint) = (done.skipped, done.safety_checkpoint);
                view.warnings.extend(done.warnings);
            }
            Err(error) => {
                (shown.restored, shown.deleted) = (Vec::new(), Vec::new());
                shown.error = Some(error_chain(&error));
            }
        }
    }
    remove_emptied(workspace, view);
}

pub(super) fn apply_group(
    opened: &Opened,
    group: Planned,
    around: &Path,
    part_of: Oid,
) -> Result<RollbackView, RollbackError> {
    let Planned { mut work, mut view } = group;
    work.goal.part_of = Some(part_of);
    if work.workspace.0.starts_with(around) && !work.workspace.0.ends_with(".git") {
        // The rollback of the workspace may have restored some of these files, so plan again.
        work.files = None;
    }
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
        // This fails unless the directory is empty. An empty `.git` is not a repository, but it
        // would hide a repository above it.
        let _ = workspace.remove_root_if_empty();
    }
    Ok(view)
}

/// Returns true if a part of a rollback has been restored. If the restore of that part was
/// interrupted, finishes or reverts it first.
pub(super) fn is_restored(
    opened: &Opened,
    group: &Planned,
    safety: Oid,
) -> Result<bool, RollbackError> {
    let (workspace, _revived) = revive_workspace(opened, &group.work.workspace.0)?;
    drop(opened.lock(&workspace)?);
    let history = History::read(workspace.store(), workspace.id())?;
    let mut done = history.all.iter().filter_map(|known| known.record.rollback.as_ref());
    Ok(done.any(|done| done.part_of == Some(safety)))
}

/// A plan for one directory or file outside the workspace, and the files in it that are left
/// unchanged.
type Group = (Planned, Vec<RelPath>);

/// A directory or file outside the workspace, which has a history of its own.
struct Place<'a> {
    opened: &'a Opened,
    history: &'a History,
    path: &'a AnyPath,
    /// The plan for the workspace.
    main: &'a Planned,
}

impl Place<'_> {
    /// Plans to restore the files that were changed by the events being taken back. The files
    /// return to their state before the first of these events.
    fn plan_return(&self, taken_back: &TakenBack) -> Result<Option<Group>, RollbackError> {
        let events = taken_back.find_events(self.history);
        let Some(target) = find_target(self.history, &events) else { return Ok(None) };
        let store = self.opened.store()?;
        let changed =
            ChangedFiles::of(store, self.history, taken_back, &events).map_err(StoreError::from)?;
        if changed.is_nothing() {
            return Ok(None);
        }
        let (workspace, revived) = self.open()?;
        let mut goal = self.goal(target);
        goal.paths = changed.paths();
        let mut lock = self.opened.lock(&workspace)?;
        // A file that the calls created and then deleted does not have to be restored.
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
        // Files that others may have changed are left unchanged. The undo of a turn also keeps
        // later edits.
        let is_undo = goal.action == Action::UndoTurn;
        let is_file = |path: &&RelPath| {
            let found = workspace.path().join(path.as_path()).symlink_metadata();
            found.is_ok_and(|found| !found.is_dir())
        };
        let is_left = |path: &&RelPath| match is_undo {
            // A missing file has no edits to keep.
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
        Ok(self.make_group(revived.identity_of(&workspace), goal, files, others, left))
    }

    /// Plans to reverse the part of an earlier rollback that restored this file, or files in this
    /// directory.
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

    /// Opens the directory or file as a workspace. If it is missing, it is recreated. If its parent
    /// directory is also missing, this fails, because that directory may be on another machine or
    /// disk. Directories that the rollback itself restores need not exist yet.
    fn open(&self) -> Result<(Workspace<'_>, RevivedDirectories), RollbackError> {
        let path = &self.path.0;
        let PlannedWork { workspace, elsewhere, .. } = &self.main.work;
        let groups = elsewhere.iter().map(|group| &group.work.workspace);
        let is_inside = groups.chain([workspace]).any(|place| path.starts_with(&place.0));
        if !is_inside && !has_parent(path) {
            let source = io::Error::new(io::ErrorKind::NotFound, "its parent directory is missing");
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
            released: Vec::new(),
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

impl ElsewhereView {
    /// Returns true if files are restored or deleted.
    pub fn changes_files(&self) -> bool {
        !self.restored.is_empty() || !self.deleted.is_empty()
    }

    fn new(workspace: AnyPath) -> ElsewhereView {
        ElsewhereView {
            workspace,
            restored: Vec::new(),
            deleted: Vec::new(),
            others: Vec::new(),
            left: Vec::new(),
            blocked: Vec::new(),
            safety_checkpoint: None,
            error: None,
        }
    }

    fn of(group: &Planned, left: Vec<RelPath>) -> ElsewhereView {
        let view = &group.view;
        ElsewhereView {
            restored: view.restored.clone(),
            deleted: view.deleted.clone(),
            others: view.others.clone(),
            left,
            blocked: [&view.blocked[..], &view.skipped].concat(),
            ..ElsewhereView::new(group.work.workspace.clone())
        }
    }

    fn failed(workspace: AnyPath, error: &RollbackError) -> ElsewhereView {
        ElsewhereView { error: Some(error_chain(error)), ..ElsewhereView::new(workspace) }
    }
}
