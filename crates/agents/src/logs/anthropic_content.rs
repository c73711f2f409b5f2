//! Splitting content in the format of Anthropic's API, which several agents log: a string, or a
//! list of blocks.

use serde_json::{Value, json};

use super::entry_writer::{LoggedCall, LoggedResult, MessageParts, list_items, text_field};

/// Splits content into its parts.
pub(super) fn split_content(content: &Value) -> MessageParts {
    let mut parts = MessageParts::default();
    match content {
        Value::String(text) => parts.texts.push(text.clone()),
        content => list_items(content).iter().for_each(|block| add_part(&mut parts, block)),
    }
    parts
}

fn add_part(parts: &mut MessageParts, block: &Value) {
    match block["type"].as_str() {
        Some("text") => parts.texts.extend(text_field(block, "text")),
        Some("thinking") => parts.thoughts.extend(text_field(block, "thinking")),
        Some("tool_use" | "server_tool_use") => {
            if let Some(id) = text_field(block, "id") {
                let tool = text_field(block, "name").unwrap_or_default();
                parts.calls.push(LoggedCall { id, tool, input: block["input"].clone() });
            }
        }
        // pi's name for a tool call.
        Some("toolCall") => {
            if let Some(id) = text_field(block, "id") {
                let tool = text_field(block, "name").unwrap_or_default();
                parts.calls.push(LoggedCall { id, tool, input: block["arguments"].clone() });
            }
        }
        Some("tool_result") => {
            let Some(call) = text_field(block, "tool_use_id") else { return };
            parts.results.push(LoggedResult {
                call,
                tool: text_field(block, "name"),
                text: to_plain_text(&block["content"]),
                succeeded: block["is_error"].as_bool().map(|is_error| !is_error),
            });
        }
        Some(kind @ ("image" | "document")) => {
            parts.attachments.push(describe_attachment(kind, block));
        }
        _ => {}
    }
}

/// Describes an attachment without its bytes.
fn describe_attachment(kind: &str, block: &Value) -> Value {
    let source = &block["source"];
    let media = text_field(source, "media_type").or_else(|| text_field(block, "mimeType"));
    json!({ "type": kind, "source": { "type": "omitted", "media_type": media } })
}

/// Converts content to plain text.
pub(super) fn to_plain_text(content: &Value) -> String {
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
