//! The plan for a rollback: a value that owns everything it needs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use takeback_tree::{
    AnyPath, BlockedPath, Filter, Head, KeptPath, Oid, Plan, RelPath, RestoreTarget, TreeEdit,
    Uncovered,
};

use super::elsewhere::ElsewhereView;
use super::turn::{Conflict, UncertainPath};
use crate::history::EffectView;
use crate::history::record::{Action, Chat, Checkpoint};

/// A planned rollback. It holds no lock and borrows nothing, so it can be shown, stored and sent
/// while the user decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planned {
    pub(super) work: PlannedWork,
    pub(super) view: RollbackView,
}

/// Everything that is needed to apply a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PlannedWork {
    /// The directory of the workspace, or the single file.
    pub(super) workspace: AnyPath,
    /// The device and inode of the workspace's directory when the plan was made; `None` if the
    /// directory did not exist. Another directory may be at the same path when the plan is applied.
    #[serde(default)]
    pub(super) root: Option<(u64, u64)>,
    pub(super) goal: Goal,
    /// The plan for the files; `None` if only the conversation is taken back.
    pub(super) files: Option<Plan>,
    /// The number of the newest checkpoint when the plan was made.
    pub(super) newest: u64,
    /// The sessions that had worked in the workspace when the plan was made.
    pub(super) sessions: BTreeSet<String>,
    /// The plans for the files outside the workspace.
    pub(super) elsewhere: Vec<Planned>,
}

/// The state to return to, and everything else that has to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Goal {
    pub(super) action: Action,
    /// The checkpoint that is shown to the user.
    pub(super) checkpoint: Oid,
    /// The copy of the repository's index to restore, if any.
    pub(super) index: Option<Oid>,
    pub(super) state: TargetState,
    /// The edits that produce the target. They are computed again whenever the plan is made again,
    /// because nothing keeps the edited tree in the store until the plan is applied.
    pub(super) edits: Option<TargetEdits>,
    /// The safety checkpoint of the rollback that this one reverses, and the state after that
    /// rollback.
    pub(super) reverses: Option<(Oid, Oid)>,
    pub(super) paths: Vec<RelPath>,
    /// The paths that are left unchanged, because the reversed rollback did not touch them, or
    /// because others may have changed them.
    pub(super) untouched: Vec<RelPath>,
    /// Paths that are captured regardless of the rules.
    pub(super) named: Vec<RelPath>,
    /// Paths that are restored even if they are guarded, because the calls that are taken back
    /// named them.
    #[serde(default)]
    pub(super) released: Vec<RelPath>,
    /// The conversations to move to another point, together with the files. The conversation of the
    /// checkpoint's own session comes first.
    pub(super) chats: Vec<Chat>,
    /// True if paths that cannot be restored are skipped.
    pub(super) skip_blocked: bool,
    /// The safety checkpoint of the main rollback, if this goal is the part of that rollback in
    /// another workspace.
    pub(super) part_of: Option<Oid>,
    /// The paths that cannot be restored and are left unchanged.
    pub(super) skipped: Vec<BlockedPath>,
    /// True if the checkpoint was imported. Its coverage is then known less precisely.
    pub(super) imported: bool,
}

/// The edits that produce the target of a goal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TargetEdits {
    /// The tree to edit; `None` for the current state, as for the undo of a turn.
    pub(super) base: Option<Oid>,
    pub(super) edits: Vec<TreeEdit>,
}

/// A tree, with the rules and coverage of its capture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TargetState {
    pub(super) tree: Oid,
    pub(super) filter: Filter,
    pub(super) uncovered: Vec<Uncovered>,
    #[serde(default)]
    pub(super) unsettled: Vec<RelPath>,
    #[serde(default)]
    pub(super) unprivileged: Vec<RelPath>,
}

