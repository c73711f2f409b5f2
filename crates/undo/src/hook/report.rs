//! Reports: the events that an agent passes to takeback, through a hook or over `rpc`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::history::record::TurnId;
use crate::patch::{find_patch, is_plain_patch, list_patched_files};

/// An event in an agent's session.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Report {
    pub agent: String,
    /// The agent's name for the session.
    pub session: String,
    /// The parent session, if the session is a subagent's.
    pub parent: Option<String>,
    /// The agent's name for the turn, if it names turns.
    pub turn: Option<TurnId>,
    /// The directory that the agent works in.
    pub directory: PathBuf,
    /// The model that the agent uses.
    pub model: Option<String>,
    pub event: ReportedEvent,
}

/// The kinds of events that agents report.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ReportedEvent {
    /// The session began, or was resumed.
    SessionStart,
    /// The user sent a prompt; not every agent reports its text.
    TurnStart { prompt: Option<String> },
    /// The user sent a prompt that the agent has not received yet. The workspace is captured before
    /// the agent receives the prompt.
    BeforePrompt { prompt: Option<String> },
    /// The agent is about to use a tool.
    BeforeTool(ToolCall),
    /// The agent has used a tool.
    AfterTool { call: ToolCall, outcome: Option<String> },
    /// The agent has answered the prompt.
    TurnEnd,
    /// The agent, or its user, ended the session.
    SessionEnd,
}

/// One use of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// The agent's name for the call, if it names calls.
    pub id: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the tool.
    pub input: Value,
    /// The effect that the call may have on files.
    pub work: ToolWork,
}

/// The effect that a tool call may have on files.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ToolWork {
    /// The call only reads.
    Reads,
    /// The call runs a script in a shell. The analysis of the script determines the effect.
    Shell {
        script: String,
        /// Files that the call names in addition to those in the script.
        paths: Vec<PathBuf>,
    },
    /// The call may change files.
    Changes {
        /// A script that the call also runs.
        script: Option<String>,
        paths: Vec<PathBuf>,
    },
    /// The call writes these files, and certainly changes no others.
    Writes { paths: Vec<PathBuf> },
}

impl Default for ToolWork {
    /// Assumes the worst: an unknown call may change anything.
    fn default() -> ToolWork {
        ToolWork::Changes { script: None, paths: Vec::new() }
    }
}

/// Keys in a tool's input that may hold the path of the file that the tool works on.
const PATH_KEYS: [&str; 11] = [
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "filename",
    "target_file",
    "old_path",
    "new_path",
    "source",
    "destination",
];

/// Keys in a tool's input that may hold a list of files, or of changes to files.
const LIST_KEYS: [&str; 5] = ["paths", "file_paths", "filePaths", "files", "edits"];

/// Tools that only read. Every other tool may change files.
const READING_TOOLS: [&str; 31] = [
    "read",
    "readfile",
    "readmanyfiles",
    "readdirectory",
    "view",
    "viewfile",
    "cat",
    "open",
    "grep",
    "grepsearch",
    "searchfilecontent",
    "codebasesearch",
    "search",
    "searchfiles",
    "glob",
    "find",
    "findfiles",
    "ls",
    "list",
    "listdir",
    "listdirectory",
    "listfiles",
    "websearch",
    "webfetch",
    "fetch",
    "todoread",
    "todowrite",
    "notebookread",
    "getdiagnostics",
    "think",
    "askuserquestion",
];

/// The commands of tools that edit the file at a path. They are not shell commands.
const EDITOR_COMMANDS: [&str; 5] = ["view", "create", "str_replace", "insert", "undo_edit"];

impl Report {
    /// Returns the id of the session in the ledger.
    pub fn session_id(&self) -> String {
        format!("{}:{}", self.agent, self.session)
    }
}

impl ReportedEvent {
    /// Returns true if the workspace is captured because of the event.
    pub fn is_captured(&self) -> bool {
        let is_prompt = matches!(self, ReportedEvent::BeforePrompt { .. });
        is_prompt || matches!(self, ReportedEvent::BeforeTool(_) | ReportedEvent::AfterTool { .. })
    }

    /// Returns true if the event is the last one before the next prompt.
    pub fn ends_turn(&self) -> bool {
        matches!(self, ReportedEvent::TurnEnd | ReportedEvent::SessionEnd)
    }
}

impl ToolWork {
    /// Describes a call that runs a script.
    pub fn run_script(script: impl Into<String>) -> ToolWork {
        ToolWork::Shell { script: script.into(), paths: Vec::new() }
    }

