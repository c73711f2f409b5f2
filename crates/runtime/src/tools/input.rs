//! Parsing the input of a call, and describing it to the model.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::ToolSpec;

/// Parses the input of a call. The error tells the model what is wrong.
pub(super) fn parse_input<T: DeserializeOwned>(input: &Value) -> Result<T, String> {
    T::deserialize(input).map_err(|error| format!("invalid input: {error}"))
}

/// Describes a tool whose input is an object with these properties.
pub(super) fn describe_tool(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
) -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    ToolSpec { name: name.to_owned(), description: description.to_owned(), schema }
}
