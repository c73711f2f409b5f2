//! The entries of a task's journal.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::Tokens;

use crate::front_end::{Answer, TurnOutcome};
use crate::goal::GoalReport;
use crate::model::{AttemptFailure, Finish, RequestedCall};
use crate::tools::{Intent, KnownFile};

/// The version of the entries that this program writes.
const VERSION: u64 = 1;

/// A step of a task. The state of a task is a fold of its entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Entry {
    /// A prompt began a turn. `message` is the number of the prompt in the session, and `turn` is
    /// the number of the turn. `wraps_up` is true if the budget of the goal is spent and this is
    /// its last turn.
    Prompted {
        message: i64,
        turn: i64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wraps_up: bool,
    },
    /// A request is about to be sent to a model.
    Requested { provider: String, model: String, digest: String, max_output: u64 },
    /// A whole reply arrived. `message` is `None` if the reply is unusable.
    Replied {
        message: Option<i64>,
        finish: Finish,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<RequestedCall>,
        #[serde(default)]
        cut_calls: usize,
        #[serde(flatten)]
        bill: Bill,
    },
    /// A reply was cut off. `message` is the number of the message with the part that arrived;
    /// `None` if nothing usable arrived.
    Interrupted {
        message: Option<i64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<RequestedCall>,
        failure: AttemptFailure,
        #[serde(flatten)]
        bill: Bill,
    },
    /// The process ended while it was waiting for a reply.
    Lost,
    /// The fallback provider takes over for the rest of the turn.
    FailedOver { provider: String },
    /// The output limit of the next request was changed.
    LimitedOutput { max_output: u64 },
    /// The user must decide about a call.
    Asked { call: String, because: String, remember: Option<String> },
    /// The user decided about a call.
    Answered { call: String, answer: Answer },
    /// A tool is about to run.
    Started { call: String, start: CallStart },
    /// A call has ended, and its result is a message in the session.
    Ended {
        call: String,
        message: i64,
        #[serde(default)]
        is_error: bool,
        /// True if the call could not be made at all.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_unusable: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known_files: Vec<KnownFile>,
        /// The bill of the subagent, if a subagent worked on the call.
        #[serde(flatten)]
        bill: Bill,
    },
    /// A subagent began to work on a call, in a separate task.
    Spawned { call: String, task: String },
    /// Requests no longer contain the results of tool calls up to the message `through`. The
    /// session keeps these results.
    Cleared { through: i64 },
    /// The older part of the conversation was summarized, and the conversation continues in another
    /// session. In that session, the open turn has the number `turn`, and its prompt is the message
    /// `prompt`. `moves` is the number of rewinds in the old session.
    Compressed {
        session: String,
        turn: i64,
        prompt: i64,
        moves: i64,
        #[serde(flatten)]
        bill: Bill,
    },
    /// A rollback took back turns from before a compression, so the conversation continues in the
    /// old session.
    Returned { session: String },
    /// The model reported on the goal.
    GoalReported { report: GoalReport },
    /// The turn is over.
    TurnEnded { outcome: TurnOutcome },
    /// A rollback took the open turn back.
    TakenBack,
    /// Another machine, called `from`, made the steps before this entry.
    Adopted { from: String },
}

/// The tokens and the cost of an attempt, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Bill {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// The state right before a tool runs. After a crash, this state helps to determine whether the
/// call was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CallStart {
    /// True if the call only reads, so it can be repeated.
    #[serde(default)]
    pub reads: bool,
    /// True if the call has effects that no rollback reverses.
    #[serde(default)]
    pub has_effects: bool,
    /// The id of the workspace's tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The files that the call is about to write, and the result of the call if it writes all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

/// The reason why an entry cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// A later version of this program wrote the entry.
    #[error("journal entry has version {0}; this takeback reads up to version {VERSION}")]
    TooNew(u64),
    /// The entry is malformed.
    #[error("damaged journal entry")]
    Damaged(#[source] serde_json::Error),
}

impl Entry {
    /// Returns the entry as it is stored.
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("plain data becomes JSON");
        value["v"] = VERSION.into();
        value
    }

    /// Reads a stored entry.
    ///
    /// ```
    /// use serde_json::json;
    /// use takeback_runtime::entry::{Entry, EntryError};
    ///
    /// let entry = Entry::TakenBack;
    /// assert_eq!(Entry::from_json(&entry.to_json()).unwrap(), entry);
    /// // A later version wrote this one.
    /// assert!(matches!(Entry::from_json(&json!({ "v": 99 })), Err(EntryError::TooNew(99))));
    /// ```
    pub fn from_json(value: &Value) -> Result<Entry, EntryError> {
        let version = value.get("v").and_then(Value::as_u64).unwrap_or(0);
        if version > VERSION {
            return Err(EntryError::TooNew(version));
        }
        Entry::deserialize(value).map_err(EntryError::Damaged)
    }
}
