//! Planning: determines everything that has to be done for a request.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use takeback_base::paths::{canonicalize_or_keep, canonicalize_parent, normalize};
use takeback_tree::{
    AnyPath, KeptPath, KeptReason, Lock, Oid, Plan, RelPath, Store, StoreError, Uncovered,
    Workspace,
};

use super::conversation::{
    FoundConversations, count_messages, find_conversations, find_reversed_conversations,
    find_undone_turn,
};
use super::elsewhere::{add_elsewhere, find_rows_elsewhere};
use super::named_later::find_named_later;
use super::patterns::{ChosenPaths, expand_patterns, split_marks};
use super::planned::{Goal, Planned, PlannedWork, RollbackView, TargetEdits, TargetState};
use super::replaced::find_replaced;
use super::reversal::{Direction, find_reversible};
use super::story::{
    effects_since, find_moved_head, find_others_changes, warn_of_lost_repositories,
};
use super::turn::{CapturedPresent, find_turn};
use super::{Destination, Request, RollbackError, Scope, TurnUndo};
use crate::Opened;
use crate::history::record::{Action, Checkpoint};
use crate::history::workspace::{find_inner_history, find_workspace_with, revive_workspace};
use crate::history::{History, TakeError, WorkspaceRef, effects_of_row, find_workspace};

/// Plans a request. Changes no files, except to finish or revert an interrupted rollback.
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, Destination, OpenOptions, Opened, Request, rollback};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// std::fs::remove_file(project.join("cart.rs"))?;
/// std::fs::write(project.join("notes.txt"), "mine\n")?;
/// // Only this file, so the conversation and all other files stay as they are.
/// let mut request = Request::new(&project, Destination::Checkpoint("start".into()));
/// request.paths = vec![project.join("cart.rs")];
/// let planned = rollback::plan(&opened, &request)?;
/// assert_eq!(planned.view().restored[0].to_string(), "cart.rs");
/// assert!(planned.view().deleted.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn plan(opened: &Opened, request: &Request) -> Result<Planned, RollbackError> {
    let (workspace, revived) = revive_workspace(opened, &find_directory(opened, request)?)?;
    let chosen = relative_paths(&workspace, &request.directory, &request.paths)?;
    // Taking the lock finishes or reverts an interrupted rollback. The history is read after that.
    let mut lock = opened.lock(&workspace)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let mut planner = Planner { opened, workspace: &workspace, history: &history };
    let mut planned = match &request.to {
        Destination::Checkpoint(text) => planner.plan_return(&mut lock, text, &chosen, request),
        Destination::BeforeLastRollback => {
            planner.plan_reversal(&mut lock, Direction::Undo, request)
        }
        Destination::BeforeLastUndo => planner.plan_reversal(&mut lock, Direction::Redo, request),
        Destination::WithoutTurn(options) => planner.plan_turn_undo(&mut lock, options, request),
    }?;
    planned.work.root = revived.identity_of(&workspace);
    // A failure only slows down the next capture.
    let _ = lock.finish(opened.system_time());
    let (store, own) = (workspace.store(), workspace.id());
    add_elsewhere(opened, store, own, &history, request, &mut planned);
    warn_of_lost_repositories(opened, &workspace, &mut planned);
    Ok(planned)
}

/// Finds the path of the workspace that a request applies to. A directory with a history of its own
/// may have become part of a larger workspace. The request then applies to the larger workspace,
/// except in two cases: the request gives the id of a checkpoint in the directory's own history, or
/// the rollback to be reversed was made in that directory.
fn find_directory(opened: &Opened, request: &Request) -> Result<PathBuf, RollbackError> {
    let path = &request.directory;
    let direction = match &request.to {
        Destination::Checkpoint(text) => {
            return Ok(find_workspace_with(opened, path, text)?.path);
        }
        Destination::WithoutTurn(_) => return Ok(find_workspace(opened, path)?.path),
        Destination::BeforeLastRollback => Direction::Undo,
        Destination::BeforeLastUndo => Direction::Redo,
    };
    let around = find_workspace(opened, path)?;
    let Some(inner) = find_inner_history(opened, path).map_err(TakeError::from)? else {
        return Ok(around.path);
    };
    let find_time = |workspace: &WorkspaceRef<'_>| {
        let history = History::read(workspace.store, &workspace.id)?;
        let found = find_reversible(&history, direction).ok();
        let alone = found.filter(|(_, done)| done.part_of.is_none());
        Ok::<_, RollbackError>(alone.map(|(safety, _)| safety.record.moment()))
    };
    Ok(if find_time(&inner)? > find_time(&around)? { inner.path } else { around.path })
}

