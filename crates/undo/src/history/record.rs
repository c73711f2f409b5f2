//! The record of a checkpoint, which is the message of its pin: a subject line for human readers,
//! an empty line, and one versioned JSON document.

use serde::{Deserialize, Serialize};
use takeback_ledger::{CallId, ConversationPoint, Redactor, Time};
use takeback_tree::{
    AnyPath, Capture, Filter, Head, Oid, Pin, RelPath, Store, StoreError, Uncovered, WorkspaceId,
};

use super::labels::apply_labels;

const VERSION: u32 = 1;

/// Everything about a checkpoint except its tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Record {
    /// The version of the format.
    pub version: u32,
    /// The number that the pin had when it was created.
    pub seq: u64,
    /// The time of the capture: RFC 3339 in UTC.
    pub time: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    pub workspace: AnyPath,
    pub kind: Kind,
    /// The reason in words, with secrets masked.
    pub reason: String,
    /// The name that the user gave the checkpoint. It protects the checkpoint from pruning, as
    /// `pinned` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the checkpoint is never pruned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The tool call that the checkpoint was taken for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    /// True if this is the first checkpoint of its turn. The name of the turn cannot show this,
    /// because agents reuse names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// True if the agent had moved on before the capture was complete. The tree may then include
    /// changes that the call made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// The time of the prompt that began the call's turn: RFC 3339 in UTC. It identifies the turn
    /// in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompted: Option<String>,
    /// The state of the workspace's own repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Head>,
    /// The rollback that followed a safety checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackRecord>,
    /// The rollback that a safety checkpoint was taken for, until that rollback is complete. If the
    /// rollback fails, the checkpoint may remain even though no rollback was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<RollbackRecord>,
    /// For an imported checkpoint, its commit in the other program's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Oid>,
    /// The number of files and symlinks in the tree.
    pub files: Option<u64>,
    /// The rules that the capture followed.
    pub filter: Filter,
    /// The paths that the tree does not cover, with the reasons.
    pub uncovered: Vec<Uncovered>,
    /// The databases that were captured while they were being written to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<RelPath>,
    /// Earlier calls whose ends were not reported. The end of `call` was not reported either. Set
    /// only in the record of the state at the end of a turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unended: Vec<CallRef>,
    /// The files whose setuid or setgid bits the tree leaves out, because another user owned them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unprivileged: Vec<RelPath>,
}

/// The reason why a checkpoint exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Taken at the user's request.
    Manual,
    /// Taken before a tool call. The first such checkpoint of a turn is a row; the later ones are
    /// steps of that row.
    Call,
    /// Taken after a tool call. Not a row.
    After,
    /// Taken to find out who changed what: at the end of a turn, or before a call that gets no
    /// checkpoint. Not a row.
    State,
    /// Taken before a rollback. Not a row.
    Safety,
}

/// The agent's name for a turn.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TurnId {
    /// The number of the turn, for agents that count turns.
    Number(i64),
    /// A name that the agent chose.
    Name(String),
}

/// The tool call that a checkpoint was taken for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CallRef {
    pub agent: String,
    /// The id of the session that the user talks to, as in the ledger.
    pub session: String,
    /// The id of the subagent's session, if a subagent made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    pub turn: TurnId,
    /// The agent's name for the call, or a generated one if the agent gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Paths that the call names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<RelPath>,
    /// Paths that the call's script writes, as far as the analysis of the script can tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<RelPath>,
    /// True if the call runs a script, which may change more than the call names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub script: bool,
    /// True if the script is known to change nothing but `named` and `writes`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bounded: bool,
    /// The state before the call. Set only in the record of a state after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Began>,
    /// In records about a directory or file outside the session's workspace, the newest checkpoint
    /// that the session's workspace had when the call began. It shows the position of the call
    /// among the workspace's checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<NewestCheckpoint>,
}

/// The newest checkpoint of a workspace at some moment. It is identified by the workspace path and
/// the checkpoint number in its record, because these do not change when a history is moved or
/// renumbered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct NewestCheckpoint {
    pub workspace: AnyPath,
    pub seq: u64,
}

impl CallRef {
    /// Returns true if the call is a command that `takeback run` runs.
    pub(crate) fn is_run(&self) -> bool {
        self.agent == "run" && self.tool == "run"
    }

    /// Returns true if this is not a call, but the prompt that begins the turn. Only a prompt has
    /// neither an id nor a tool.
    pub(crate) fn is_prompt(&self) -> bool {
        self.id.is_empty() && self.tool.is_empty()
    }

    /// Returns the session that made the call: a subagent's, or the one that the user talks to.
    pub(crate) fn reporter(&self) -> &str {
        self.subagent.as_deref().unwrap_or(&self.session)
    }
}

