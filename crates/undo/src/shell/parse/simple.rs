//! Programs with their arguments, assignments and redirections.

use std::rc::Rc;

use crate::shell::syntax::{Assignment, Command, Operator, Part, Redirect, Simple, Word};

use super::words::is_name;
use super::{Parsed, Parser};

/// Words that do not stand where a program could, unless the script is wrong.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until",
    "select", "do", "done", "case", "esac", "function", "coproc", "time",
];

impl Parser<'_> {
    pub(super) fn simple(&mut self) -> Parsed<Command> {
        let mut simple = Simple::default();
        let start = self.at;
        let mut end = start;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if let Some(word) = self.word()? {
                if self.peek() == Some(b'(') {
                    return self.function_by_name(&simple, &word);
                }
                let odd = word.bare().is_some_and(|text| text.starts_with('{'));
                if odd && matches!(self.peek(), Some(b'<' | b'>')) {
                    return Err("a redirection to a variable");
                }
                if !simple.words.is_empty() {
                    simple.words.push(word);
                } else {
                    match assignment(word) {
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
            return Err("a keyword stands where a command should be");
        }
        simple.text = self.text[start..end].to_owned();
        Ok(Command::Simple(simple))
    }

    /// `name()`, whose opening parenthesis comes next.
    fn function_by_name(&mut self, before: &Simple, name: &Word) -> Parsed<Command> {
        let alone =
            before.words.is_empty() && before.assignments.is_empty() && before.redirects.is_empty();
        self.at += 1;
        self.blanks();
        if !alone || !self.eat(")") {
            return Err("a parenthesis where none can be");
        }
        self.function(name)
    }

    /// The next redirection, if one comes next.
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        #[rustfmt::skip]
        const OPERATORS: &[(&str, Operator)] = &[
            ("<<<", Operator::HereString),
            ("<<", Operator::HereDocument),
            ("<>", Operator::Write),
            ("<&", Operator::DuplicateInput),
            ("<", Operator::Read),
            (">>", Operator::Write),
            (">|", Operator::Write),
            (">&", Operator::Duplicate),
            (">", Operator::Write),
            ("&>>", Operator::Write),
            ("&>", Operator::Write),
        ];
        let start = self.at;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let rest = &self.rest()[digits..];
        let found = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let Some(&(sign, operator)) = found else { return Ok(None) };
        if sign.starts_with('&') || sign == "<<<" {
            if digits > 0 {
                // The digits are a word of their own.
                return Ok(None);
            }
            self.extension()?;
        }
        if rest[1..].starts_with('(') {
            return if digits > 0 { Err("an odd redirection") } else { Ok(None) };
        }
        self.at += digits + sign.len();
        if operator == Operator::HereDocument {
            return self.here_document_start(start).map(Some);
        }
        self.operator_ends()?;
        self.blanks();
        let target = self.word()?.ok_or("a redirection leads nowhere")?;
        let text = self.text[start..self.at].to_owned();
        Ok(Some(Redirect { operator, target, body: Rc::default(), text }))
    }
}

/// The word as an assignment, or the word itself.
fn assignment(mut word: Word) -> Result<Assignment, Word> {
    let Some(Part::Text { text, quoted: false }) = word.parts.first() else { return Err(word) };
    let Some((name, value)) = text.split_once('=') else { return Err(word) };
    let name = name.strip_suffix('+').unwrap_or(name);
    if !is_name(name) {
        return Err(word);
    }
    let (name, value) = (name.to_owned(), value.to_owned());
    word.parts[0] = Part::Text { text: value, quoted: false };
    Ok(Assignment { name, value: word })
}
