//! Parses simple commands: programs with their arguments, assignments and redirections.

use std::rc::Rc;

use crate::shell::syntax::{
    Assignment, Command, Redirect, RedirectOperator, SimpleCommand, Word, WordPart,
};

use super::words::is_name;
use super::{Parsed, Parser};

/// Words that cannot be the name of a program in a valid script.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until",
    "select", "do", "done", "case", "esac", "function", "coproc", "time",
];

impl Parser<'_> {
    pub(super) fn parse_simple(&mut self) -> Parsed<Command> {
        let mut simple = SimpleCommand::default();
        let start = self.at;
        let mut end = start;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.parse_redirect()? {
                simple.redirects.push(redirect);
            } else if let Some(word) = self.parse_word()? {
                if self.peek() == Some(b'(') {
                    return self.parse_named_function(&simple, &word);
                }
                let odd = word.bare().is_some_and(|text| text.starts_with('{'));
                if odd && matches!(self.peek(), Some(b'<' | b'>')) {
                    return Err("a redirection to a variable is not supported");
                }
                if !simple.words.is_empty() {
                    simple.words.push(word);
                } else {
                    match into_assignment(word) {
                        Ok(assignment) => simple.assignments.push(assignment),
                        Err(word) => simple.words.push(word),
                    }
                }
            } else {
                break;
            }
            end = self.at;
        }
        if end == start {
            return Err("a command is missing");
        }
        let first = simple.words.first().and_then(Word::bare);
        if first.is_some_and(|first| RESERVED.contains(&first)) {
            return Err("a keyword stands where a command is expected");
        }
        simple.text = self.text[start..end].to_owned();
        Ok(Command::Simple(simple))
    }

    /// Parses the function `name()`, whose opening parenthesis comes next.
    fn parse_named_function(&mut self, before: &SimpleCommand, name: &Word) -> Parsed<Command> {
        let alone =
            before.words.is_empty() && before.assignments.is_empty() && before.redirects.is_empty();
        self.at += 1;
        self.skip_blanks();
        if !alone || !self.eat(")") {
            return Err("an unexpected parenthesis");
        }
        self.parse_function(name)
    }

    /// Parses a redirection, if one comes next.
    pub(super) fn parse_redirect(&mut self) -> Parsed<Option<Redirect>> {
        #[rustfmt::skip]
        const OPERATORS: &[(&str, RedirectOperator)] = &[
            ("<<<", RedirectOperator::HereString),
            ("<<", RedirectOperator::HereDocument),
            ("<>", RedirectOperator::Write),
            ("<&", RedirectOperator::DuplicateInput),
            ("<", RedirectOperator::Read),
            (">>", RedirectOperator::Write),
            (">|", RedirectOperator::Write),
            (">&", RedirectOperator::Duplicate),
            (">", RedirectOperator::Write),
            ("&>>", RedirectOperator::Write),
            ("&>", RedirectOperator::Write),
        ];
        let start = self.at;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let rest = &self.rest()[digits..];
        let found = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let Some(&(sign, operator)) = found else { return Ok(None) };
        if sign.starts_with('&') && digits > 0 {
            // Digits before `&>` are a separate word, not a descriptor.
            return Ok(None);
        }
        if sign.starts_with('&') || sign == "<<<" {
            self.require_bash()?;
        }
        let descriptor = parse_descriptor(&self.rest()[..digits]);
        let descriptor = descriptor.unwrap_or(if sign.starts_with('<') { 0 } else { 1 });
        if rest[1..].starts_with('(') {
            return if digits > 0 { Err("an unusual redirection") } else { Ok(None) };
        }
        self.at += digits + sign.len();
        if operator == RedirectOperator::HereDocument {
            return self.parse_here_document_start(start, descriptor).map(Some);
        }
        self.check_operator_end()?;
        self.skip_blanks();
        let target = self.parse_word()?.ok_or("a redirection has no target")?;
        let text = self.text[start..self.at].to_owned();
        Ok(Some(Redirect { operator, descriptor, target, body: Rc::default(), text }))
    }
}

/// Parses the descriptor before an operator. Returns `None` if there is none.
fn parse_descriptor(digits: &str) -> Option<u64> {
    // A number that is too large to parse cannot mean standard input.
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Turns a word into an assignment, or returns it unchanged if it is not one.
fn into_assignment(mut word: Word) -> Result<Assignment, Word> {
    let Some(WordPart::Text { text, quoted: false }) = word.parts.first() else { return Err(word) };
    let Some((name, value)) = text.split_once('=') else { return Err(word) };
    let appends = name.ends_with('+');
    let name = name.strip_suffix('+').unwrap_or(name);
    if !is_name(name) {
        return Err(word);
    }
    let (name, value) = (name.to_owned(), value.to_owned());
    word.parts[0] = WordPart::Text { text: value, quoted: false };
    Ok(Assignment { name, value: word, appends })
}