/// The state of the workspace when a call began.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Began {
    pub tree: Oid,
    /// The next free checkpoint number when the call began. It shows the order in which calls began
    /// and ended.
    pub seq: u64,
    /// The time of the capture: RFC 3339 in UTC.
    pub time: String,
    /// The paths that the tree does not cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<RelPath>,
    /// True if the agent had moved on before the capture was complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// A rollback, in the record of its safety checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RollbackRecord {
    #[serde(default)]
    pub action: Action,
    /// The checkpoint that the workspace returned to.
    pub to: Oid,
    /// The state after the rollback. A file that is still the same as in this tree has not changed
    /// since the rollback.
    pub tree: Oid,
    /// The paths that the rollback was limited to; empty if it was not limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RelPath>,
    /// The safety checkpoint of the rollback that this one reverses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<Oid>,
    /// True if files were restored; false if only the conversation was taken back.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub files: bool,
    /// True if the repository's index was also restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub index: bool,
    /// The conversation of the checkpoint's session, if the rollback changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
    /// For a part of a rollback in another workspace, the safety checkpoint of the main rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Oid>,
    /// The paths that could not be restored and were left unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<RelPath>,
    /// The other conversations that the rollback changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_chats: Vec<Chat>,
}

impl RollbackRecord {
    /// Returns the conversations that the rollback changed.
    pub fn chats(&self) -> impl Iterator<Item = &Chat> {
        self.chat.iter().chain(&self.other_chats)
    }

    /// Returns true if the rollback applied to a path.
    pub(crate) fn is_about(&self, path: &RelPath) -> bool {
        let is_in = |paths: &[RelPath]| paths.iter().any(|above| path.starts_with(above));
        (self.paths.is_empty() || is_in(&self.paths)) && !is_in(&self.skipped)
    }

    /// Returns true if the rollback returned all files to the state of a checkpoint.
    pub(crate) fn is_whole(&self) -> bool {
        self.files && self.paths.is_empty() && self.action != Action::UndoTurn
    }
}

fn yes() -> bool {
    true
}

/// A conversation that a rollback changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Chat {
    pub session: String,
    /// The first message that is taken back.
    pub from_message: i64,
    /// The point that the conversation returns to. Older versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ConversationPoint>,
}

impl Chat {
    /// Describes the return of a session's conversation to a point.
    pub(crate) fn new(session: &str, to: ConversationPoint) -> Chat {
        let from_message = match to {
            ConversationPoint::BeforeMessage(seq) => seq,
            ConversationPoint::AfterMessage(seq) => seq + 1,
            ConversationPoint::BeforeRewind(_) => 0,
        };
        Chat { session: session.to_owned(), from_message, to: Some(to) }
    }

    /// Returns the point that the conversation returns to.
    pub(crate) fn point(&self) -> ConversationPoint {
        self.to.unwrap_or(ConversationPoint::BeforeMessage(self.from_message))
    }
}

/// The kinds of rollbacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A return to a checkpoint.
    #[default]
    Rollback,
    /// The reversal of a rollback or of the undo of a turn: `rollback undo`.
    Undo,
    /// The reversal of a `rollback undo`: `rollback redo`.
    Redo,
    /// The undo of one turn, which keeps later changes by others.
    UndoTurn,
}

impl Record {
    /// Formats the record as the message of a pin.
    pub fn message(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data becomes JSON");
        let subject: String =
            self.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{subject}\n\n{json}\n")
    }

    /// Parses the message of a pin.
    pub fn parse(message: &str) -> Result<Record, String> {
        let (_, json) = message.split_once("\n\n").ok_or("it has no record")?;
        let record: Record = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if record.version > VERSION {
            return Err(format!("its record has version {}: update takeback", record.version));
        }
        Ok(record)
    }

    /// Creates a record with the fields that every record needs.
    pub fn new(workspace: AnyPath, seq: u64, now: Time, kind: Kind, reason: &str) -> Record {
        Record {
            version: VERSION,
            seq,
            time: now.rfc3339(),
            host: host_name(),
            workspace,
            kind,
            reason: clean_reason(reason),
            name: None,
            pinned: false,
            call: None,
            first: false,
            late: false,
            prompted: None,
            repository: None,
            rollback: None,
            attempt: None,
            imported: None,
            files: None,
            filter: Filter::default(),
            uncovered: Vec::new(),
            unsettled: Vec::new(),
            unended: Vec::new(),
            unprivileged: Vec::new(),
        }
    }

    /// Adds the rules and the coverage of a capture.
    pub(crate) fn with_capture(self, capture: Capture) -> Record {
        Record {
            files: Some(capture.files),
            filter: capture.filter,
            uncovered: capture.uncovered,
            unsettled: capture.unsettled,
            unprivileged: capture.unprivileged,
            ..self
        }
    }

