//! The takeback commands that users type inside an agent: `/rollback` and `/undo`.

/// A takeback command, such as `/rollback 2 src/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    command: &'static str,
    arguments: Vec<String>,
}

impl SlashCommand {
    /// Creates a command from any of the names that agents use for it. Returns `None` if takeback
    /// has no such command.
    pub fn new(name: &str, arguments: Vec<String>) -> Option<SlashCommand> {
        let plain = ["takeback:", "takeback-"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let command = match plain.unwrap_or(name) {
            "rollback" => "rollback",
            "undo" => "undo",
            _ => return None,
        };
        Some(SlashCommand { command, arguments })
    }

    /// Recognizes a prompt that is meant for takeback rather than the model: `/rollback …`, `/undo
    /// …`, or `takeback rollback …`.
    pub fn parse_prompt(prompt: &str) -> Option<SlashCommand> {
        let prompt = prompt.trim();
        // A prompt with several lines is meant for the model.
        if prompt.contains('\n') {
            return None;
        }
        let split = |typed: &str| {
            let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
            SlashCommand::new(name, split_words(rest))
        };
        match prompt.strip_prefix('/') {
            Some(typed) => split(typed),
            // Without a slash, the prompt could be a sentence that is meant for the model.
            None => {
                let command = split(prompt.strip_prefix("takeback ")?.trim_start());
                command.filter(|command| command.check().is_ok() && command.is_terse())
            }
        }
    }

    /// True if the words cannot be part of a sentence that is meant for the model.
    fn is_terse(&self) -> bool {
        let is_id = |word: &&str| word.len() > 5 && word.bytes().all(|b| b.is_ascii_hexdigit());
        // If a word contains a space, the user must have quoted it.
        let is_path = |word: &&str| {
            let inner = word.trim_end_matches(|end: char| end.is_ascii_punctuation());
            inner.contains([' ', '/', '.'])
        };
        let mut words = self.plain_words();
        let is_checkpoint = |word: &&str| is_number(word) || is_id(word);
        let is_first =
            self.verb() != Verb::Rollback || words.next().is_none_or(|word| is_checkpoint(&word));
        is_first && words.all(|word| is_checkpoint(&word) || is_path(&word))
    }

    /// Returns the action that the command performs.
    fn verb(&self) -> Verb {
        let first = self.arguments.iter().find(|word| !word.starts_with('-'));
        match (self.command, first.map(String::as_str)) {
            ("undo", _) => Verb::UndoTurn,
            (_, None | Some("list")) => Verb::List,
            (_, Some("diff")) => Verb::Diff,
            (_, Some("undo" | "redo")) => Verb::Reverse,
            (_, Some(_)) => Verb::Rollback,
        }
    }

    /// Lists the arguments, leaving out options and the word that names the action, such as `diff`.
    fn plain_words(&self) -> impl Iterator<Item = &str> {
        let names_verb = self.verb() != Verb::Rollback && self.verb() != Verb::UndoTurn;
        let words = self.arguments.iter().map(String::as_str);
        words.filter(|word| !word.starts_with('-')).skip(usize::from(names_verb))
    }

    /// Checks that the command is safe inside an agent, where a prompt can come from a web page, an
    /// issue or a file in the project. Accepts only checkpoints, paths, and the command's own
    /// options. Returns the reason for a refusal.
    pub fn check(&self) -> Result<(), String> {
        let verb = self.verb();
        let refuse = |word: &str| {
            let command = self.command;
            Err(format!(
                "/{command} does not accept `{word}` inside an agent. Nothing was changed. Run \
                 `takeback {command}` in a terminal to use all of its options."
            ))
        };
        let mut options = self.arguments.iter().filter(|word| word.starts_with('-'));
        if let Some(option) = options.find(|option| !verb.options().contains(&option.as_str())) {
            return refuse(option);
        }
        let words: Vec<&str> = self.plain_words().collect();
        let unexpected = match verb {
            // The only word that is allowed is the number after `--turn`.
            Verb::UndoTurn => words.iter().find(|word| !is_number(word)).or(words.get(1)),
            Verb::List | Verb::Reverse => words.first(),
            Verb::Diff | Verb::Rollback => None,
        };
        unexpected.map_or(Ok(()), |word| refuse(word))
    }

    /// True if the command changes files or the conversation.
    pub fn is_changing(&self) -> bool {
        let is_reading = matches!(self.verb(), Verb::List | Verb::Diff);
        !is_reading && !self.arguments.iter().any(|word| word == "--dry-run")
    }

    /// Returns the name of the command: `rollback` or `undo`.
    pub fn command(&self) -> &str {
        self.command
    }

    /// Returns the words that the user typed after the name.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// The action that a command performs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    List,
    Diff,
    Rollback,
    /// `rollback undo` or `rollback redo`.
    Reverse,
    UndoTurn,
}

impl Verb {
    /// Lists the options that the action accepts inside an agent.
    fn options(self) -> &'static [&'static str] {
        match self {
            Verb::List => &["--steps"],
            Verb::Diff => &["--full"],
            Verb::Rollback => &[
                "--dry-run",
                "--files-only",
                "--chat-only",
                "--index",
                "--skip-blocked",
                "--workspace-only",
            ],
            Verb::Reverse => &["--dry-run", "--skip-blocked", "--workspace-only"],
            Verb::UndoTurn => &[
                "--turn",
                "--dry-run",
                "--theirs",
                "--ours",
                "--markers",
                "--uncertain",
                "--files-only",
                "--skip-blocked",
                "--workspace-only",
            ],
        }
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits typed text into words. Quotes hold words together, and a backslash makes the next
/// character literal. A quote that is never closed extends to the end of the text.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', None | Some('"')) => {
                word.get_or_insert_default().extend(characters.next().or(Some('\\')));
            }
            (end, Some(open)) if end == open => quote = None,
            (open @ ('"' | '\''), None) => {
                quote = Some(open);
                word.get_or_insert_default();
            }
            (space, None) if space.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_to_text(prompt: &str) -> Option<String> {
        let slash = SlashCommand::parse_prompt(prompt)?;
        let words =
            std::iter::once(slash.command()).chain(slash.arguments().iter().map(String::as_str));
        Some(words.collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_command_for_takeback_is_recognized() {
        assert_eq!(parse_to_text("/rollback").as_deref(), Some("rollback"));
        assert_eq!(parse_to_text(" /rollback diff 2 \n").as_deref(), Some("rollback|diff|2"));
        assert_eq!(parse_to_text("/undo --turn 3").as_deref(), Some("undo|--turn|3"));
        assert_eq!(parse_to_text("/takeback-undo").as_deref(), Some("undo"));
        assert_eq!(parse_to_text("/takeback:rollback 1").as_deref(), Some("rollback|1"));
        assert_eq!(
            parse_to_text("takeback  rollback 2 'a b' c\\ d").as_deref(),
            Some("rollback|2|a b|c d")
        );
        for (typed, words) in [
            ("takeback rollback", "rollback"),
            ("takeback undo", "undo"),
            ("takeback rollback 2 src/a.rs b.rs", "rollback|2|src/a.rs|b.rs"),
            ("takeback rollback diff 2 3", "rollback|diff|2|3"),
            ("takeback rollback redo", "rollback|redo"),
            ("takeback rollback 1a2b3c4", "rollback|1a2b3c4"),
            ("takeback undo --turn 3", "undo|--turn|3"),
        ] {
            assert_eq!(parse_to_text(typed).as_deref(), Some(words), "{typed}");
        }
    }

    #[test]
    fn a_prompt_for_the_model_is_not_a_command() {
        for prompt in [
            "",
            "/",
            "/rollbacks",
            "/takeback",
            "rollback 2",
            "please /rollback",
            "takeback is a tool",
            "takeback undo is what I want explained",
            "takeback rollback works how exactly?",
            "takeback rollback please",
            "takeback rollback please?",
            "takeback rollback 2 times is too much",
            "takeback rollback diff is broken",
            "takeback undo - please",
            "takeback rollback undo the last thing.",
            "/rollback 2\nand then write a test",
        ] {
            assert_eq!(parse_to_text(prompt), None, "{prompt}");
        }
    }

    #[test]
    fn only_the_words_of_the_command_itself_are_accepted_inside_an_agent() {
        let check = |prompt: &str| SlashCommand::parse_prompt(prompt).map(|typed| typed.check());
        for accepted in [
            "/rollback",
            "/rollback list",
            "/rollback --steps",
            "/rollback 2",
            "/rollback 2.3 src/a.rs",
            "/rollback good 'a b'",
            "/rollback 2 --dry-run --files-only",
            "/rollback diff 2 1 src",
            "/rollback undo",
            "/rollback redo --dry-run",
            "/undo",
            "/undo --turn 3 --theirs",
            "takeback rollback 2",
        ] {
            assert_eq!(check(accepted), Some(Ok(())), "{accepted}");
        }
        for (refused, word) in [
            ("/rollback --home .cache-data -C ../.ssh 1", "--home"),
            ("/rollback 1 -C /etc", "-C"),
            ("/rollback 1 -C/etc", "-C/etc"),
            ("/rollback 1 --home=.cache", "--home=.cache"),
            ("/rollback 1 --yes", "--yes"),
            ("/rollback 1 -y", "-y"),
            ("/rollback 1 --json", "--json"),
            ("/rollback -- list", "--"),
            ("/rollback list 2", "2"),
            ("/rollback undo src", "src"),
            ("/undo 3 4", "4"),
            ("/undo src", "src"),
            ("/undo --home x", "--home"),
        ] {
            let reason = check(refused).unwrap().unwrap_err();
            assert!(reason.contains(&format!("does not accept `{word}`")), "{refused}: {reason}");
        }
        assert_eq!(check("takeback rollback 1 --home x"), None);
    }

    #[test]
    fn commands_that_change_something_are_recognized() {
        let is_changing = |prompt| SlashCommand::parse_prompt(prompt).unwrap().is_changing();
        for reading in ["/rollback", "/rollback diff 1", "/rollback 1 --dry-run", "/undo --dry-run"]
        {
            assert!(!is_changing(reading), "{reading}");
        }
        for changing in
            ["/rollback 1", "/rollback 1 a", "/rollback undo", "/rollback redo", "/undo"]
        {
            assert!(is_changing(changing), "{changing}");
        }
    }

    #[test]
    fn quotes_and_backslashes_hold_words_together() {
        assert_eq!(
            split_words("  a\t'b c'd \"e \\\" f\" '' \\"),
            ["a", "b cd", "e \" f", "", "\\"]
        );
        assert_eq!(split_words("'open to the end"), ["open to the end"]);
        assert!(split_words(" ").is_empty());
    }
}
