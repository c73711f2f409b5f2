//! Collecting the entries that the readers of all formats produce for the ledger.

use serde::Serialize;
use serde_json::{Value, json};
use takeback_ledger::{
    LogEntry, LogFact, MessageRecord, ParentKind, SessionRecord, Time, UsageRecord,
};

use crate::call_outcome;

/// The entries that were read from one page of a log.
pub(super) struct EntryWriter {
    agent: &'static str,
    pub(super) entries: Vec<LogEntry>,
}

/// The session, identity and time of an entry.
#[derive(Clone, Debug)]
pub(super) struct EntryRef {
    /// The agent's own id for the session.
    pub(super) session: String,
    /// The agent's own id for the entry.
    pub(super) origin: String,
    pub(super) time: Option<Time>,
}

/// Facts about a session.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct SessionFacts {
    pub(super) workspace: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) model: Option<String>,
    pub(super) title: Option<String>,
    /// The agent's own id for the session that started this one as a subagent.
    pub(super) parent: Option<String>,
}

/// The parts of a message, in a form common to all agents.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageParts {
    pub(super) texts: Vec<String>,
    pub(super) thoughts: Vec<String>,
    /// Images and other attachments, without their bytes.
    pub(super) attachments: Vec<Value>,
    pub(super) calls: Vec<LoggedCall>,
    pub(super) results: Vec<LoggedResult>,
}

/// A tool call that the model asked for.
#[derive(Clone, Debug)]
pub(super) struct LoggedCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default)]
pub(super) struct LoggedResult {
    pub(super) call: String,
    pub(super) tool: Option<String>,
    pub(super) text: String,
    /// True if the call succeeded; `None` if the log does not say.
    pub(super) succeeded: Option<bool>,
}

impl EntryRef {
    /// Derives the identity of an entry that is part of this one.
    pub(super) fn part(&self, part: impl std::fmt::Display) -> EntryRef {
        EntryRef { origin: format!("{}/{part}", self.origin), ..self.clone() }
    }
}

impl MessageParts {
    /// Returns the text and attachments as the content of a message, if there are any.
    fn content(&self) -> Option<Value> {
        let text = self.texts.join("\n");
        match (text.trim().is_empty(), self.attachments.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Value::from(text)),
            (is_blank, false) => {
                let text = (!is_blank).then(|| json!({ "type": "text", "text": text }));
                Some(text.into_iter().chain(self.attachments.iter().cloned()).collect())
            }
        }
    }
}

impl EntryWriter {
    pub(super) fn new(agent: &'static str) -> EntryWriter {
        EntryWriter { agent, entries: Vec::new() }
    }

    fn session_id(&self, session: &str) -> String {
        format!("{}:{session}", self.agent)
    }

    fn push_entry(&mut self, entry: EntryRef, fact: LogFact) {
        let EntryRef { session, origin, time } = entry;
        self.entries.push(LogEntry { session: self.session_id(&session), origin, time, fact });
    }

    /// Adds facts about a session.
    pub(super) fn push_session(&mut self, session: &str, time: Option<Time>, facts: SessionFacts) {
        let record = SessionRecord {
            model: facts.model,
            title: facts.title,
            workspace: facts.workspace,
            git_branch: facts.branch,
            parent_kind: facts.parent.is_some().then_some(ParentKind::Subagent),
            parent_session_id: facts.parent.map(|parent| self.session_id(&parent)),
            ..SessionRecord::default()
        };
        let entry = EntryRef { session: session.to_owned(), origin: String::new(), time };
        self.push_entry(entry, LogFact::Session(Box::new(record)));
    }

    /// Records that a session is a fork. The lines of the fork with numbers below `before` are in
    /// the parent's log.
    pub(super) fn push_fork(&mut self, session: &str, parent: &str, before: u64) {
        let parent = self.session_id(parent);
        let entry = EntryRef { session: session.to_owned(), origin: String::new(), time: None };
        self.push_entry(entry, LogFact::ForkedFrom { parent, before });
    }

    /// Adds a user message, unless it is empty.
    pub(super) fn push_user(&mut self, entry: EntryRef, parts: &MessageParts) {
        if let Some(content) = parts.content() {
            self.push_message(entry, "user", Some(content), |_| {});
        }
    }

