//! Content as Google's API has it, which Gemini CLI and Qwen Code keep: a list of parts.

use serde_json::{Value, json};

use super::page::{Call, Outcome, Parts, list, text};

pub(super) fn parts(content: &Value) -> Parts {
    let mut parts = Parts::default();
    match content {
        Value::String(text) => parts.texts.push(text.clone()),
        Value::Object(_) => add(&mut parts, content),
        content => list(content).iter().for_each(|part| add(&mut parts, part)),
    }
    parts
}

fn add(parts: &mut Parts, part: &Value) {
    match part {
        Value::String(text) => parts.texts.push(text.clone()),
        part if part["thought"] == true => parts.thoughts.extend(text(part, "text")),
        part => parts.texts.extend(text(part, "text")),
    }
    if let call @ Value::Object(_) = &part["functionCall"]
        && let Some(id) = text(call, "id")
    {
        let tool = text(call, "name").unwrap_or_default();
        parts.calls.push(Call { id, tool, input: call["args"].clone() });
    }
    if let result @ Value::Object(_) = &part["functionResponse"]
        && let Some(call) = text(result, "id")
    {
        let response = &result["response"];
        let error = text(response, "error");
        let succeeded = error.is_some().then_some(false);
        let output = error.or_else(|| text(response, "output"));
        let text_of = || if response.is_null() { String::new() } else { response.to_string() };
        parts.results.push(Outcome {
            call,
            tool: text(result, "name"),
            text: output.unwrap_or_else(text_of),
            succeeded,
        });
    }
    for key in ["inlineData", "fileData"] {
        if let data @ Value::Object(_) = &part[key] {
            let source = json!({ "type": "omitted", "media_type": text(data, "mimeType") });
            parts.attachments.push(json!({ "type": "image", "source": source }));
        }
    }
}
