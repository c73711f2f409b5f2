//! The record of a checkpoint: what the message of its pin says.
//!
//! A subject line for people, an empty line, and one versioned JSON document.

use serde::{Deserialize, Serialize};
use takeback_tree::{AnyPath, Filter, Oid, Pin, RelPath, Store, Uncovered, Workspace};

use crate::failure::Failure;

const VERSION: u32 = 1;

/// Everything about a checkpoint besides its tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    pub(crate) seq: u64,
    /// RFC 3339, in UTC.
    pub(crate) time: String,
    pub(crate) workspace: AnyPath,
    pub(crate) kind: Kind,
    pub(crate) reason: String,
    /// For safety checkpoints: what the rollback went back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<Rollback>,
    pub(crate) files: Option<u64>,
    pub(crate) filter: Filter,
    pub(crate) uncovered: Vec<Uncovered>,
}

/// Why a checkpoint exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Somebody asked for it.
    Manual,
    /// Taken before a rollback. Not a row of the list.
    Safety,
}

/// The rollback that a safety checkpoint was taken for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rollback {
    /// The checkpoint that it went back to.
    pub(crate) to: Oid,
    /// That one's tree: what is still as in it is what the rollback did.
    pub(crate) tree: Oid,
    /// The paths that were asked for; none for everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<RelPath>,
    /// If it undid a rollback: the number of that one's safety checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undoes: Option<u64>,
}

impl Record {
    pub(crate) fn new(
        workspace: &Workspace<'_>,
        seq: u64,
        now: jiff::Timestamp,
        kind: Kind,
    ) -> Record {
        Record {
            version: VERSION,
            seq,
            time: now.to_string(),
            workspace: AnyPath::from(workspace.path()),
            kind,
            reason: String::new(),
            rollback: None,
            files: None,
            filter: Filter::default(),
            uncovered: Vec::new(),
        }
    }

    /// The message of the pin.
    pub(crate) fn message(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data becomes JSON");
        format!("{}\n\n{json}\n", crate::output::disarm(&self.reason))
    }

    fn parse(message: &str) -> Result<Record, String> {
        let (_, json) = message.split_once("\n\n").ok_or("it has no record")?;
        let record: Record = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if record.version > VERSION {
            return Err(format!("its record has version {}: update takeback", record.version));
        }
        Ok(record)
    }
}

/// A checkpoint: a pinned tree and its record.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) pin: Pin,
    pub(crate) record: Record,
}

/// The checkpoints of a workspace, newest first, and what could not be read.
pub(crate) struct Checkpoints {
    pub(crate) all: Vec<Checkpoint>,
    pub(crate) unreadable: Vec<String>,
}

impl Checkpoints {
    pub(crate) fn of(store: &Store, workspace: &Workspace<'_>) -> Result<Checkpoints, Failure> {
        let mut found = Checkpoints { all: Vec::new(), unreadable: Vec::new() };
        for name in store.pin_names(workspace.id())?.into_iter().rev() {
            // One that cannot be read must not hide the others.
            let read = match store.pin(&name) {
                Ok(None) => continue,
                Ok(Some(pin)) => match Record::parse(&pin.message) {
                    Ok(record) => Ok(Checkpoint { pin, record }),
                    Err(reason) => Err(reason),
                },
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(checkpoint) => found.all.push(checkpoint),
                Err(reason) => found.unreadable.push(format!("checkpoint {}: {reason}", name.seq)),
            }
        }
        Ok(found)
    }

    /// The rows of the list with their numbers: newest = 1.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &Checkpoint)> {
        let rows = self.all.iter().filter(|checkpoint| checkpoint.record.kind == Kind::Manual);
        (1..).zip(rows)
    }

    /// The checkpoint that somebody means: a number of the list, an id, or the start of one.
    pub(crate) fn find(&self, text: &str) -> Result<&Checkpoint, Failure> {
        let hint = "`takeback rollback` lists the checkpoints of this workspace";
        if text.len() <= 5 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number: usize = text.parse().expect("five digits are a number");
            let row = self.rows().find(|(row, _)| *row == number);
            return row.map(|(_, found)| found).ok_or_else(|| {
                Failure::new(format!("there is no checkpoint {number} here")).hint(hint)
            });
        }
        let is_id =
            (6..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(Failure::new(format!("'{text}' is not a checkpoint"))
                .hint("give its number in the list, or at least 6 digits of its id"));
        }
        let prefix = text.to_ascii_lowercase();
        let mut found =
            self.all.iter().filter(|checkpoint| checkpoint.pin.id.to_string().starts_with(&prefix));
        match (found.next(), found.next()) {
            (Some(checkpoint), None) => Ok(checkpoint),
            (Some(_), Some(_)) => {
                Err(Failure::new(format!("more than one checkpoint's id begins with {prefix}"))
                    .hint("give more digits"))
            }
            (None, _) => {
                Err(Failure::new(format!("this workspace has no checkpoint {prefix}")).hint(hint))
            }
        }
    }
}
