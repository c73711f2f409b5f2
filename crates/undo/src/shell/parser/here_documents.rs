//! Parses here-documents: their starts, and later their bodies.

use std::rc::Rc;

use crate::shell::syntax::{Redirect, RedirectOperator, Word, WordPart};

use super::{Parsed, Parser, PendingHereDocument};

impl Parser<'_> {
    /// Parses the delimiter after `<<` or `<<-`. The body of the here-document comes later.
    pub(super) fn parse_here_document_start(
        &mut self,
        from: usize,
        descriptor: u64,
    ) -> Parsed<Redirect> {
        let strip_tabs = self.eat("-");
        self.check_operator_end()?;
        self.skip_blanks();
        let start = self.at;
        let word = self.parse_word()?.ok_or("a here-document has no delimiter")?;
        let raw = &self.text[start..self.at];
        if raw.contains(['$', '`', '\n', '<', '>']) {
            return Err("a here-document has an unusual delimiter");
        }
        let mut end = String::new();
        let mut quoted = false;
        for part in &word.parts {
            let WordPart::Text { text, quoted: is_quoted } = part else {
                return Err("a here-document has an unusual delimiter");
            };
            end.push_str(text);
            quoted |= is_quoted;
        }
        // A backslash before a line break leaves no trace in the word, but still counts as quoting.
        quoted |= raw.contains(['\'', '"', '\\']);
        let body = Rc::default();
        self.pending.push(PendingHereDocument { end, quoted, strip_tabs, body: Rc::clone(&body) });
        let text = self.text[from..self.at].to_owned();
        Ok(Redirect {
            operator: RedirectOperator::HereDocument,
            descriptor,
            target: Word::default(),
            body,
            text,
        })
    }

    /// Reads the body of a here-document, up to its delimiter.
    pub(super) fn read_here_document(&mut self, pending: &PendingHereDocument) -> Parsed<()> {
        let mut body = String::new();
        let mut joined = false;
        loop {
            if self.at >= self.text.len() {
                return Err("a here-document has no end");
            }
            let line = self.take_line();
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
            let mut word = inner.parse_here_document_body()?;
            // Shells disagree on whether the line after a backslash can be the delimiter.
            if body.contains("\\\n") {
                word.parts.push(WordPart::Hidden("a here-document with continued lines"));
            }
            word
        };
        // This cannot fail: each pending here-document is read only once.
        let _ = pending.body.set(word);
        Ok(())
    }

    /// Returns the rest of the line, and skips the line break.
    fn take_line(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.at = (self.at + length + 1).min(self.text.len());
        &rest[..length]
    }

    /// Parses text with expansions. Quotes in it are literal.
    fn parse_here_document_body(&mut self) -> Parsed<Word> {
        let mut word = Word::default();
        while self.peek().is_some() {
            self.parse_quoted_piece(&mut word, false)?;
        }
        Ok(word)
    }
}

fn ends_in_backslash(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}
