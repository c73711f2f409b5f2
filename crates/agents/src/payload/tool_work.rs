//! Determining what a call may change, from the tool's name and the input.

use std::path::Path;

use serde_json::Value;
use takeback_undo::ToolWork;
use takeback_undo::hook::{find_paths, find_script, quote_word};
use takeback_undo::patch::{contains_patch, find_patch, list_patched_files};

use crate::agent::KnownTools;

/// The keys that can hold the working directory in a shell tool's input.
const DIRECTORY_KEYS: [&str; 5] = ["dir_path", "directory", "workdir", "working_directory", "cwd"];

impl KnownTools {
    /// Determines what a call may do. A tool that is not in the table could do anything.
    pub(super) fn expected_work(&self, tool: &str, input: &Value, directory: &Path) -> ToolWork {
        if self.reading.contains(&tool) {
            return ToolWork::Reads;
        }
        if self.shell.contains(&tool) {
            let Some(script) = shell_script(input, directory) else { return ToolWork::default() };
            if !contains_patch(&script) {
                return ToolWork::run_script(script);
            }
            return ToolWork::Changes { paths: list_patched_files(&script), script: Some(script) };
        }
        // The `command` of a file tool is not a shell command: `{"command": "create"}`. A patch is
        // not a shell command either.
        let is_script = !self.files.contains(&tool) && find_patch(input).is_none();
        let script = is_script.then(|| shell_script(input, directory)).flatten();
        ToolWork::Changes { script, paths: find_paths(input) }
    }
}

/// Returns the script that a shell tool runs, preceded by `cd` if the input names another
/// directory.
pub fn shell_script(input: &Value, directory: &Path) -> Option<String> {
    let script = find_script(input).or_else(|| join_scripts(input.get("commands")?))?;
    let named = DIRECTORY_KEYS.iter().find_map(|key| input.get(key)?.as_str());
    let is_another = |named: &&str| directory.join(named) != directory;
    Some(match named.filter(is_another) {
        Some(directory) if script.contains('\n') => {
            format!("cd {}\n{script}", quote_word(directory))
        }
        Some(directory) => format!("cd {} && {script}", quote_word(directory)),
        None => script,
    })
}

/// Joins several scripts into one. The input is a list, a string that contains a list, or a single
/// script.
fn join_scripts(commands: &Value) -> Option<String> {
    let to_script = |command: &Value| match command {
        Value::String(script) => Some(script.clone()),
        Value::Object(fields) => {
            let script = find_script(command)?;
            let words = fields.get("args").and_then(Value::as_array);
            let words = words.into_iter().flatten().map(|word| word.as_str().map(quote_word));
            let words = words.collect::<Option<Vec<_>>>()?;
            Some(std::iter::once(script).chain(words).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    match commands {
        // If one script cannot be read, the effect of the whole call is unknown.
        Value::Array(list) => {
            let scripts = list.iter().map(to_script).collect::<Option<Vec<_>>>()?;
            Some(scripts.join("\n"))
        }
        Value::String(text) => match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => join_scripts(&list),
            _ => Some(text.clone()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    const TOOLS: KnownTools = KnownTools { shell: &["sh"], files: &["edit"], reading: &["look"] };

    fn work_of(tool: &str, input: &Value) -> ToolWork {
        TOOLS.expected_work(tool, input, Path::new("/here"))
    }

    fn changing(script: Option<&str>, paths: &[&str]) -> ToolWork {
        let paths = paths.iter().map(PathBuf::from).collect();
        ToolWork::Changes { script: script.map(str::to_owned), paths }
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a b.rs\n*** Move to: c.rs\n*** End Patch\n";
        let named = ["a b.rs", "c.rs"];
        assert_eq!(work_of("apply_patch", &json!({ "command": patch })), changing(None, &named));
        assert_eq!(work_of("patch", &json!({ "patchText": patch })), changing(None, &named));
        assert_eq!(work_of("patch", &json!(patch)), changing(None, &named));
        let script = format!("apply_patch <<'EOF'\n{patch}EOF");
        assert_eq!(work_of("sh", &json!({ "command": script })), changing(Some(&script), &named));
    }

    #[test]
    fn several_scripts_are_joined_and_run_in_their_directory() {
        let of = |input: Value| work_of("sh", &input);
        assert_eq!(of(json!({ "command": "ls", "cwd": "/here" })), ToolWork::run_script("ls"));
        assert_eq!(of(json!({ "command": "ls", "cwd": "" })), ToolWork::run_script("ls"));
        assert_eq!(of(json!({ "commands": ["ls", "rm x"] })), ToolWork::run_script("ls\nrm x"));
        assert_eq!(of(json!({ "commands": "[\"ls\"]" })), ToolWork::run_script("ls"));
        assert_eq!(of(json!({ "commands": "ls" })), ToolWork::run_script("ls"));
        let words = json!({ "commands": [{ "command": "rm", "args": ["a b"] }] });
        assert_eq!(of(words), ToolWork::run_script("rm 'a b'"));
        assert_eq!(of(json!({ "commands": ["ls", 7] })), ToolWork::default());
        assert_eq!(
            of(json!({ "command": "ls", "dir_path": "a b" })),
            ToolWork::run_script("cd 'a b' && ls")
        );
        assert_eq!(
            of(json!({ "command": "ls\nls", "workdir": "/x" })),
            ToolWork::run_script("cd /x\nls\nls")
        );
    }

    #[test]
    fn an_unknown_tool_may_do_anything() {
        let input = json!({ "command": "ls", "path": "a" });
        assert_eq!(work_of("look", &input), ToolWork::Reads);
        assert_eq!(work_of("edit", &input), changing(None, &["a"]));
        assert_eq!(work_of("mcp__x__look", &input), changing(Some("ls"), &["a"]));
        assert_eq!(work_of("sh", &json!({ "command": 7 })), ToolWork::default());
    }
}
