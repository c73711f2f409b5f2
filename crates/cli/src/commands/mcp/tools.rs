//! The read-only tools. Each tool runs a command, and answers with the text and the JSON that the
//! command prints.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::restore;
use crate::context::Context;
use crate::failure::Failure;
use crate::slash::{SlashAnswer, run_words};

/// The answer to a tool call.
pub(super) struct Answer {
    pub(super) text: String,
    /// The JSON output of the command.
    pub(super) data: Option<Value>,
    pub(super) failed: bool,
}

impl Answer {
    pub(super) fn text(text: impl Into<String>) -> Answer {
        Answer { text: text.into(), data: None, failed: false }
    }

    pub(super) fn failure(failure: &Failure) -> Answer {
        let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        Answer { failed: true, ..Answer::text(format!("error: {failure}{hint}")) }
    }

    pub(super) fn into_json(self) -> Value {
        let mut result = json!({
            "content": [{ "type": "text", "text": self.text }], "isError": self.failed,
        });
        if let Some(data @ Value::Object(_)) = self.data {
            result["structuredContent"] = data;
        }
        result
    }
}

impl From<SlashAnswer> for Answer {
    fn from(answer: SlashAnswer) -> Answer {
        let SlashAnswer { text, data, failed, .. } = answer.plain();
        Answer { text, data, failed }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    directory: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiffArguments {
    checkpoint: CheckpointName,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    full: bool,
    directory: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    since: Option<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainArguments {
    command: String,
    directory: Option<PathBuf>,
}

/// The name of a checkpoint. Models write the number of a row as a JSON number or as a string.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number, name or id of a checkpoint")]
pub(super) enum CheckpointName {
    Row(u64),
    Text(String),
}

impl CheckpointName {
    /// Returns the name as a command-line argument. A name that looks like an option is an error.
    pub(super) fn into_word(self) -> Result<String, Failure> {
        match self {
            CheckpointName::Row(number) => Ok(number.to_string()),
            CheckpointName::Text(text) if text.starts_with('-') => {
                Err(Failure::new(format!("no checkpoint {text:?}")))
            }
            CheckpointName::Text(text) => Ok(text),
        }
    }
}

/// Calls a tool. Returns `None` if there is no such tool.
pub(super) fn call(name: &str, arguments: Value, context: &Context) -> Option<Answer> {
    let answered = match name {
        "list_checkpoints" => list_checkpoints(arguments, context),
        "diff_checkpoint" => diff_checkpoint(arguments, context),
        "search_sessions" => search_sessions(arguments, context),
        "explain_command" => explain_command(arguments, context),
        _ => return None,
    };
    Some(answered.unwrap_or_else(|failure| Answer::failure(&failure)))
}

/// Reads the arguments of a call. If they are wrong, the model sees the error, and can correct
/// itself.
pub(super) fn read_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments)
        .map_err(|error| Failure::new("wrong arguments").because(&error))
}

/// Runs a command in a directory, by default in the server's own.
fn run_in(directory: Option<PathBuf>, words: &[&str], context: &Context) -> Answer {
    let directory = context.directory.join(directory.unwrap_or_default());
    run_words(words, &context.in_directory(&directory)).into()
}

fn list_checkpoints(arguments: Value, context: &Context) -> Result<Answer, Failure> {
    let ListArguments { directory } = read_arguments(arguments)?;
    Ok(run_in(directory, &["list"], context))
}

fn diff_checkpoint(arguments: Value, context: &Context) -> Result<Answer, Failure> {
    let arguments: DiffArguments = read_arguments(arguments)?;
    let checkpoint = arguments.checkpoint.into_word()?;
    let mut words = vec!["diff", &checkpoint];
    words.extend(arguments.full.then_some("--full"));
    words.push("--");
    words.extend(arguments.paths.iter().map(String::as_str));
    Ok(run_in(arguments.directory, &words, context))
}

fn search_sessions(arguments: Value, context: &Context) -> Result<Answer, Failure> {
    let arguments: SearchArguments = read_arguments(arguments)?;
    let limit = format!("--limit={}", arguments.limit.unwrap_or(20));
    let since = arguments.since.map(|since| format!("--since={since}"));
    let mut words = vec!["search", &limit];
    words.extend(since.as_deref());
    words.extend(["--", &arguments.query]);
    Ok(run_in(None, &words, context))
}

fn explain_command(arguments: Value, context: &Context) -> Result<Answer, Failure> {
    let ExplainArguments { command, directory } = read_arguments(arguments)?;
    Ok(run_in(directory, &["explain", "--", &command], context))
}

/// Describes all tools for the model.
pub(super) fn describe_all() -> Vec<Value> {
    let directory = json!({
        "type": "string",
        "description": "The directory to work in. By default the directory of the agent",
    });
    let checkpoint = json!({
        "type": ["integer", "string"],
        "description": "The number of a row in the list, a step such as \"2.3\", a name, or an id",
    });
    let paths = json!({
        "type": "array", "items": { "type": "string" },
        "description": "Only these files and directories",
    });
    vec![
        describe(
            "list_checkpoints",
            "List the checkpoints of the workspace, newest first: one row for each turn of an \
             agent, with its prompt and the files that it changed",
            &json!({ "directory": directory }),
            &[],
        ),
        describe(
            "diff_checkpoint",
            "Show what has changed in the workspace since a checkpoint, as a diff",
            &json!({
                "checkpoint": checkpoint, "paths": paths, "directory": directory,
                "full": { "type": "boolean", "description": "The whole diff, not just its first lines" },
            }),
            &["checkpoint"],
        ),
        describe(
            "search_sessions",
            "Search everything that users and agents said and did in earlier sessions. A message \
             matches if it contains all words; \"…\" is one term, OR separates alternatives, NOT \
             excludes a term, x* matches longer words",
            &json!({
                "query": { "type": "string" },
                "since": { "type": "string", "description": "Such as 12h, 7d, 3w, or a date" },
                "limit": { "type": "integer", "minimum": 1, "default": 20 },
            }),
            &["query"],
        ),
        describe(
            "explain_command",
            "Analyze a shell command without running it: whether it changes files, which ones, and \
             which of its effects no rollback reverses",
            &json!({ "command": { "type": "string" }, "directory": directory }),
            &["command"],
        ),
        restore::describe(&checkpoint, &paths, &directory),
    ]
}

fn describe(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}
