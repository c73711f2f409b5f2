//! The entry for one event in an agent's configuration, and how takeback recognizes its own
//! entries.

use std::path::Path;

use serde_json::{Map, Value, json};
use takeback_undo::hook::quote_word;

use crate::agent::Agent;
use crate::slash_command::split_words;
use crate::wiring::{EntryFormat, HOOK_TIMEOUT, HookEntries, Program};

/// The entry for one event in an agent's configuration.
#[derive(Clone, Debug)]
pub(super) struct HookEntry {
    pub(super) event: &'static str,
    /// The pattern that matches the tools to which the entry applies. Only entries for tool events
    /// have one.
    pub(super) matcher: Option<&'static str>,
    /// The command, its type and its timeout, in the order in which they are written.
    pub(super) hook: Vec<(&'static str, Field)>,
    /// True if commands are in groups: `{"matcher": …, "hooks": [command]}`.
    pub(super) is_nested: bool,
    /// The version of the format, for agents that require it in a new file.
    pub(super) version: Option<u32>,
}

/// The value of a field in an entry.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Text(String),
    Number(u64),
}

/// Builds the entries for all events of an agent.
pub(super) fn build_entries(
    agent: &Agent,
    hooks: &HookEntries,
    program: &Program,
) -> Vec<HookEntry> {
    let text = |text: &str| Field::Text(text.to_owned());
    let entry = |event: &'static str| {
        let command = Field::Text(program.guarded_command(&format!("hook {}", agent.name)));
        let is_tool = event.to_lowercase().contains("tool");
        let timeout = hooks.timeouts.iter().find(|(limited, _)| *limited == event);
        let seconds = timeout.map_or(HOOK_TIMEOUT, |(_, seconds)| *seconds);
        let hook = match hooks.format {
            EntryFormat::Seconds => vec![
                ("type", text("command")),
                ("command", command),
                ("timeout", Field::Number(seconds)),
            ],
            EntryFormat::Milliseconds => vec![
                ("name", text("takeback")),
                ("type", text("command")),
                ("command", command),
                ("timeout", Field::Number(seconds * 1000)),
            ],
            EntryFormat::Plain => vec![("command", command)],
        };
        let is_nested = !matches!(hooks.format, EntryFormat::Plain);
        HookEntry {
            event,
            matcher: (is_nested && is_tool).then_some("*"),
            hook,
            is_nested,
            version: (!is_nested).then_some(1),
        }
    };
    hooks.events.iter().map(|event| entry(event)).collect()
}

impl HookEntry {
    /// Returns the entry as JSON.
    pub(super) fn to_json(&self) -> Value {
        let field = |(key, field): &(&str, Field)| {
            let value = match field {
                Field::Text(text) => json!(text),
                Field::Number(number) => json!(number),
            };
            ((*key).to_owned(), value)
        };
        let hook = Value::Object(self.hook.iter().map(field).collect());
        if !self.is_nested {
            return hook;
        }
        let mut group = Map::new();
        group.extend(self.matcher.map(|matcher| ("matcher".to_owned(), json!(matcher))));
        group.insert("hooks".into(), json!([hook]));
        Value::Object(group)
    }
}

/// The mark by which takeback recognizes its commands: `takeback`, options, `hook`, and the agent.
///
/// The mark must match every form of the command that a released version has written. Otherwise
/// takeback could no longer update or remove the entries of that version.
pub(super) struct CommandMark<'a> {
    pub(super) agent: &'static str,
    /// The path of this program, in case it is not named `takeback`.
    pub(super) program: &'a str,
}

impl CommandMark<'_> {
    /// True if an element in a list of hooks contains a takeback command.
    pub(super) fn is_in(&self, element: &Value) -> bool {
        commands_in(element).any(|command| self.is_own_command(command))
    }

    /// True if an element in a list of hooks contains only takeback commands.
    pub(super) fn is_all_of(&self, element: &Value) -> bool {
        self.is_in(element) && commands_in(element).all(|command| self.is_own_command(command))
    }

    /// True if takeback wrote the command. A command that does more than run takeback belongs to
    /// the user.
    fn is_own_command(&self, command: &str) -> bool {
        let command = match command.split_once("; exec ") {
            Some((guard, command)) if is_guard(guard) => command,
            _ => command,
        };
        let words = split_words(command);
        let plain = words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ");
        let is_program = |word: &String| {
            word == self.program || Path::new(word).file_name().is_some_and(|it| it == "takeback")
        };
        let mut rest = words.iter().skip(1).map(String::as_str).skip_while(|word| *word != "hook");
        plain == command
            && words.first().is_some_and(is_program)
            && rest.next() == Some("hook")
            && rest.next() == Some(self.agent)
    }
}

/// True if the text is the shell test that skips the command when takeback is missing.
fn is_guard(guard: &str) -> bool {
    guard.strip_suffix(" || exit 0").is_some_and(|test| {
        test == "command -v takeback >/dev/null 2>&1"
            || test.starts_with("[ -x ")
                && test.ends_with(" ]")
                && !test.contains(['&', '|', '`', '$'])
    })
}

/// Lists the commands in an element: its own command, or those in its group.
fn commands_in(element: &Value) -> impl Iterator<Item = &str> {
    let group = element["hooks"].as_array().into_iter().flatten();
    group.chain([element]).filter_map(|hook| hook["command"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_takeback_are_recognized_in_every_form() {
        let mark = CommandMark { agent: "claude", program: "/x/tb" };
        for ours in [
            "takeback hook claude",
            "'/opt/my tools/takeback' hook claude",
            "/x/takeback --home /y hook claude --strict",
            "command -v takeback >/dev/null 2>&1 || exit 0; exec takeback hook claude",
            "'/it'\\''s/takeback' hook claude",
            "/x/tb hook claude",
            "[ -x '/a b/takeback' ] || exit 0; exec '/a b/takeback' hook claude",
        ] {
            assert!(mark.is_all_of(&json!({ "command": ours })), "{ours}");
        }
        for theirs in [
            "takeback hook codex",
            "takeback rollback",
            "audit.sh; takeback hook claude",
            "nice takeback hook claude",
            "/y/tb hook claude",
            "takeback hook claude | tee log",
            "takeback hook claude && bell",
            "x || exit 0; exec takeback hook claude",
            "my-takeback hook claude",
            "echo hook claude",
            "",
        ] {
            assert!(!mark.is_in(&json!({ "command": theirs })), "{theirs}");
        }
    }

    #[test]
    fn a_group_can_hold_commands_of_takeback_and_of_the_user() {
        let mark = CommandMark { agent: "claude", program: "/x/tb" };
        let ours = json!({ "command": "takeback hook claude" });
        let theirs = json!({ "command": "lint" });
        assert!(mark.is_all_of(&json!({ "hooks": [ours] })));
        let both = json!({ "hooks": [ours, theirs] });
        assert!(mark.is_in(&both) && !mark.is_all_of(&both));
        assert!(!mark.is_in(&json!({ "hooks": [theirs] })) && !mark.is_in(&json!({ "hooks": [] })));
    }
}
