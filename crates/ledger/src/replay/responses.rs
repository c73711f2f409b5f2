//! Writing requests for OpenAI's Responses API.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::calls::Call;
use super::ids::{self, CallIds};
use super::parts::{self, ImageSource, Part};
use super::reading::{AssistantMessage, ReplayMessage};

/// Writes the instructions and the input of a request.
pub(super) fn write_request(messages: Vec<ReplayMessage>) -> Value {
    let mut writer = Writer::default();
    for message in messages {
        match message {
            ReplayMessage::System { role, parts } => writer.add_system(role, parts),
            ReplayMessage::User(parts) => writer.add_user(parts),
            ReplayMessage::Assistant(message) => writer.add_assistant(message),
        }
    }
    match writer.instructions.is_empty() {
        true => json!({ "input": writer.input }),
        false => {
            json!({ "instructions": writer.instructions.join("\n\n"), "input": writer.input })
        }
    }
}

struct Writer {
    instructions: Vec<String>,
    input: Vec<Value>,
    ids: CallIds,
    /// The encrypted reasoning so far. The API rejects an item that occurs twice.
    reasoning: HashSet<String>,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            instructions: Vec::new(),
            input: Vec::new(),
            ids: CallIds::responses(),
            reasoning: HashSet::new(),
        }
    }
}

impl Writer {
    /// Adds system text. Before the first message it becomes instructions; later it becomes a
    /// message.
    fn add_system(&mut self, role: &str, parts: Vec<Part>) {
        let (texts, media) = parts::separate_media(parts);
        if self.input.is_empty() {
            self.instructions.extend(texts);
        } else {
            self.add_text(role, &texts);
        }
        self.add_media("[from the system]", media);
    }

    fn add_user(&mut self, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        let has_media = parts.iter().any(|part| !matches!(part, Part::Text(_)));
        if has_media {
            let content: Vec<Value> = parts.into_iter().map(to_block).collect();
            self.input.push(json!({ "type": "message", "role": "user", "content": content }));
        } else {
            let texts: Vec<String> = parts.into_iter().map(Part::into_text).collect();
            self.add_text("user", &texts);
        }
    }

    fn add_assistant(&mut self, message: AssistantMessage) {
        let AssistantMessage { mut parts, calls, carried } = message;
        // This API has no field for Anthropic's reasoning.
        parts.retain(|part| !matches!(part, Part::Thinking(_)));
        let (texts, media) = parts::separate_media(parts);
        // The API rejects reasoning that is not followed by text or a call.
        if !texts.is_empty() || !calls.is_empty() {
            self.add_reasoning(&carried);
        }
        self.add_text("assistant", &texts);
        self.add_calls(calls);
        self.add_media("[from the assistant]", media);
    }

    /// Adds the message's reasoning, if it came from this API. Leaves out items without encrypted
    /// content: they would only refer to a response that the API does not store.
    fn add_reasoning(&mut self, carried: &Map<String, Value>) {
        let items = carried.get("codex_reasoning_items").and_then(Value::as_array);
        for item in items.into_iter().flatten().filter(|item| item["type"] == "reasoning") {
            let Some(encrypted) = non_blank(item.get("encrypted_content")) else { continue };
            if !self.reasoning.insert(encrypted.to_owned()) {
                continue;
            }
            let summary = item.get("summary").filter(|summary| summary.is_array());
            let mut written = json!({
                "type": "reasoning",
                "summary": summary.cloned().unwrap_or_else(|| json!([])),
                "encrypted_content": encrypted,
            });
            if let Some(id) = non_blank(item.get("id")) {
                written["id"] = id.into();
            }
            self.input.push(written);
        }
    }

    fn add_calls(&mut self, calls: Vec<Call>) {
        let mut outputs = Vec::new();
        let mut later = Vec::new();
        for mut call in calls {
            // A result is matched to its call by the id alone, so ids must be unique in the whole
            // request.
            let id = self.ids.assign_id(&call.id);
            let name = ids::tool_name(&call.name);
            self.input.push(json!({
                "type": "function_call", "call_id": id, "name": name, "arguments": call.arguments,
            }));
            let (texts, media) = parts::separate_media(call.take_result().parts);
            outputs.push(json!({
                "type": "function_call_output", "call_id": id, "output": texts.join("\n\n"),
            }));
            later.push((format!("[from the result of {}]", call.name), media));
        }
        self.input.extend(outputs);
        later.into_iter().for_each(|(note, media)| self.add_media(&note, media));
    }

    fn add_text(&mut self, role: &str, texts: &[String]) {
        if !texts.is_empty() {
            let text = texts.join("\n\n");
            self.input.push(json!({ "type": "message", "role": role, "content": text }));
        }
    }

    /// Adds images and documents. The API allows them only in user messages, so images and
    /// documents from other roles are put into a separate user message.
    fn add_media(&mut self, note: &str, media: Vec<Part>) {
        if !media.is_empty() {
            self.add_user(std::iter::once(Part::Text(note.to_owned())).chain(media).collect());
        }
    }
}

fn non_blank(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.trim().is_empty())
}

fn to_block(part: Part) -> Value {
    match part {
        Part::Image { source, detail } => json!({
            "type": "input_image",
            "image_url": match source {
                ImageSource::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
                ImageSource::Url(url) => url,
            },
            "detail": detail.unwrap_or_else(|| "auto".to_owned()),
        }),
        Part::Pdf { name, data } => json!({
            "type": "input_file",
            "filename": name.unwrap_or_else(|| "document.pdf".to_owned()),
            "file_data": format!("data:application/pdf;base64,{data}"),
        }),
        part => json!({ "type": "input_text", "text": part.into_text() }),
    }
}
