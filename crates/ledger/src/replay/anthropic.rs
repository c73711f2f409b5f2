//! Messages in Anthropic's form.

use serde_json::{Value, json};

use super::calls::{Call, Outcome};
use super::ids::{self, Ids};
use super::parts::{self, Part, Source};
use super::reading::{Assistant, Said};

pub(super) fn write(said: Vec<Said>) -> Value {
    let mut writer = Writer::default();
    for said in said {
        match said {
            Said::System { role, parts } => writer.system(role, parts),
            Said::User(parts) => writer.add(Role::User, blocks(parts)),
            Said::Assistant(assistant) => writer.assistant(assistant),
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
    ids: Ids,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { system: Vec::new(), messages: Vec::new(), ids: Ids::anthropic() }
    }
}

impl Writer {
    /// Only before the conversation is there a place for the system. What it says later is the
    /// user's text in its place, since moving it to the front would change what it is about.
    fn system(&mut self, role: &str, parts: Vec<Part>) {
        if !self.messages.is_empty() {
            if !parts.is_empty() {
                self.add(Role::User, noted(&format!("[{role}]"), parts));
            }
            return;
        }
        let (texts, media) = parts::separate(parts);
        self.system.extend(texts);
        if !media.is_empty() {
            self.add(Role::User, noted("[from the system]", media));
        }
    }

    fn assistant(&mut self, assistant: Assistant) {
        let Assistant { parts, calls, .. } = assistant;
        // The assistant shows no images here: they are handed on as the user's.
        let is_media = |part: &Part| matches!(part, Part::Image { .. } | Part::Pdf { .. });
        let (media, parts): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_media);
        let calls: Vec<(String, Call)> =
            calls.into_iter().map(|call| (self.ids.assign(&call.id), call)).collect();
        let said = parts.into_iter().map(assistant_block);
        self.add(Role::Assistant, said.chain(calls.iter().map(tool_use)).collect());
        // Before everything else of the user's.
        self.add(Role::User, calls.into_iter().map(tool_result).collect());
        if !media.is_empty() {
            self.add(Role::User, noted("[from the assistant]", media));
        }
    }

    /// Neighbours of one role are one message.
    fn add(&mut self, role: Role, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if role == Role::User {
            self.close_assistant();
        }
        match self.messages.last_mut() {
            Some((last, said)) if *last == role => said.extend(blocks),
            _ => self.messages.push((role, blocks)),
        }
    }

    /// A message must not end with reasoning, as it does if the model was cut off there.
    fn close_assistant(&mut self) {
        let Some((Role::Assistant, blocks)) = self.messages.last_mut() else { return };
        let said = blocks.iter().rposition(|block| !is_thinking(block)).map_or(0, |last| last + 1);
        blocks.truncate(said);
        if blocks.is_empty() {
            self.messages.pop();
        }
    }

    fn finish(mut self) -> Value {
        self.close_assistant();
        if let Some((Role::Assistant, blocks)) = self.messages.last_mut() {
            trim_end(blocks);
        }
        if let Some((Role::Assistant, _)) = self.messages.first() {
            let note = vec![text("[The conversation begins with the assistant.]")];
            self.messages.insert(0, (Role::User, note));
        }
        let messages: Vec<Value> = self.messages.into_iter().map(message).collect();
        match self.system.is_empty() {
            true => json!({ "messages": messages }),
            false => json!({ "system": self.system.join("\n\n"), "messages": messages }),
        }
    }
}

/// Space at the very end of the assistant's last words is refused.
fn trim_end(blocks: &mut [Value]) {
    if let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

fn message((role, blocks): (Role, Vec<Value>)) -> Value {
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A single text is a string, as agents write it themselves.
    let content = match blocks.as_slice() {
        [block] if block["type"] == "text" => block["text"].clone(),
        _ => Value::Array(blocks),
    };
    json!({ "role": role, "content": content })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

fn noted(note: &str, parts: Vec<Part>) -> Vec<Value> {
    std::iter::once(text(note)).chain(blocks(parts)).collect()
}

fn blocks(parts: Vec<Part>) -> Vec<Value> {
    parts.into_iter().map(block).collect()
}

/// A block of the user's or of a tool result.
fn block(part: Part) -> Value {
    match part {
        Part::Image { source: Source::Base64 { media_type, data }, .. } => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
        // Images are fetched over TLS only.
        Part::Image { source: Source::Url(url), .. } if url.starts_with("https://") => {
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
        part => text(&part.into_text()),
    }
}

fn assistant_block(part: Part) -> Value {
    match part {
        Part::Thinking(block) => block,
        part => text(&part.into_text()),
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
    let Outcome { parts, is_error } = call.take_outcome();
    let content = blocks(parts);
    let mut result = json!({ "type": "tool_result", "tool_use_id": id });
    // An error that shows an image is refused.
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
