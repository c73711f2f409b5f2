//! Reads a shell script.
//!
//! Only what bash, zsh and POSIX shells read alike is accepted. Where they differ, or where the
//! rules are too odd to be sure, parsing fails: then the script counts as changing files, which is
//! the safe answer. So this parser may know less than a shell, but never anything else.
//!
//! Time is linear in the length of the script, and depth is bounded.

mod commands;
mod dollar;
mod heredoc;
mod simple;
mod words;

use std::cell::OnceCell;
use std::rc::Rc;

use super::syntax::{List, Word};

pub(super) use words::is_name;

/// How deep things may be nested, across scripts within scripts.
pub(super) const DEPTH: usize = 48;

/// A longer script is not looked at.
pub(super) const LENGTH: usize = 1 << 20;

/// How many commands are read. Nobody writes more, and programs that do can wait.
const COMMANDS: usize = 10_000;

/// Why a script cannot be parsed.
pub(super) type Fault = &'static str;

type Parsed<T> = Result<T, Fault>;

/// Which shell reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// bash or zsh.
    Bash,
    /// Perhaps a plain POSIX shell, in which the extensions of bash mean something else.
    Posix,
}

/// Reads a whole script that stands `depth` levels deep in others.
pub(super) fn parse(text: &str, dialect: Dialect, depth: usize) -> Parsed<List> {
    let mut parser = Parser::new(text, dialect, depth)?;
    let list = parser.list(&[])?;
    match parser.peek() {
        None if parser.pending.is_empty() => Ok(list),
        None => Err("a here-document has no end"),
        Some(_) => Err("a command ends too early"),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    dialect: Dialect,
    commands: usize,
    /// Here-documents whose bodies start after the next line break.
    pending: Vec<Pending>,
}

struct Pending {
    end: String,
    /// Expansions in the body are left alone.
    quoted: bool,
    /// `<<-`
    strip_tabs: bool,
    body: Rc<OnceCell<Word>>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, dialect: Dialect, depth: usize) -> Parsed<Parser<'t>> {
        if text.len() > LENGTH {
            return Err("it is too long");
        }
        if text.contains('\0') {
            return Err("it contains a NUL character");
        }
        let parser = Parser { text, at: 0, depth, dialect, commands: 0, pending: Vec::new() };
        if depth > DEPTH { Err("it is nested too deeply") } else { Ok(parser) }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH {
            return Err("it is nested too deeply");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Only for a shell that has more than POSIX asks for.
    fn extension(&self) -> Parsed<()> {
        match self.dialect {
            Dialect::Bash => Ok(()),
            Dialect::Posix => Err("it uses what only some shells know"),
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

    /// Skips `expected` if it comes next.
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
    fn blanks(&mut self) {
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
    fn lines(&mut self) -> Parsed<()> {
        self.blanks();
        while self.peek() == Some(b'\n') {
            self.line_break()?;
            self.blanks();
        }
        Ok(())
    }

    /// Skips a line break and the here-documents after it.
    fn line_break(&mut self) -> Parsed<()> {
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            self.here_document(&pending)?;
        }
        Ok(())
    }

    /// After an operator: a continued line that could lengthen it is too odd to read.
    fn operator_ends(&self) -> Parsed<()> {
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
