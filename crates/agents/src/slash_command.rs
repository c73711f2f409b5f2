//! The takeback commands that users type inside an agent: `/rollback` and `/undo`.

/// A takeback command: `/rollback 2 src/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    command: &'static str,
    arguments: Vec<String>,
}

impl SlashCommand {
    /// Makes a command from its name in any agent. Returns `None` if takeback has no such command.
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
        // A prompt of several lines is meant for the model.
        if prompt.contains('\n') {
            return None;
        }
        let split = |typed: &str| {
            let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
            SlashCommand::new(name, split_words(rest))
        };
        match prompt.strip_prefix('/') {
            Some(typed) => split(typed),
            // Without the slash, it could be the beginning of a sentence.
            None => {
                let command = split(prompt.strip_prefix("takeback ")?.trim_start());
                command.filter(SlashCommand::is_terse)
            }
        }
    }

    /// True if the words cannot be part of a sentence for the model.
    fn is_terse(&self) -> bool {
        let is_option = |word: &String| word.starts_with('-') && word.len() > 1;
        let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        let is_id = |word: &String| word.len() > 5 && word.bytes().all(|b| b.is_ascii_hexdigit());
        // A word with a space in it was quoted.
        let is_path = |word: &String| {
            let inner = word.trim_end_matches(|end: char| end.is_ascii_punctuation());
            inner.contains([' ', '/', '.'])
        };
        let is_argument =
            |word: &String| is_option(word) || is_number(word) || is_id(word) || is_path(word);
        match (self.command, &self.arguments[..]) {
            ("rollback", [verb, rest @ ..])
                if matches!(verb.as_str(), "diff" | "undo" | "redo" | "list") =>
            {
                rest.iter().all(is_argument)
            }
            (_, []) => true,
            ("rollback", [first, rest @ ..]) => {
                (is_number(first) || is_id(first) || is_option(first))
                    && rest.iter().all(is_argument)
            }
            (_, [first, rest @ ..]) => is_option(first) && rest.iter().all(is_argument),
        }
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
    fn quotes_and_backslashes_hold_words_together() {
        assert_eq!(
            split_words("  a\t'b c'd \"e \\\" f\" '' \\"),
            ["a", "b cd", "e \" f", "", "\\"]
        );
        assert_eq!(split_words("'open to the end"), ["open to the end"]);
        assert!(split_words(" ").is_empty());
    }
}
