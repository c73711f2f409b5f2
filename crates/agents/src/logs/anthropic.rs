//! Content as Anthropic's API has it, which several agents keep: a text, or a list of blocks.

use serde_json::{Value, json};

use super::page::{Call, Outcome, Parts, list, text};

pub(super) fn parts(content: &Value) -> Parts {
    let mut parts = Parts::default();
    match content {
        Value::String(text) => parts.texts.push(text.clone()),
        content => list(content).iter().for_each(|block| add(&mut parts, block)),
    }
    parts
}

fn add(parts: &mut Parts, block: &Value) {
    match block["type"].as_str() {
        Some("text") => parts.texts.extend(text(block, "text")),
        Some("thinking") => parts.thoughts.extend(text(block, "thinking")),
        Some("tool_use" | "server_tool_use") => {
            if let Some(id) = text(block, "id") {
                let tool = text(block, "name").unwrap_or_default();
                parts.calls.push(Call { id, tool, input: block["input"].clone() });
            }
        }
        // pi's name for the same.
        Some("toolCall") => {
            if let Some(id) = text(block, "id") {
                let tool = text(block, "name").unwrap_or_default();
                parts.calls.push(Call { id, tool, input: block["arguments"].clone() });
            }
        }
        Some("tool_result") => {
            let Some(call) = text(block, "tool_use_id") else { return };
            parts.results.push(Outcome {
                call,
                tool: text(block, "name"),
                text: plain(&block["content"]),
                succeeded: block["is_error"].as_bool().map(|is_error| !is_error),
            });
        }
        Some(kind @ ("image" | "document")) => parts.attachments.push(attachment(kind, block)),
        _ => {}
    }
}

/// What is said of a picture: not its bytes.
fn attachment(kind: &str, block: &Value) -> Value {
    let source = &block["source"];
    let media = text(source, "media_type").or_else(|| text(block, "mimeType"));
    json!({ "type": kind, "source": { "type": "omitted", "media_type": media } })
}

/// Content as text.
pub(super) fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match (&block["text"], &block["type"]) {
                (Value::String(text), _) => text.clone(),
                (_, Value::String(kind)) => format!("[{kind}]"),
                _ => block.to_string(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        content => content.to_string(),
    }
}
