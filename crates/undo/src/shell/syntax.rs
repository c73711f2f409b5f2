//! The syntax tree of a script, reduced to the parts that matter for the analysis.

use std::cell::OnceCell;
use std::rc::Rc;

/// Commands in the order in which they would run.
pub(super) type CommandList = Vec<ListEntry>;

/// A command, and how it is joined to its neighbors.
#[derive(Debug)]
pub(super) struct ListEntry {
    pub(super) command: Command,
    /// True after `&&` or `||`: the command does not always run.
    pub(super) is_conditional: bool,
    /// True after `||`: the command runs if the one before it fails.
    pub(super) is_alternative: bool,
    /// True before `|`: the next command reads the output of this one.
    pub(super) is_piped: bool,
    /// True after `!`: the exit status is inverted.
    pub(super) is_negated: bool,
    /// True in a pipeline: changes to the shell itself do not last.
    pub(super) in_subshell: bool,
    /// True before `&`: the whole chain runs in a separate process, which may outlive the script.
    pub(super) in_background: bool,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple(SimpleCommand),
    /// Braces, parentheses, `if`, loops, `case`, `[[ … ]]`.
    Compound(CompoundCommand),
    Function {
        name: String,
        body: Rc<CompoundCommand>,
    },
}

/// A program, its arguments, and the assignments and redirections around them.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// The command as written.
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Word,
    /// True if the operator is `+=`.
    pub(super) appends: bool,
}

/// Lists of commands. It is known only at run time which of the lists run.
#[derive(Debug, Default)]
pub(super) struct CompoundCommand {
    pub(super) kind: CompoundKind,
    pub(super) lists: Vec<CommandList>,
    /// The words that are expanded: the values of a loop, the patterns of a `case`.
    pub(super) words: Vec<Word>,
    /// The variable of a loop.
    pub(super) variable: Option<String>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CompoundKind {
    /// `{ … }`: the list always runs, in the shell itself.
    #[default]
    Group,
    /// `( … )`: the list runs in a separate process.
    Subshell,
    /// `if` and `case`: lists that may or may not run.
    Branches,
    /// `for`, `while`, `until` and `select`: lists that run any number of times.
    Loop,
    /// `[[ … ]]`.
    Test,
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) operator: RedirectOperator,
    /// The descriptor that is redirected: 0 for standard input, 1 for standard output.
    pub(super) descriptor: u64,
    /// The file or descriptor; empty for a here-document.
    pub(super) target: Word,
    /// The body of a here-document, filled in when the parser reaches it.
    pub(super) body: Rc<OnceCell<Word>>,
    pub(super) text: String,
}

impl Redirect {
    pub(super) fn is_input(&self) -> bool {
        self.descriptor == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectOperator {
    /// The operator `<`.
    Read,
    /// The operators `>`, `>>`, `>|`, `&>`, `&>>` and `<>`.
    Write,
    /// The operator `>&`, which writes a file if its target is not a descriptor.
    Duplicate,
    /// The operator `<&`.
    DuplicateInput,
    /// The operators `<<` and `<<-`.
    HereDocument,
    /// The operator `<<<`.
    HereString,
}

/// A word of a script: parts that are written without a space between them.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<WordPart>,
}

#[derive(Debug)]
pub(super) enum WordPart {
    Text {
        text: String,
        quoted: bool,
    },
    /// `~` at the start, or `$HOME`.
    Home,
    /// A value that is only known when the script runs.
    Expansion {
        /// The name of the variable; `None` for a computed value.
        name: Option<String>,
        quoted: bool,
        /// True if the value may expand to several words even within quotes.
        many: bool,
    },
    /// `$(…)`, backticks, `<(…)`, `>(…)`.
    Substitution {
        list: CommandList,
        quoted: bool,
    },
    /// `${x:-word}`, `${x%word}` and similar expansions.
    Modified {
        name: String,
        operator: &'static str,
        word: Word,
        quoted: bool,
    },
    /// The words of `x=(a b)`.
    Array(Vec<Word>),
    /// A construct in which the shell may run code that the script does not show.
    Hidden(&'static str),
}

/// An argument of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    Known(String),
    /// The home directory, followed by this text.
    Home(String),
    /// One word that is certainly not an option.
    Operand,
    /// One word that may be an option.
    Value,
    /// Any number of words, some of which may be options.
    Unknown,
}

impl Arg {
    /// Returns the text, if it is known.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Arg::Known(text) => Some(text),
            _ => None,
        }
    }

    /// Returns true if the argument cannot be an option.
    pub(super) fn is_operand(&self) -> bool {
        match self {
            Arg::Known(text) => !text.starts_with('-') || text == "-",
            Arg::Home(_) | Arg::Operand => true,
            Arg::Value | Arg::Unknown => false,
        }
    }
}

