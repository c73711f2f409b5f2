//! What people type to takeback inside an agent.

/// A command for takeback: `/rollback 2 src/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slash {
    command: &'static str,
    rest: Vec<String>,
}

impl Slash {
    /// A command by its name, whatever it is called in the agent; `None` if it is not one of ours.
    pub fn new(name: &str, rest: Vec<String>) -> Option<Slash> {
        let plain = ["takeback:", "takeback-"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let command = match plain.unwrap_or(name) {
            "rollback" => "rollback",
            "undo" => "undo",
            _ => return None,
        };
        Some(Slash { command, rest })
    }

    /// A prompt that is not meant for the model: `/rollback …`, `/undo …`, or `takeback rollback …`.
    pub fn in_prompt(prompt: &str) -> Option<Slash> {
        let prompt = prompt.trim();
        // What goes on in a second line is something else.
        if prompt.contains('\n') {
            return None;
        }
        let split = |typed: &str| {
            let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
            Slash::new(name, words(rest))
        };
        match prompt.strip_prefix('/') {
            Some(typed) => split(typed),
            // Without the slash it could be the beginning of a sentence.
            None => split(prompt.strip_prefix("takeback ")?.trim_start()).filter(Slash::is_terse),
        }
    }

    /// Whether nobody would say it to a model.
    fn is_terse(&self) -> bool {
        let is_option = |word: &String| word.starts_with('-');
        let is_number = |word: &String| word.starts_with(|first: char| first.is_ascii_digit());
        let is_id = |word: &String| word.len() > 5 && word.bytes().all(|b| b.is_ascii_hexdigit());
        match (self.command, &self.rest[..]) {
            (_, []) => true,
            ("rollback", [_]) => true,
            ("rollback", [first, ..]) => {
                is_number(first)
                    || is_id(first)
                    || matches!(first.as_str(), "diff" | "undo" | "redo" | "list")
            }
            (_, [first, ..]) => is_option(first),
        }
    }

    /// `rollback` or `undo`.
    pub fn command(&self) -> &str {
        self.command
    }

    /// What was typed after it.
    pub fn rest(&self) -> &[String] {
        &self.rest
    }
}

/// The words of what somebody typed: quotes hold words together, a backslash takes the next
/// character as it is. A quote without its end goes to the end.
pub fn words(text: &str) -> Vec<String> {
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

    fn typed(prompt: &str) -> Option<String> {
        let slash = Slash::in_prompt(prompt)?;
        let words = std::iter::once(slash.command()).chain(slash.rest().iter().map(String::as_str));
        Some(words.collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn what_is_typed_to_takeback_is_known() {
        assert_eq!(typed("/rollback").as_deref(), Some("rollback"));
        assert_eq!(typed(" /rollback diff 2 \n").as_deref(), Some("rollback|diff|2"));
        assert_eq!(typed("/undo --turn 3").as_deref(), Some("undo|--turn|3"));
        assert_eq!(typed("/takeback-undo").as_deref(), Some("undo"));
        assert_eq!(typed("/takeback:rollback 1").as_deref(), Some("rollback|1"));
        assert_eq!(
            typed("takeback  rollback 2 'a b' c\\ d").as_deref(),
            Some("rollback|2|a b|c d")
        );
    }

    #[test]
    fn what_is_said_to_the_model_is_not() {
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
            "/rollback 2\nand then write a test",
        ] {
            assert_eq!(typed(prompt), None, "{prompt}");
        }
    }

    #[test]
    fn words_are_told_apart() {
        assert_eq!(words("  a\t'b c'd \"e \\\" f\" '' \\"), ["a", "b cd", "e \" f", "", "\\"]);
        assert_eq!(words("'open to the end"), ["open to the end"]);
        assert!(words(" ").is_empty());
    }
}
