//! Events of a stream.

use serde_json::Value;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    name: Option<String>,
    data: String,
}

impl Event {
    /// An event with a name, which its data has as `type`.
    pub(crate) fn named(data: &Value) -> Event {
        Event { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    /// An event without a name.
    pub(crate) fn plain(data: &Value) -> Event {
        Event { name: None, data: data.to_string() }
    }

    /// How Chat Completions end.
    pub(crate) fn done() -> Event {
        Event { name: None, data: "[DONE]".to_owned() }
    }

    /// As it is sent.
    pub(crate) fn wire(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n"));
        format!("{}data: {}\n\n", name.unwrap_or_default(), self.data)
    }
}

/// A text in two pieces, so that whoever reads a stream has to put one together.
pub(crate) fn halves(text: &str) -> impl Iterator<Item = &str> {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at));
    let (first, second) = text.split_at(middle.expect("a text ends at a boundary"));
    [first, second].into_iter().filter(|piece| !piece.is_empty())
}
