//! The tool `patch`: replaces exact pieces of a file, all of them or none.

mod edits;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_undo::ToolWork;

use self::edits::{Edit, apply_edits};
use super::files::{PlannedWrite, check_known, read_content, work_on};
use super::paths::{describe_missing, resolve_path, show_path};
use super::text::{count_noun, find_binary_kind};
use super::{Intent, Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The tool that replaces pieces of a file.
pub(super) struct Patch {
    pub(super) home: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    edits: Vec<Edit>,
}

impl Tool for Patch {
    fn spec(&self) -> ToolSpec {
        let edit = json!({
            "type": "object",
            "properties": {
                "old": { "type": "string", "description": "exact text, found only once" },
                "new": { "type": "string" },
                "all": { "type": "boolean", "description": "replace every occurrence" },
            },
            "required": ["old", "new"],
            "additionalProperties": false,
        });
        let properties = json!({
            "path": { "type": "string" },
            "edits": { "type": "array", "minItems": 1, "items": edit },
        });
        let description = "Replaces pieces of a file that you have read. Every `old` refers to the \
                           file as it is before the call. If one edit fails, none is made.";
        input::describe_tool("patch", description, &properties, &["path", "edits"])
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
        let (plan, replaced) = self.plan(input, context).ok()?;
        let output = describe(&plan, replaced, context);
        Some(Intent { writes: vec![plan.to_intended()], output })
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.patch(input, context).into()
    }
}

impl Patch {
    /// Plans the new content. Also returns the number of replacements.
    fn plan(
        &self,
        input: &Value,
        context: &ToolContext<'_>,
    ) -> Result<(PlannedWrite, usize), String> {
        let Input { path, edits } = input::parse_input(input)?;
        let path = resolve_path(&path, context.directory, self.home.as_deref())?;
        let before = read_content(&path, context.directory)?;
        let Some(content) = &before else {
            return Err(describe_missing(&path, context.directory));
        };
        check_known(&path, before.as_ref(), context)?;
        let name = show_path(&path, context.directory);
        if let Some(kind) = find_binary_kind(&content.bytes) {
            return Err(format!("{name} is not text: {kind}"));
        }
        let (after, replaced) = apply_edits(&content.bytes, &edits)
            .map_err(|error| format!("nothing was written to {name}: {error}"))?;
        Ok((PlannedWrite { path, before, after }, replaced))
    }

    fn patch(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let (plan, replaced) = self.plan(input, context)?;
        plan.apply(context.directory)?;
        Ok(describe(&plan, replaced, context))
    }
}

/// Describes the result of a patch.
fn describe(plan: &PlannedWrite, replaced: usize, context: &ToolContext<'_>) -> ToolOutput {
    let name = show_path(&plan.path, context.directory);
    let text = format!("patched {name}: {}", count_noun(replaced, "replacement"));
    ToolOutput { known_files: vec![plan.to_known()], ..ToolOutput::success(text) }
}
