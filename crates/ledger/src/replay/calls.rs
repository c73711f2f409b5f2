//! Tool calls and their results, whichever API's form they were stored in.

use serde_json::{Map, Value, json};

use super::parts::Part;

/// A tool call of the model's.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// As it was stored; empty if there is none.
    pub(super) id: String,
    pub(super) name: String,
    /// A JSON object as text.
    pub(super) arguments: String,
    /// Fields of a stored call in OpenAI's form that are not named here. Some providers put
    /// signatures there and want them back.
    pub(super) extra: Map<String, Value>,
    /// What came of it, if that is known.
    pub(super) outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) parts: Vec<Part>,
    pub(super) is_error: bool,
}

/// A result that has yet to find its call.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// As it was stored; empty if there is none.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

impl Call {
    /// An element of OpenAI's `tool_calls`, or what resembles one. Without a name it is none.
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
                .map(|key| id(call.get(*key)))
                .find(|id| !id.is_empty())
                .unwrap_or_default(),
            name: name(function.get("name"))?,
            arguments: arguments_text(arguments),
            extra: extra.map(|(key, value)| (key.clone(), value.clone())).collect(),
            outcome: None,
        })
    }

    /// Anthropic's `tool_use` block.
    pub(super) fn from_anthropic(block: &Value) -> Option<Call> {
        (block.get("type")? == "tool_use").then_some(())?;
        Some(Call {
            id: id(block.get("id")),
            name: name(block.get("name"))?,
            arguments: arguments_text(block.get("input")),
            extra: Map::new(),
            outcome: None,
        })
    }

    pub(super) fn input(&self) -> Map<String, Value> {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }

    /// Whether the other is this one once more: some agents store a call as a block of the
    /// content and in the list of calls.
    pub(super) fn is_same(&self, other: &Call) -> bool {
        !self.id.is_empty()
            && self.id == other.id
            && self.name == other.name
            && self.input() == other.input()
    }

    /// Takes the result, or what stands for it: APIs refuse a call without one.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        self.outcome.take().unwrap_or_else(|| Outcome {
            parts: vec![Part::Text("No result was recorded.".to_owned())],
            is_error: false,
        })
    }
}

impl Answer {
    /// As text of the user's, since there is no call that it could answer.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let Answer { id, name, outcome } = self;
        let mut note = "[result of a tool call that is not part of this conversation".to_owned();
        for (what, value) in [("call", id), ("tool", name)] {
            if !value.is_empty() {
                note += &format!(", {what} {value}");
            }
        }
        note.push(']');
        std::iter::once(Part::Text(note)).chain(outcome.parts).collect()
    }
}

/// Names are text, but some importers leave numbers.
pub(super) fn id(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    }
}

fn name(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|name| !name.trim().is_empty()).map(str::to_owned)
}

/// Arguments are an object. A model that was cut off, or none at all, leaves anything else.
fn arguments_text(arguments: Option<&Value>) -> String {
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
