//! What a script consists of, as far as it matters for what the script may do.

use std::cell::OnceCell;
use std::rc::Rc;

/// Commands in the order in which they run, if they run.
pub(super) type List = Vec<Step>;

/// A command and how it is joined to the others.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: Command,
    /// After `&&` or `||`: it may not run.
    pub(super) conditional: bool,
    /// Part of a pipeline or in the background: what it does to the shell is lost.
    pub(super) apart: bool,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple(Simple),
    /// Braces, parentheses, `if`, loops, `case`, `[[ … ]]`.
    Compound(Compound),
    Function {
        name: String,
        body: Compound,
    },
}

/// A program, its arguments, and what stands around them.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// As it was written.
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Word,
}

/// Lists that may run, whatever decides which.
#[derive(Debug, Default)]
pub(super) struct Compound {
    pub(super) kind: Kind,
    pub(super) lists: Vec<List>,
    /// Words that are expanded: what a loop goes through, the patterns of a `case`.
    pub(super) words: Vec<Word>,
    /// The variable of a loop.
    pub(super) variable: Option<String>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{ … }`: runs here and always.
    #[default]
    Group,
    /// `( … )`: runs in a process of its own.
    Subshell,
    /// Runs sometimes, or more than once.
    Branches,
    /// `[[ … ]]`.
    Test,
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) operator: Operator,
    /// The file or descriptor; of a here-document, nothing.
    pub(super) target: Word,
    /// The body of a here-document; filled in once the parser has come to it.
    pub(super) body: Rc<OnceCell<Word>>,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `<>`
    Write,
    /// `>&`, which is a file if what follows is no descriptor
    Duplicate,
    /// `<&`
    DuplicateInput,
    /// `<<`, `<<-`
    HereDocument,
    /// `<<<`
    HereString,
}

/// Parts that are written without a space between them.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

#[derive(Debug)]
pub(super) enum Part {
    Text {
        text: String,
        quoted: bool,
    },
    /// `~` at the start, or `$HOME`.
    Home,
    /// A value that is only known when the script runs.
    Expansion {
        quoted: bool,
        many: bool,
    },
    /// `$(…)`, backticks, `<(…)`, `>(…)`.
    Substitution {
        list: List,
        quoted: bool,
    },
    /// Words inside, of which only the substitutions matter: `${x:-word}`, `x=(a b)`.
    Nested(Vec<Word>),
    /// The shell may run something here that cannot be seen.
    Hidden(&'static str),
}

/// What a program gets as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    Known(String),
    /// The home directory and what follows it.
    Home(String),
    /// One word that is no option.
    Operand,
    /// One word, perhaps an option.
    Value,
    /// Any number of words, options too.
    Unknown,
}

impl Arg {
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Arg::Known(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it cannot be an option.
    pub(super) fn is_operand(&self) -> bool {
        match self {
            Arg::Known(text) => !text.starts_with('-') || text == "-",
            Arg::Home(_) | Arg::Operand => true,
            Arg::Value | Arg::Unknown => false,
        }
    }
}

impl Word {
    pub(super) fn push_text(&mut self, more: &str, quoted: bool) {
        if let Some(Part::Text { text, quoted: before }) = self.parts.last_mut()
            && *before == quoted
        {
            text.push_str(more);
        } else {
            self.parts.push(Part::Text { text: more.to_owned(), quoted });
        }
    }

    /// The text, if it has no quotes and no expansions: only such a word can be a keyword.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// What the word stands for when a program is run with it.
    pub(super) fn arg(&self) -> Arg {
        let mut known = String::new();
        let mut is_known = true;
        let mut single = true;
        for part in &self.parts {
            match part {
                Part::Text { text, .. } => known.push_str(text),
                // Nobody's home looks like several words, and a script that sets it is suspect.
                Part::Home => is_known = false,
                Part::Expansion { quoted, many } => {
                    is_known = false;
                    single &= *quoted && !many;
                }
                Part::Substitution { quoted, .. } => {
                    is_known = false;
                    single &= *quoted;
                }
                Part::Nested(_) | Part::Hidden(_) => return Arg::Unknown,
            }
        }
        let glob = self.glob_start();
        if self.has_braces() {
            return Arg::Unknown;
        }
        if let (Some(rest), true, None) = (self.below_home(), single, glob) {
            return Arg::Home(rest);
        }
        match (is_known, glob) {
            (true, None) => Arg::Known(known),
            _ if single && self.starts_like_operand(glob) => Arg::Operand,
            (_, None) if single => Arg::Value,
            _ => Arg::Unknown,
        }
    }

    /// The parts without empty quotes at the start.
    fn visible(&self) -> &[Part] {
        match self.parts.as_slice() {
            [Part::Text { text, quoted: true }, rest @ ..] if text.is_empty() => rest,
            parts => parts,
        }
    }

    /// What follows the home directory, if that is where the word starts.
    fn below_home(&self) -> Option<String> {
        let (Part::Home, rest) = self.visible().split_first()? else { return None };
        let mut below = String::new();
        for part in rest {
            let Part::Text { text, .. } = part else { return None };
            below.push_str(text);
        }
        (below.is_empty() || below.starts_with('/')).then_some(below)
    }

    /// Whether the first character is known and no dash. A pattern may become any name there.
    fn starts_like_operand(&self, glob: Option<usize>) -> bool {
        match self.visible().first() {
            Some(Part::Text { text, .. }) => {
                glob != Some(0) && !text.is_empty() && !text.starts_with('-')
            }
            _ => false,
        }
    }

    /// Where the first pattern character stands, counted in the known text.
    fn glob_start(&self) -> Option<usize> {
        let mut before = 0;
        for part in &self.parts {
            if let Part::Text { text, quoted } = part {
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

    /// `{a,b}` or `{1..3}`, which becomes several words.
    fn has_braces(&self) -> bool {
        let mut open = false;
        let mut separated = false;
        for part in &self.parts {
            if let Part::Text { text, quoted: false } = part {
                open |= text.contains('{');
                separated |= text.contains(',') || text.contains("..");
            }
        }
        open && separated
    }
}
