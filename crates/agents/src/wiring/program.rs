//! The command line that runs takeback from an agent's configuration.

/// The program and options that run takeback.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<String>,
    /// True if the configuration is shared with people who may not have takeback.
    is_shared: bool,
}

impl Program {
    /// Builds the command line for one user: the path of takeback, and options that precede each
    /// command.
    pub fn of_user(words: Vec<String>) -> Program {
        Program { words, is_shared: false }
    }

    /// Builds a command line for shared configuration: the `takeback` in each user's PATH.
    pub fn shared() -> Program {
        Program { words: vec!["takeback".into()], is_shared: true }
    }

    /// Returns the program, without options.
    pub(crate) fn name(&self) -> &str {
        self.words.first().map_or("takeback", String::as_str)
    }

    /// Returns the program and its options.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns a shell command that runs takeback with these arguments.
    pub(crate) fn shell_command(&self, arguments: &str) -> String {
        let words: Vec<String> =
            self.words.iter().map(|word| takeback_undo::hook::quote_word(word)).collect();
        format!("{} {arguments}", words.join(" "))
    }

    /// Returns a shell command that runs takeback with these arguments, or does nothing if takeback
    /// is not installed.
    pub(crate) fn guarded_command(&self, arguments: &str) -> String {
        let command = self.shell_command(arguments);
        let test = match self.is_shared {
            true => "command -v takeback >/dev/null 2>&1".to_owned(),
            false => format!("[ -x {} ]", takeback_undo::hook::quote_word(self.name())),
        };
        format!("{test} || exit 0; exec {command}")
    }
}
