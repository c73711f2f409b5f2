//! The facts that a log reader has to remember from earlier lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::{Bookmark, Tokens};

use super::entry_writer::{SessionFacts, text_field};
use super::log_identity::content_identity;

/// The state of a reader. It is stored in the bookmark, so it must stay small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReaderState {
    /// The number of lines that have been read.
    pub(super) line: u64,
    /// True if the bookmark is inside a line that is too long. The rest of the line is skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_in_long_line: bool,
    /// The agent's own id for the session that the log belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// The session whose facts were written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) introduced: Option<String>,
    /// The model that the agent uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// The digest of all facts about the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<String>,
    /// The id of the last entry that was read from a document or a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<String>,
    /// The ids of the latest entries in a document, with the digests of their content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken: Vec<(String, String)>,
    /// The id of the last summary that was read from the file next to a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    /// The latest token counts, by the id of the counted entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) counted: Vec<(String, Tokens)>,
    /// The tools of the latest calls, by the id of the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<(String, String)>,
}

/// The maximum size of the state as JSON.
const MAX_STATE: usize = 64 << 10;

/// The maximum number of entries in each list of the state.
const MAX_REMEMBERED: usize = 16;

impl ReaderState {
    /// Restores the state from a bookmark. Returns an empty state if parsing fails.
    pub(super) fn from_bookmark(bookmark: &Bookmark) -> ReaderState {
        serde_json::from_value(bookmark.state.clone()).unwrap_or_default()
    }

    /// Returns the state as JSON, for a bookmark. If the ids in the log are huge, only the position
    /// is kept.
    pub(super) fn to_json(&self) -> Value {
        let json =
            |state: &ReaderState| serde_json::to_value(state).expect("plain data becomes JSON");
        let value = json(self);
        match value.to_string().len() <= MAX_STATE {
            true => value,
            false => {
                let &ReaderState { line, is_in_long_line, .. } = self;
                json(&ReaderState { line, is_in_long_line, ..ReaderState::default() })
            }
        }
    }

    /// Counts tokens from a running total in the log. Returns the increase since the previous total
    /// with the same id, and true if there was no previous total.
    pub(super) fn count_tokens(&mut self, id: &str, tokens: Tokens) -> (Tokens, bool) {
        let known = self.counted.iter().position(|(known, _)| known == id);
        let before = known.map(|index| self.counted.remove(index).1);
        remember(&mut self.counted, id, tokens);
        (tokens_since(tokens, before.unwrap_or_default()), before.is_none())
    }

    /// Remembers the facts about the session. Returns true if they are new.
    pub(super) fn learn_facts(&mut self, facts: &SessionFacts) -> bool {
        let facts = serde_json::to_vec(facts).expect("plain data becomes JSON");
        let facts = Some(content_identity(&facts));
        let is_news = self.facts != facts;
        self.facts = facts;
        is_news
    }

    /// Selects the new entries in a document, with their indexes: the entries after the last one
    /// that was read, and recent earlier entries that have changed.
    pub(super) fn take_new_entries<'v>(&mut self, entries: &'v [Value]) -> Vec<(usize, &'v Value)> {
        let digest = |entry: &Value| content_identity(entry.to_string().as_bytes());
        let last = self.last.as_ref();
        let last = last.and_then(|last| entries.iter().rposition(|entry| entry["id"] == **last));
        let has_changed = |entry: &Value| {
            let read = self.taken.iter().find(|(id, _)| entry["id"] == **id);
            read.is_some_and(|(_, read)| *read != digest(entry))
        };
        let news = entries.iter().enumerate();
        let news =
            news.filter(|(at, entry)| last.is_none_or(|last| *at > last) || has_changed(entry));
        let news = news.collect();
        self.last = entries.last().and_then(|entry| text_field(entry, "id"));
        let latest = entries[entries.len().saturating_sub(MAX_REMEMBERED)..].iter();
        self.taken =
            latest.filter_map(|entry| Some((text_field(entry, "id")?, digest(entry)))).collect();
        news
    }

    /// Remembers the tool that a call uses.
    pub(super) fn remember_call(&mut self, id: &str, tool: &str) {
        remember(&mut self.calls, id, tool.to_owned());
    }

    /// Returns the tool that a call uses.
    pub(super) fn tool_of_call(&self, call: &str) -> Option<String> {
        self.calls.iter().find(|(id, _)| id == call).map(|(_, tool)| tool.clone())
    }
}

/// Adds a value to a list that keeps only the latest values.
fn remember<T>(list: &mut Vec<(String, T)>, id: &str, value: T) {
    if list.len() >= MAX_REMEMBERED {
        list.remove(0);
    }
    list.push((id.to_owned(), value));
}

/// Subtracts an earlier total. A count that is smaller than the earlier one has restarted from
/// zero.
fn tokens_since(now: Tokens, before: Tokens) -> Tokens {
    let since = |now: i64, before: i64| if now >= before { now - before } else { now };
    Tokens {
        input: since(now.input, before.input),
        output: since(now.output, before.output),
        cache_read: since(now.cache_read, before.cache_read),
        cache_write: since(now.cache_write, before.cache_write),
        reasoning: since(now.reasoning, before.reasoning),
    }
}
