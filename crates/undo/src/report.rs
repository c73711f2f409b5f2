//! What an agent's hook reports.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::record::TurnId;

/// Something that happened in a session of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The agent's name.
    pub agent: String,
    /// Its name for the session.
    pub session: String,
    /// The session that handed out this one's work.
    pub parent: Option<String>,
    /// Its name for the turn, if it has one.
    pub turn: Option<TurnId>,
    /// The directory it works in.
    pub directory: PathBuf,
    /// The model that it talks to.
    pub model: Option<String>,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The session began, or goes on.
    SessionStart,
    /// The user said something.
    TurnStart {
        /// What, if the agent tells.
        prompt: Option<String>,
    },
    /// A tool is about to be used.
    BeforeTool(ToolCall),
    /// A tool was used.
    AfterTool {
        /// Which.
        call: ToolCall,
        /// What became of it.
        outcome: Option<String>,
    },
    /// The agent is done with what the user said.
    TurnEnd,
    /// The session is over.
    SessionEnd,
}

/// A use of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// The agent's name for it.
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// What the tool was given.
    pub input: Value,
    /// What that may do.
    pub work: Work,
}

/// What a tool call may do to files.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// It only looks.
    Reads,
    /// A shell runs a script; whether that changes files is to be seen from it.
    Shell {
        /// The script.
        script: String,
        /// Files that are named besides.
        paths: Vec<PathBuf>,
    },
    /// It may change files whatever is known of it.
    Changes {
        /// A script that a shell runs for it.
        script: Option<String>,
        /// Files that it names.
        paths: Vec<PathBuf>,
    },
}

impl Default for Work {
    /// Nothing is known.
    fn default() -> Work {
        Work::Changes { script: None, paths: Vec::new() }
    }
}

/// Keys of the input under which agents name the file that a tool is about.
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

/// Keys under which they name several, or describe changes to several.
const LIST_KEYS: [&str; 5] = ["paths", "file_paths", "filePaths", "files", "edits"];

/// Tools that only look. Whatever is not among them may change files.
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

impl Report {
    /// The session as the ledger knows it.
    pub fn session_id(&self) -> String {
        format!("{}:{}", self.agent, self.session)
    }
}

impl Work {
    /// A shell runs a script.
    pub fn shell(script: impl Into<String>) -> Work {
        Work::Shell { script: script.into(), paths: Vec::new() }
    }

    /// What can be told from a tool's name and input alone.
    pub fn guess(tool: &str, input: &Value) -> Work {
        match script_in(input) {
            Some(script) => Work::Shell { script, paths: paths_in(input) },
            None if is_reading_tool(tool) => Work::Reads,
            None => Work::Changes { script: None, paths: paths_in(input) },
        }
    }
}

impl ToolCall {
    /// The script, if a shell runs one.
    pub fn script(&self) -> Option<&str> {
        match &self.work {
            Work::Shell { script, .. } => Some(script),
            Work::Changes { script, .. } => script.as_deref(),
            Work::Reads => None,
        }
    }

    /// The files that it names.
    pub fn paths(&self) -> &[PathBuf] {
        match &self.work {
            Work::Shell { paths, .. } | Work::Changes { paths, .. } => paths,
            Work::Reads => &[],
        }
    }

    /// The reason of a checkpoint before it.
    pub(crate) fn reason(&self, tool: &str) -> String {
        match (self.script(), self.paths()) {
            (Some(script), _) => format!("before {tool}: {script}"),
            (None, [path]) => format!("before {tool} {}", path.display()),
            (None, [path, more @ ..]) => {
                format!("before {tool} {} and {} more", path.display(), more.len())
            }
            (None, []) => format!("before {tool}"),
        }
    }
}

/// The shell command in the input of a tool.
pub fn script_in(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(script) => Some(script.clone()),
        // A list of words is one command; its words are not to be interpreted.
        Value::Array(words) => {
            let words = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            Some(match words[..] {
                [shell, flags, script]
                    if is_shell(shell) && flags.starts_with('-') && flags.ends_with('c') =>
                {
                    script.to_owned()
                }
                _ => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            })
        }
        _ => None,
    }
}

/// The files that the input of a tool names, each once.
pub fn paths_in(input: &Value) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |value: Option<&Value>| {
        let Some(path) = value.and_then(Value::as_str).filter(|path| !path.is_empty()) else {
            return;
        };
        if seen.insert(path.to_owned()) {
            paths.push(PathBuf::from(path));
        }
    };
    PATH_KEYS.iter().for_each(|key| add(input.get(key)));
    for entry in LIST_KEYS.iter().filter_map(|key| input.get(key)?.as_array()).flatten() {
        add(Some(entry));
        PATH_KEYS.iter().for_each(|key| add(entry.get(key)));
    }
    paths
}

/// Whether a tool of this name is known to only look.
fn is_reading_tool(tool: &str) -> bool {
    let plain: String =
        tool.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    READING_TOOLS.contains(&plain.as_str())
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash" | "ksh"))
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
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
        let command = |input: Value| script_in(&json!({ "command": input }));
        assert_eq!(command(json!("ls -l")).as_deref(), Some("ls -l"));
        assert_eq!(command(json!(["bash", "-lc", "rm x"])).as_deref(), Some("rm x"));
        assert_eq!(command(json!(["rm", "a b", "it's"])).as_deref(), Some(r"rm 'a b' 'it'\''s'"));
        assert_eq!(command(json!(7)), None);
    }

    #[test]
    fn only_known_tools_only_read() {
        for tool in ["Read", "read_file", "list_directory", "Grep"] {
            assert_eq!(Work::guess(tool, &json!({})), Work::Reads, "{tool}");
        }
        for tool in ["Write", "mcp__files__delete", "", "edit"] {
            assert_eq!(Work::guess(tool, &json!({})), Work::default(), "{tool}");
        }
    }

    #[test]
    fn every_path_is_found_once() {
        let input = json!({
            "file_path": "a", "old_path": "", "destination": "b", "source": 7,
            "files": ["c", { "path": "a" }, { "filePath": "d" }, 8],
            "edits": { "path": "not a list" },
        });
        assert_eq!(paths_in(&input), ["a", "b", "c", "d"].map(PathBuf::from));
        assert!(paths_in(&json!("text")).is_empty());
    }

    #[test]
    fn a_reason_names_the_first_path() {
        let call = |paths: &[&str]| {
            let paths = paths.iter().map(PathBuf::from).collect();
            let work = Work::Changes { script: None, paths };
            ToolCall { work, ..ToolCall::default() }.reason("edit")
        };
        assert_eq!(call(&[]), "before edit");
        assert_eq!(call(&["a"]), "before edit a");
        assert_eq!(call(&["a", "b", "c"]), "before edit a and 2 more");
    }
}
