//! Writing requests for Anthropic's Messages API.

use serde_json::{Value, json};

use super::calls::{Call, CallResult};
use super::ids::{self, CallIds};
use super::parts::{self, ImageSource, Part};
use super::reading::{AssistantMessage, ReplayMessage};

/// Writes the system prompt and the messages of a request.
pub(super) fn write_request(messages: Vec<ReplayMessage>) -> Value {
    let mut writer = Writer::default();
    for message in messages {
        match message {
            ReplayMessage::System { role, parts } => writer.add_system(role, parts),
            ReplayMessage::User(parts) => writer.add_blocks(Role::User, to_blocks(parts)),
            ReplayMessage::Assistant(message) => writer.add_assistant(message),
        }
    }
    writer.finish()
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    User,
    Assistant,
}

struct Writer {
    system: Vec<String>,
    messages: Vec<(Role, Vec<Value>)>,
    ids: CallIds,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { system: Vec::new(), messages: Vec::new(), ids: CallIds::anthropic() }
    }
}

impl Writer {
    /// Adds system text. The API accepts system text only before the conversation. Later system
    /// text becomes user text, because moving it to the front would change its meaning.
    fn add_system(&mut self, role: &str, parts: Vec<Part>) {
        if !self.messages.is_empty() {
            if !parts.is_empty() {
                self.add_blocks(Role::User, with_note(&format!("[{role}]"), parts));
            }
            return;
        }
        let (texts, media) = parts::separate_media(parts);
        self.system.extend(texts);
        if !media.is_empty() {
            self.add_blocks(Role::User, with_note("[from the system]", media));
        }
    }

    fn add_assistant(&mut self, message: AssistantMessage) {
        let AssistantMessage { parts, calls, .. } = message;
        // The API accepts no images from the assistant, so they become images from the user.
        let is_media = |part: &Part| matches!(part, Part::Image { .. } | Part::Pdf { .. });
        let (media, parts): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_media);
        let calls: Vec<(String, Call)> =
            calls.into_iter().map(|call| (self.ids.assign_id(&call.id), call)).collect();
        let blocks = parts.into_iter().map(assistant_block);
        self.add_blocks(Role::Assistant, blocks.chain(calls.iter().map(tool_use)).collect());
        // The results must come before anything else in the user message.
        self.add_blocks(Role::User, calls.into_iter().map(tool_result).collect());
        if !media.is_empty() {
            self.add_blocks(Role::User, with_note("[from the assistant]", media));
        }
    }

    /// Adds blocks from one role. Adjacent blocks from the same role become one message.
    fn add_blocks(&mut self, role: Role, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if role == Role::User {
            self.close_assistant();
        }
        match self.messages.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => self.messages.push((role, blocks)),
        }
    }

    /// Removes reasoning from the end of the assistant's message, where the API rejects it. A
    /// message ends in reasoning if the model was cut off.
    fn close_assistant(&mut self) {
        let Some((Role::Assistant, blocks)) = self.messages.last_mut() else { return };
        let last = blocks.iter().rposition(|block| !is_thinking(block));
        blocks.truncate(last.map_or(0, |last| last + 1));
        if blocks.is_empty() {
            self.messages.pop();
        }
    }

    fn finish(mut self) -> Value {
        self.close_assistant();
        if let Some((Role::Assistant, blocks)) = self.messages.last_mut() {
            trim_last_text(blocks);
        }
        if let Some((Role::Assistant, _)) = self.messages.first() {
            let note = vec![text_block("[The conversation begins with the assistant.]")];
            self.messages.insert(0, (Role::User, note));
        }
        let messages: Vec<Value> = self.messages.into_iter().map(write_message).collect();
        match self.system.is_empty() {
            true => json!({ "messages": messages }),
            false => json!({ "system": self.system.join("\n\n"), "messages": messages }),
        }
    }
}

/// Removes white space at the end of the assistant's last block of text, because the API rejects
/// it.
fn trim_last_text(blocks: &mut [Value]) {
    if let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

fn write_message((role, blocks): (Role, Vec<Value>)) -> Value {
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A single block of text is written as a string, as agents write it.
    let content = match blocks.as_slice() {
        [block] if block["type"] == "text" => block["text"].clone(),
        _ => Value::Array(blocks),
    };
    json!({ "role": role, "content": content })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

fn with_note(note: &str, parts: Vec<Part>) -> Vec<Value> {
    std::iter::once(text_block(note)).chain(to_blocks(parts)).collect()
}

fn to_blocks(parts: Vec<Part>) -> Vec<Value> {
    parts.into_iter().map(to_block).collect()
}

/// Builds a block for a user message or a tool result.
fn to_block(part: Part) -> Value {
    match part {
        Part::Image { source: ImageSource::Base64 { media_type, data }, .. } => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
        // The API fetches images over TLS only.
        Part::Image { source: ImageSource::Url(url), .. } if url.starts_with("https://") => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        Part::Pdf { name, data } => {
            let source = json!({ "type": "base64", "media_type": "application/pdf", "data": data });
            let mut block = json!({ "type": "document", "source": source });
            if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
                block["title"] = name.into();
            }
            block
        }
        Part::Other(block) if is_linked_document(&block) => block,
        part => text_block(&part.into_text()),
    }
}

fn assistant_block(part: Part) -> Value {
    match part {
        Part::Thinking(block) => block,
        part => text_block(&part.into_text()),
    }
}

fn is_linked_document(block: &Value) -> bool {
    let url = || block.get("source")?.get("url")?.as_str();
    block["type"] == "document"
        && block["source"]["type"] == "url"
        && url().is_some_and(|url| url.starts_with("https://"))
}

fn tool_use((id, call): &(String, Call)) -> Value {
    let name = ids::tool_name(&call.name);
    json!({ "type": "tool_use", "id": id, "name": name, "input": call.input() })
}

fn tool_result((id, mut call): (String, Call)) -> Value {
    let CallResult { parts, is_error } = call.take_result();
    let content = to_blocks(parts);
    let mut result = json!({ "type": "tool_result", "tool_use_id": id });
    // The API rejects a result that is marked as an error and contains an image.
    if is_error && content.iter().all(|block| block["type"] == "text") {
        result["is_error"] = true.into();
    }
    match content.as_slice() {
        [] => {}
        [block] if block["type"] == "text" => result["content"] = block["text"].clone(),
        _ => result["content"] = Value::Array(content),
    }
    result
}
