//! The text of a message: the part that a user reads and that a search covers.

use rusqlite::Row;
use serde_json::Value;

use crate::MessageRecord;
use crate::sessions::parse_json;

/// Collects the text in structured content or in tool calls: all strings and numbers, each on a
/// separate line, but no types, signatures or binary data. If a string holds arguments as JSON,
/// collects the text in that JSON.
pub(crate) fn text_of(value: &Value) -> String {
    let mut text = String::new();
    collect_text(value, "", &mut text);
    text
}

fn collect_text(value: &Value, key: &str, text: &mut String) {
    match value {
        Value::Object(map) => {
            let is_text =
                |key: &str| !matches!(key, "type" | "data" | "signature" | "encrypted_content");
            map.iter()
                .filter(|(key, _)| is_text(key))
                .for_each(|(key, value)| collect_text(value, key, text));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_text(value, key, text)),
        Value::String(string) => {
            if matches!(key, "arguments" | "input")
                && let Ok(value @ (Value::Object(_) | Value::Array(_))) =
                    serde_json::from_str(string)
            {
                collect_text(&value, "", text);
            } else if !string.starts_with("data:") {
                push_line(text, string);
            }
        }
        Value::Number(number) => push_line(text, &number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Reads the fields that a search covers: content, tool name and tool calls.
pub(crate) fn read_searchable(row: &Row<'_>) -> rusqlite::Result<[String; 3]> {
    let content: Option<String> = row.get("content")?;
    let structured: bool = row.get("structured")?;
    let name: Option<String> = row.get("tool_name")?;
    let calls: Option<String> = row.get("tool_calls")?;
    let content = content.unwrap_or_default();
    Ok([
        if structured { text_of(&parse_json(&content)) } else { content },
        name.unwrap_or_default(),
        calls.map(|calls| text_of(&parse_json(&calls))).unwrap_or_default(),
    ])
}

/// The fields of a message that a search covers: content, tool name and tool calls.
pub(crate) struct Searchable(pub(crate) [String; 3]);

impl Searchable {
    /// Returns the fields of a message that [`read_searchable`] would read from the message's row.
    pub(crate) fn of(message: &MessageRecord) -> Searchable {
        let content = match &message.content {
            Some(Value::String(text)) => text.clone(),
            Some(content) => text_of(content),
            None => String::new(),
        };
        Searchable([
            content,
            message.tool_name.clone().unwrap_or_default(),
            message.tool_calls.as_ref().map(text_of).unwrap_or_default(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_data_of_images_is_not_part_of_the_text() {
        let content = json!([
            { "type": "text", "text": "look at this" },
            { "type": "image", "source": { "type": "base64", "data": "aGVsbG8=" } },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGVsbG8=" } },
        ]);
        assert_eq!(text_of(&content), "look at this");
    }

    #[test]
    fn the_text_of_arguments_in_a_string_is_found() {
        let calls = json!([{ "id": "call_1", "type": "function", "function": {
            "name": "write", "arguments": "{\"path\": \"a.rs\", \"text\": \"fn main() {\\nlet x\"}" } }]);
        let text = text_of(&calls);
        assert!(text.lines().any(|line| line == "let x"), "{text}");
        assert!(text.lines().any(|line| line == "write"), "{text}");
    }
}
