//! The tools that a model can call.
//!
//! Each tool has a file of its own. They share `input` (parsing), `paths` (resolving names),
//! `files` (reading and replacing files, and the rule that the model must know what it replaces)
//! and `text` (line endings, cutting to size).

mod fetch_url;
mod files;
mod input;
mod list_files;
mod patch;
mod paths;
mod read_file;
mod registry;
mod search_files;
mod terminal;
mod text;
mod todo;
mod walk;
mod write_file;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_undo::ToolWork;

use crate::cancel::Cancel;
use crate::model::ToolSpec;

pub use self::fetch_url::FetchSettings;
pub(crate) use self::fetch_url::find_host;
pub use self::registry::{ToolSettings, Tools};

/// A tool that a model can call.
///
/// ```
/// use serde_json::{Value, json};
/// use takeback_runtime::model::ToolSpec;
/// use takeback_runtime::tools::{Tool, ToolContext, ToolOutput, Tools};
/// use takeback_undo::ToolWork;
///
/// /// Tells the model how many files the directory has.
/// struct CountFiles;
///
/// impl Tool for CountFiles {
///     fn spec(&self) -> ToolSpec {
///         ToolSpec {
///             name: "count_files".into(),
///             description: "Counts the files in the current directory.".into(),
///             schema: json!({ "type": "object", "properties": {} }),
///         }
///     }
///
///     // No checkpoint is needed before a call.
///     fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
///         ToolWork::Reads
///     }
///
///     fn run(&self, _: &Value, context: &ToolContext<'_>) -> ToolOutput {
///         match std::fs::read_dir(context.directory) {
///             Ok(files) => ToolOutput::success(files.count().to_string()),
///             Err(error) => ToolOutput::error(error.to_string()),
///         }
///     }
/// }
///
/// let tools = Tools::default().with(Box::new(CountFiles));
/// assert!(tools.get("count_files").is_some());
/// ```
pub trait Tool: Send + Sync {
    /// Describes the tool to the model.
    fn spec(&self) -> ToolSpec;

    /// Returns the effect that a call may have on files. A checkpoint is taken before a call that
    /// may change files.
    fn work(&self, input: &Value, context: &ToolContext<'_>) -> ToolWork;

    /// Returns the paths that a call names in its input and will read or change. The returned paths
    /// are absolute, with links resolved. A call with a path outside the workspace needs approval.
    fn paths(&self, input: &Value, context: &ToolContext<'_>) -> Vec<PathBuf> {
        let _ = (input, context);
        Vec::new()
    }

    /// Returns the files that a call is about to write, and the result that the call will have.
    /// After a crash, the files show whether the call was made. If a call does not announce its
    /// files, only a comparison of the whole workspace can show this.
    fn intent(&self, input: &Value, context: &ToolContext<'_>) -> Option<Intent> {
        let _ = (input, context);
        None
    }

    /// Makes the call. An error is a result, too: the model reads it.
    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput;
}

/// The context of a tool call.
pub struct ToolContext<'a> {
    /// The canonical path of the directory that the agent works in.
    pub directory: &'a Path,
    /// The files that the model has read or written, with the digests of the content that it knows.
    pub known_files: &'a KnownFiles,
    /// The switch that stops the call.
    pub cancel: &'a Cancel,
    /// The function that receives the output of the call while it runs. The output is untrusted
    /// text, and may contain control characters.
    pub on_output: &'a (dyn Fn(&str) + Sync),
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    pub is_error: bool,
    /// The files whose content the model knows after this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_files: Vec<KnownFile>,
    /// True if the call could not be made at all: there is no such tool, or its input cannot be
    /// read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unusable: bool,
}

impl ToolOutput {
    /// Returns the result of a call that succeeded.
    pub fn success(text: impl Into<String>) -> ToolOutput {
        ToolOutput { text: text.into(), ..ToolOutput::default() }
    }

    /// Returns the result of a call that failed.
    pub fn error(text: impl Into<String>) -> ToolOutput {
        ToolOutput { text: text.into(), is_error: true, ..ToolOutput::default() }
    }

    /// Returns the result of a call that could not be made at all.
    pub fn unusable(text: impl Into<String>) -> ToolOutput {
        ToolOutput { is_unusable: true, ..ToolOutput::error(text) }
    }
}

impl From<Result<ToolOutput, String>> for ToolOutput {
    fn from(result: Result<ToolOutput, String>) -> ToolOutput {
        result.unwrap_or_else(ToolOutput::error)
    }
}

/// A file whose content the model knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct KnownFile {
    /// The absolute path, with links resolved.
    #[serde(with = "any_path")]
    pub path: PathBuf,
    /// The SHA-256 of the content, in hexadecimal; `None` if the file does not exist.
    pub digest: Option<String>,
}

/// The files that the model knows, by absolute path with links resolved.
pub type KnownFiles = std::collections::BTreeMap<PathBuf, Option<String>>;

/// The plan of a call that writes files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The files that the call is about to write.
    pub writes: Vec<IntendedWrite>,
    /// The result of the call if it writes all of them.
    pub output: ToolOutput,
}

/// A file that a call is about to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct IntendedWrite {
    /// The absolute path, with links resolved.
    #[serde(with = "any_path")]
    pub path: PathBuf,
    /// The SHA-256 of the content before the call; `None` if the file does not exist.
    pub before: Option<String>,
    /// The SHA-256 of the content after the call; `None` if the call deletes the file.
    pub after: Option<String>,
}

/// Stores a path in JSON even if it is not UTF-8.
mod any_path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use takeback_tree::AnyPath;

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        AnyPath::from(path).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        AnyPath::deserialize(from).map(|path| path.0)
    }
}