struct Planner<'a> {
    opened: &'a Opened,
    workspace: &'a Workspace<'a>,
    history: &'a History,
}

impl Planner<'_> {
    /// Plans to return to a checkpoint.
    fn plan_return(
        &mut self,
        lock: &mut Lock<'_>,
        text: &str,
        chosen: &ChosenPaths,
        request: &Request,
    ) -> Result<Planned, RollbackError> {
        let found = self.history.find(self.workspace.store(), text)?;
        let checkpoint = found.checkpoint;
        let mut warnings = Vec::new();
        // If only some files are restored, the workspace does not return to the state of the
        // checkpoint, so no conversation is moved.
        let wants_chat = request.scope != Scope::Files && chosen.is_everything();
        let chats = match wants_chat {
            true => {
                find_conversations(self.opened, self.history, &found, request.scope, &mut warnings)
            }
            false => FoundConversations::default(),
        };
        if request.scope == Scope::Chat && !chats.has_own {
            return Err(RollbackError::NoChat(checkpoint.short_id()));
        }
        if request.index && checkpoint.pin.attachment.is_none() {
            return Err(RollbackError::NoIndex(checkpoint.short_id()));
        }
        let mut state = TargetState::of(checkpoint);
        let store = self.workspace.store();
        let later = find_named_later(store, self.history, checkpoint, &mut state);
        let later = later.map_err(StoreError::from)?;
        let base = Some(state.tree);
        let edits = (!later.is_empty()).then_some(TargetEdits { base, edits: later });
        let mut goal = Goal {
            action: Action::Rollback,
            checkpoint: checkpoint.pin.id,
            index: checkpoint.pin.attachment.filter(|_| request.index),
            state,
            edits,
            reverses: None,
            paths: chosen.included.clone(),
            untouched: Vec::new(),
            named: self.history.named_paths(),
            released: self.history.named_since(checkpoint),
            chats: chats.moved,
            skip_blocked: request.skip_blocked,
            skipped: Vec::new(),
            part_of: None,
            imported: checkpoint.record.imported.is_some(),
        };
        let files = match request.scope {
            Scope::Chat => None,
            Scope::Both | Scope::Files => {
                expand_patterns(self.opened, lock, &mut goal, chosen, &request.paths)?;
                Some(self.plan_return_of_files(lock, checkpoint, &mut goal)?)
            }
        };
        let mut planned = self.finish_plan(goal, files, warnings);
        let view = &mut planned.view;
        let warnings = &mut view.warnings;
        view.effects =
            effects_since(self.opened, self.workspace, self.history, checkpoint, warnings);
        if let Some(files) = &planned.work.files {
            let named = &planned.work.goal.named;
            view.others =
                find_others_changes(self.workspace, self.history, checkpoint, files, named)?;
        }
        view.repository = find_moved_head(self.workspace, checkpoint);
        Ok(planned)
    }

    /// Plans the changes to files for a return to a checkpoint. Also brings back files that git
    /// replaced.
    fn plan_return_of_files(
        &self,
        lock: &mut Lock<'_>,
        checkpoint: &Checkpoint,
        goal: &mut Goal,
    ) -> Result<Plan, RollbackError> {
        let base = goal.state.tree;
        let files = plan_files(self.opened, lock, goal)?;
        if files.guarded.is_empty() {
            return Ok(files);
        }
        let (workspace, history) = (self.workspace, self.history);
        let reporting = find_reporting_agents(self.opened, workspace, history);
        let replaced =
            find_replaced(workspace, history, checkpoint, &files, &goal.named, &reporting)?;
        if replaced.is_empty() {
            return Ok(files);
        }
        goal.released.extend(replaced.iter().map(|edit| edit.path.clone()));
        let base = Some(base);
        goal.edits.get_or_insert(TargetEdits { base, edits: Vec::new() }).edits.extend(replaced);
        plan_files(self.opened, lock, goal)
    }

    /// Plans to undo the latest rollback, or to redo the latest undone rollback.
    fn plan_reversal(
        &mut self,
        lock: &mut Lock<'_>,
        direction: Direction,
        request: &Request,
    ) -> Result<Planned, RollbackError> {
        let (safety, done) = find_reversible(self.history, direction)?;
        let mut warnings = Vec::new();
        let chats = find_reversed_conversations(self.opened, self.history, safety, &mut warnings);
        let mut state = TargetState::of(safety);
        if done.action == Action::UndoTurn {
            // The undo of a turn captured each path that it touched, regardless of the rules.
            let was_looked_at = |uncovered: &Uncovered| {
                done.paths.iter().any(|path| path.starts_with(&uncovered.path))
            };
            state.uncovered.retain(|uncovered| !was_looked_at(uncovered));
        }
        let mut goal = Goal {
            action: match direction {
                Direction::Undo => Action::Undo,
                Direction::Redo => Action::Redo,
            },
            checkpoint: safety.pin.id,
            index: safety.pin.attachment.filter(|_| done.index),
            state,
            edits: None,
            reverses: Some((safety.pin.id, done.tree)),
            // A rollback of individual paths is reversed only for these paths.
            paths: done.paths.clone(),
            untouched: done.skipped.clone(),
            named: self.history.named_paths(),
            released: Vec::new(),
            chats,
            skip_blocked: request.skip_blocked,
            skipped: Vec::new(),
            part_of: None,
            imported: safety.record.imported.is_some(),
        };
        let files = match done.files {
            true => Some(plan_files(self.opened, lock, &mut goal)?),
            false => None,
        };
        let led_to = done.tree;
        let mut planned = self.finish_plan(goal, files, warnings);
        if let Some(files) = &planned.work.files {
            planned.view.others = find_changed_since(self.workspace.store(), files, &led_to);
        }
        Ok(planned)
    }

    /// Plans to take back a turn's changes while keeping later changes by others.
    fn plan_turn_undo(
        &mut self,
        lock: &mut Lock<'_>,
        options: &TurnUndo,
        request: &Request,
    ) -> Result<Planned, RollbackError> {
        let mut capture = |named: &[RelPath]| {
            let options = self.opened.capture_options(self.workspace.path(), named);
            Ok(lock.capture_present(&options)?)
        };
        let elsewhere = OnceCell::new();
        let find_elsewhere = || find_rows_elsewhere(self.workspace, self.history, request);
        let is_elsewhere = |row| elsewhere.get_or_init(find_elsewhere).contains(&row);
        let reporting = find_reporting_agents(self.opened, self.workspace, self.history);
        let (turn, present) = find_turn(
            self.workspace,
            self.history,
            &mut capture,
            &is_elsewhere,
            &reporting,
            options,
        )?;
        let CapturedPresent { capture: present, named } = present;
        let tree = lock.edit_tree(present.tree, &turn.edits)?;
        let paths = turn.touched_paths(self.workspace.store(), &present.tree, &tree)?;
        // These paths were captured before the turn and again just now, so they count as covered.
        let is_touched =
            |uncovered: &Uncovered| paths.iter().any(|path| path.starts_with(&uncovered.path));
        let mut uncovered = present.uncovered;
        uncovered.retain(|uncovered| !is_touched(uncovered));
        let checkpoint: &Checkpoint = turn.row.first();
        let mut warnings = turn.assumptions;
        // If some of the turn's changes stay, its conversation is not taken back either.
        let is_whole =
            turn.uncertain.is_empty() && turn.conflicts.iter().all(|conflict| conflict.resolved);
        let chats = match is_whole && request.scope != Scope::Files {
            true => find_undone_turn(self.opened, self.history, &turn.row, &mut warnings),
            false => Vec::new(),
        };
        let mut goal = Goal {
            action: Action::UndoTurn,
            checkpoint: checkpoint.pin.id,
            index: None,
            state: TargetState {
                tree,
                filter: present.filter,
                uncovered,
                unsettled: Vec::new(),
                unprivileged: present.unprivileged,
            },
            edits: Some(TargetEdits { base: None, edits: turn.edits }),
            reverses: None,
            // An empty list means all paths. That is harmless: without an edit, the target is the
            // current state.
            paths,
            untouched: Vec::new(),
            named,
            released: Vec::new(),
            chats,
            skip_blocked: request.skip_blocked,
            skipped: Vec::new(),
            part_of: None,
            imported: checkpoint.record.imported.is_some(),
        };
        let files = plan_files(self.opened, lock, &mut goal)?;
        let mut planned = self.finish_plan(goal, Some(files), warnings);
        let view = &mut planned.view;
        let kept = turn.not_covered.into_iter();
        view.kept.extend(kept.map(|path| KeptPath { path, reason: KeptReason::NotCovered }));
        view.row = Some(turn.row.number);
        view.effects = effects_of_row(self.opened, &WorkspaceRef::of(self.workspace), &turn.row);
        view.conflicts = turn.conflicts;
        view.uncertain = turn.uncertain.iter().map(|uncertain| uncertain.path.clone()).collect();
        view.doubts = turn.uncertain;
        Ok(planned)
    }

    /// Assembles a plan from the parts that every plan has.
    fn finish_plan(&self, goal: Goal, files: Option<Plan>, warnings: Vec<String>) -> Planned {
        let mut view = RollbackView::new(&goal, warnings);
        if let Some(files) = &files {
            view.restored = files.writes.clone();
            view.deleted = files.deletes.clone();
            view.guarded = files.guarded.clone();
            view.kept = files.kept.clone();
            view.blocked = files.blocked.clone();
            view.skipped = goal.skipped.clone();
            view.add_owners(&goal, files);
        }
        count_messages(self.opened, &goal, &mut view);
        let work = PlannedWork {
            workspace: AnyPath(self.workspace.subject()),
            root: None,
            goal,
            files,
            newest: self.history.newest(),
            sessions: self.history.sessions(),
            elsewhere: Vec::new(),
        };
        Planned { work, view }
    }
}

