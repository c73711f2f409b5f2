//! What readers of all formats write: entries for the ledger.

use serde::Serialize;
use serde_json::{Value, json};
use takeback_ledger::{
    LogEntry, MessageRecord, ParentKind, SessionRecord, Time, Told, UsageRecord,
};

use crate::outcome;

/// Collects the entries of one part of a log.
pub(super) struct Writer {
    agent: &'static str,
    pub(super) entries: Vec<LogEntry>,
}

/// Where an entry belongs.
#[derive(Clone, Debug)]
pub(super) struct At {
    /// The session, as the agent calls it.
    pub(super) session: String,
    /// The agent's own name for the entry.
    pub(super) origin: String,
    pub(super) time: Option<Time>,
}

/// What is known about a session.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Facts {
    pub(super) workspace: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) model: Option<String>,
    pub(super) title: Option<String>,
    /// The session that handed out its work, as the agent calls it.
    pub(super) parent: Option<String>,
}

/// What a message is made of, whatever the agent's way to write that.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) texts: Vec<String>,
    pub(super) thoughts: Vec<String>,
    /// Pictures and the like, without their bytes.
    pub(super) attachments: Vec<Value>,
    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<Outcome>,
}

/// A tool is to be used.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
}

/// A tool was used.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) call: String,
    pub(super) tool: Option<String>,
    pub(super) text: String,
    /// Whether it went well, if that is told.
    pub(super) succeeded: Option<bool>,
}

impl At {
    /// Another entry at the same place.
    pub(super) fn part(&self, part: impl std::fmt::Display) -> At {
        At { origin: format!("{}/{part}", self.origin), ..self.clone() }
    }
}

impl Parts {
    /// What the user or the agent said, if it is anything.
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

impl Writer {
    pub(super) fn new(agent: &'static str) -> Writer {
        Writer { agent, entries: Vec::new() }
    }

    fn id(&self, session: &str) -> String {
        format!("{}:{session}", self.agent)
    }

    fn push(&mut self, at: At, told: Told) {
        let At { session, origin, time } = at;
        self.entries.push(LogEntry { session: self.id(&session), origin, time, told });
    }

    /// More is known about a session.
    pub(super) fn session(&mut self, session: &str, time: Option<Time>, facts: Facts) {
        let record = SessionRecord {
            model: facts.model,
            title: facts.title,
            workspace: facts.workspace,
            git_branch: facts.branch,
            parent_kind: facts.parent.is_some().then_some(ParentKind::Subagent),
            parent_session_id: facts.parent.map(|parent| self.id(&parent)),
            ..SessionRecord::default()
        };
        let at = At { session: session.to_owned(), origin: String::new(), time };
        self.push(at, Told::Session(Box::new(record)));
    }

    /// The user said something.
    pub(super) fn user(&mut self, at: At, parts: &Parts) {
        if let Some(content) = parts.content() {
            self.message(at, "user", Some(content), |_| {});
        }
    }

    /// Something that is part of the conversation and that neither side said.
    pub(super) fn aside(&mut self, at: At, text: &str) {
        self.message(at, "system", Some(Value::from(text)), |_| {});
    }

    /// The agent said something, or wants tools to be used.
    pub(super) fn assistant(&mut self, at: At, parts: &Parts, finish_reason: Option<String>) {
        let content = parts.content();
        let thoughts = parts.thoughts.join("\n");
        let thoughts = (!thoughts.trim().is_empty()).then_some(thoughts);
        if content.is_none() && thoughts.is_none() && parts.calls.is_empty() {
            return;
        }
        self.message(at, "assistant", content, |message| {
            message.reasoning = thoughts;
            message.finish_reason = finish_reason;
            let calls: Vec<Value> = parts.calls.iter().map(Call::record).collect();
            message.tool_calls = (!calls.is_empty()).then_some(Value::from(calls));
        });
    }

    /// Tools were used.
    pub(super) fn results(&mut self, at: &At, results: &[Outcome]) {
        for result in results {
            let at = at.part(&result.call);
            let succeeded = match result.succeeded {
                Some(false) => Some(outcome::error(Some(&result.text))),
                Some(true) => Some(outcome::ok()),
                None => outcome::exit_code(&result.text).map(outcome::of_code),
            };
            if let Some(outcome) = succeeded {
                self.push(at.clone(), Told::Outcome { call: result.call.clone(), outcome });
            }
            self.message(at, "tool", Some(Value::from(result.text.as_str())), |message| {
                message.tool_call_id = Some(result.call.clone());
                message.tool_name.clone_from(&result.tool);
            });
        }
    }

    /// What was said so far is summed up.
    pub(super) fn summary(&mut self, at: At, text: &str) {
        let message = MessageRecord {
            role: "user".to_owned(),
            content: Some(Value::from(text)),
            timestamp: at.time,
            ..MessageRecord::default()
        };
        self.push(at, Told::Summary(Box::new(message)));
    }

    /// Tokens were spent.
    pub(super) fn usage(&mut self, at: &At, usage: Option<UsageRecord>) {
        if let Some(usage) = usage {
            self.push(at.part("usage"), Told::Usage(Box::new(usage)));
        }
    }

    fn message(
        &mut self,
        at: At,
        role: &str,
        content: Option<Value>,
        fill: impl FnOnce(&mut MessageRecord),
    ) {
        let mut message = MessageRecord {
            role: role.to_owned(),
            content,
            timestamp: at.time,
            ..MessageRecord::default()
        };
        fill(&mut message);
        self.push(at, Told::Message(Box::new(message)));
    }
}

impl Call {
    /// In the form that the ledger has them.
    fn record(&self) -> Value {
        let arguments = match &self.input {
            Value::String(text) => text.clone(),
            input => input.to_string(),
        };
        let function = json!({ "name": self.tool, "arguments": arguments });
        json!({ "id": self.id, "type": "function", "function": function })
    }
}

/// A text field that is not empty.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A time field: RFC 3339, or milliseconds since 1970.
pub(super) fn time(value: &Value, key: &str) -> Option<Time> {
    match &value[key] {
        Value::String(text) => Time::parse(text),
        Value::Number(number) => number.as_f64().map(|milliseconds| Time(milliseconds as i64)),
        _ => None,
    }
}

/// A number of tokens.
pub(super) fn tokens(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0).clamp(0, 1 << 50)
}

/// A list, or nothing.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
