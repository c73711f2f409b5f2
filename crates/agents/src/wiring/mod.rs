//! The wiring of each agent: the hooks, command files and plugins that `install` adds to the
//! agent's configuration. One file per agent.

pub(crate) mod claude;
pub(crate) mod cline;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod cursor;
pub(crate) mod droid;
pub(crate) mod gemini;
pub(crate) mod goose;
pub(crate) mod opencode;
pub(crate) mod pi;
mod program;
pub(crate) mod qwen;
pub(crate) mod seal;
mod slash_file;
pub(crate) mod zed;

pub use self::program::Program;
pub use self::slash_file::{argument_hint, is_own_command};

/// The time that an agent waits for a hook, in seconds. A hook has its own, much shorter limit,
/// except during a rollback that the user requested.
pub(crate) const HOOK_TIMEOUT: u64 = 120;

/// The location of an agent's configuration, and the files that takeback adds or edits there.
pub(crate) struct Wiring {
    /// Programs whose presence shows that the agent is installed on this machine.
    pub(crate) programs: &'static [&'static str],
    /// The environment variable that names the user's configuration directory, and a path to append
    /// to its value.
    pub(crate) env_var: Option<(&'static str, &'static str)>,
    /// The path of the configuration directory if the variable is not set, relative to the home
    /// directory.
    pub(crate) user_directory: &'static str,
    /// The path of the configuration directory, relative to the project.
    pub(crate) project_directory: &'static str,
    pub(crate) parts: &'static [Part],
    /// The setting that disables all of the agent's hooks.
    pub(crate) off_switch: Option<OffSwitch>,
    /// True if the agent runs only the hooks that the user has reviewed.
    pub(crate) needs_review: bool,
    /// A step that the user must still take after `takeback install`.
    pub(crate) next_step: Option<&'static str>,
}

/// A setting that disables all of an agent's hooks.
#[derive(Clone, Copy)]
pub(crate) struct OffSwitch {
    pub(crate) file: &'static str,
    /// The JSON pointer of the setting in the file.
    pub(crate) pointer: &'static str,
    /// The value that turns hooks off.
    pub(crate) off_value: bool,
}

/// A file in an agent's configuration that takeback edits or adds.
pub(crate) enum Part {
    /// Entries in a user's file.
    Hooks(HookEntries),
    /// A file that belongs to takeback alone.
    OwnFile(OwnFile),
    /// Agents in an editor's settings.
    Servers(ServerEntries),
}

/// Agents that an editor starts through takeback.
pub(crate) struct ServerEntries {
    pub(crate) file: &'static str,
    pub(crate) servers: &'static [AgentServer],
}

/// An agent that an editor starts through takeback.
pub(crate) struct AgentServer {
    /// The name that the editor shows.
    pub(crate) name: &'static str,
    /// The agent's own command.
    pub(crate) command: &'static [&'static str],
}

/// Hook commands in a user's file.
pub(crate) struct HookEntries {
    pub(crate) file: &'static str,
    /// A TOML file that can contain the hooks in place of `file`. Takeback uses the TOML file if it
    /// already has hooks and `file` does not exist.
    pub(crate) toml_file: Option<&'static str>,
    pub(crate) format: EntryFormat,
    pub(crate) events: &'static [&'static str],
    /// Events with a shorter timeout than [`HOOK_TIMEOUT`], in seconds.
    pub(crate) timeouts: &'static [(&'static str, u64)],
}

/// The form of a hook entry.
#[derive(Clone, Copy)]
pub(crate) enum EntryFormat {
    /// Groups with a matcher, as in Claude Code. Timeouts are in seconds.
    Seconds,
    /// Groups with a matcher, in which commands have names. Timeouts are in milliseconds.
    Milliseconds,
    /// A plain list of commands, as in Cursor.
    Plain,
}

/// A file that belongs to takeback alone.
pub(crate) struct OwnFile {
    pub(crate) file: &'static str,
    /// Builds the content, given the program that runs takeback.
    pub(crate) content: fn(&Program) -> String,
    pub(crate) executable: bool,
}

/// The Claude Code events that Codex, Qwen Code and Droid also report.
const CLAUDE_HOOKS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
];

/// Describes a file that the agent reads.
const fn text_file(file: &'static str, content: fn(&Program) -> String) -> Part {
    Part::OwnFile(OwnFile { file, content, executable: false })
}

/// Describes a script that the agent runs.
const fn script_file(file: &'static str, content: fn(&Program) -> String) -> Part {
    Part::OwnFile(OwnFile { file, content, executable: true })
}

/// Inserts takeback's command line into a plugin's source, and adds the signature.
fn plugin_source(program: &Program, agent: &str, source: &str) -> String {
    let words = serde_json::to_string(program.words()).expect("strings become JSON");
    format!("// {}\n{}", seal::unsealed_signature(agent), source.replace("@TAKEBACK@", &words))
}

/// Formats JSON for one of takeback's own files.
fn pretty_json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use crate::{AGENTS, LOG_FORMATS, find_agent};

    /// Hooks in a directory that the agent does not read would protect nothing.
    #[test]
    fn configuration_and_logs_of_an_agent_are_in_the_same_home() {
        for format in LOG_FORMATS {
            let wiring =
                AGENTS.iter().find(|agent| agent.name == format.agent).unwrap().wiring.unwrap();
            let env_var = wiring.env_var.map(|(name, _)| name);
            match format.agent {
                "opencode" => assert_eq!(env_var, Some("XDG_CONFIG_HOME")),
                _ => assert_eq!(env_var, format.env_var, "{}", format.agent),
            }
        }
    }

    #[test]
    fn plugins_name_every_event_of_the_table() {
        for (name, source) in [
            ("opencode", include_str!("../../plugins/opencode.js")),
            ("pi", include_str!("../../plugins/pi.ts")),
        ] {
            for (event, _) in find_agent(name).unwrap().events {
                assert!(source.contains(&format!("\"{event}\"")), "{name} {event}");
            }
            assert_eq!(source.matches("@TAKEBACK@").count(), 1);
        }
    }
}
