//! The part of a conversation that is not in the ledger yet: the running turn so far, and the
//! answers to slash commands.

use serde_json::{Value, json};
use takeback_runtime::model::RequestedCall;

use super::markdown_blocks::MarkdownBlocks;
use crate::text;

/// The maximum number of entries. The oldest are dropped first.
const MAX_ENTRIES: usize = 400;

/// The longest output or input of a call that is shown while the turn runs, in bytes.
const MAX_OUTPUT: usize = 16 << 10;

/// The number of bytes to which the output of a running call is shortened. The latest output is
/// kept.
const KEPT_OUTPUT: usize = 4 << 10;

/// The maximum size of a running call's output that is sent to clients, in bytes.
const MAX_SENT: usize = 64 << 10;

/// An entry in the live part of a conversation.
enum Entry {
    Answer {
        text: String,
        blocks: MarkdownBlocks,
    },
    Reasoning(String),
    Call(Call),
    /// An entry that no longer changes, in the form of its event.
    Fixed(Value),
}

struct Call {
    id: String,
    /// The event that began the call.
    started: Value,
    output: String,
    sent: usize,
    /// The event that ended the call.
    ended: Option<Value>,
}

/// The entries since the end of the last turn.
#[derive(Default)]
pub(super) struct Live {
    entries: Vec<Entry>,
}

impl Live {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the entries in the form in which clients receive them.
    pub(super) fn to_json(&self) -> Vec<Value> {
        self.entries.iter().map(Entry::to_json).collect()
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == MAX_ENTRIES {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }

    /// Adds an entry that will not change.
    pub(super) fn push_fixed(&mut self, event: &str, fields: &Value) {
        self.push(Entry::Fixed(with_event(event, fields)));
    }

    /// Removes a question that has been answered.
    pub(super) fn remove_question(&mut self, number: u64) {
        self.entries.retain(|entry| match entry {
            Entry::Fixed(value) => value["event"] != "question" || value["question"] != number,
            _ => true,
        });
    }

    /// Adds a piece of the answer. If the piece completes blocks, returns their HTML and the text
    /// after them.
    pub(super) fn push_text(&mut self, piece: &str) -> Option<(String, String)> {
        if !matches!(self.entries.last(), Some(Entry::Answer { .. })) {
            let blocks = MarkdownBlocks::default();
            self.push(Entry::Answer { text: String::new(), blocks });
        }
        let Some(Entry::Answer { text, blocks }) = self.entries.last_mut() else { return None };
        text.push_str(piece);
        let html = blocks.push(piece)?;
        Some((html, blocks.rest.clone()))
    }

    pub(super) fn push_reasoning(&mut self, piece: &str) {
        if !matches!(self.entries.last(), Some(Entry::Reasoning(_))) {
            self.push(Entry::Reasoning(String::new()));
        }
        if let Some(Entry::Reasoning(text)) = self.entries.last_mut() {
            text.push_str(piece);
            keep_end(text, KEPT_OUTPUT);
        }
    }

    pub(super) fn start_call(&mut self, started: Value) {
        let id = started["call"].as_str().unwrap_or_default().to_owned();
        self.push(Entry::Call(Call { id, started, output: String::new(), sent: 0, ended: None }));
    }

    /// Returns true if a call has begun but not ended.
    pub(super) fn has_running_call(&self) -> bool {
        let is_running = |entry: &Entry| matches!(entry, Entry::Call(call) if call.ended.is_none());
        self.entries.iter().any(is_running)
    }

    fn find_call(&mut self, id: &str) -> Option<&mut Call> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Call(call) if call.id == id => Some(call),
            _ => None,
        })
    }

    /// Adds output of a running call. Returns true if the output is to be sent to clients, and
    /// false once too much has been sent. Clients receive the result of the call in either case.
    pub(super) fn push_output(&mut self, id: &str, piece: &str) -> bool {
        let Some(call) = self.find_call(id) else { return false };
        call.output.push_str(piece);
        keep_end(&mut call.output, KEPT_OUTPUT);
        call.sent += piece.len();
        call.sent <= MAX_SENT
    }

    pub(super) fn end_call(&mut self, id: &str, ended: Value) {
        match self.find_call(id) {
            Some(call) => call.ended = Some(ended),
            None => self.push(Entry::Fixed(with_event("call_ended", &ended))),
        }
    }
}

