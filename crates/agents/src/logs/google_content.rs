//! Splitting content in the format of Google's API, which Gemini CLI and Qwen Code log: a list of
//! parts.

use serde_json::{Value, json};

use super::entry_writer::{LoggedCall, LoggedResult, MessageParts, list_items, text_field};

/// Splits content into its parts.
pub(super) fn split_content(content: &Value) -> MessageParts {
    let mut parts = MessageParts::default();
    match content {
        Value::String(text) => parts.texts.push(text.clone()),
        Value::Object(_) => add_part(&mut parts, content),
        content => list_items(content).iter().for_each(|part| add_part(&mut parts, part)),
    }
    parts
}

fn add_part(parts: &mut MessageParts, part: &Value) {
    match part {
        Value::String(text) => parts.texts.push(text.clone()),
        part if part["thought"] == true => parts.thoughts.extend(text_field(part, "text")),
        part => parts.texts.extend(text_field(part, "text")),
    }
    if let call @ Value::Object(_) = &part["functionCall"]
        && let Some(id) = text_field(call, "id")
    {
        let tool = text_field(call, "name").unwrap_or_default();
        parts.calls.push(LoggedCall { id, tool, input: call["args"].clone() });
    }
    if let result @ Value::Object(_) = &part["functionResponse"]
        && let Some(call) = text_field(result, "id")
    {
        let response = &result["response"];
        let error = text_field(response, "error");
        let succeeded = error.is_some().then_some(false);
        let output = error.or_else(|| text_field(response, "output"));
        let text_of = || if response.is_null() { String::new() } else { response.to_string() };
        parts.results.push(LoggedResult {
            call,
            tool: text_field(result, "name"),
            text: output.unwrap_or_else(text_of),
            succeeded,
        });
    }
    for key in ["inlineData", "fileData"] {
        if let data @ Value::Object(_) = &part[key] {
            let source = json!({ "type": "omitted", "media_type": text_field(data, "mimeType") });
            parts.attachments.push(json!({ "type": "image", "source": source }));
        }
    }
}