/// The summary of what a rollback did, or would do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct RollbackView {
    pub action: Action,
    /// The row of the turn that is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
    pub checkpoint: Oid,
    /// The safety checkpoint; `None` in a plan, or if nothing had to be done.
    pub safety_checkpoint: Option<Oid>,
    pub restored: Vec<RelPath>,
    pub deleted: Vec<RelPath>,
    pub guarded: Vec<RelPath>,
    pub kept: Vec<KeptPath>,
    /// The names under which old files were saved, because another program wrote to them during the
    /// rollback.
    pub saved: Vec<RelPath>,
    pub uncovered: Vec<Uncovered>,
    /// The databases that were captured while they were being written to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<RelPath>,
    /// The restored files that are setuid or setgid: other users who run them act as this user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub privileged: Vec<RelPath>,
    /// The restored files that are no longer setuid or setgid, because another user owned them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unprivileged: Vec<RelPath>,
    /// The restored files that now belong to root, because it is unknown who may read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disowned: Vec<RelPath>,
    pub blocked: Vec<BlockedPath>,
    /// The paths that could not be restored and were left unchanged, as the request allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<BlockedPath>,
    /// The restored and deleted files that others changed after the agent had changed them.
    pub others: Vec<RelPath>,
    /// The files in which lines that the turn changed have been edited since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// The files that others may have changed during the turn. They are left unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<RelPath>,
    /// The files in `uncertain`, each with the reason why it is uncertain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<UncertainPath>,
    /// The parts of the rollback outside the workspace, where the turns being taken back changed
    /// files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<ElsewhereView>,
    pub effects: Vec<EffectView>,
    /// The conversation that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatView>,
    /// The conversations that are moved to another point, each with the numbers of messages that
    /// are taken back and restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<MovedSession>,
    pub undone_messages: usize,
    /// The number of messages that are restored to the conversation.
    pub redone_messages: usize,
    /// True if the repository's index is restored.
    pub index: bool,
    /// The move of HEAD since the checkpoint; `None` if HEAD has not moved.
    pub repository: Option<HeadMoved>,
    /// The failures that did not prevent the files from being restored.
    pub warnings: Vec<String>,
}

/// A conversation that is taken back with the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct ChatView {
    pub session: String,
    /// The first prompt that is taken back, for the user to send again or improve.
    pub prompt: Option<String>,
    /// Instructions for taking back the agent's own copy of the conversation.
    pub resume: Option<String>,
}

/// A conversation that a rollback moves to another point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct MovedSession {
    pub session: String,
    /// The number of messages that are taken back.
    pub undone_messages: usize,
    /// The number of messages that are restored to the conversation.
    pub redone_messages: usize,
    /// The number of turns that are taken back.
    #[serde(default)]
    pub undone_turns: usize,
    /// The first prompt that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Instructions for continuing the agent's own conversation from that point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// The reason why the agent's own conversation stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
}

/// Instructions for continuing an agent's own conversation after it was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct Resume {
    pub agent: String,
    /// The session to continue; `None` if the whole conversation was taken back.
    pub session: Option<String>,
    /// The command that starts the agent and continues the session.
    pub argv: Vec<String>,
    /// The directory to start the agent in.
    pub cwd: Option<String>,
    /// The line to type into the agent instead of the command, if the agent is already running.
    pub typed: Option<String>,
    /// The file of the conversation; `None` if the agent keeps all conversations in one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// True if the conversation is open in the agent and continues there from that point.
    #[serde(default)]
    pub in_place: bool,
}

/// A move of HEAD or of the branch in the workspace's own repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct HeadMoved {
    pub then: Head,
    pub now: Head,
    /// The git command that moves HEAD back.
    pub command: Option<String>,
}

impl Planned {
    /// Returns the summary of what will be done.
    pub fn view(&self) -> &RollbackView {
        &self.view
    }

    /// Drops the plan and returns its summary.
    pub fn into_view(self) -> RollbackView {
        self.view
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.view.changes_no_file()
            && !self.view.changes_files_elsewhere()
            && !self.work.goal.does_more_than_files()
    }

    /// Returns true if there are paths that cannot be restored.
    pub fn is_blocked(&self) -> bool {
        !self.view.blocked.is_empty()
    }