/// Finds the agents in a workspace that are known to report the ends of their calls, or that have
/// done so according to the ledger. Returns all agents in the workspace if reports may be missing,
/// because a checkpoint of the workspace has failed or the ledger cannot be read.
fn find_reporting_agents(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
) -> BTreeSet<String> {
    let calls = history.all.iter().flat_map(|known| known.record.calls());
    let mut agents: BTreeSet<String> = calls.map(|call| call.agent.clone()).collect();
    if opened.failure_log().has_missed(workspace.path()) {
        return agents;
    }
    let reported = match opened.ledger() {
        Ok(Some(ledger)) => ledger.agents_that_report_ends().ok(),
        Ok(None) => Some(BTreeSet::new()),
        Err(_) => None,
    };
    if let Some(reported) = reported {
        agents.retain(|agent| (opened.reports_ends)(agent) || reported.contains(agent));
    }
    agents
}

/// Finds which of the files to restore or delete have changed since the state `led_to`.
pub(super) fn find_changed_since(store: &Store, files: &Plan, led_to: &Oid) -> Vec<RelPath> {
    let is_changed = |path: &&RelPath| {
        let (left, present) = (store.find_entry(led_to, path), store.find_entry(&files.from, path));
        match (left, present) {
            (_, Ok(Some((mode, _)))) if mode.is_directory() => false,
            (Ok(left), Ok(present)) => left != present,
            // If a state cannot be read, the file may have changed.
            _ => true,
        }
    };
    files.writes.iter().chain(&files.deletes).filter(is_changed).cloned().collect()
}

