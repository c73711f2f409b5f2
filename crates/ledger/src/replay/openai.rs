//! Messages in OpenAI's form.

use serde_json::{Map, Value, json};

use super::calls::Call;
use super::ids::{self, Ids};
use super::parts::{self, Part, Source};
use super::reading::{Assistant, Said};

pub(super) fn write(said: Vec<Said>) -> Value {
    let mut writer = Writer { messages: Vec::new(), ids: Ids::openai() };
    for said in said {
        match said {
            Said::System { role, parts } => writer.system(role, parts),
            Said::User(parts) => writer.user(parts),
            Said::Assistant(assistant) => writer.assistant(assistant),
        }
    }
    Value::Array(writer.messages)
}

struct Writer {
    messages: Vec<Value>,
    ids: Ids,
}

impl Writer {
    fn system(&mut self, role: &str, parts: Vec<Part>) {
        let (texts, media) = parts::separate(parts);
        if !texts.is_empty() {
            self.messages.push(json!({ "role": role, "content": joined(&texts) }));
        }
        self.media("[from the system]", media);
    }

    fn user(&mut self, parts: Vec<Part>) {
        if !parts.is_empty() {
            self.messages.push(json!({ "role": "user", "content": user_content(parts) }));
        }
    }

    fn assistant(&mut self, assistant: Assistant) {
        let Assistant { mut parts, calls, carried } = assistant;
        // Anthropic's reasoning has no place here.
        parts.retain(|part| !matches!(part, Part::Thinking(_)));
        let (texts, media) = parts::separate(parts);
        if !texts.is_empty() || !calls.is_empty() {
            self.assistant_message(&texts, calls, carried);
        }
        self.media("[from the assistant]", media);
    }

    fn assistant_message(
        &mut self,
        texts: &[String],
        calls: Vec<Call>,
        carried: Map<String, Value>,
    ) {
        let mut message = carried;
        message.insert("role".to_owned(), "assistant".into());
        // Only beside calls may it be null.
        let content = if texts.is_empty() { Value::Null } else { joined(texts).into() };
        message.insert("content".to_owned(), content);
        if calls.is_empty() {
            self.messages.push(Value::Object(message));
            return;
        }
        // A name is looked for in the message right before, so that it may be used again later.
        self.ids.forget();
        let calls: Vec<(String, Call)> =
            calls.into_iter().map(|call| (self.ids.assign(&call.id), call)).collect();
        let list = calls.iter().map(|(id, call)| tool_call(id, call)).collect();
        message.insert("tool_calls".to_owned(), Value::Array(list));
        self.messages.push(Value::Object(message));
        self.results(calls);
    }

    fn results(&mut self, calls: Vec<(String, Call)>) {
        let mut later = Vec::new();
        for (id, mut call) in calls {
            let (texts, media) = parts::separate(call.take_outcome().parts);
            self.messages
                .push(json!({ "role": "tool", "tool_call_id": id, "content": joined(&texts) }));
            later.push((format!("[from the result of {}]", call.name), media));
        }
        later.into_iter().for_each(|(note, media)| self.media(&note, media));
    }

    /// Only users show images here: what others showed is handed on in a message of its own.
    fn media(&mut self, note: &str, media: Vec<Part>) {
        if !media.is_empty() {
            self.user(std::iter::once(Part::Text(note.to_owned())).chain(media).collect());
        }
    }
}

fn joined(texts: &[String]) -> String {
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

/// Text alone is a string: not every provider takes lists.
fn user_content(parts: Vec<Part>) -> Value {
    let blocks: Vec<Value> = parts.into_iter().map(block).collect();
    let texts: Option<Vec<String>> =
        blocks.iter().map(|block| Some(block.get("text")?.as_str()?.to_owned())).collect();
    match texts {
        Some(texts) => joined(&texts).into(),
        None => Value::Array(blocks),
    }
}

fn block(part: Part) -> Value {
    match part {
        Part::Image { source, detail } => {
            let mut image = json!({ "url": match source {
                Source::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
                Source::Url(url) => url,
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
        Part::Other(block) if is_openais(&block) => block,
        part => json!({ "type": "text", "text": part.into_text() }),
    }
}

fn is_openais(block: &Value) -> bool {
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
