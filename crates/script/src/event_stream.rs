//! The events of a stream, in the server-sent events format.

use serde_json::Value;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamEvent {
    name: Option<String>,
    data: String,
}

impl StreamEvent {
    /// Creates an event whose name is the `type` of its data.
    pub(crate) fn with_name(data: &Value) -> StreamEvent {
        StreamEvent { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    /// Creates an event without a name.
    pub(crate) fn without_name(data: &Value) -> StreamEvent {
        StreamEvent { name: None, data: data.to_string() }
    }

    /// Creates the event that ends a Chat Completions stream.
    pub(crate) fn end_of_chat() -> StreamEvent {
        StreamEvent { name: None, data: "[DONE]".to_owned() }
    }

    /// Returns the text that is sent for the event.
    pub(crate) fn to_text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n"));
        format!("{}data: {}\n\n", name.unwrap_or_default(), self.data)
    }
}

/// Splits text into two pieces, so that the reader of a stream has to join them.
pub(crate) fn split_in_half(text: &str) -> impl Iterator<Item = &str> {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at));
    let (first, second) = text.split_at(middle.expect("text ends at a boundary"));
    [first, second].into_iter().filter(|piece| !piece.is_empty())
}