    /// Guesses the effect from the name and the input of the tool.
    ///
    /// ```
    /// use serde_json::json;
    /// use takeback_undo::ToolWork;
    ///
    /// let work = ToolWork::guess("shell", &json!({ "command": ["bash", "-c", "rm cart.rs"] }));
    /// assert_eq!(work, ToolWork::run_script("rm cart.rs"));
    /// // An unknown tool may change files.
    /// assert!(matches!(ToolWork::guess("tidy", &json!({})), ToolWork::Changes { .. }));
    /// ```
    pub fn guess(tool: &str, input: &Value) -> ToolWork {
        let paths = find_paths(input);
        let editor_command = find_editor_command(input);
        let is_script =
            editor_command.is_none() && !input.get("command").is_some_and(is_plain_patch);
        match find_script(input).filter(|_| is_script) {
            Some(script) => ToolWork::Shell { script, paths },
            None if is_reading_tool(tool) || editor_command == Some("view") => ToolWork::Reads,
            None => ToolWork::Changes { script: None, paths },
        }
    }
}

impl ToolCall {
    /// Returns the script, if the call runs one.
    pub fn script(&self) -> Option<&str> {
        match &self.work {
            ToolWork::Shell { script, .. } => Some(script),
            ToolWork::Changes { script, .. } => script.as_deref(),
            ToolWork::Reads | ToolWork::Writes { .. } => None,
        }
    }

    /// Returns the files that the call names.
    pub fn paths(&self) -> &[PathBuf] {
        match &self.work {
            ToolWork::Shell { paths, .. }
            | ToolWork::Changes { paths, .. }
            | ToolWork::Writes { paths } => paths,
            ToolWork::Reads => &[],
        }
    }

    /// Returns true if the call changes nothing but the files that it names.
    pub(super) fn names_everything(&self) -> bool {
        self.script().is_none() && !self.paths().is_empty()
    }

    /// Describes the call as the reason for a checkpoint. Paths below `root` are shortened.
    pub(crate) fn describe_reason(&self, tool: &str, root: &Path) -> String {
        let shorten = |path: &Path| match path.strip_prefix(root) {
            Ok(inner) if inner != Path::new("") => inner.display().to_string(),
            _ => path.display().to_string(),
        };
        match (self.script(), self.paths()) {
            (Some(script), _) => format!("before {tool}: {script}"),
            (None, [path]) => format!("before {tool} {}", shorten(path)),
            (None, [path, more @ ..]) => {
                format!("before {tool} {} and {} more", shorten(path), more.len())
            }
            (None, []) => format!("before {tool}"),
        }
    }
}

/// Finds the shell command in the input of a tool.
pub fn find_script(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(script) => Some(script.clone()),
        // A list of words is one command, and no shell interprets its words.
        Value::Array(words) => {
            let words = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            Some(match words[..] {
                [shell, flags, script]
                    if is_shell(shell) && flags.starts_with('-') && flags.ends_with('c') =>
                {
                    script.to_owned()
                }
                _ => words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" "),
            })
        }
        _ => None,
    }
}

/// Finds the command of a tool that edits the file at a path, as in `{"command": "create", "path":
/// "a"}`.
fn find_editor_command(input: &Value) -> Option<&str> {
    ["path", "file_path"].iter().find_map(|key| input.get(key)?.as_str())?;
    input.get("command")?.as_str().filter(|command| EDITOR_COMMANDS.contains(command))
}

/// Finds the files that the input of a tool names, without duplicates. A patch in the input names
/// the files that it changes.
pub fn find_paths(input: &Value) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |value: Option<&Value>| {
        let Some(path) = value.and_then(Value::as_str).filter(|path| !path.is_empty()) else {
            return;
        };
        if seen.insert(PathBuf::from(path)) {
            paths.push(PathBuf::from(path));
        }
    };
    PATH_KEYS.iter().for_each(|key| add(input.get(key)));
    for entry in LIST_KEYS.iter().filter_map(|key| input.get(key)?.as_array()).flatten() {
        add(Some(entry));
        PATH_KEYS.iter().for_each(|key| add(entry.get(key)));
    }
    let patched = find_patch(input).map(list_patched_files).unwrap_or_default();
    paths.extend(patched.into_iter().filter(|path| !seen.contains(path)));
    paths
}

