//! What a reader has to know of what it read before.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::UsageRecord;

use super::identity;
use super::page::{Facts, text};

/// Kept in the bookmark, so it stays small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Lines so far.
    pub(super) line: u64,
    /// The session that the log is of, as the agent calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// The session that was last introduced to the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) introduced: Option<String>,
    /// The model at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// What is known about the session, as a digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<String>,
    /// The last entry that was taken from a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<String>,
    /// Digests of entries of a document as they were taken: the latest ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken: Vec<(String, String)>,
    /// The last summary that was taken from beside a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    /// Tokens that have been counted, by what they were counted for: the latest ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) counted: Vec<(String, Tokens)>,
    /// Names of tools by the calls that used them: the latest ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<(String, String)>,
}

/// Tokens of one or more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) cache_read: i64,
    pub(super) cache_write: i64,
    pub(super) reasoning: i64,
}

/// So many are remembered.
const LATEST: usize = 16;

impl State {
    /// What a running count says, less what was counted for the same thing before. The second value
    /// tells whether it is counted for the first time.
    pub(super) fn count(&mut self, what: &str, tokens: Tokens) -> (Tokens, bool) {
        let known = self.counted.iter().position(|(known, _)| known == what);
        let before = known.map(|index| self.counted.remove(index).1);
        remember(&mut self.counted, what, tokens);
        (tokens.less(before.unwrap_or_default()), before.is_none())
    }

    /// Whether something is known about the session that was not.
    pub(super) fn learn(&mut self, facts: &Facts) -> bool {
        let facts = serde_json::to_vec(facts).expect("plain data becomes JSON");
        let facts = Some(identity::of_bytes(&facts));
        let is_news = self.facts != facts;
        self.facts = facts;
        is_news
    }

    /// The entries of a document that are to be taken, with their places: those behind the last one
    /// that was, and of the latest before it those that were written again.
    pub(super) fn take<'v>(&mut self, entries: &'v [Value]) -> Vec<(usize, &'v Value)> {
        let digest = |entry: &Value| identity::of_bytes(entry.to_string().as_bytes());
        let last = self.last.as_ref();
        let last = last.and_then(|last| entries.iter().rposition(|entry| entry["id"] == **last));
        let is_other = |entry: &Value| {
            let taken = self.taken.iter().find(|(id, _)| entry["id"] == **id);
            taken.is_some_and(|(_, taken)| *taken != digest(entry))
        };
        let news = entries.iter().enumerate();
        let news = news.filter(|(at, entry)| last.is_none_or(|last| *at > last) || is_other(entry));
        let news = news.collect();
        self.last = entries.last().and_then(|entry| text(entry, "id"));
        let latest = entries[entries.len().saturating_sub(LATEST)..].iter();
        self.taken = latest.filter_map(|entry| Some((text(entry, "id")?, digest(entry)))).collect();
        news
    }

    /// A call uses a tool.
    pub(super) fn call(&mut self, id: &str, tool: &str) {
        remember(&mut self.calls, id, tool.to_owned());
    }

    /// The tool that a call used.
    pub(super) fn tool(&self, call: &str) -> Option<String> {
        self.calls.iter().find(|(id, _)| id == call).map(|(_, tool)| tool.clone())
    }
}

fn remember<T>(list: &mut Vec<(String, T)>, what: &str, value: T) {
    if list.len() >= LATEST {
        list.remove(0);
    }
    list.push((what.to_owned(), value));
}

impl Tokens {
    pub(super) fn total(self) -> i64 {
        self.input + self.output + self.cache_read + self.cache_write + self.reasoning
    }

    /// How much more it is. What is less than before began anew.
    fn less(self, before: Tokens) -> Tokens {
        let less = |now: i64, before: i64| if now >= before { now - before } else { now };
        Tokens {
            input: less(self.input, before.input),
            output: less(self.output, before.output),
            cache_read: less(self.cache_read, before.cache_read),
            cache_write: less(self.cache_write, before.cache_write),
            reasoning: less(self.reasoning, before.reasoning),
        }
    }

    /// What the ledger is told, if it is anything.
    pub(super) fn usage(self, model: Option<&str>, requests: i64) -> Option<UsageRecord> {
        (self != Tokens::default()).then(|| UsageRecord {
            model: model.unwrap_or_default().to_owned(),
            api_call_count: requests,
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning,
            ..UsageRecord::default()
        })
    }
}
