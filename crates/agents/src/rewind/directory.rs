//! The directory that a copy works in, if it is not that of the original.

use std::path::Path;

use serde_json::Value;

use super::RewindError;

/// The longest name that Claude Code and Qwen Code give to the directory of a project. They
/// shorten longer names in a way of their own.
const MAX_SLUG: usize = 200;

/// The directory of a workspace and that of its fork.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MovedDirectory<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
}

impl MovedDirectory<'_> {
    /// Returns the path in the new directory that corresponds to a path in the old one. Any other
    /// path stays.
    pub(super) fn map(&self, path: &str) -> String {
        match Path::new(path).strip_prefix(self.from) {
            Ok(rest) if rest.as_os_str().is_empty() => self.to.display().to_string(),
            Ok(rest) => self.to.join(rest).display().to_string(),
            Err(_) => path.to_owned(),
        }
    }

    /// Replaces the string in a JSON value, or the strings in a list, if they are paths in the old
    /// directory.
    pub(super) fn map_value(&self, value: &mut Value) {
        match value {
            Value::String(path) => *path = self.map(path),
            Value::Array(paths) => paths.iter_mut().for_each(|path| self.map_value(path)),
            _ => {}
        }
    }

    /// Returns the name that an agent gives to the directory of its logs about the new directory,
    /// if `name_of` is the rule by which it made the old name.
    pub(super) fn rename(
        &self,
        old_name: Option<&std::ffi::OsStr>,
        name_of: fn(&str) -> String,
    ) -> Result<String, RewindError> {
        let name = |path: &Path| name_of(&path.display().to_string());
        if old_name.and_then(|name| name.to_str()) != Some(&name(self.from)) {
            return Err(RewindError::UnknownFormat("it is not in the directory of the workspace"));
        }
        let new = name(self.to);
        match new.len() <= MAX_SLUG {
            true => Ok(new),
            false => Err(RewindError::UnknownFormat("the new directory's path is too long")),
        }
    }
}

/// The name of a path in which every character except ASCII letters and digits is a dash.
pub(super) fn dashed_name(path: &str) -> String {
    path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}