impl Word {
    /// Returns the word `""`.
    pub(super) fn empty() -> Word {
        Word { parts: vec![WordPart::Text { text: String::new(), quoted: true }] }
    }

    pub(super) fn push_text(&mut self, more: &str, quoted: bool) {
        if let Some(WordPart::Text { text, quoted: before }) = self.parts.last_mut()
            && *before == quoted
        {
            text.push_str(more);
        } else {
            self.parts.push(WordPart::Text { text: more.to_owned(), quoted });
        }
    }

    /// Returns the text of the word if the word has no quotes or expansions. Only such a word can
    /// be a keyword.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [WordPart::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// Converts the word to an argument of a program.
    pub(super) fn to_arg(&self) -> Arg {
        let mut known = String::new();
        let mut is_known = true;
        let mut single = true;
        for part in &self.parts {
            match part {
                WordPart::Text { text, .. } => known.push_str(text),
                // A home directory is one word, and a script that sets HOME counts as changing
                // files anyway.
                WordPart::Home => is_known = false,
                WordPart::Expansion { quoted, many, .. } => {
                    is_known = false;
                    single &= *quoted && !many;
                }
                WordPart::Substitution { quoted, .. } => {
                    is_known = false;
                    single &= *quoted;
                }
                WordPart::Modified { .. } | WordPart::Array(_) | WordPart::Hidden(_) => {
                    return Arg::Unknown;
                }
            }
        }
        let glob = self.find_glob();
        if self.has_braces() {
            return Arg::Unknown;
        }
        if let (Some(rest), true, None) = (self.path_below_home(), single, glob) {
            return Arg::Home(rest);
        }
        match (is_known, glob) {
            (true, None) => Arg::Known(known),
            _ if single && self.starts_like_operand(glob) => Arg::Operand,
            (_, None) if single => Arg::Value,
            _ => Arg::Unknown,
        }
    }

    /// Returns the parts, leaving out empty quotes at the start.
    fn visible_parts(&self) -> &[WordPart] {
        match self.parts.as_slice() {
            [WordPart::Text { text, quoted: true }, rest @ ..] if text.is_empty() => rest,
            parts => parts,
        }
    }

    /// Returns the text that follows the home directory, if the word starts with it.
    fn path_below_home(&self) -> Option<String> {
        let (WordPart::Home, rest) = self.visible_parts().split_first()? else { return None };
        let mut below = String::new();
        for part in rest {
            let WordPart::Text { text, .. } = part else { return None };
            below.push_str(text);
        }
        (below.is_empty() || below.starts_with('/')).then_some(below)
    }

    /// Returns true if the first character is known and not a dash. A pattern at the start may
    /// expand to any name.
    fn starts_like_operand(&self, glob: Option<usize>) -> bool {
        match self.visible_parts().first() {
            Some(WordPart::Text { text, .. }) => {
                glob != Some(0) && !text.is_empty() && !text.starts_with('-')
            }
            _ => false,
        }
    }

    /// Returns the position of the first pattern character in the known text.
    fn find_glob(&self) -> Option<usize> {
        let mut before = 0;
        for part in &self.parts {
            if let WordPart::Text { text, quoted } = part {
                if !quoted {
                    let brackets = text.contains('[') && text.contains(']');
                    let found = text.find(|c| matches!(c, '*' | '?') || (c == '[' && brackets));
                    if let Some(at) = found {
                        return Some(before + at);
                    }
                }
                before += text.len();
            } else {
                before += 1;
            }
        }
        None
    }

    /// Returns true for `{a,b}` and `{1..3}`, which expand to several words.
    fn has_braces(&self) -> bool {
        let mut open = false;
        let mut separated = false;
        for part in &self.parts {
            if let WordPart::Text { text, quoted: false } = part {
                open |= text.contains('{');
                separated |= text.contains(',') || text.contains("..");
            }
        }
        open && separated
    }
}