impl Entry {
    fn to_json(&self) -> Value {
        match self {
            Entry::Answer { text, blocks } => json!({
                "event": "answer", "text": text, "html": blocks.html, "rest": blocks.rest,
            }),
            Entry::Reasoning(text) => json!({ "event": "reasoning", "text": text }),
            Entry::Call(call) => match &call.ended {
                Some(ended) => with_event("call_ended", ended),
                None => {
                    let mut value = with_event("call_started", &call.started);
                    value["output"] = call.output.as_str().into();
                    value
                }
            },
            Entry::Fixed(value) => value.clone(),
        }
    }
}

fn with_event(name: &str, fields: &Value) -> Value {
    let mut value = fields.clone();
    value["event"] = name.into();
    value
}

/// Describes a call: its tool, its title in one line, and its input.
pub(super) fn describe_call(call: &RequestedCall, subagent: Option<usize>) -> Value {
    let title = text::describe_input(&call.arguments);
    json!({
        "call": call.id, "tool": call.name, "title": text::shorten(&text::one_line(&title), 160),
        "input": shorten_end(&describe_inputs(&call.arguments), MAX_OUTPUT), "subagent": subagent,
    })
}

/// Formats the inputs of a call for the user: each value after its name.
fn describe_inputs(arguments: &str) -> String {
    let Ok(Value::Object(inputs)) = serde_json::from_str(arguments) else {
        return text::visible(arguments);
    };
    let line = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let separator = if value.contains('\n') { "\n" } else { " " };
        format!("{name}:{separator}{value}")
    };
    text::visible(&inputs.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Formats the output of a call for clients.
pub(super) fn describe_output(output: &str) -> String {
    shorten_end(&text::visible(output), MAX_OUTPUT)
}

/// Cuts off the end of a text that is longer than `length` bytes.
fn shorten_end(text: &str, length: usize) -> String {
    match text.char_indices().find(|(at, _)| *at >= length) {
        Some((end, _)) => format!("{}\n… (shortened)", &text[..end]),
        None => text.to_owned(),
    }
}

/// Shortens a text of more than twice `length` bytes to its last `length` bytes.
fn keep_end(text: &mut String, length: usize) {
    if text.len() > 2 * length {
        let from = text.len() - length;
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at));
        text.drain(..from.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_merged_for_clients_that_connect_later() {
        let mut live = Live::default();
        live.push_text("One.\n\nTw");
        live.push_text("o.");
        let call = RequestedCall {
            id: "c1".into(),
            name: "terminal".into(),
            arguments: r#"{"command": "make\nmake test"}"#.into(),
        };
        live.start_call(describe_call(&call, None));
        live.push_output("c1", "a");
        live.push_output("c1", "b");
        live.push_text("Three.");
        let all = live.to_json();
        assert_eq!(all.len(), 3);
        assert_eq!(all[0]["text"], "One.\n\nTwo.");
        assert_eq!(all[0]["rest"], "Two.");
        assert_eq!((&all[1]["event"], &all[1]["output"]), (&"call_started".into(), &"ab".into()));
        assert_eq!(all[1]["title"], "make make test");
        assert_eq!(all[1]["input"], "command:\nmake\nmake test");
        live.end_call("c1", json!({ "call": "c1", "output": "abc" }));
        assert_eq!(live.to_json()[1]["event"], "call_ended");
    }

    #[test]
    fn endless_output_is_bounded() {
        let mut live = Live::default();
        live.start_call(json!({ "call": "c1" }));
        let sent = (0..1_000).filter(|_| live.push_output("c1", &"é".repeat(500))).count();
        assert!(sent < 100, "{sent}");
        let kept = live.to_json()[0]["output"].as_str().unwrap().len();
        assert!(kept <= 2 * KEPT_OUTPUT, "{kept}");
        for _ in 0..2 * MAX_ENTRIES {
            live.push_fixed("warning", &json!({}));
        }
        assert_eq!(live.to_json().len(), MAX_ENTRIES);
    }
}
