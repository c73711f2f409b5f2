//! The tool `todo`, with which the model keeps a list of steps. The list exists only in the
//! conversation.

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_undo::ToolWork;

use super::{Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The tool that formats the model's list of steps and returns it as the result of the call.
pub(super) struct Todo;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    text: String,
    status: Status,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Done,
}

impl Tool for Todo {
    fn spec(&self) -> ToolSpec {
        let item = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "status": { "enum": ["pending", "in_progress", "done"] },
            },
            "required": ["text", "status"],
            "additionalProperties": false,
        });
        let description = "Plans the steps of a longer task. Replaces the whole list.";
        let properties = json!({ "items": { "type": "array", "items": item } });
        input::describe_tool("todo", description, &properties, &["items"])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn run(&self, input: &Value, _: &ToolContext<'_>) -> ToolOutput {
        input::parse_input(input).map(|Input { items }| ToolOutput::success(render(&items))).into()
    }
}

fn render(items: &[Item]) -> String {
    if items.is_empty() {
        return "the list is empty".to_owned();
    }
    let render = |item: &Item| {
        let mark = match item.status {
            Status::Pending => "[ ]",
            Status::InProgress => "[>]",
            Status::Done => "[x]",
        };
        format!("{mark} {}", item.text)
    };
    items.iter().map(render).collect::<Vec<_>>().join("\n")
}
