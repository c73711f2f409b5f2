//! The ledger's records, as they are written, read and exchanged.
//!
//! The fields have the same names as the columns in the database and the fields in the exchange
//! format. Fields that this version does not know are kept in `extra` and exported unchanged.

#![allow(missing_docs, reason = "the names are self-explanatory")]

use std::iter::Sum;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;

/// The relation of a session to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// The session continues the parent's conversation from a summary.
    Compaction,
    /// The session copies the beginning of its parent and then diverges from it.
    Fork,
    /// The session is the conversation of a subagent.
    Subagent,
}

impl ParentKind {
    /// Returns the name of this relation in the exchange format.
    pub fn as_str(self) -> &'static str {
        match self {
            ParentKind::Compaction => "compaction",
            ParentKind::Fork => "fork",
            ParentKind::Subagent => "subagent",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<ParentKind> {
        [ParentKind::Compaction, ParentKind::Fork, ParentKind::Subagent]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// One conversation without its messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRecord {
    /// The id: `<agent>:<id>`, or the id in the imported data.
    pub id: String,
    /// The agent or platform.
    pub source: String,
    pub user_id: Option<String>,
    pub model: Option<String>,
    pub model_config: Option<Value>,
    pub system_prompt: Option<String>,
    pub parent_session_id: Option<String>,
    pub parent_kind: Option<ParentKind>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub end_reason: Option<String>,
    /// The number of messages that are not taken back.
    pub message_count: i64,
    /// The number of tool calls in those messages.
    pub tool_call_count: i64,
    pub api_call_count: i64,
    #[serde(flatten, with = "TokenColumns")]
    pub tokens: Tokens,
    pub billing_provider: Option<String>,
    pub billing_base_url: Option<String>,
    pub billing_mode: Option<String>,
    pub estimated_cost_usd: Option<f64>,
    pub actual_cost_usd: Option<f64>,
    pub cost_status: Option<String>,
    pub cost_source: Option<String>,
    pub pricing_version: Option<String>,
    pub title: Option<String>,
    /// The directory that the agent worked in.
    pub workspace: Option<String>,
    pub git_branch: Option<String>,
    pub archived: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One message. `(session, seq)` identifies it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageRecord {
    /// The number of the message in its session, starting at 1; 0 if it has none yet.
    pub seq: i64,
    /// `system`, `user`, `assistant`, `tool`, or an agent's own role.
    pub role: String,
    /// Text, or a list of content blocks.
    pub content: Option<Value>,
    pub tool_call_id: Option<String>,
    /// A list in OpenAI's form: `[{"id", "function": {"name", "arguments"}}]`.
    pub tool_calls: Option<Value>,
    pub tool_name: Option<String>,
    pub timestamp: Option<Time>,
    pub token_count: Option<i64>,
    pub finish_reason: Option<String>,
    pub reasoning: Option<String>,
    pub reasoning_content: Option<String>,
    pub reasoning_details: Option<Value>,
    pub codex_reasoning_items: Option<Value>,
    pub codex_message_items: Option<Value>,
    /// True if the message was taken back and is no longer part of the conversation.
    pub undone: bool,
    /// True if a later message summarizes this one, which is then no longer sent to the model.
    pub compacted: bool,
    /// For a summary, the number of the last message that it summarizes. The summary comes after
    /// that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarizes: Option<i64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Token counts, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    pub reasoning: i64,
}

impl Tokens {
    /// Returns the total of all counts.
    pub fn total(self) -> i64 {
        self.input + self.output + self.cache_read + self.cache_write + self.reasoning
    }

    /// Returns the tokens as usage of one model, or `None` if all counts are 0.
    pub fn to_usage(self, model: Option<&str>, requests: i64) -> Option<UsageRecord> {
        (self != Tokens::default()).then(|| UsageRecord {
            model: model.unwrap_or_default().to_owned(),
            api_call_count: requests,
            tokens: self,
            ..UsageRecord::default()
        })
    }

    /// True if a predicate holds for every count.
    pub(crate) fn all(self, holds: impl Fn(i64) -> bool) -> bool {
        let Tokens { input, output, cache_read, cache_write, reasoning } = self;
        [input, output, cache_read, cache_write, reasoning].into_iter().all(holds)
    }

    /// Applies a function to each count.
    pub(crate) fn map(self, f: impl Fn(i64) -> i64) -> Tokens {
        Tokens {
            input: f(self.input),
            output: f(self.output),
            cache_read: f(self.cache_read),
            cache_write: f(self.cache_write),
            reasoning: f(self.reasoning),
        }
    }

    /// Reads the counts from the columns of a session or of a usage row.
    pub(crate) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Tokens> {
        Ok(Tokens {
            input: row.get("input_tokens")?,
            output: row.get("output_tokens")?,
            cache_read: row.get("cache_read_tokens")?,
            cache_write: row.get("cache_write_tokens")?,
            reasoning: row.get("reasoning_tokens")?,
        })
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Tokens) {
        self.input += more.input;
        self.output += more.output;
        self.cache_read += more.cache_read;
        self.cache_write += more.cache_write;
        self.reasoning += more.reasoning;
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(tokens: I) -> Tokens {
        tokens.fold(Tokens::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

/// The serialized form of [`Tokens`]: each count is a field of the record, with the name of its
/// column.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Tokens")]
pub(crate) struct TokenColumns {
    #[serde(default, rename = "input_tokens")]
    input: i64,
    #[serde(default, rename = "output_tokens")]
    output: i64,
    #[serde(default, rename = "cache_read_tokens")]
    cache_read: i64,
    #[serde(default, rename = "cache_write_tokens")]
    cache_write: i64,
    #[serde(default, rename = "reasoning_tokens")]
    reasoning: i64,
}

/// The usage of one model in one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageRecord {
    pub model: String,
    pub billing_provider: Option<String>,
    pub billing_base_url: Option<String>,
    pub billing_mode: Option<String>,
    pub api_call_count: i64,
    #[serde(flatten, with = "TokenColumns")]
    pub tokens: Tokens,
    pub estimated_cost_usd: Option<f64>,
    pub actual_cost_usd: Option<f64>,
    pub cost_status: Option<String>,
    pub cost_source: Option<String>,
    pub pricing_version: Option<String>,
    pub first_seen: Option<Time>,
    pub last_seen: Option<Time>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A tool call and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallRecord {
    /// The agent's own id for the call.
    pub call: String,
    /// The number of the turn that the call belongs to, starting at 1; 0 for the current turn.
    pub turn: i64,
    pub tool: String,
    pub input: Option<Value>,
    /// `ok`, `error`, `denied`, …; `None` while the call is running, or if no hook reported its
    /// end.
    pub outcome: Option<String>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    /// The workspace in which the call works.
    pub workspace: Option<String>,
    /// The checkpoint that was taken before the call.
    pub checkpoint: Option<String>,
    /// The tree right before the call.
    pub tree_before: Option<String>,
    /// The tree right after the call.
    pub tree_after: Option<String>,
    /// True if another process or the user may have changed the workspace during the call.
    pub uncertain: bool,
}

/// An effect of a command that no rollback can reverse.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectRecord {
    pub turn: i64,
    pub call: Option<String>,
    /// `database`, `network`, `cloud`, `publish`, `repository`.
    pub kind: String,
    pub command: String,
    pub workspace: Option<String>,
    pub time: Option<Time>,
}

/// A whole session, as one line of the exchange format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transcript {
    #[serde(flatten)]
    pub session: SessionRecord,
    pub messages: Vec<MessageRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<UsageRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectRecord>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(input: i64) -> Tokens {
        Tokens { input, output: 2, cache_read: 3, cache_write: 4, reasoning: 5 }
    }

    #[test]
    fn tokens_add_up() {
        let sum: Tokens = [tokens(1), tokens(10), Tokens::default()].into_iter().sum();
        assert_eq!(
            sum,
            Tokens { input: 11, output: 4, cache_read: 6, cache_write: 8, reasoning: 10 }
        );
        assert_eq!(sum.total(), 39);
    }

    #[test]
    fn token_counts_are_fields_of_the_record_itself() {
        let usage = UsageRecord { tokens: tokens(1), ..UsageRecord::default() };
        let json = serde_json::to_string(&usage).unwrap();
        let columns = r#""api_call_count":0,"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4,"reasoning_tokens":5,"estimated_cost_usd":null"#;
        assert!(json.contains(columns), "{json}");
        assert_eq!(serde_json::from_str::<UsageRecord>(&json).unwrap(), usage);

        let session: SessionRecord =
            serde_json::from_value(json!({ "id": "s", "output_tokens": 7, "input": "kept" }))
                .unwrap();
        assert_eq!(session.tokens, Tokens { output: 7, ..Tokens::default() });
        assert_eq!(session.extra, Map::from_iter([("input".to_owned(), json!("kept"))]));
        assert!(
            serde_json::from_value::<SessionRecord>(json!({ "input_tokens": "many" })).is_err()
        );
    }
}