    /// Returns the difference between the pin's current number and the number in the record: moving
    /// or importing a history renumbers its pins.
    pub(crate) fn shift(&self, pin: &Pin) -> u64 {
        pin.name.seq.saturating_sub(self.seq)
    }

    /// Returns the time of the capture.
    pub fn moment(&self) -> Time {
        Time::parse(&self.time).unwrap_or_default()
    }

    /// Returns the calls that the record is about, in the order in which they began.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallRef> {
        self.unended.iter().chain(&self.call)
    }

    /// Returns the paths that are captured from now on, regardless of the rules: the paths that the
    /// calls name, and uncovered paths that were changed by the undo of a turn.
    pub(crate) fn named_paths(&self) -> impl Iterator<Item = &RelPath> {
        let undone = self.rollback.iter().filter(|done| done.action == Action::UndoTurn);
        let uncovered = undone.flat_map(|done| &done.paths).filter(|path| {
            self.uncovered.iter().any(|uncovered| path.starts_with(&uncovered.path))
        });
        self.calls().flat_map(|call| &call.named).chain(uncovered)
    }

    /// Returns true if this capture may contain a path that an older capture does not cover: a call
    /// named the path or swept its directory, or the rules have changed. The capture before a
    /// rollback of files contains all paths that any call named.
    pub(crate) fn may_cover_more_than(&self, older: &Record) -> bool {
        let is_before_rollback = self.rollback.as_ref().is_some_and(|done| done.files);
        let is_left_out = |path: &RelPath| self.uncovered.iter().any(|known| known.path == *path);
        let is_above = |path: &RelPath, other: &RelPath| path.starts_with(other);
        older.uncovered.iter().any(|Uncovered { path, .. }| {
            let mut named = self.named_paths();
            is_before_rollback
                || !is_left_out(path)
                || named.any(|named| is_above(named, path) || is_above(path, named))
        })
    }

    /// Returns the identity of the call in the ledger.
    pub(crate) fn call_id(&self) -> Option<CallId<'_>> {
        let call = self.call.as_ref()?;
        Some(CallId {
            session: &call.session,
            reporter: call.reporter(),
            call: &call.id,
            began: self.moment(),
            late: self.late,
            prompted: self.prompted.as_deref().and_then(Time::parse),
        })
    }

    /// Returns true if the checkpoint is never pruned: it is pinned or has a name.
    pub fn is_protected(&self) -> bool {
        self.pinned || self.name.is_some()
    }

    /// Returns the session and turn that the checkpoint belongs to.
    pub fn turn(&self) -> Option<(&str, &TurnId)> {
        self.call.as_ref().map(|call| (call.session.as_str(), &call.turn))
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The maximum length of a reason, in characters. A longer reason is cut off.
const MAX_REASON: usize = 500;

/// Prepares a reason for storage: masks secrets, replaces NUL characters and limits the length.
pub fn clean_reason(reason: &str) -> String {
    let line: String = reason.trim().chars().map(|c| if c == '\0' { ' ' } else { c }).collect();
    let masked = Redactor::shared().mask_text(&line);
    masked.chars().take(MAX_REASON).collect()
}

/// A checkpoint: a pinned tree and its record.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Checkpoint {
    pub pin: Pin,
    pub record: Record,
}

impl Checkpoint {
    /// Returns the id as the list shows it.
    pub fn short_id(&self) -> String {
        self.pin.id.to_string()[..7].to_owned()
    }

    /// Returns the number that was the next free checkpoint number when `call` began. `call` is one
    /// of this checkpoint's calls.
    pub(crate) fn start_of(&self, call: &CallRef) -> u64 {
        let began = call.began.as_ref().map(|began| began.seq + self.record.shift(&self.pin));
        began.unwrap_or(self.pin.name.seq)
    }
}

/// All checkpoints of a workspace.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// The checkpoints of all kinds, newest first.
    pub all: Vec<Checkpoint>,
    /// The reasons why some checkpoints could not be read.
    pub unreadable: Vec<String>,
}

/// Reads all checkpoints of a workspace.
pub fn read_checkpoints(store: &Store, workspace: &WorkspaceId) -> Result<Checkpoints, StoreError> {
    let mut found = Checkpoints::default();
    let names = store.pin_names(workspace)?;
    let reader = store.pin_reader();
    for name in names.into_iter().rev() {
        // A checkpoint that cannot be read must not hide the others.
        let read = match reader.read(&name) {
            Ok(None) => continue,
            Ok(Some(pin)) => Record::parse(&pin.message).map(|record| Checkpoint { pin, record }),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(checkpoint) => found.all.push(checkpoint),
            Err(reason) => found.unreadable.push(format!("checkpoint {}: {reason}", name.seq)),
        }
    }
    apply_labels(store, workspace, &mut found.all);
    Ok(found)
}
