//! Records understood: who says what, which tools are called, what they answered.

use serde_json::{Map, Value};

use super::calls::{self, Answer, Call, Outcome};
use super::parts::{self, Part};
use crate::{MessageRecord, SessionRecord};

/// What somebody said, in terms that both APIs have.
#[derive(Clone, Debug)]
pub(super) enum Said {
    System { role: &'static str, parts: Vec<Part> },
    User(Vec<Part>),
    Assistant(Assistant),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Assistant {
    pub(super) parts: Vec<Part>,
    pub(super) calls: Vec<Call>,
    /// Reasoning and items, under their names in the record.
    pub(super) carried: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    Said(Said),
    Answer(Answer),
}

#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    System(&'static str),
    User,
    Assistant,
    Tool,
    Unknown,
}

pub(super) fn read(session: &SessionRecord, messages: &[MessageRecord]) -> Vec<Item> {
    let mut items = Vec::new();
    let prompt = session.system_prompt.as_deref().and_then(Part::text);
    if let Some(prompt) = &prompt {
        items.push(Item::Said(Said::System { role: "system", parts: vec![prompt.clone()] }));
    }
    let mut messages = messages.iter().peekable();
    // Some agents store the prompt with the session and as the first message.
    if prompt.is_some() {
        messages.next_if(|message| is_prompt(message, prompt.as_ref()));
    }
    messages.for_each(|message| read_message(message, &mut items));
    items
}

fn is_prompt(message: &MessageRecord, prompt: Option<&Part>) -> bool {
    matches!(speaker(&message.role), Some(Speaker::System(_)))
        && message.tool_calls.is_none()
        && message.content.as_ref().and_then(Value::as_str).and_then(Part::text).as_ref() == prompt
}

/// Nobody for messages that the model was never meant to see.
fn speaker(role: &str) -> Option<Speaker> {
    Some(match role {
        "session_meta" => return None,
        "system" => Speaker::System("system"),
        "developer" => Speaker::System("developer"),
        "user" | "human" => Speaker::User,
        "assistant" | "model" | "ai" => Speaker::Assistant,
        "tool" | "function" => Speaker::Tool,
        _ => Speaker::Unknown,
    })
}

fn read_message(message: &MessageRecord, items: &mut Vec<Item>) {
    let Some(speaker) = speaker(&message.role) else { return };
    let mut content = Content::read(message, speaker);
    match speaker {
        Speaker::Assistant => {
            add_reasoning(message, &mut content.parts);
            let Content { parts, calls, answers } = content;
            let carried = carried(message);
            items.push(Item::Said(Said::Assistant(Assistant { parts, calls, carried })));
            items.extend(answers.into_iter().map(Item::Answer));
        }
        Speaker::Tool => {
            let answers = tool_answers(message, content);
            items.extend(answers.into_iter().map(Item::Answer));
        }
        _ => {
            items.extend(content.answers.into_iter().map(Item::Answer));
            let parts = content.parts;
            items.push(Item::Said(match speaker {
                Speaker::System(role) => Said::System { role, parts },
                Speaker::Unknown => Said::User(labelled(&message.role, parts)),
                _ => Said::User(parts),
            }));
        }
    }
}

/// What is in a message's content and in its list of calls.
#[derive(Default)]
struct Content {
    parts: Vec<Part>,
    calls: Vec<Call>,
    answers: Vec<Answer>,
}

impl Content {
    fn read(message: &MessageRecord, speaker: Speaker) -> Content {
        let mut content = Content::default();
        for block in blocks(message.content.as_ref()) {
            content.add_block(block, speaker);
        }
        if speaker == Speaker::Assistant && !content.has_text() {
            content.add_codex_text(message.codex_message_items.as_ref());
        }
        for call in call_list(message.tool_calls.as_ref()) {
            match Call::from_openai(&call) {
                Some(call) if speaker == Speaker::Assistant => content.add_call(call),
                _ => content.parts.extend(parts::part(Value::String(text_of(&call)))),
            }
        }
        content
    }

