//! Splitting Rust source into comments, string literals and tokens. The lexer knows just enough
//! about the language not to mistake a string for a comment, or a lifetime for a character.

/// A piece of source code, with the number of its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'s> {
    pub(crate) line: usize,
    pub(crate) kind: Kind<'s>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'s> {
    /// A `///` or `//!` line, or a whole `/** */` comment, without its delimiters.
    Doc(&'s str),
    Comment(&'s str),
    /// A string literal as written, without its quotes.
    String(&'s str),
    Word(&'s str),
    Symbol(char),
}

/// Splits a source file into its pieces. White space, numbers, characters and lifetimes are left
/// out.
pub(crate) fn split_source(source: &str) -> Vec<Piece<'_>> {
    let mut lexer = Lexer { rest: source, line: 1 };
    let mut pieces = Vec::new();
    while let Some(next) = lexer.rest.chars().next() {
        let line = lexer.line;
        if let Some(kind) = lexer.next_piece(next) {
            pieces.push(Piece { line, kind });
        }
    }
    pieces
}

struct Lexer<'s> {
    rest: &'s str,
    line: usize,
}

impl<'s> Lexer<'s> {
    /// Consumes the next piece. Returns `None` if the piece is of a kind that is left out.
    fn next_piece(&mut self, next: char) -> Option<Kind<'s>> {
        if self.rest.starts_with("//") {
            Some(self.take_line_comment())
        } else if self.rest.starts_with("/*") {
            Some(self.take_block_comment())
        } else if let Some(hashes) = self.raw_string_hashes() {
            Some(Kind::String(self.take_raw_string(hashes)))
        } else if next == '"' || self.rest.starts_with("b\"") || self.rest.starts_with("c\"") {
            Some(Kind::String(self.take_string()))
        } else if next == '\'' || self.rest.starts_with("b'") {
            self.skip_character_or_lifetime();
            None
        } else if next.is_alphabetic() || next == '_' {
            let word = self.take_while(is_word);
            Some(Kind::Word(word))
        } else if next.is_ascii_digit() {
            self.take_while(is_word);
            None
        } else {
            self.take(next.len_utf8());
            (!next.is_whitespace()).then_some(Kind::Symbol(next))
        }
    }

    fn take(&mut self, length: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, belongs: fn(char) -> bool) -> &'s str {
        self.take(self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len()))
    }

    fn take_line_comment(&mut self) -> Kind<'s> {
        let text = self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        match text.strip_prefix("//!").or_else(|| text.strip_prefix("///")) {
            Some(doc) if !doc.starts_with('/') => Kind::Doc(doc),
            _ => Kind::Comment(text.trim_start_matches('/')),
        }
    }

    fn take_block_comment(&mut self) -> Kind<'s> {
        let bytes = self.rest.as_bytes();
        let (mut depth, mut end) = (0, 0);
        while end < bytes.len() {
            match bytes.get(end..end + 2) {
                Some(b"/*") => {
                    depth += 1;
                    end += 2;
                }
                Some(b"*/") => {
                    depth -= 1;
                    end += 2;
                    if depth == 0 {
                        break;
                    }
                }
                _ => end += 1,
            }
        }
        let text = self.take(end);
        let inner = text.strip_suffix("*/").unwrap_or(text);
        match inner.strip_prefix("/**").or_else(|| inner.strip_prefix("/*!")) {
            Some(doc) if !doc.is_empty() => Kind::Doc(doc),
            _ => Kind::Comment(inner.strip_prefix("/*").unwrap_or(inner)),
        }
    }

    /// Counts the hashes of the next raw string. Returns `None` if no raw string comes next.
    fn raw_string_hashes(&self) -> Option<usize> {
        let after = ["r", "br", "cr"].iter().find_map(|prefix| self.rest.strip_prefix(prefix))?;
        let quote = after.trim_start_matches('#');
        quote.starts_with('"').then_some(after.len() - quote.len())
    }

    fn take_raw_string(&mut self, hashes: usize) -> &'s str {
        let start = self.rest.find('"').map_or(self.rest.len(), |quote| quote + 1);
        self.take(start);
        let end = format!("\"{}", "#".repeat(hashes));
        let text = self.take(self.rest.find(&end).unwrap_or(self.rest.len()));
        self.take(end.len().min(self.rest.len()));
        text
    }

    fn take_string(&mut self) -> &'s str {
        self.take(self.rest.find('"').map_or(self.rest.len(), |quote| quote + 1));
        let mut is_escaped = false;
        let end = self.rest.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let text = self.take(end.unwrap_or(self.rest.len()));
        self.take(1.min(self.rest.len()));
        text
    }

    fn skip_character_or_lifetime(&mut self) {
        self.take(self.rest.find('\'').map_or(self.rest.len(), |quote| quote + 1));
        let mut characters = self.rest.chars();
        match (characters.next(), characters.next()) {
            (Some('\\'), _) => {
                // The escaped character may itself be a quote.
                let end = self.rest.get(2..).and_then(|rest| rest.find('\''));
                self.take(end.map_or(self.rest.len(), |end| 2 + end + 1));
            }
            (Some(character), Some('\'')) => {
                self.take(character.len_utf8() + 1);
            }
            _ => {
                self.take_while(is_word);
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
