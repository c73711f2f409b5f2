//! The line that a user typed, and the words that it may contain.

use takeback_agents::{SlashCommand, split_words};

use crate::failure::Failure;

/// A line that was typed into a front end.
pub(crate) struct SlashLine<'a> {
    pub(crate) text: &'a str,
    /// The session in which the line was typed, if the conversation has begun.
    pub(crate) session: Option<&'a str>,
    /// The model that the front end uses.
    pub(crate) model: Option<&'a str>,
    /// True if no user typed the line. In that case, nothing is changed.
    pub(crate) is_headless: bool,
    /// True if a turn is running. In that case, nothing that the turn depends on is changed.
    pub(crate) is_busy: bool,
}

/// A slash command and its words.
pub(super) struct ParsedLine<'a> {
    pub(super) name: &'a str,
    pub(super) words: Vec<String>,
    /// The text after the name.
    pub(super) rest: &'a str,
}

impl<'a> SlashLine<'a> {
    /// Splits the line into words. Returns `None` if it is a prompt for the model, for example
    /// because it begins with a path.
    pub(super) fn parse(&self) -> Option<ParsedLine<'a>> {
        let typed = self.text.trim().strip_prefix('/')?;
        let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !is_name || typed.contains('\n') {
            return None;
        }
        let rest = rest.trim();
        let words = match name {
            // Quotation marks and apostrophes are part of these texts.
            "search" | "title" | "goal" => rest.split_whitespace().map(str::to_owned).collect(),
            _ => split_words(rest),
        };
        Some(ParsedLine { name, words, rest })
    }

    /// Returns the session, or the reason why there is none.
    pub(super) fn require_session(&self) -> Result<&'a str, Failure> {
        self.session.ok_or_else(|| Failure::new("there is no conversation yet"))
    }
}

impl ParsedLine<'_> {
    /// Checks that every word is safe. The line may come from a web page, an issue, or a file in
    /// the project, so only the options in this list are accepted. None of these options names
    /// another home, another directory or a file outside the workspace. Returns the reason for a
    /// refusal.
    pub(super) fn check(&self) -> Result<(), String> {
        let options: &[&str] = match self.name {
            "rollback" | "undo" | "redo" | "diff" => return self.takes_back().check(),
            "title" => return Ok(()),
            "fork" => &["--files"],
            "sessions" => &["--source", "--limit", "--archived"],
            "search" => {
                &["--source", "--exclude-source", "--role", "--since", "--undone", "--limit"]
            }
            "goal" => &[
                "--tokens",
                "--usd",
                "--minutes",
                "--turns",
                "--add-tokens",
                "--add-usd",
                "--add-minutes",
                "--add-turns",
            ],
            _ => &[],
        };
        let is_known = |word: &str| {
            let name = word.split_once('=').map(|(name, _)| name);
            // `/fork` chooses the directory itself.
            options.contains(&name.filter(|_| self.name != "fork").unwrap_or(word))
        };
        match self.words.iter().find(|word| word.starts_with('-') && !is_known(word)) {
            None => Ok(()),
            Some(word) => Err(format!("/{} does not accept `{word}`", self.name)),
        }
    }

    /// Returns the command in the form that is also used inside other agents.
    fn takes_back(&self) -> SlashCommand {
        let verb = match self.name {
            "redo" | "diff" => Some(self.name.to_owned()),
            _ => None,
        };
        let name = if self.name == "undo" { "undo" } else { "rollback" };
        let words = verb.into_iter().chain(self.words.iter().cloned()).collect();
        SlashCommand::new(name, words).expect("the name is one of the two")
    }
}

/// True if the command changes files, a conversation or a goal.
pub(super) fn is_changing(parsed: &ParsedLine<'_>) -> bool {
    match parsed.name {
        "rollback" | "undo" | "redo" | "diff" => parsed.takes_back().is_changing(),
        "fork" | "title" | "compress" => true,
        "goal" => {
            let verb = parsed.words.first().map(String::as_str);
            matches!(verb, Some("start" | "pause" | "resume" | "cancel"))
        }
        _ => false,
    }
}

/// True if the command changes something that a running turn depends on.
pub(super) fn needs_rest(parsed: &ParsedLine<'_>) -> bool {
    match parsed.name {
        "compress" | "model" => !parsed.words.is_empty() || parsed.name == "compress",
        "goal" => {
            matches!(parsed.words.first().map(String::as_str), Some("start" | "resume"))
        }
        "rollback" | "undo" | "redo" => is_changing(parsed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> SlashLine<'_> {
        SlashLine { text, session: None, model: None, is_headless: false, is_busy: false }
    }

    #[test]
    fn a_prompt_for_the_model_is_not_a_command() {
        for text in ["hello", "/usr/bin/env fails", "/", "/ help", "/diff 1\nand more", "/Help"] {
            assert!(line(text).parse().is_none(), "{text}");
        }
        for text in ["/help", " /search it's here ", "/nothing"] {
            assert!(line(text).parse().is_some(), "{text}");
        }
    }

    #[test]
    fn options_that_point_outside_the_workspace_or_skip_questions_are_refused() {
        for text in [
            "/rollback --home /tmp/other 1",
            "/rollback -C/etc 1",
            "/rollback 1 --yes",
            "/undo --home=x",
            "/redo -C x",
            "/diff --home x 1",
            "/diff -C x 1",
            "/fork --files=../x 1",
            "/fork -C x",
            "/sessions --workspace /etc",
            "/sessions --home x",
            "/search --home x words",
            "/search -C x words",
            "/tasks --home x",
            "/goal start --system /etc/passwd x",
            "/goal start --yolo x",
            "/goal resume --approve auto 1",
            "/goal start x --home y",
            "/resume --home",
            "/model --home",
            "/cost --json",
            "/compress --home",
        ] {
            assert!(line(text).parse().unwrap().check().is_err(), "{text}");
        }
        for text in [
            "/rollback 1 src/a.rs",
            "/undo --turn 2",
            "/search since --since 7d --limit=3",
            "/goal start make it fast --usd 2",
            "/fork 3 --files",
            "/title --home sweet home",
        ] {
            assert_eq!(line(text).parse().unwrap().check(), Ok(()), "{text}");
        }
    }

    #[test]
    fn commands_that_disturb_a_running_turn_have_to_wait() {
        for (text, needs) in [
            ("/rollback", false),
            ("/rollback 1", true),
            ("/undo", true),
            ("/compress", true),
            ("/model", false),
            ("/model x", true),
            ("/goal start x", true),
            ("/goal pause 1", false),
            ("/title x", false),
            ("/fork", false),
        ] {
            assert_eq!(needs_rest(&line(text).parse().unwrap()), needs, "{text}");
        }
    }

    #[test]
    fn lines_that_change_something_are_recognized() {
        for (text, is) in [
            ("/rollback", false),
            ("/rollback 1", true),
            ("/rollback 1 --dry-run", false),
            ("/rollback undo", true),
            ("/undo", true),
            ("/redo", true),
            ("/diff 1", false),
            ("/fork", true),
            ("/goal list", false),
            ("/goal start x", true),
            ("/title x", true),
            ("/search x", false),
            ("/model x", false),
        ] {
            assert_eq!(is_changing(&line(text).parse().unwrap()), is, "{text}");
        }
    }
}
