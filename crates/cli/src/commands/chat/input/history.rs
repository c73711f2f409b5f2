//! The history of typed prompts.

use std::io::Write;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability};
use takeback_base::foreign;
use takeback_ledger::Redactor;

/// The maximum number of prompts that are remembered.
pub(super) const MAX_ENTRIES: usize = 1_000;

/// The maximum size of a prompt that is remembered, in bytes.
const MAX_ENTRY: usize = 4 << 10;

/// A file in which each line is a prompt, written as a JSON string. Secrets are masked. Errors are
/// ignored, because the ledger has all prompts; the file only saves typing.
pub(super) struct HistoryFile {
    path: PathBuf,
}

impl HistoryFile {
    pub(super) fn new(home: &Path) -> HistoryFile {
        HistoryFile { path: home.join("chat-history") }
    }

    /// Reads the prompts, the oldest first. Shortens the file if it has become too long.
    pub(super) fn load(&self) -> Vec<String> {
        let Ok(bytes) = foreign::read_regular(&self.path, foreign::MAX_TEXT) else {
            return Vec::new();
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let kept = &lines[lines.len().saturating_sub(MAX_ENTRIES)..];
        if lines.len() > 2 * MAX_ENTRIES {
            let content = kept.join("\n") + "\n";
            let _ = durable::replace_file(&self.path, content.as_bytes(), Durability::Cached);
        }
        kept.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Adds a prompt, unless it is blank, begins with a space, or is very long.
    pub(super) fn add(&self, prompt: &str) {
        if prompt.starts_with(' ') || prompt.len() > MAX_ENTRY || prompt.trim().is_empty() {
            return;
        }
        let masked = Redactor::shared().mask_text(prompt);
        let mut line = serde_json::Value::from(masked.as_ref()).to_string();
        line.push('\n');
        let file = durable::with_directory(&self.path, || durable::append_file(&self.path));
        // The line is written with a single call, so that it does not mix with the lines of other
        // processes.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
