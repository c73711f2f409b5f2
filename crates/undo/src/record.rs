//! The record of a checkpoint: what the message of its pin says.
//!
//! A subject line for people, an empty line, and one versioned JSON document.

use serde::{Deserialize, Serialize};
use takeback_ledger::{Redactor, Time};
use takeback_tree::{
    AnyPath, Filter, Oid, Pin, RelPath, Store, StoreError, Uncovered, WorkspaceId,
};

use crate::repository::Head;

const VERSION: u32 = 1;

/// Everything about a checkpoint besides its tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Of this document.
    pub version: u32,
    /// The number its pin was made with.
    pub seq: u64,
    /// RFC 3339 in UTC.
    pub time: String,
    /// The machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The directory.
    pub workspace: AnyPath,
    /// Why there is one.
    pub kind: Kind,
    /// The same in words, secrets masked.
    pub reason: String,
    /// What somebody calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is kept whatever the limits say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The tool call that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallOf>,
    /// Whether it is the first of its turn: agents use the same name for a turn again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// Whether the time limit had passed, so that the call may have begun before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// The state of the workspace's own repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Head>,
    /// For safety checkpoints: what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The commit that it was elsewhere, if it was brought in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Oid>,
    /// How many files and symlinks the tree has.
    pub files: Option<u64>,
    /// By which rules it was captured.
    pub filter: Filter,
    /// What it does not cover.
    pub uncovered: Vec<Uncovered>,
}

/// Why a checkpoint exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody asked for it.
    Manual,
    /// Taken before a tool call: the first of its turn is a row, the others are its steps.
    Call,
    /// Taken after a tool call. Not a row.
    After,
    /// Taken to tell changes apart: at the end of a turn, or before a call if only turns are
    /// kept. Not a row.
    State,
    /// Taken before a rollback. Not a row.
    Safety,
}

/// How an agent names a turn.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TurnId {
    /// By counting.
    Number(i64),
    /// By a name of its own.
    Name(String),
}

/// The tool call that a checkpoint was taken for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallOf {
    /// The agent.
    pub agent: String,
    /// The session, as in the ledger: the one that the user talks to.
    pub session: String,
    /// The session of the subagent that makes the call, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// The turn.
    pub turn: TurnId,
    /// The agent's name for the call, or ours.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Paths that the call names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<RelPath>,
    /// After a call: what was there before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Began>,
}

/// How it was when a call began.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Began {
    /// The tree.
    pub tree: Oid,
    /// The number that the next checkpoint had then: the order of beginnings and ends.
    pub seq: u64,
    /// RFC 3339 in UTC.
    pub time: String,
    /// What the tree did not cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<RelPath>,
    /// Whether it was captured too late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// What a safety checkpoint was taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// What was done.
    #[serde(default)]
    pub action: Action,
    /// The checkpoint that it went back to.
    pub to: Oid,
    /// The state that it led to: what is still as in it is what was done.
    pub tree: Oid,
    /// The paths that were asked for; none for everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RelPath>,
    /// If it undid or redid another: that one's safety checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<Oid>,
    /// Whether files were restored, or only the conversation.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub files: bool,
    /// Whether the repository's index went back as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub index: bool,
    /// The conversation that was undone with it, and from which message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
}

fn yes() -> bool {
    true
}

/// A conversation that a rollback takes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The session.
    pub session: String,
    /// The first message that is taken back.
    pub from_message: i64,
}

/// What was done to a workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A return to a checkpoint.
    #[default]
    Rollback,
    /// The reverse of a rollback.
    Undo,
    /// The reverse of that.
    Redo,
    /// A turn was taken back.
    UndoTurn,
}

impl Record {
    /// The message of the pin.
    pub fn message(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data becomes JSON");
        let subject: String =
            self.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{subject}\n\n{json}\n")
    }

    /// Reads the record out of the message of a pin.
    pub fn parse(message: &str) -> Result<Record, String> {
        let (_, json) = message.split_once("\n\n").ok_or("it has no record")?;
        let record: Record = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if record.version > VERSION {
            return Err(format!("its record has version {}: update takeback", record.version));
        }
        Ok(record)
    }

    /// A record with what every record has.
    pub fn new(workspace: AnyPath, seq: u64, now: Time, kind: Kind, reason: &str) -> Record {
        Record {
            version: VERSION,
            seq,
            time: now.rfc3339(),
            host: host(),
            workspace,
            kind,
            reason: tidy(reason),
            name: None,
            pinned: false,
            call: None,
            first: false,
            late: false,
            repository: None,
            rollback: None,
            imported: None,
            files: None,
            filter: Filter::default(),
            uncovered: Vec::new(),
        }
    }

    /// By how much the number of its pin grew since: histories are moved and imported.
    pub(crate) fn shift(&self, pin: &Pin) -> u64 {
        pin.name.seq.saturating_sub(self.seq)
    }

    /// When it was taken.
    pub fn moment(&self) -> Time {
        Time::parse(&self.time).unwrap_or_default()
    }

    /// The session and turn that it belongs to.
    pub fn turn(&self) -> Option<(&str, &TurnId)> {
        self.call.as_ref().map(|call| (call.session.as_str(), &call.turn))
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The longest reason that is kept.
const REASON: usize = 500;

/// A reason as it is kept: one line, not endless, without secrets and NUL.
pub(crate) fn tidy(reason: &str) -> String {
    let line: String = reason.trim().chars().map(|c| if c == '\0' { ' ' } else { c }).collect();
    let masked = Redactor::shared().text(&line);
    masked.chars().take(REASON).collect()
}

/// A checkpoint: a pinned tree and its record.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The pin.
    pub pin: Pin,
    /// What it says.
    pub record: Record,
}

impl Checkpoint {
    /// Its id as people see it.
    pub fn short_id(&self) -> String {
        self.pin.id.to_string()[..7].to_owned()
    }
}

/// The checkpoints of a workspace of all kinds, newest first, and what could not be read.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// Newest first.
    pub all: Vec<Checkpoint>,
    /// What is wrong with the others.
    pub unreadable: Vec<String>,
}

impl Checkpoints {
    /// Reads them all.
    pub fn of(store: &Store, workspace: &WorkspaceId) -> Result<Checkpoints, StoreError> {
        let mut found = Checkpoints::default();
        for name in store.pin_names(workspace)?.into_iter().rev() {
            // One that cannot be read must not hide the others.
            let read = match store.pin(&name) {
                Ok(None) => continue,
                Ok(Some(pin)) => {
                    Record::parse(&pin.message).map(|record| Checkpoint { pin, record })
                }
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(checkpoint) => found.all.push(checkpoint),
                Err(reason) => found.unreadable.push(format!("checkpoint {}: {reason}", name.seq)),
            }
        }
        Ok(found)
    }
}
