//! What an agent's hook reports.

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
        /// What.
        prompt: String,
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
    /// Whether it counts as changing files whatever it is.
    pub always: bool,
}

/// Keys of the input under which agents name the file that a tool is about.
const PATH_KEYS: [&str; 6] =
    ["path", "file_path", "filePath", "absolute_path", "notebook_path", "filename"];

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

impl ToolCall {
    /// The script, if it is a shell command.
    pub fn command(&self) -> Option<String> {
        match self.input.get("command")? {
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

    /// The file that it is about.
    pub fn path(&self) -> Option<PathBuf> {
        let path = PATH_KEYS.iter().find_map(|key| self.input.get(key)?.as_str())?;
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    /// Whether the tool is one that only looks.
    pub fn only_reads(&self) -> bool {
        let plain: String = self
            .tool
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect::<String>()
            .to_ascii_lowercase();
        READING_TOOLS.contains(&plain.as_str())
    }

    /// The reason of a checkpoint before it.
    pub(crate) fn reason(&self, tool: &str) -> String {
        match (self.command(), self.path()) {
            (Some(command), _) => format!("before {tool}: {command}"),
            (None, Some(path)) => format!("before {tool} {}", path.display()),
            (None, None) => format!("before {tool}"),
        }
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash" | "ksh"))
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
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

    fn call(tool: &str, input: Value) -> ToolCall {
        ToolCall { tool: tool.into(), input, ..ToolCall::default() }
    }

    #[test]
    fn a_command_is_a_script_or_a_list_of_words() {
        let command = |input| call("Bash", json!({ "command": input })).command();
        assert_eq!(command(json!("ls -l")).as_deref(), Some("ls -l"));
        assert_eq!(command(json!(["bash", "-lc", "rm x"])).as_deref(), Some("rm x"));
        assert_eq!(command(json!(["rm", "a b", "it's"])).as_deref(), Some(r"rm 'a b' 'it'\''s'"));
        assert_eq!(command(json!(7)), None);
    }

    #[test]
    fn only_known_tools_only_read() {
        for tool in ["Read", "read_file", "list_directory", "Grep"] {
            assert!(call(tool, json!({})).only_reads(), "{tool}");
        }
        for tool in ["Write", "mcp__files__delete", "", "edit"] {
            assert!(!call(tool, json!({})).only_reads(), "{tool}");
        }
    }
}