    fn add_block(&mut self, block: Value, speaker: Speaker) {
        let is_assistant = speaker == Speaker::Assistant;
        if let Some(answer) = answer(&block) {
            self.answers.push(answer);
        } else if let Some(call) = Call::from_anthropic(&block).filter(|_| is_assistant) {
            self.add_call(call);
        } else if is_assistant && is_thinking(&block) {
            self.parts.extend(parts::thinking(&block));
        } else {
            self.parts.extend(parts::part(block));
        }
    }

    fn add_call(&mut self, call: Call) {
        if !self.calls.iter().any(|other| other.is_same(&call)) {
            self.calls.push(call);
        }
    }

    fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text(_)))
    }

    /// The text is in Codex's items too, and at times only there.
    fn add_codex_text(&mut self, items: Option<&Value>) {
        let items = items.and_then(Value::as_array).into_iter().flatten();
        for block in items.flat_map(|item| blocks(item.get("content"))) {
            self.parts.extend(parts::part(block));
        }
    }
}

fn blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        None => Vec::new(),
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(block) => vec![block.clone()],
    }
}

/// The calls of a list, which some store as text.
fn call_list(calls: Option<&Value>) -> Vec<Value> {
    match calls {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls.clone(),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Array(calls)) => calls,
            Ok(call @ Value::Object(_)) => vec![call],
            _ => vec![Value::String(text.clone())],
        },
        Some(call) => vec![call.clone()],
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("[tool call] {other}"),
    }
}

fn is_thinking(block: &Value) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

/// Anthropic's `tool_result` block.
fn answer(block: &Value) -> Option<Answer> {
    (block.get("type")? == "tool_result").then_some(())?;
    let outcome = Outcome {
        parts: blocks(block.get("content")).into_iter().filter_map(parts::part).collect(),
        is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or_default(),
    };
    Some(Answer { id: calls::id(block.get("tool_use_id")), name: String::new(), outcome })
}

/// A tool's message is one result, unless its blocks are results themselves.
fn tool_answers(message: &MessageRecord, content: Content) -> Vec<Answer> {
    let id = message.tool_call_id.clone().unwrap_or_default();
    let name = message.tool_name.clone().unwrap_or_default();
    let mut answers = content.answers;
    for answer in &mut answers {
        answer.name.clone_from(&name);
        if answer.id.is_empty() {
            answer.id.clone_from(&id);
        }
    }
    if answers.is_empty() || !content.parts.is_empty() {
        let outcome = Outcome { parts: content.parts, is_error: false };
        answers.push(Answer { id, name, outcome });
    }
    answers
}

/// What is said in a role that no API knows is the user's, with a word on whose it was.
fn labelled(role: &str, mut parts: Vec<Part>) -> Vec<Part> {
    if !parts.is_empty() && !role.trim().is_empty() {
        parts.insert(0, Part::Text(format!("[{role}]")));
    }
    parts
}

/// Reasoning with signatures may be in the content or beside it, or both. It comes first.
fn add_reasoning(message: &MessageRecord, parts: &mut Vec<Part>) {
    let mut reasoning: Vec<Part> =
        blocks(message.reasoning_details.as_ref()).iter().filter_map(parts::thinking).collect();
    reasoning.retain(|block| !parts.contains(block));
    parts.splice(0..0, reasoning);
}

fn carried(message: &MessageRecord) -> Map<String, Value> {
    let text = |text: &Option<String>| text.clone().map(Value::String);
    [
        ("reasoning", text(&message.reasoning)),
        ("reasoning_content", text(&message.reasoning_content)),
        ("reasoning_details", message.reasoning_details.clone()),
        ("codex_reasoning_items", message.codex_reasoning_items.clone()),
        ("codex_message_items", message.codex_message_items.clone()),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value.filter(|value| !value.is_null())?)))
    .collect()
}
