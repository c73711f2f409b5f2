//! The tool `list_files`: the files of a directory, except those that git ignores.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_base::text::disarm;
use takeback_undo::ToolWork;

use super::files::describe_error;
use super::paths::{describe_missing, resolve_path, show_path};
use super::walk::{FileGlob, walk_files};
use super::{Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The number of levels that are listed if the model specifies neither a depth nor a pattern.
const DEFAULT_DEPTH: usize = 2;

/// The maximum size of a list, in bytes.
const MAX_TEXT: usize = 32 * 1024;

/// The maximum number of entries that are visited. Further entries are not even counted.
const MAX_VISITED: usize = 500_000;

/// The tool that lists the files of a directory.
pub(super) struct ListFiles {
    pub(super) home: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: Option<String>,
    depth: Option<usize>,
    pattern: Option<String>,
}

impl Tool for ListFiles {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "path": { "type": "string" },
            "depth": { "type": "integer", "minimum": 1, "description": "levels, 2 if left out" },
            "pattern": { "type": "string", "description": "find files: *.rs, src/**/test_*.py" },
        });
        let description = "Lists a directory, without ignored files. Directories end in /.";
        input::describe_tool("list_files", description, &properties, &[])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn paths(&self, input: &Value, context: &ToolContext<'_>) -> Vec<PathBuf> {
        input::parse_input(input)
            .and_then(|input| self.find_root(&input, context))
            .into_iter()
            .collect()
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.list(input, context).map(ToolOutput::success).into()
    }
}

/// A list that stops growing at its maximum size, and counts the entries that are left out.
#[derive(Default)]
struct BoundedList {
    text: String,
    shown: usize,
    left_out: usize,
}

impl BoundedList {
    fn push(&mut self, line: &str) {
        if self.left_out > 0 || self.text.len() + line.len() >= MAX_TEXT {
            self.left_out += 1;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.shown += 1;
    }
}

impl ListFiles {
    fn find_root(&self, input: &Input, context: &ToolContext<'_>) -> Result<PathBuf, String> {
        let name = input.path.as_deref().unwrap_or(".");
        resolve_path(name, context.directory, self.home.as_deref())
    }

    fn list(&self, input: &Value, context: &ToolContext<'_>) -> Result<String, String> {
        let input: Input = input::parse_input(input)?;
        let root = self.find_root(&input, context)?;
        check_directory(&root, context.directory)?;
        let glob = input.pattern.as_ref().map(|glob| FileGlob::parse(glob, &root)).transpose()?;
        let depth = input.depth.or(glob.is_none().then_some(DEFAULT_DEPTH));
        let mut list = BoundedList::default();
        let mut notes = Vec::new();
        for (visited, entry) in walk_files(&root, depth).enumerate() {
            if context.cancel.is_cancelled() {
                return Err("cancelled".to_owned());
            }
            if visited > MAX_VISITED {
                notes.push(format!("stopped after {MAX_VISITED} entries"));
                break;
            }
            match entry {
                Ok(entry) if entry.depth() == 0 => {}
                Ok(entry) => {
                    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                    let is_listed = match &glob {
                        Some(glob) => !is_directory && glob.matches(entry.path()),
                        None => true,
                    };
                    if is_listed {
                        list.push(&describe_entry(entry.path(), &root, is_directory));
                    }
                }
                Err(error) => notes.push(disarm(&error.to_string())),
            }
        }
        if list.left_out > 0 {
            let more = format!("{} of {} not shown", list.left_out, list.shown + list.left_out);
            notes.insert(0, format!("{more}: name a subdirectory or a pattern"));
        } else if list.shown == 0 {
            notes.insert(0, "no files".to_owned());
        }
        notes.truncate(10);
        Ok(list.text + &notes.iter().map(|note| format!("[{note}]\n")).collect::<String>())
    }
}

/// Checks that a path is a directory that can be listed. The walk itself would merely skip any
/// other path.
pub(super) fn check_directory(path: &Path, directory: &Path) -> Result<(), String> {
    let name = show_path(path, directory);
    match fs::read_dir(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == directory => Err(
            format!("the working directory {} no longer exists", disarm(&path.to_string_lossy())),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(describe_missing(path, directory))
        }
        Err(error) => Err(format!("cannot list {name}: {}", describe_error(&error))),
    }
}

/// Describes an entry: its name, and whether it is a directory or a link.
fn describe_entry(path: &Path, root: &Path, is_directory: bool) -> String {
    let name = show_path(path, root);
    match fs::read_link(path) {
        Ok(target) => format!("{name} -> {}", disarm(&target.to_string_lossy())),
        Err(_) if is_directory => format!("{name}/"),
        Err(_) => name,
    }
}
