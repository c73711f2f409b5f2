//! The tool `write_file`: creates a file, or replaces its whole content.
//!
//! A link is followed: the content is written to the file that it points to, and the link stays. An
//! editor or a shell does the same. A link to a missing file is refused, because the user most
//! likely does not expect a file to be created there.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_undo::ToolWork;

use super::files::{PlannedWrite, check_known, read_content, work_on};
use super::paths::{resolve_path, show_path};
use super::text::{count_noun, keep_conventions};
use super::{Intent, Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The tool that writes a whole file.
pub(super) struct WriteFile {
    pub(super) home: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    content: String,
}

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "path": { "type": "string" },
            "content": { "type": "string" },
        });
        let description = "Creates a file, or replaces all of it. Read an existing file first.";
        input::describe_tool("write_file", description, &properties, &["path", "content"])
    }

    fn work(&self, input: &Value, context: &ToolContext<'_>) -> ToolWork {
        work_on(self.paths(input, context))
    }

    fn paths(&self, input: &Value, context: &ToolContext<'_>) -> Vec<PathBuf> {
        let path = input::parse_input::<Input>(input)
            .and_then(|input| resolve_path(&input.path, context.directory, self.home.as_deref()));
        path.into_iter().collect()
    }

    fn intent(&self, input: &Value, context: &ToolContext<'_>) -> Option<Intent> {
        let plan = self.plan(input, context).ok()?;
        Some(Intent { writes: vec![plan.to_intended()], output: describe(&plan, context) })
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.write(input, context).into()
    }
}

impl WriteFile {
    fn plan(&self, input: &Value, context: &ToolContext<'_>) -> Result<PlannedWrite, String> {
        let Input { path, content } = input::parse_input(input)?;
        let path = resolve_path(&path, context.directory, self.home.as_deref())?;
        let before = read_content(&path, context.directory)?;
        check_known(&path, before.as_ref(), context)?;
        let replaced = before.as_ref().map(|before| before.bytes.as_slice());
        let after = keep_conventions(&content, replaced.unwrap_or_default());
        Ok(PlannedWrite { path, before, after })
    }

    fn write(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let plan = self.plan(input, context)?;
        plan.apply(context.directory)?;
        Ok(describe(&plan, context))
    }
}

/// Describes the result of a write.
fn describe(plan: &PlannedWrite, context: &ToolContext<'_>) -> ToolOutput {
    let verb = if plan.before.is_some() { "replaced" } else { "created" };
    let lines = plan.after.split_inclusive(|byte| *byte == b'\n').count();
    let name = show_path(&plan.path, context.directory);
    let text = format!("{verb} {name} ({})", count_noun(lines, "line"));
    ToolOutput { known_files: vec![plan.to_known()], ..ToolOutput::success(text) }
}