    /// Adds a message that is from neither the user nor the model, such as an interruption.
    pub(super) fn push_system(&mut self, entry: EntryRef, text: &str) {
        self.push_message(entry, "system", Some(Value::from(text)), |_| {});
    }

    /// Adds a message from the model, unless it is empty.
    pub(super) fn push_assistant(
        &mut self,
        entry: EntryRef,
        parts: &MessageParts,
        finish_reason: Option<String>,
    ) {
        let content = parts.content();
        let thoughts = parts.thoughts.join("\n");
        let thoughts = (!thoughts.trim().is_empty()).then_some(thoughts);
        if content.is_none() && thoughts.is_none() && parts.calls.is_empty() {
            return;
        }
        self.push_message(entry, "assistant", content, |message| {
            message.reasoning = thoughts;
            message.finish_reason = finish_reason;
            let calls: Vec<Value> = parts.calls.iter().map(LoggedCall::to_json).collect();
            message.tool_calls = (!calls.is_empty()).then_some(Value::from(calls));
        });
    }

    /// Adds the results of tool calls, as messages and as outcomes of the calls.
    pub(super) fn push_results(&mut self, entry: &EntryRef, results: &[LoggedResult]) {
        for result in results {
            let entry = entry.part(&result.call);
            let outcome = match result.succeeded {
                Some(false) => Some(call_outcome::failure(Some(&result.text))),
                Some(true) => Some(call_outcome::success()),
                None => {
                    call_outcome::find_exit_code(&result.text).map(call_outcome::from_exit_code)
                }
            };
            if let Some(outcome) = outcome {
                let call = result.call.clone();
                self.push_entry(entry.clone(), LogFact::Outcome { call, outcome });
            }
            self.push_message(entry, "tool", Some(Value::from(result.text.as_str())), |message| {
                message.tool_call_id = Some(result.call.clone());
                message.tool_name.clone_from(&result.tool);
            });
        }
    }

    /// Adds a summary, which replaces the conversation so far.
    pub(super) fn push_summary(&mut self, entry: EntryRef, text: &str) {
        let message = MessageRecord {
            role: "user".to_owned(),
            content: Some(Value::from(text)),
            timestamp: entry.time,
            ..MessageRecord::default()
        };
        self.push_entry(entry, LogFact::Summary(Box::new(message)));
    }

    /// Adds the tokens that an entry used.
    pub(super) fn push_usage(&mut self, entry: &EntryRef, usage: Option<UsageRecord>) {
        if let Some(usage) = usage {
            self.push_entry(entry.part("usage"), LogFact::Usage(Box::new(usage)));
        }
    }

    fn push_message(
        &mut self,
        entry: EntryRef,
        role: &str,
        content: Option<Value>,
        fill: impl FnOnce(&mut MessageRecord),
    ) {
        let mut message = MessageRecord {
            role: role.to_owned(),
            content,
            timestamp: entry.time,
            ..MessageRecord::default()
        };
        fill(&mut message);
        self.push_entry(entry, LogFact::Message(Box::new(message)));
    }
}

impl LoggedCall {
    /// Returns the call in the form that the ledger stores.
    fn to_json(&self) -> Value {
        let arguments = match &self.input {
            Value::String(text) => text.clone(),
            input => input.to_string(),
        };
        let function = json!({ "name": self.tool, "arguments": arguments });
        json!({ "id": self.id, "type": "function", "function": function })
    }
}

/// Returns a string field that is not empty.
pub(super) fn text_field(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a time field: RFC 3339, or milliseconds since 1970.
pub(super) fn time_field(value: &Value, key: &str) -> Option<Time> {
    match &value[key] {
        Value::String(text) => Time::parse(text),
        Value::Number(number) => number.as_f64().map(|milliseconds| Time(milliseconds as i64)),
        _ => None,
    }
}

/// Returns a token count. Clamps negative and absurdly large numbers.
pub(super) fn token_field(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0).clamp(0, 1 << 50)
}

/// Returns the elements of a list, or none for any other value.
pub(super) fn list_items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
