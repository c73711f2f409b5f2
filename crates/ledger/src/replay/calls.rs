//! Tool calls and their results, read from the forms of any API.

use serde_json::{Map, Value, json};

use super::parts::Part;

/// A tool call made by the model.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The id as stored; empty if there is none.
    pub(super) id: String,
    pub(super) name: String,
    /// A JSON object as text.
    pub(super) arguments: String,
    /// The other fields of a call that was stored in OpenAI's form. Some providers put signatures
    /// there and expect them back.
    pub(super) extra: Map<String, Value>,
    pub(super) result: Option<CallResult>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallResult {
    pub(super) parts: Vec<Part>,
    pub(super) is_error: bool,
}

/// A result that has not been matched to its call yet.
#[derive(Clone, Debug)]
pub(super) struct ToolResult {
    /// The id of the call as stored; empty if there is none.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) result: CallResult,
}

impl Call {
    /// Reads an element of OpenAI's `tool_calls`, or a similar value. Returns `None` if the call
    /// has no name.
    pub(super) fn from_openai(value: &Value) -> Option<Call> {
        let call = value.as_object()?;
        let inner = ["function", "custom"].iter().find_map(|key| call.get(*key)?.as_object());
        let function = inner.unwrap_or(call);
        let arguments = ["arguments", "input", "args"].iter().find_map(|key| function.get(*key));
        let known =
            ["id", "type", "function", "custom", "name", "arguments", "input", "args", "index"];
        let extra = call.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        Some(Call {
            id: ["id", "call_id"]
                .iter()
                .map(|key| read_id(call.get(*key)))
                .find(|id| !id.is_empty())
                .unwrap_or_default(),
            name: read_name(function.get("name"))?,
            arguments: format_arguments(arguments),
            extra: extra.map(|(key, value)| (key.clone(), value.clone())).collect(),
            result: None,
        })
    }

    /// Reads Anthropic's `tool_use` block.
    pub(super) fn from_anthropic(block: &Value) -> Option<Call> {
        (block.get("type")? == "tool_use").then_some(())?;
        Some(Call {
            id: read_id(block.get("id")),
            name: read_name(block.get("name"))?,
            arguments: format_arguments(block.get("input")),
            extra: Map::new(),
            result: None,
        })
    }

    /// Returns the arguments as a JSON object.
    pub(super) fn input(&self) -> Map<String, Value> {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }

    /// True if both are the same call. Some agents store a call both as a content block and in the
    /// list of calls.
    pub(super) fn is_same(&self, other: &Call) -> bool {
        !self.id.is_empty()
            && self.id == other.id
            && self.name == other.name
            && self.input() == other.input()
    }

    /// Takes the result. If there is none, returns a note in its place, because APIs require a
    /// result.
    pub(super) fn take_result(&mut self) -> CallResult {
        self.result.take().unwrap_or_else(|| CallResult {
            parts: vec![Part::Text("No result was recorded.".to_owned())],
            is_error: false,
        })
    }
}

impl ToolResult {
    /// Converts a result without a call to user text.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let ToolResult { id, name, result } = self;
        let mut note = "[result of a tool call that is not part of this conversation".to_owned();
        for (what, value) in [("call", id), ("tool", name)] {
            if !value.is_empty() {
                note += &format!(", {what} {value}");
            }
        }
        note.push(']');
        std::iter::once(Part::Text(note)).chain(result.parts).collect()
    }
}

/// Reads an id. It should be text, but some importers produce numbers.
pub(super) fn read_id(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    }
}

fn read_name(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|name| !name.trim().is_empty()).map(str::to_owned)
}

/// Formats arguments as a JSON object. Arguments that are not an object, for example because a
/// model was cut off, are put into a field of a new object.
fn format_arguments(arguments: Option<&Value>) -> String {
    let wrapped = |text: &str| json!({ "arguments": text }).to_string();
    match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(_) => text.clone(),
            Err(_) => wrapped(text),
        },
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => wrapped(&other.to_string()),
    }
}