/// Plans the changes to files that a goal requires. For the undo of a turn, computes the target
/// from the current state. If the request allows it, skips paths that cannot be restored.
pub(super) fn plan_files(
    opened: &Opened,
    lock: &mut Lock<'_>,
    goal: &mut Goal,
) -> Result<Plan, RollbackError> {
    loop {
        let options = opened.capture_options(lock.workspace().path(), &goal.named);
        if let Some(TargetEdits { base, edits }) = &goal.edits {
            let base = match base {
                Some(base) => *base,
                None => lock.capture_present(&options)?.tree,
            };
            goal.state.tree = lock.edit_tree(base, edits)?;
        }
        let skipped = goal.skipped.iter().map(|skipped| &skipped.path);
        let skipped: Vec<RelPath> = skipped.chain(&goal.untouched).cloned().collect();
        let mut plan = lock.plan_without(&goal.target(), &goal.paths, &skipped, &options)?;
        lock.name_writers(&mut plan.blocked);
        let known = goal.skipped.len();
        if goal.skip_blocked {
            goal.skip(plan.blocked.clone());
        }
        if goal.skipped.len() == known {
            return Ok(plan);
        }
    }
}

/// Turns the paths that a user gave into paths inside the workspace. Patterns are not expanded, and
/// a link at the end of a path is not followed.
pub fn relative_paths(
    workspace: &Workspace<'_>,
    directory: &std::path::Path,
    typed: &[PathBuf],
) -> Result<ChosenPaths, RollbackError> {
    let root = workspace.path();
    // Relative paths are relative to the user's directory, which may be below the root of the
    // workspace.
    let directory = canonicalize_or_keep(directory);
    let base = if directory.is_dir() { directory } else { root.to_owned() };
    let mut chosen = ChosenPaths::default();
    for typed in typed {
        let outside = || RollbackError::Outside { path: typed.clone(), workspace: root.to_owned() };
        let (marks, inner) = split_marks(typed);
        let path = normalize(&if marks.is_from_top { root } else { base.as_path() }.join(inner));
        // The root is canonical, but a path that the user typed may reach it through links.
        let path = if path.starts_with(root) { path } else { canonicalize_parent(&path) };
        let inner = path.strip_prefix(root).map_err(|_| outside())?;
        let path = RelPath::from_path(inner).map_err(|_| outside())?;
        if marks.is_excluded { &mut chosen.excluded } else { &mut chosen.included }.push(path);
    }
    Ok(chosen)
}
