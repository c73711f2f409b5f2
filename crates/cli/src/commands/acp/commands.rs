//! The slash commands that takeback offers in an editor, in addition to those of the agent.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use takeback_agents::{SlashCommand, argument_hint, is_own_command};

use crate::slash::COMMANDS;

/// The names of the commands that takeback answers in an editor.
const NAMES: [&str; 4] = ["rollback", "undo", "redo", "diff"];

/// The prefix that distinguishes a command of takeback from a command of the agent with the same
/// name.
const PREFIX: &str = "takeback-";

/// A command that the agent offers.
#[derive(Deserialize)]
struct AgentCommand {
    name: String,
    #[serde(default)]
    description: String,
}

/// The commands of an agent, as it last announced them.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentCommands {
    /// The agent's commands in JSON, except those from command files that takeback wrote.
    raw: Vec<Box<RawValue>>,
    /// The names in [`NAMES`] that the agent already uses for commands of its own.
    taken: Vec<&'static str>,
}

impl AgentCommands {
    /// Reads the commands that the agent announces. Returns `None` if they are not a list.
    pub(super) fn read(list: &RawValue) -> Option<AgentCommands> {
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
        let mut commands = AgentCommands::default();
        for raw in list {
            let command: Option<AgentCommand> = serde_json::from_str(raw.get()).ok();
            if let Some(command) = command {
                // Leave out commands from takeback's own command files: without takeback's hooks,
                // the agent cannot answer them.
                if is_own_command(&command.description) {
                    continue;
                }
                commands.taken.extend(NAMES.iter().filter(|name| **name == command.name));
            }
            commands.raw.push(raw.to_owned());
        }
        Some(commands)
    }

    /// Returns a JSON list of the agent's commands and takeback's commands.
    pub(super) fn merged(&self) -> String {
        let own = NAMES.iter().map(|name| self.describe(name).to_string());
        let theirs = self.raw.iter().map(|raw| raw.get().to_owned());
        format!("[{}]", theirs.chain(own).collect::<Vec<_>>().join(","))
    }

    fn describe(&self, name: &str) -> Value {
        let about = COMMANDS.iter().find(|(known, _)| *known == name);
        let about = about.map_or("", |(_, about)| *about);
        let prefix = if self.taken.contains(&name) { PREFIX } else { "" };
        let mut command = json!({ "name": format!("{prefix}{name}"), "description": about });
        let hint = match name {
            "rollback" | "undo" => argument_hint(name),
            "diff" => "[N [M]] [FILE…]",
            _ => "[--dry-run]",
        };
        command["input"] = json!({ "hint": hint });
        command
    }

    /// If a prompt is a command of takeback, such as `/undo`, returns it as a slash command.
    /// Returns `None` for a prompt that is meant for the agent.
    pub(super) fn find_line(&self, prompt: &str) -> Option<String> {
        let prompt = prompt.trim();
        if prompt.contains('\n') {
            return None;
        }
        let Some(typed) = prompt.strip_prefix('/') else {
            // A prompt such as `takeback rollback 2` is also a command, unless it could be a
            // sentence for the model.
            let words = prompt.strip_prefix("takeback ")?.trim_start();
            return SlashCommand::parse_prompt(prompt).map(|_| format!("/{words}"));
        };
        let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let plain = ["takeback-", "takeback:"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let is_own = NAMES.contains(&plain.unwrap_or(name));
        let is_agents = plain.is_none() && self.taken.contains(&name);
        (is_own && !is_agents).then(|| format!("/{} {}", plain.unwrap_or(name), rest.trim()))
    }
}

/// Wraps the output of a command so that an editor shows it unchanged: editors render the text of
/// an agent as Markdown.
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> AgentCommands {
        AgentCommands::read(serde_json::from_str(list).unwrap()).unwrap()
    }

    fn names(commands: &AgentCommands) -> Vec<String> {
        let merged: Vec<Value> = serde_json::from_str(&commands.merged()).unwrap();
        merged.iter().map(|command| command["name"].as_str().unwrap_or("?").to_owned()).collect()
    }

    #[test]
    fn commands_of_the_agent_come_first_and_unchanged() {
        let commands = read(r#"[{"name":"plan","description":"d","_x":  1.0e2},{"odd":1}]"#);
        assert_eq!(names(&commands), ["plan", "?", "rollback", "undo", "redo", "diff"]);
        assert!(
            commands.merged().starts_with(r#"[{"name":"plan","description":"d","_x":  1.0e2},"#)
        );
        assert_eq!(names(&read("[]")), ["rollback", "undo", "redo", "diff"]);
    }

    #[test]
    fn a_command_of_the_agent_keeps_its_name() {
        let commands = read(r#"[{"name":"undo","description":"the agent's own"}]"#);
        assert_eq!(names(&commands), ["undo", "rollback", "takeback-undo", "redo", "diff"]);
        assert_eq!(commands.find_line("/undo"), None);
        assert_eq!(
            commands.find_line("/takeback-undo --turn 2").as_deref(),
            Some("/undo --turn 2")
        );
    }

    #[test]
    fn command_files_that_takeback_wrote_are_not_offered_twice() {
        let commands = read(
            r#"[{"name":"rollback","description":"List takeback's checkpoints, or return to one (user)"},
                {"name":"takeback-undo","description":"Take back what the agent changed in its last turn (takeback)"}]"#,
        );
        assert_eq!(names(&commands), ["rollback", "undo", "redo", "diff"]);
        assert_eq!(commands.find_line("/rollback 1").as_deref(), Some("/rollback 1"));
    }

    #[test]
    fn only_commands_for_takeback_are_withheld_from_the_agent() {
        let commands = AgentCommands::default();
        for (prompt, line) in [
            ("/undo", "/undo "),
            (" /rollback 2 src/a.rs ", "/rollback 2 src/a.rs"),
            ("/takeback:rollback", "/rollback "),
            ("takeback rollback 2", "/rollback 2"),
            ("takeback undo", "/undo"),
        ] {
            assert_eq!(commands.find_line(prompt).as_deref(), Some(line), "{prompt}");
        }
        for prompt in [
            "undo",
            "/model x",
            "/compact",
            "/rollbacks",
            "please /undo",
            "/undo\nand more",
            "takeback undo is what I want explained",
            "/",
            "",
        ] {
            assert_eq!(commands.find_line(prompt), None, "{prompt}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fence("a"), "```text\na\n```\n");
        assert!(fence("```\na").starts_with("````text\n"));
    }
}
