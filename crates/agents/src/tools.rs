//! What a call of one of an agent's tools may do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_undo::ToolWork;
use takeback_undo::hook::{find_paths, find_script, quote_word};

use crate::spec::Tools;

/// Keys under which shell tools name the directory to work in.
const DIRECTORY_KEYS: [&str; 5] = ["dir_path", "directory", "workdir", "working_directory", "cwd"];

/// Keys under which tools have a patch.
const PATCH_KEYS: [&str; 5] = ["command", "input", "patch", "patchText", "patch_text"];

/// What every patch of this kind has.
const PATCH: &str = "*** Begin Patch";

impl Tools {
    /// What a call may do. Of a tool that is not in the table everything is to be expected.
    pub(crate) fn work(&self, tool: &str, input: &Value, directory: &Path) -> ToolWork {
        if self.reading.contains(&tool) {
            return ToolWork::Reads;
        }
        let mut paths = find_paths(input);
        if self.shell.contains(&tool) {
            let Some(script) = script_of(input, directory) else { return ToolWork::default() };
            if !script.contains(PATCH) {
                return ToolWork::run_script(script);
            }
            return ToolWork::Changes { paths: patched(&script), script: Some(script) };
        }
        if let Some(patch) = patch_in(input) {
            let named = patched(&patch);
            paths
                .extend(named.into_iter().filter(|path| !paths.contains(path)).collect::<Vec<_>>());
            return ToolWork::Changes { script: None, paths };
        }
        // What a file tool calls a command is none: `{"command": "create"}`.
        let script = if self.files.contains(&tool) { None } else { script_of(input, directory) };
        ToolWork::Changes { script, paths }
    }
}

/// The script that a shell tool runs.
fn script_of(input: &Value, directory: &Path) -> Option<String> {
    let script = find_script(input).or_else(|| scripts_in(input.get("commands")?))?;
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

/// Several scripts as one: a list, a list in a text, or a single one.
fn scripts_in(commands: &Value) -> Option<String> {
    let one = |command: &Value| match command {
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
        // If one of them cannot be read, nothing is known of the whole.
        Value::Array(list) => {
            let scripts = list.iter().map(one).collect::<Option<Vec<_>>>()?;
            Some(scripts.join("\n"))
        }
        Value::String(text) => match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => scripts_in(&list),
            _ => Some(text.clone()),
        },
        _ => None,
    }
}

/// The patch that a tool is given: as its whole input, or as one of its fields.
fn patch_in(input: &Value) -> Option<String> {
    let fields = PATCH_KEYS.iter().filter_map(|key| input.get(key));
    let texts = std::iter::once(input).chain(fields).filter_map(Value::as_str);
    texts.filter(|text| text.contains(PATCH)).map(str::to_owned).next()
}

/// The files that a patch names, each once.
fn patched(patch: &str) -> Vec<PathBuf> {
    const MARKS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let mut seen = BTreeSet::new();
    let named = patch.lines().filter_map(|line| {
        let line = line.trim();
        let path = MARKS.iter().find_map(|mark| line.strip_prefix(mark))?.trim();
        (!path.is_empty() && seen.insert(path)).then(|| PathBuf::from(path))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOOLS: Tools = Tools { shell: &["sh"], files: &["edit"], reading: &["look"] };

    fn work(tool: &str, input: &Value) -> ToolWork {
        TOOLS.work(tool, input, Path::new("/here"))
    }

    fn changes(script: Option<&str>, paths: &[&str]) -> ToolWork {
        let paths = paths.iter().map(PathBuf::from).collect();
        ToolWork::Changes { script: script.map(str::to_owned), paths }
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a b.rs\n*** Move to: c.rs\n@@\n-x\n+*** Add File: no\n\
                     *** Add File: /d/e\n+y\n*** Delete File: f \r\n*** Delete File: f\n*** End Patch\n";
        let named = ["a b.rs", "c.rs", "/d/e", "f"];
        assert_eq!(work("apply_patch", &json!({ "command": patch })), changes(None, &named));
        assert_eq!(work("patch", &json!({ "patchText": patch })), changes(None, &named));
        assert_eq!(work("patch", &json!(patch)), changes(None, &named));
        let script = format!("apply_patch <<'EOF'\n{patch}EOF");
        assert_eq!(work("sh", &json!({ "command": script })), changes(Some(&script), &named));
    }

    #[test]
    fn a_script_may_be_many_and_elsewhere() {
        let of = |input: Value| work("sh", &input);
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
    fn of_unknown_tools_everything_is_expected() {
        let input = json!({ "command": "ls", "path": "a" });
        assert_eq!(work("look", &input), ToolWork::Reads);
        assert_eq!(work("edit", &input), changes(None, &["a"]));
        assert_eq!(work("mcp__x__look", &input), changes(Some("ls"), &["a"]));
        assert_eq!(work("sh", &json!({ "command": 7 })), ToolWork::default());
    }
}
