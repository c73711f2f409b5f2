//! Writing messages for OpenAI-style chat completions APIs.

use serde_json::{Map, Value, json};

use super::calls::Call;
use super::ids::{self, CallIds};
use super::parts::{self, ImageSource, Part};
use super::reading::{AssistantMessage, ReplayMessage};

/// Writes the messages of a request.
pub(super) fn write_messages(messages: Vec<ReplayMessage>) -> Value {
    let mut writer = Writer { messages: Vec::new(), ids: CallIds::openai() };
    for message in messages {
        match message {
            ReplayMessage::System { role, parts } => writer.add_system(role, parts),
            ReplayMessage::User(parts) => writer.add_user(parts),
            ReplayMessage::Assistant(message) => writer.add_assistant(message),
        }
    }
    Value::Array(writer.messages)
}

struct Writer {
    messages: Vec<Value>,
    ids: CallIds,
}

impl Writer {
    fn add_system(&mut self, role: &str, parts: Vec<Part>) {
        let (texts, media) = parts::separate_media(parts);
        if !texts.is_empty() {
            self.messages.push(json!({ "role": role, "content": join_texts(&texts) }));
        }
        self.add_media("[from the system]", media);
    }

    fn add_user(&mut self, parts: Vec<Part>) {
        if !parts.is_empty() {
            self.messages.push(json!({ "role": "user", "content": user_content(parts) }));
        }
    }

    fn add_assistant(&mut self, message: AssistantMessage) {
        let AssistantMessage { mut parts, calls, carried } = message;
        // This format has no field for Anthropic's reasoning.
        parts.retain(|part| !matches!(part, Part::Thinking(_)));
        let (texts, media) = parts::separate_media(parts);
        if !texts.is_empty() || !calls.is_empty() {
            self.add_text_and_calls(&texts, calls, carried);
        }
        self.add_media("[from the assistant]", media);
    }

    fn add_text_and_calls(
        &mut self,
        texts: &[String],
        calls: Vec<Call>,
        carried: Map<String, Value>,
    ) {
        let mut message = carried;
        message.insert("role".to_owned(), "assistant".into());
        // Content may be null only if there are calls.
        let content = if texts.is_empty() { Value::Null } else { join_texts(texts).into() };
        message.insert("content".to_owned(), content);
        if calls.is_empty() {
            self.messages.push(Value::Object(message));
            return;
        }
        // Results refer only to the calls in the message right before them, so later messages can
        // reuse ids.
        self.ids.forget_all();
        let calls: Vec<(String, Call)> =
            calls.into_iter().map(|call| (self.ids.assign_id(&call.id), call)).collect();
        let list = calls.iter().map(|(id, call)| tool_call(id, call)).collect();
        message.insert("tool_calls".to_owned(), Value::Array(list));
        self.messages.push(Value::Object(message));
        self.add_results(calls);
    }

    fn add_results(&mut self, calls: Vec<(String, Call)>) {
        let mut later = Vec::new();
        for (id, mut call) in calls {
            let (texts, media) = parts::separate_media(call.take_result().parts);
            self.messages
                .push(json!({ "role": "tool", "tool_call_id": id, "content": join_texts(&texts) }));
            later.push((format!("[from the result of {}]", call.name), media));
        }
        later.into_iter().for_each(|(note, media)| self.add_media(&note, media));
    }

    /// Adds images and documents. The API allows them only in user messages, so images and
    /// documents from other roles are put into a separate user message.
    fn add_media(&mut self, note: &str, media: Vec<Part>) {
        if !media.is_empty() {
            self.add_user(std::iter::once(Part::Text(note.to_owned())).chain(media).collect());
        }
    }
}

fn join_texts(texts: &[String]) -> String {
    texts.join("\n\n")
}

fn tool_call(id: &str, call: &Call) -> Value {
    let mut value = call.extra.clone();
    value.insert("id".to_owned(), id.into());
    value.insert("type".to_owned(), "function".into());
    let function = json!({ "name": ids::tool_name(&call.name), "arguments": call.arguments });
    value.insert("function".to_owned(), function);
    Value::Object(value)
}

/// Builds the content of a user message. Text alone becomes a string, because not every provider
/// accepts lists.
fn user_content(parts: Vec<Part>) -> Value {
    let blocks: Vec<Value> = parts.into_iter().map(to_block).collect();
    let texts: Option<Vec<String>> =
        blocks.iter().map(|block| Some(block.get("text")?.as_str()?.to_owned())).collect();
    match texts {
        Some(texts) => join_texts(&texts).into(),
        None => Value::Array(blocks),
    }
}

fn to_block(part: Part) -> Value {
    match part {
        Part::Image { source, detail } => {
            let mut image = json!({ "url": match source {
                ImageSource::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
                ImageSource::Url(url) => url,
            } });
            if let Some(detail) = detail {
                image["detail"] = detail.into();
            }
            json!({ "type": "image_url", "image_url": image })
        }
        Part::Pdf { name, data } => json!({ "type": "file", "file": {
            "filename": name.unwrap_or_else(|| "document.pdf".to_owned()),
            "file_data": format!("data:application/pdf;base64,{data}"),
        } }),
        Part::Other(block) if is_openai_block(&block) => block,
        part => json!({ "type": "text", "text": part.into_text() }),
    }
}

fn is_openai_block(block: &Value) -> bool {
    let string = |key: &str, field: &str| {
        block.get(key).is_some_and(|inner| {
            inner.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        })
    };
    match block.get("type").and_then(Value::as_str) {
        Some("input_audio") => string("input_audio", "data") && string("input_audio", "format"),
        Some("file") => string("file", "file_id") || string("file", "file_data"),
        _ => false,
    }
}