/// Returns true if a tool with this name is known to only read.
fn is_reading_tool(tool: &str) -> bool {
    let plain: String =
        tool.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    READING_TOOLS.contains(&plain.as_str())
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash" | "ksh"))
}

/// Quotes a word so that a shell reads it back unchanged.
///
/// ```
/// use takeback_undo::hook::quote_word;
///
/// assert_eq!(quote_word("src/cart.rs"), "src/cart.rs");
/// assert_eq!(quote_word("my notes.txt"), "'my notes.txt'");
/// ```
pub fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_a_script_or_a_list_of_words() {
        let command = |input: Value| find_script(&json!({ "command": input }));
        assert_eq!(command(json!("ls -l")).as_deref(), Some("ls -l"));
        assert_eq!(command(json!(["bash", "-lc", "rm x"])).as_deref(), Some("rm x"));
        assert_eq!(command(json!(["rm", "a b", "it's"])).as_deref(), Some(r"rm 'a b' 'it'\''s'"));
        assert_eq!(command(json!(7)), None);
    }

    #[test]
    fn only_known_tools_count_as_reading() {
        for tool in ["Read", "read_file", "list_directory", "Grep"] {
            assert_eq!(ToolWork::guess(tool, &json!({})), ToolWork::Reads, "{tool}");
        }
        for tool in ["Write", "mcp__files__delete", "", "edit"] {
            assert_eq!(ToolWork::guess(tool, &json!({})), ToolWork::default(), "{tool}");
        }
    }

    #[test]
    fn every_path_is_found_once() {
        let input = json!({
            "file_path": "a", "old_path": "", "destination": "b", "source": 7,
            "files": ["c", { "path": "a" }, { "filePath": "d" }, 8],
            "edits": { "path": "not a list" },
        });
        assert_eq!(find_paths(&input), ["a", "b", "c", "d"].map(PathBuf::from));
        assert!(find_paths(&json!("text")).is_empty());
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "*** Begin Patch\n*** Delete File: up/a\n*** Update File: ../n\n*** End Patch";
        let named = ["up/a", "../n"].map(PathBuf::from).to_vec();
        let is_exact = ToolWork::Changes { script: None, paths: named.clone() };
        for input in [
            json!({ "input": patch }),
            json!({ "patch": patch }),
            json!({ "command": patch }),
            json!({ "patchText": patch }),
            json!({ "command": ["apply_patch", patch] }),
            json!(["apply_patch", patch]),
        ] {
            assert_eq!(ToolWork::guess("apply_patch", &input), is_exact, "{input}");
        }
        let script = format!("apply_patch <<'EOF'\n{patch}\nEOF");
        for command in [json!(script), json!(["bash", "-lc", script])] {
            let work = ToolWork::guess("Bash", &json!({ "command": command }));
            assert_eq!(work, ToolWork::Shell { script: script.clone(), paths: named.clone() });
        }
    }

    #[test]
    fn the_command_of_an_editor_is_not_a_script() {
        let work = |command: &str, key: &str| {
            ToolWork::guess("str_replace_based_edit_tool", &json!({ "command": command, key: "a" }))
        };
        let edit = ToolWork::Changes { script: None, paths: vec!["a".into()] };
        for command in ["create", "str_replace", "insert", "undo_edit"] {
            assert_eq!(work(command, "path"), edit, "{command}");
        }
        assert_eq!(work("create", "file_path"), edit);
        assert_eq!(work("view", "path"), ToolWork::Reads);
        let script = ToolWork::Shell { script: "rm a".into(), paths: vec!["a".into()] };
        assert_eq!(work("rm a", "path"), script);
        assert_eq!(work("create", "directory"), ToolWork::run_script("create"));
    }

    #[test]
    fn a_reason_names_the_first_path() {
        let call = |paths: &[&str]| {
            let paths = paths.iter().map(PathBuf::from).collect();
            let work = ToolWork::Changes { script: None, paths };
            ToolCall { work, ..ToolCall::default() }.describe_reason("edit", Path::new("/shop"))
        };
        assert_eq!(call(&[]), "before edit");
        assert_eq!(call(&["/shop/src/a"]), "before edit src/a");
        assert_eq!(call(&["/shop/a", "/shop/b"]), "before edit a and 1 more");
        assert_eq!(call(&["/shop"]), "before edit /shop");
        assert_eq!(call(&["/shopping/a"]), "before edit /shopping/a");
        assert_eq!(call(&["a"]), "before edit a");
        assert_eq!(call(&["a", "b", "c"]), "before edit a and 2 more");
    }
}