    /// Returns the id of the plan. Two plans have the same digest only if they make the same
    /// changes to the same state.
    pub fn digest(&self) -> Oid {
        let mut view = self.view.clone();
        // The processes that are writing to a file may differ from one plan to the next.
        view.blocked.iter_mut().chain(&mut view.skipped).for_each(|path| path.writers.clear());
        let view = serde_json::to_vec(&view).expect("plain data becomes JSON");
        let from = self.work.files.as_ref().map(|plan| plan.from.to_string()).unwrap_or_default();
        let to = self.work.goal.state.tree.to_string();
        Oid::of(takeback_tree::ObjectKind::Blob, &[view, from.into(), to.into()].concat())
    }
}

impl Goal {
    /// Returns true if the rollback has something to do besides restoring files.
    pub(super) fn does_more_than_files(&self) -> bool {
        // A reversal is recorded even if it changes nothing, so that the next reversal goes further
        // back.
        self.reverses.is_some() || self.index.is_some() || !self.chats.is_empty()
    }

    /// Adds blocked paths to the skipped ones.
    pub(super) fn skip(&mut self, blocked: Vec<BlockedPath>) {
        for path in blocked {
            if self.skipped.iter().all(|known| known.path != path.path) {
                self.skipped.push(path);
            }
        }
    }

    pub(super) fn target(&self) -> RestoreTarget<'_> {
        let TargetState { tree, filter, uncovered, .. } = &self.state;
        RestoreTarget {
            tree: *tree,
            filter,
            uncovered,
            undoes: self.reverses.map(|(_, led_to)| led_to),
            released: &self.released,
            silent: self.imported,
        }
    }
}

impl TargetState {
    pub(super) fn of(checkpoint: &Checkpoint) -> TargetState {
        TargetState {
            tree: checkpoint.pin.tree,
            filter: checkpoint.record.filter.clone(),
            uncovered: checkpoint.record.uncovered.clone(),
            unsettled: checkpoint.record.unsettled.clone(),
            unprivileged: checkpoint.record.unprivileged.clone(),
        }
    }
}

impl RollbackView {
    pub(super) fn new(goal: &Goal, warnings: Vec<String>) -> RollbackView {
        RollbackView {
            action: goal.action,
            row: None,
            checkpoint: goal.checkpoint,
            safety_checkpoint: None,
            restored: Vec::new(),
            deleted: Vec::new(),
            guarded: Vec::new(),
            kept: Vec::new(),
            saved: Vec::new(),
            uncovered: goal.state.uncovered.clone(),
            unsettled: goal.state.unsettled.clone(),
            privileged: Vec::new(),
            unprivileged: Vec::new(),
            disowned: Vec::new(),
            blocked: Vec::new(),
            skipped: Vec::new(),
            others: Vec::new(),
            conflicts: Vec::new(),
            uncertain: Vec::new(),
            doubts: Vec::new(),
            elsewhere: Vec::new(),
            effects: Vec::new(),
            chat: None,
            sessions: Vec::new(),
            undone_messages: 0,
            redone_messages: 0,
            index: goal.index.is_some(),
            repository: None,
            warnings,
        }
    }

    /// Adds the files whose owners or privileges the user should know about.
    pub(super) fn add_owners(&mut self, goal: &Goal, files: &Plan) {
        let noted = goal.state.unprivileged.iter().filter(|path| files.writes.contains(path));
        let unprivileged: BTreeSet<&RelPath> = noted.chain(&files.unprivileged).collect();
        self.unprivileged = unprivileged.into_iter().cloned().collect();
        self.privileged = files.privileged.clone();
        self.disowned = files.disowned.clone();
    }

    /// Returns true if no file in the workspace is restored or deleted.
    pub fn changes_no_file(&self) -> bool {
        self.restored.is_empty() && self.deleted.is_empty()
    }

    /// Returns true if files outside the workspace are restored or deleted.
    pub(super) fn changes_files_elsewhere(&self) -> bool {
        self.elsewhere.iter().any(ElsewhereView::changes_files)
    }
}
