//! One command of ours for one event, and how it is known again.

use std::path::Path;

use serde_json::{Map, Value, json};
use takeback_undo::hook::quote_word;

use crate::slash;
use crate::spec::Agent;
use crate::wiring::{Format, Hooks, Program, TIMEOUT};

/// What is to stand in an agent's configuration for one event.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) event: &'static str,
    /// Which tools it is for, where that has to be said.
    pub(super) matcher: Option<&'static str>,
    /// The command and what belongs to it.
    pub(super) hook: Vec<(&'static str, Field)>,
    /// Whether commands are in groups, `{"matcher": …, "hooks": [command]}`.
    pub(super) is_nested: bool,
    /// The format's version, where a new file has to say it.
    pub(super) version: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) enum Field {
    Text(String),
    Number(u64),
}

/// The entries for all events of an agent.
pub(super) fn entries(agent: &Agent, hooks: &Hooks, program: &Program) -> Vec<Entry> {
    let text = |text: &str| Field::Text(text.to_owned());
    let entry = |event: &'static str| {
        let command = Field::Text(program.hook(&format!("hook {}", agent.name)));
        let is_tool = event.to_lowercase().contains("tool");
        let limit = hooks.limits.iter().find(|(limited, _)| *limited == event);
        let seconds = limit.map_or(TIMEOUT, |(_, seconds)| *seconds);
        let hook = match hooks.format {
            Format::Seconds => vec![
                ("type", text("command")),
                ("command", command),
                ("timeout", Field::Number(seconds)),
            ],
            Format::Milliseconds => vec![
                ("name", text("takeback")),
                ("type", text("command")),
                ("command", command),
                ("timeout", Field::Number(seconds * 1000)),
            ],
            Format::Plain => vec![("command", command)],
        };
        let is_nested = !matches!(hooks.format, Format::Plain);
        Entry {
            event,
            matcher: (is_nested && is_tool).then_some("*"),
            hook,
            is_nested,
            version: (!is_nested).then_some(1),
        }
    };
    hooks.events.iter().map(|event| entry(event)).collect()
}

impl Entry {
    /// As it is read back.
    pub(super) fn value(&self) -> Value {
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

/// What a command of ours looks like, of whatever version: `takeback`, options, `hook`, the agent.
pub(super) struct Mark<'a> {
    pub(super) agent: &'static str,
    /// What takeback is called here, if it is called something else.
    pub(super) program: &'a str,
}

impl Mark<'_> {
    /// Whether something of ours is in an element of a list of hooks.
    pub(super) fn is_in(&self, element: &Value) -> bool {
        commands(element).any(|command| self.is_on(command))
    }

    /// Whether it is ours altogether.
    pub(super) fn is_all_of(&self, element: &Value) -> bool {
        self.is_in(element) && commands(element).all(|command| self.is_on(command))
    }

    /// A command of which takeback is only a part is somebody else's.
    fn is_on(&self, command: &str) -> bool {
        let command = match command.split_once("; exec ") {
            Some((guard, command)) if is_guard(guard) => command,
            _ => command,
        };
        let words = slash::words(command);
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

/// What stands in front of a command where there may be no takeback.
fn is_guard(guard: &str) -> bool {
    guard.strip_suffix(" || exit 0").is_some_and(|test| {
        test == "command -v takeback >/dev/null 2>&1"
            || test.starts_with("[ -x ")
                && test.ends_with(" ]")
                && !test.contains(['&', '|', '`', '$'])
    })
}

/// The commands of an element: its own, or those of the group that it is.
fn commands(element: &Value) -> impl Iterator<Item = &str> {
    let group = element["hooks"].as_array().into_iter().flatten();
    group.chain([element]).filter_map(|hook| hook["command"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_ours_is_known_again() {
        let mark = Mark { agent: "claude", program: "/x/tb" };
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
    fn a_group_may_be_ours_in_part() {
        let mark = Mark { agent: "claude", program: "/x/tb" };
        let ours = json!({ "command": "takeback hook claude" });
        let theirs = json!({ "command": "lint" });
        assert!(mark.is_all_of(&json!({ "hooks": [ours] })));
        let both = json!({ "hooks": [ours, theirs] });
        assert!(mark.is_in(&both) && !mark.is_all_of(&both));
        assert!(!mark.is_in(&json!({ "hooks": [theirs] })) && !mark.is_in(&json!({ "hooks": [] })));
    }
}
