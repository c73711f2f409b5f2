//! Here-documents.

use std::rc::Rc;

use crate::shell::syntax::{Operator, Part, Redirect, Word};

use super::{Parsed, Parser, Pending};

impl Parser<'_> {
    /// After `<<` or `<<-`: the word that ends the document. Its body comes later.
    pub(super) fn here_document_start(&mut self, from: usize) -> Parsed<Redirect> {
        let strip_tabs = self.eat("-");
        self.operator_ends()?;
        self.blanks();
        let start = self.at;
        let word = self.word()?.ok_or("a here-document has no end word")?;
        let raw = &self.text[start..self.at];
        if raw.contains(['$', '`', '\n', '<', '>']) {
            return Err("the end word of a here-document is too odd");
        }
        let mut end = String::new();
        let mut quoted = false;
        for part in &word.parts {
            let Part::Text { text, quoted: is_quoted } = part else {
                return Err("the end word of a here-document is too odd");
            };
            end.push_str(text);
            quoted |= is_quoted;
        }
        // A backslash that stands for nothing has been dropped from the word, but it still quotes.
        quoted |= raw.contains(['\'', '"', '\\']);
        let body = Rc::default();
        self.pending.push(Pending { end, quoted, strip_tabs, body: Rc::clone(&body) });
        let text = self.text[from..self.at].to_owned();
        Ok(Redirect { operator: Operator::HereDocument, target: Word::default(), body, text })
    }

    /// Reads the lines up to the end word.
    pub(super) fn here_document(&mut self, pending: &Pending) -> Parsed<()> {
        let mut body = String::new();
        let mut joined = false;
        loop {
            if self.at >= self.text.len() {
                return Err("a here-document has no end");
            }
            let line = self.line();
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { line };
            let continues = !pending.quoted && ends_in_backslash(line);
            if !joined && !continues && line == pending.end {
                break;
            }
            joined = continues;
            body.push_str(line);
            body.push('\n');
        }
        let word = if pending.quoted {
            let mut word = Word::default();
            word.push_text(&body, true);
            word
        } else {
            let mut inner = Parser::new(&body, self.dialect, self.depth + 1)?;
            let mut word = inner.here_document_body()?;
            // Shells do not agree on whether the line after a backslash can be the last one.
            if body.contains("\\\n") {
                word.parts.push(Part::Hidden("a here-document with continued lines"));
            }
            word
        };
        // Nobody else fills it in.
        let _ = pending.body.set(word);
        Ok(())
    }

    /// The rest of the line, without its end, which is skipped.
    fn line(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.at = (self.at + length + 1).min(self.text.len());
        &rest[..length]
    }

    /// Text with expansions, in which quotes mean nothing.
    fn here_document_body(&mut self) -> Parsed<Word> {
        let mut word = Word::default();
        while self.peek().is_some() {
            self.quoted_piece(&mut word, false)?;
        }
        Ok(word)
    }
}

fn ends_in_backslash(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}
