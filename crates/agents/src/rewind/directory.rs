//! The working directory of a copied session, if it differs from that of the original.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Cut, RewindError};

/// The maximum length of the name that Claude Code and Qwen Code give to the directory of a
/// project. Each of the two agents shortens longer names in its own way.
const MAX_SLUG: usize = 200;

/// The directory of a workspace and that of its fork.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MovedDirectory<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
}

impl MovedDirectory<'_> {
    /// Returns the path in the new directory that corresponds to a path in the old one. Returns any
    /// other path unchanged.
    pub(super) fn map(&self, path: &str) -> String {
        match Path::new(path).strip_prefix(self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => self.to.display().to_string(),
            Ok(rest) => self.to.join(rest).display().to_string(),
            Err(_) => path.to_owned(),
        }
    }

    /// Replaces the paths that are in the old directory. `value` is a string or a list of strings.
    pub(super) fn map_value(&self, value: &mut Value) {
        match value {
            Value::String(path) => *path = self.map(path),
            Value::Array(paths) => paths.iter_mut().for_each(|path| self.map_value(path)),
            _ => {}
        }
    }
}

/// Returns the directory for the log of a copy. If the working directory stays the same, this is
/// `logs`, the directory of the original's log. Otherwise, `name_of` derives the name of the
/// directory from the new working directory. `started_in` is the working directory of the original.
pub(super) fn place_logs(
    cut: &Cut<'_>,
    logs: &Path,
    started_in: Option<&str>,
    name_of: fn(&str) -> String,
) -> Result<PathBuf, RewindError> {
    let Some(moved) = cut.moved else { return Ok(logs.to_owned()) };
    let started_in = started_in.filter(|path| Path::new(path).starts_with(moved.from));
    let old_name = logs.file_name().and_then(|name| name.to_str());
    match started_in {
        Some(path) if old_name == Some(&name_of(path)) => {
            let new_name = name_of(&moved.map(path));
            match new_name.len() <= MAX_SLUG {
                true => Ok(logs.with_file_name(new_name)),
                false => Err(RewindError::UnknownFormat("the new directory's path is too long")),
            }
        }
        _ => Err(RewindError::UnknownFormat("it is not in the directory of the workspace")),
    }
}

/// Replaces every character of a path, except ASCII letters and digits, with a dash.
pub(super) fn dashed_name(path: &str) -> String {
    path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}
