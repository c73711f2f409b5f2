//! Converts the agent's updates about tool calls to takeback's terms.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_agents::shell_script;
use takeback_undo::hook::find_paths;
use takeback_undo::{ToolCall, ToolWork};

/// Kinds of tools that only read.
const READING_KINDS: [&str; 5] = ["read", "search", "fetch", "think", "switch_mode"];

/// Kinds of tools that change the files that they name.
const FILE_KINDS: [&str; 3] = ["edit", "delete", "move"];

/// The maximum total length, in bytes, of the diffs that are kept as the input of a call.
const MAX_DIFFS: usize = 64 << 10;

/// The fields of an update about a call. A field that is missing has not changed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CallUpdate {
    pub(super) tool_call_id: String,
    title: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    status: Option<String>,
    raw_input: Option<Value>,
    content: Option<Vec<CallContent>>,
    locations: Option<Vec<Location>>,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallContent {
    r#type: String,
    path: Option<PathBuf>,
    old_text: Option<String>,
    new_text: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Location {
    path: PathBuf,
}

/// A call, as far as the agent has described it.
#[derive(Clone, Debug, Default)]
pub(super) struct CallState {
    title: String,
    tool: Option<String>,
    pub(super) kind: String,
    status: String,
    raw_input: Value,
    diffs: Vec<CallContent>,
    locations: Vec<PathBuf>,
    /// Files that the editor writes for the call.
    pub(super) written: Vec<PathBuf>,
    /// The command that the editor runs for the call.
    pub(super) script: Option<String>,
    /// True if the call is about to be made: the user has allowed it, or the agent has asked the
    /// editor to carry it out.
    pub(super) is_granted: bool,
    /// The work that was reported when the call began.
    pub(super) reported: Option<ToolWork>,
    /// True if the end of the call has been reported.
    pub(super) is_ended: bool,
}

impl CallState {
    /// Adds the content of an update.
    pub(super) fn apply(&mut self, update: CallUpdate) {
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        let in_meta = update.meta.as_ref().and_then(|meta| {
            meta.as_object()?.values().find_map(|agent| agent["toolName"].as_str())
        });
        self.tool =
            known(update.name).or_else(|| in_meta.map(str::to_owned)).or_else(|| self.tool.take());
        self.title = known(update.title).unwrap_or_else(|| std::mem::take(&mut self.title));
        self.kind = known(update.kind).unwrap_or_else(|| std::mem::take(&mut self.kind));
        self.status = known(update.status).unwrap_or_else(|| std::mem::take(&mut self.status));
        if let Some(input) = update.raw_input.filter(|input| !is_empty(input)) {
            self.raw_input = input;
        }
        if let Some(content) = update.content {
            let diffs = content.into_iter().filter(|content| content.r#type == "diff");
            let diffs: Vec<CallContent> = diffs.collect();
            if !diffs.is_empty() {
                self.diffs = diffs;
            }
        }
        if let Some(locations) = update.locations.filter(|locations| !locations.is_empty()) {
            self.locations = locations.into_iter().map(|location| location.path).collect();
        }
    }

    /// Sets the tool and the kind of a call that the proxy made up for a request, because the
    /// request belongs to no announced call.
    pub(super) fn apply_own(&mut self, tool: &str, kind: &str) {
        (self.tool, self.kind) = (Some(tool.to_owned()), kind.to_owned());
    }

    /// Returns true if the call can be reported: either enough is known about it, or it has already
    /// begun.
    pub(super) fn is_informed(&self) -> bool {
        let says_nothing =
            is_empty(&self.raw_input) && self.diffs.is_empty() && self.locations.is_empty();
        !says_nothing || !self.is_pending()
    }

    /// Returns true if the call has not begun, as far as the proxy knows.
    fn is_pending(&self) -> bool {
        !self.is_granted && matches!(self.status.as_str(), "" | "pending")
    }

    /// Returns the outcome if the call has ended.
    pub(super) fn outcome(&self) -> Option<&'static str> {
        match self.status.as_str() {
            "completed" => Some("ok"),
            "failed" => Some("error"),
            "cancelled" => Some("interrupted"),
            _ => None,
        }
    }

    /// Returns true if the call names a file.
    pub(super) fn names(&self, path: &Path, directory: &Path) -> bool {
        let path = directory.join(path);
        self.paths(directory).iter().any(|named| directory.join(named) == path)
    }

    /// Describes the call for a report. `directory` is the session's directory.
    pub(super) fn to_tool_call(&self, id: &str, directory: &Path) -> ToolCall {
        let tool = self
            .tool
            .as_deref()
            .or(Some(&self.kind).filter(|kind| !kind.is_empty()).map(String::as_str));
        let tool = tool.unwrap_or(&self.title).to_owned();
        // Before the call begins, its input may be incomplete, and the ledger keeps the first input
        // that it gets.
        let input = if self.is_pending() { Value::Null } else { self.input() };
        ToolCall { id: Some(id.to_owned()), tool, input, work: self.work(directory) }
    }

    fn work(&self, directory: &Path) -> ToolWork {
        let paths = self.paths(directory);
        let script = self.script.clone().or_else(|| self.raw_script(directory));
        match (script, self.kind.as_str()) {
            (Some(script), _) => ToolWork::Shell { script, paths },
            (None, kind) if READING_KINDS.contains(&kind) => ToolWork::Reads,
            (None, kind) if FILE_KINDS.contains(&kind) || kind == "execute" => {
                ToolWork::Changes { script: None, paths }
            }
            (None, _) => {
                let tool = self.tool.as_deref().unwrap_or(&self.title);
                match ToolWork::guess(tool, &self.raw_input) {
                    ToolWork::Changes { script: None, .. } => {
                        ToolWork::Changes { script: None, paths }
                    }
                    work => work,
                }
            }
        }
    }

    /// Finds the script in the call's input. Returns `None` if the tool edits, deletes or moves
    /// files: the field `command` in the input of such a tool need not be a script.
    fn raw_script(&self, directory: &Path) -> Option<String> {
        let is_file_tool = FILE_KINDS.contains(&self.kind.as_str());
        if is_file_tool {
            return None;
        }
        let script = shell_script(&self.raw_input, directory)?;
        let is_script = matches!(ToolWork::guess("", &self.raw_input), ToolWork::Shell { .. });
        is_script.then_some(script)
    }

    /// Lists the files that the call names. The locations that the agent reports count only if the
    /// tool edits, deletes or moves files.
    fn paths(&self, directory: &Path) -> Vec<PathBuf> {
        let mut paths = find_paths(&self.raw_input);
        let diffs = self.diffs.iter().filter_map(|diff| diff.path.clone());
        let is_file_tool = FILE_KINDS.contains(&self.kind.as_str());
        let locations = self.locations.iter().filter(|_| is_file_tool).cloned();
        for path in diffs.chain(locations).chain(self.written.iter().cloned()) {
            if !paths.iter().any(|known| directory.join(known) == directory.join(&path)) {
                paths.push(path);
            }
        }
        // Leave out the session's directory and the directories above it. If they were named, even
        // the files that the rules exclude would be captured.
        paths.retain(|path| !directory.starts_with(directory.join(path)));
        paths
    }

    /// Returns the input for the ledger. If the agent does not show the input, returns the other
    /// facts that are known about the call.
    fn input(&self) -> Value {
        if !is_empty(&self.raw_input) {
            return self.raw_input.clone();
        }
        let mut input = json!({ "title": self.title });
        if let Some(script) = &self.script {
            input["command"] = json!(script);
        }
        if !self.locations.is_empty() {
            input["locations"] = json!(self.locations);
        }
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let length: usize =
            self.diffs.iter().map(|it| text(&it.old_text) + text(&it.new_text)).sum();
        if !self.diffs.is_empty() && length <= MAX_DIFFS {
            let diff = |it: &CallContent| json!({ "path": it.path, "old": it.old_text, "new": it.new_text });
            input["diffs"] = self.diffs.iter().map(diff).collect();
        }
        input
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(updates: &[Value]) -> CallState {
        let mut call = CallState::default();
        for update in updates {
            call.apply(serde_json::from_value(update.clone()).unwrap());
        }
        call
    }

    fn work(update: Value) -> ToolWork {
        call(&[update]).to_tool_call("1", Path::new("/shop")).work
    }

    fn changes(paths: &[&str]) -> ToolWork {
        ToolWork::Changes { script: None, paths: paths.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn the_kind_determines_what_a_call_may_change() {
        assert_eq!(
            work(json!({ "kind": "read", "locations": [{ "path": "/shop/a" }] })),
            ToolWork::Reads
        );
        let diff = json!({ "type": "diff", "path": "/shop/a", "oldText": null, "newText": "x" });
        let location = json!({ "path": "/shop/b", "line": 3 });
        assert_eq!(
            work(json!({ "kind": "edit", "content": [diff], "locations": [location] })),
            changes(&["/shop/a", "/shop/b"])
        );
        assert_eq!(work(json!({ "kind": "execute", "title": "`rm -rf /`" })), changes(&[]));
        assert_eq!(
            work(json!({ "kind": "execute", "rawInput": { "command": "rm a" } })),
            ToolWork::run_script("rm a")
        );
        assert_eq!(
            work(
                json!({ "kind": "read", "rawInput": { "command": ["bash", "-lc", "rm a"], "cwd": "/x" } })
            ),
            ToolWork::run_script("cd /x && rm a")
        );
        assert_eq!(work(json!({ "title": "something new" })), changes(&[]));
        assert_eq!(work(json!({ "kind": "other", "name": "Grep" })), ToolWork::Reads);
    }

    #[test]
    fn the_command_of_an_editing_tool_is_not_a_script() {
        let input = json!({ "command": "create", "path": "/shop/a" });
        assert_eq!(work(json!({ "kind": "edit", "rawInput": input })), changes(&["/shop/a"]));
    }

    #[test]
    fn a_directory_that_contains_the_sessions_directory_does_not_count_as_named() {
        let locations = json!([{ "path": "/shop" }, { "path": "/" }, { "path": "/shop/src" }]);
        assert_eq!(
            work(json!({ "kind": "delete", "locations": locations })),
            changes(&["/shop/src"])
        );
    }

    #[test]
    fn later_updates_add_to_earlier_ones() {
        let first = json!({ "toolCallId": "c", "title": "Write", "kind": "edit", "rawInput": {}, "status": "pending" });
        let begun = call(std::slice::from_ref(&first));
        assert!(!begun.is_informed());
        let more =
            json!({ "toolCallId": "c", "rawInput": { "file_path": "/shop/a" }, "kind": null });
        let informed = call(&[first.clone(), more.clone()]);
        assert!(informed.is_informed() && informed.outcome().is_none());
        assert_eq!(informed.work(Path::new("/shop")), changes(&["/shop/a"]));
        assert!(informed.names(Path::new("a"), Path::new("/shop")));
        let ended = call(&[first, more, json!({ "toolCallId": "c", "status": "completed" })]);
        assert_eq!((ended.outcome(), ended.kind.as_str()), (Some("ok"), "edit"));
        assert_eq!(ended.work(Path::new("/shop")), changes(&["/shop/a"]));
    }

    #[test]
    fn the_name_of_the_tool_is_found_wherever_agents_put_it() {
        let tool = |update: Value| call(&[update]).to_tool_call("1", Path::new("/")).tool;
        assert_eq!(tool(json!({ "title": "Write a", "kind": "edit" })), "edit");
        assert_eq!(
            tool(json!({ "title": "x", "_meta": { "claudeCode": { "toolName": "Write" } } })),
            "Write"
        );
        assert_eq!(tool(json!({ "title": "x", "name": "bash" })), "bash");
        assert_eq!(tool(json!({ "title": "x" })), "x");
    }
}
