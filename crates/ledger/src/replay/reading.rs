//! Reading records: the speakers, and their text, tool calls and results.

use serde_json::{Map, Value};

use super::calls::{self, Call, CallResult, ToolResult};
use super::parts::{self, Part};
use crate::{MessageRecord, SessionRecord};

/// A message in terms common to all APIs.
#[derive(Clone, Debug)]
pub(super) enum ReplayMessage {
    System { role: &'static str, parts: Vec<Part> },
    User(Vec<Part>),
    Assistant(AssistantMessage),
}

/// An assistant message.
#[derive(Clone, Debug, Default)]
pub(super) struct AssistantMessage {
    pub(super) parts: Vec<Part>,
    pub(super) calls: Vec<Call>,
    /// Reasoning and Codex items, by the names of their fields in the record.
    pub(super) carried: Map<String, Value>,
}

/// A message, or a tool result that is not yet matched to its call.
#[derive(Clone, Debug)]
pub(super) enum ReplayItem {
    Message(ReplayMessage),
    Result(ToolResult),
}

/// The speaker of a message, determined by its role.
#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    System(&'static str),
    User,
    Assistant,
    Tool,
    Unknown,
}

/// Reads the system prompt and the messages of a session.
pub(super) fn read_items(session: &SessionRecord, messages: &[MessageRecord]) -> Vec<ReplayItem> {
    let mut items = Vec::new();
    let prompt = session.system_prompt.as_deref().and_then(Part::text);
    if let Some(prompt) = &prompt {
        items.push(ReplayItem::Message(ReplayMessage::System {
            role: "system",
            parts: vec![prompt.clone()],
        }));
    }
    let mut messages = messages.iter().peekable();
    // Some agents store the system prompt both with the session and as the first message.
    if prompt.is_some() {
        messages.next_if(|message| is_prompt(message, prompt.as_ref()));
    }
    messages.for_each(|message| read_message(message, &mut items));
    items
}

fn is_prompt(message: &MessageRecord, prompt: Option<&Part>) -> bool {
    matches!(speaker_of(&message.role), Some(Speaker::System(_)))
        && message.tool_calls.is_none()
        && message.content.as_ref().and_then(Value::as_str).and_then(Part::text).as_ref() == prompt
}

/// Returns the speaker of messages with this role, or `None` if such messages are not for the
/// model.
fn speaker_of(role: &str) -> Option<Speaker> {
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

fn read_message(message: &MessageRecord, items: &mut Vec<ReplayItem>) {
    let Some(speaker) = speaker_of(&message.role) else { return };
    let mut content = Content::read(message, speaker);
    match speaker {
        Speaker::Assistant => {
            add_reasoning(message, &mut content.parts);
            let Content { parts, calls, results } = content;
            let carried = carried_fields(message);
            items.push(ReplayItem::Message(ReplayMessage::Assistant(AssistantMessage {
                parts,
                calls,
                carried,
            })));
            items.extend(results.into_iter().map(ReplayItem::Result));
        }
        Speaker::Tool => {
            let results = read_tool_results(message, content);
            items.extend(results.into_iter().map(ReplayItem::Result));
        }
        _ => {
            items.extend(content.results.into_iter().map(ReplayItem::Result));
            let parts = content.parts;
            items.push(ReplayItem::Message(match speaker {
                Speaker::System(role) => ReplayMessage::System { role, parts },
                Speaker::Unknown => ReplayMessage::User(add_role_note(&message.role, parts)),
                _ => ReplayMessage::User(parts),
            }));
        }
    }
}

/// The parts, calls and results of a message.
#[derive(Default)]
struct Content {
    parts: Vec<Part>,
    calls: Vec<Call>,
    results: Vec<ToolResult>,
}

impl Content {
    fn read(message: &MessageRecord, speaker: Speaker) -> Content {
        let mut content = Content::default();
        for block in list_blocks(message.content.as_ref()) {
            content.add_block(block, speaker);
        }
        if speaker == Speaker::Assistant && !content.has_text() {
            content.add_codex_text(message.codex_message_items.as_ref());
        }
        for call in list_calls(message.tool_calls.as_ref()) {
            match Call::from_openai(&call) {
                Some(call) if speaker == Speaker::Assistant => content.add_call(call),
                _ => content.parts.extend(parts::read_part(Value::String(call_text(&call)))),
            }
        }
        content
    }

    fn add_block(&mut self, block: Value, speaker: Speaker) {
        let is_assistant = speaker == Speaker::Assistant;
        if let Some(result) = read_result(&block) {
            self.results.push(result);
        } else if let Some(call) = Call::from_anthropic(&block).filter(|_| is_assistant) {
            self.add_call(call);
        } else if is_assistant && is_thinking(&block) {
            self.parts.extend(parts::read_thinking(&block));
        } else {
            self.parts.extend(parts::read_part(block));
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

    /// Adds the text of Codex items. Some messages have their text only in these items.
    fn add_codex_text(&mut self, items: Option<&Value>) {
        let items = items.and_then(Value::as_array).into_iter().flatten();
        for block in items.flat_map(|item| list_blocks(item.get("content"))) {
            self.parts.extend(parts::read_part(block));
        }
    }
}

fn list_blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        None => Vec::new(),
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(block) => vec![block.clone()],
    }
}

/// Lists the calls of a message. Some programs store the list as text.
fn list_calls(calls: Option<&Value>) -> Vec<Value> {
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

fn call_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("[tool call] {other}"),
    }
}

fn is_thinking(block: &Value) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

/// Reads Anthropic's `tool_result` block.
fn read_result(block: &Value) -> Option<ToolResult> {
    (block.get("type")? == "tool_result").then_some(())?;
    let result = CallResult {
        parts: list_blocks(block.get("content")).into_iter().filter_map(parts::read_part).collect(),
        is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or_default(),
    };
    Some(ToolResult { id: calls::read_id(block.get("tool_use_id")), name: String::new(), result })
}

/// Reads the results in a tool message. The message is one result, unless its blocks are results
/// themselves.
fn read_tool_results(message: &MessageRecord, content: Content) -> Vec<ToolResult> {
    let id = message.tool_call_id.clone().unwrap_or_default();
    let name = message.tool_name.clone().unwrap_or_default();
    let mut results = content.results;
    for result in &mut results {
        result.name.clone_from(&name);
        if result.id.is_empty() {
            result.id.clone_from(&id);
        }
    }
    if results.is_empty() || !content.parts.is_empty() {
        let result = CallResult { parts: content.parts, is_error: false };
        results.push(ToolResult { id, name, result });
    }
    results
}

/// Adds a note that names the role of a message. No API knows the role, so the message becomes user
/// text.
fn add_role_note(role: &str, mut parts: Vec<Part>) -> Vec<Part> {
    if !parts.is_empty() && !role.trim().is_empty() {
        parts.insert(0, Part::Text(format!("[{role}]")));
    }
    parts
}

/// Puts signed reasoning before the other parts. The reasoning may be in the content, in a separate
/// field, or in both.
fn add_reasoning(message: &MessageRecord, parts: &mut Vec<Part>) {
    let mut reasoning: Vec<Part> = list_blocks(message.reasoning_details.as_ref())
        .iter()
        .filter_map(parts::read_thinking)
        .collect();
    reasoning.retain(|block| !parts.contains(block));
    parts.splice(0..0, reasoning);
}

fn carried_fields(message: &MessageRecord) -> Map<String, Value> {
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
