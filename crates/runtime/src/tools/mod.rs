//! The tools that a model can call.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_undo::ToolWork;

use crate::cancel::Cancel;
use crate::model::ToolSpec;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    /// Describes the tool to the model.
    fn spec(&self) -> ToolSpec;

    /// Returns the effect that a call may have on files. A checkpoint is taken before a call that
    /// may change files.
    fn work(&self, input: &Value, context: &ToolContext<'_>) -> ToolWork;

    /// Returns the files that a call is about to write, with their content before and after.
    /// After a crash, these show whether the call was made. An empty list means that only the
    /// whole workspace can show it.
    fn writes(&self, input: &Value, context: &ToolContext<'_>) -> Vec<IntendedWrite> {
        let _ = (input, context);
        Vec::new()
    }

    /// Makes the call. An error is a result, too: the model reads it.
    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput;
}

/// The surroundings of a tool call.
pub struct ToolContext<'a> {
    /// The directory that the agent works in, canonical.
    pub directory: &'a Path,
    /// The files that the model has read or written, with the content that it knows.
    pub known_files: &'a KnownFiles,
    /// Stops the call.
    pub cancel: &'a Cancel,
    /// Receives the output of the call while it runs.
    pub on_output: &'a (dyn Fn(&str) + Sync),
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    pub is_error: bool,
    /// The files whose content the model knows now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_files: Vec<KnownFile>,
}

/// A file whose content the model knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct KnownFile {
    pub path: PathBuf,
    /// The SHA-256 of the content, in hexadecimal; `None` if the file does not exist.
    pub digest: Option<String>,
}

/// The files that the model knows, by absolute path.
pub type KnownFiles = std::collections::BTreeMap<PathBuf, Option<String>>;

/// A file that a call is about to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct IntendedWrite {
    pub path: PathBuf,
    /// The SHA-256 of the content before the call; `None` if the file does not exist.
    pub before: Option<String>,
    /// The SHA-256 of the content after the call; `None` if the call deletes the file.
    pub after: Option<String>,
}
