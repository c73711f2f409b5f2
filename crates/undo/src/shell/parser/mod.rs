//! Parses a shell script.
//!
//! Only syntax that all shells of a dialect interpret in the same way is accepted. Where shells
//! differ, or where their rules are too intricate to be certain, parsing fails. The script is then
//! treated as changing files, which is the safe answer. So this parser may accept less than a shell
//! does, but it never interprets a script differently.
//!
//! Parsing takes linear time, and the nesting depth is bounded.

mod commands;
mod expansions;
mod here_documents;
mod simple_commands;
mod words;

use std::cell::OnceCell;
use std::rc::Rc;

use super::syntax::{CommandList, Word};

pub(super) use words::is_name;

/// The maximum depth of nesting, including nested scripts.
pub(super) const MAX_DEPTH: usize = 48;

/// The maximum length of a script, in bytes.
const MAX_LENGTH: usize = 1 << 20;

/// The maximum number of commands in a script. Scripts that people write have fewer. A longer
/// script is treated as changing files, which is good enough for generated scripts.
const MAX_COMMANDS: usize = 10_000;

/// The reason why a script cannot be parsed.
pub(super) type Fault = &'static str;

type Parsed<T> = Result<T, Fault>;

/// The shell that a script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Bash or zsh.
    Bash,
    /// Possibly a plain POSIX shell, in which bash's extensions mean something else.
    Posix,
}

/// Parses a whole script that is nested `depth` levels deep in other scripts.
pub(super) fn parse_script(text: &str, dialect: Dialect, depth: usize) -> Parsed<CommandList> {
    let mut parser = Parser::new(text, dialect, depth)?;
    let list = parser.parse_list(&[])?;
    match parser.peek() {
        None if parser.pending.is_empty() => Ok(list),
        None => Err("a here-document has no end"),
        Some(_) => Err("an unexpected token follows a command"),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    dialect: Dialect,
    commands: usize,
    /// The here-documents whose bodies start after the next line break.
    pending: Vec<PendingHereDocument>,
}

struct PendingHereDocument {
    end: String,
    /// True if the body is taken literally, without expansions.
    quoted: bool,
    /// True if the operator is `<<-`.
    strip_tabs: bool,
    body: Rc<OnceCell<Word>>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, dialect: Dialect, depth: usize) -> Parsed<Parser<'t>> {
        if text.len() > MAX_LENGTH {
            return Err("too long");
        }
        if text.contains('\0') {
            return Err("contains a NUL character");
        }
        let parser = Parser { text, at: 0, depth, dialect, commands: 0, pending: Vec::new() };
        if depth > MAX_DEPTH { Err("nested too deeply") } else { Ok(parser) }
    }

    fn go_deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err("nested too deeply");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Fails unless the shell has bash's extensions.
    fn require_bash(&self) -> Parsed<()> {
        match self.dialect {
            Dialect::Bash => Ok(()),
            Dialect::Posix => Err("it uses syntax that some shells do not have"),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// If `expected` comes next, skips it and returns true.
    fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn expect(&mut self, expected: &str, fault: Fault) -> Parsed<()> {
        if self.eat(expected) { Ok(()) } else { Err(fault) }
    }

    /// Skips spaces, continued lines and a comment.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                _ => return,
            }
        }
    }

    /// Skips blanks and line breaks.
    fn skip_lines(&mut self) -> Parsed<()> {
        self.skip_blanks();
        while self.peek() == Some(b'\n') {
            self.skip_line_break()?;
            self.skip_blanks();
        }
        Ok(())
    }

    /// Skips a line break and the here-documents after it.
    fn skip_line_break(&mut self) -> Parsed<()> {
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            self.read_here_document(&pending)?;
        }
        Ok(())
    }

    /// Fails if the operator that was just read may continue after an escaped line break.
    fn check_operator_end(&self) -> Parsed<()> {
        let mut after = self.rest();
        if !after.starts_with("\\\n") {
            return Ok(());
        }
        while let Some(next) = after.strip_prefix("\\\n") {
            after = next;
        }
        match after.bytes().next() {
            Some(b'&' | b'|' | b';' | b'<' | b'>' | b'(' | b')' | b'-') => {
                Err("an operator is split over two lines")
            }
            _ => Ok(()),
        }
    }
}
