//! Syntax colors: a small lexer for many languages, driven by a table.
//!
//! It distinguishes comments, strings, numbers, keywords, types, calls and keys. Libraries that are
//! based on grammars add 0.8 to 2 MB to the program and take 0.3 to 2 ms per line. That is too much
//! for a diff of thousands of lines; this lexer takes microseconds.

use super::languages::{Language, Quote, Style};

/// The maximum number of lines in a file that is colored.
const MAX_LINES: usize = 20_000;

/// The kind of a token in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Token {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
    Type,
    Call,
    Key,
}

/// A piece of a line: its kind, and its length in bytes.
pub(super) type Piece = (Token, usize);

/// The state of the lexer at the start of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    /// A comment that ends with this text.
    Comment(&'static str),
    /// A string that continues on the next line.
    Text(Quote),
}

/// Finds the pieces of all lines of a file. Returns `None` if its language is unknown.
pub(super) fn find_pieces(name: &str, lines: &[String]) -> Option<Vec<Vec<Piece>>> {
    let language = Language::of(name, lines.first().map_or("", String::as_str))?;
    if lines.len() > MAX_LINES {
        return None;
    }
    let mut inside = Inside::Code;
    let mut found = Vec::with_capacity(lines.len());
    for line in lines {
        let mut lexer = Lexer { language, line, at: 0, inside, pieces: Vec::new() };
        lexer.read_line();
        inside = lexer.inside;
        found.push(lexer.pieces);
    }
    Some(found)
}

/// A lexer for one line.
struct Lexer<'a> {
    language: &'static Language,
    line: &'a str,
    at: usize,
    inside: Inside,
    pieces: Vec<Piece>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    /// Adds a piece of this length. If the previous piece is of the same kind, extends that piece
    /// instead.
    fn add(&mut self, token: Token, length: usize) {
        self.at += length;
        match self.pieces.last_mut() {
            Some((last, known)) if *last == token => *known += length,
            _ if length > 0 => self.pieces.push((token, length)),
            _ => {}
        }
    }

    fn read_line(&mut self) {
        while self.at < self.line.len() {
            match self.inside {
                Inside::Comment(end) => self.read_comment(end, 0),
                Inside::Text(quote) => self.read_text(quote, 0),
                Inside::Code => self.read_code(),
            }
        }
        if let Inside::Text(quote) = self.inside
            && !quote.is_multiline
        {
            self.inside = Inside::Code;
        }
    }

    /// Reads a comment until its end, or until the end of the line.
    fn read_comment(&mut self, end: &'static str, begun: usize) {
        let rest = self.rest();
        match rest[begun..].find(end) {
            Some(found) => {
                self.inside = Inside::Code;
                self.add(Token::Comment, begun + found + end.len());
            }
            None => {
                self.inside = Inside::Comment(end);
                self.add(Token::Comment, rest.len());
            }
        }
    }

    /// Reads a string until its end, or until the end of the line.
    fn read_text(&mut self, quote: Quote, begun: usize) {
        let rest = self.rest();
        let mut at = begun;
        while at < rest.len() {
            if rest[at..].starts_with(quote.end) {
                self.inside = Inside::Code;
                let length = at + quote.end.len();
                let token = self.token_of_text(&rest[length..]);
                self.add(token, length);
                return;
            }
            let mut characters = rest[at..].chars();
            if characters.next() == Some('\\') && quote.is_escaped {
                characters.next();
            }
            at = rest.len() - characters.as_str().len();
        }
        self.inside = Inside::Text(quote);
        self.add(Token::Text, rest.len());
    }

    /// Returns the kind of a string. In some languages, a string before a colon is a key.
    fn token_of_text(&self, behind: &str) -> Token {
        let is_key = self.language.style == Style::Data && behind.trim_start().starts_with(':');
        if is_key { Token::Key } else { Token::Text }
    }

    fn read_code(&mut self) {
        let (language, rest) = (self.language, self.rest());
        let is_comment = |start: &&&str| {
            // In shells and YAML, `#` begins a comment only after a space or at the start of a
            // line.
            let is_free = self.at == 0
                || self.line[..self.at].ends_with(char::is_whitespace)
                || !language.has_spaced_comments;
            is_free && rest.starts_with(**start)
        };
        if language.line_comments.iter().any(|start| is_comment(&start)) {
            return self.add(Token::Comment, rest.len());
        }
        if let Some((start, end)) =
            language.block_comments.iter().find(|(start, _)| rest.starts_with(start))
        {
            return self.read_comment(end, start.len());
        }
        if let Some(quote) = language.quotes.iter().find(|quote| rest.starts_with(quote.start))
            && !self.is_lifetime(quote)
        {
            return self.read_text(*quote, quote.start.len());
        }
        let first = rest.chars().next().expect("the line has not ended");
        match first {
            '0'..='9' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '%');
                self.add(Token::Number, length_while(rest, is_part));
            }
            '<' if language.style == Style::Markup => self.read_tag(),
            c if is_word_start(c, language) => self.read_word(),
            c => self.add(Token::Plain, c.len_utf8()),
        }
    }

    /// Returns true for a Rust lifetime, which looks like the beginning of a character literal.
    fn is_lifetime(&self, quote: &Quote) -> bool {
        if quote.start != "'" || !self.language.has_lifetimes {
            return false;
        }
        let mut characters = self.rest()[1..].chars();
        match (characters.next(), characters.next()) {
            (Some('\\'), _) | (_, Some('\'')) | (None, _) => false,
            (Some(first), _) => first.is_alphabetic() || first == '_',
        }
    }

    /// Reads the name of a tag: `<name`, `</name`.
    fn read_tag(&mut self) {
        let rest = self.rest();
        let start = if rest.starts_with("</") { 2 } else { 1 };
        let name = length_while(&rest[start..], |c| c.is_alphanumeric() || "-_:!?".contains(c));
        self.add(Token::Plain, start);
        self.add(Token::Keyword, name);
    }

    fn read_word(&mut self) {
        let (language, rest) = (self.language, self.rest());
        let length = length_while(rest, |c| {
            c.is_alphanumeric() || c == '_' || (c == '-' && language.has_dashes) || c == '$'
        });
        // A symbol that begins a word, such as `@` or `$`, belongs to the word.
        let length = length.max(rest.chars().next().map_or(1, char::len_utf8));
        let length = match rest.starts_with(['@', '#', '$', '.']) {
            true => 1 + length_while(&rest[1..], |c| c.is_alphanumeric() || matches!(c, '_' | '-')),
            false => length,
        };
        let (word, behind) = rest.split_at(length);
        self.add(token_of_word(word, behind, language), length);
    }
}

fn token_of_word(word: &str, behind: &str, language: &Language) -> Token {
    let is_keyword = match language.ignores_case {
        true => language.keywords.contains(&word.to_ascii_lowercase().as_str()),
        false => language.keywords.contains(&word),
    };
    let next = behind.trim_start();
    match language.style {
        _ if is_keyword => Token::Keyword,
        Style::Data if next.starts_with([':', '=']) => Token::Key,
        Style::Data => Token::Plain,
        Style::Markup if behind.starts_with('=') => Token::Key,
        Style::Markup => Token::Plain,
        Style::Sheet if word.starts_with(['@', '#', '.']) => Token::Type,
        Style::Sheet if next.starts_with(':') => Token::Key,
        _ if word.starts_with('@') => Token::Type,
        _ if word.starts_with('$') => Token::Key,
        _ if behind.starts_with('(') || behind.starts_with("!(") => Token::Call,
        _ if word.starts_with(char::is_uppercase) && word.len() > 1 => Token::Type,
        _ => Token::Plain,
    }
}

fn is_word_start(character: char, language: &Language) -> bool {
    character.is_alphabetic()
        || character == '_'
        || language.sigils.contains(character)
        || (character == '-' && language.has_dashes && language.style == Style::Sheet)
}

fn length_while(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(name: &str, text: &str) -> Vec<(Token, String)> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut found = Vec::new();
        for (line, pieces) in lines.iter().zip(find_pieces(name, &lines).unwrap()) {
            let mut at = 0;
            for (token, length) in pieces {
                found.push((token, line[at..at + length].to_owned()));
                at += length;
            }
            assert_eq!(at, line.len(), "{line}");
        }
        found.retain(|(token, _)| *token != Token::Plain);
        found
    }

    fn expect(name: &str, text: &str, expected: &[(Token, &str)]) {
        let expected: Vec<(Token, String)> =
            expected.iter().map(|(token, text)| (*token, (*text).to_owned())).collect();
        assert_eq!(tokens(name, text), expected, "{text}");
    }

    #[test]
    fn the_tokens_of_code_have_their_colors() {
        use Token::{Call, Comment, Keyword, Number, Text, Type};
        expect(
            "a.rs",
            "fn f<'a>(x: &'a Vec) { g('x', \"s\\\"t\", 0x1f); } // end",
            &[
                (Keyword, "fn"),
                (Type, "Vec"),
                (Call, "g"),
                (Text, "'x'"),
                (Text, "\"s\\\"t\""),
                (Number, "0x1f"),
                (Comment, "// end"),
            ],
        );
        expect(
            "a.py",
            "@d\ndef f(): # why\n    return None",
            &[
                (Type, "@d"),
                (Keyword, "def"),
                (Call, "f"),
                (Comment, "# why"),
                (Keyword, "return"),
                (Keyword, "None"),
            ],
        );
    }

    #[test]
    fn comments_and_strings_continue_on_the_next_line() {
        use Token::{Comment, Keyword, Text};
        expect(
            "a.js",
            "/* a\nb */ let x",
            &[(Comment, "/* a"), (Comment, "b */"), (Keyword, "let")],
        );
        expect(
            "a.py",
            "\"\"\"doc\nmore\"\"\"\nif",
            &[(Text, "\"\"\"doc"), (Text, "more\"\"\""), (Keyword, "if")],
        );
        // A string without a closing quote ends at the end of its line.
        expect("a.c", "\"open\nif", &[(Text, "\"open"), (Keyword, "if")]);
    }

    #[test]
    fn keys_in_data_have_a_color() {
        use Token::{Key, Keyword, Number, Text};
        expect(
            "a.json",
            "{\"a\": \"b\", \"n\": 12}",
            &[(Key, "\"a\""), (Text, "\"b\""), (Key, "\"n\""), (Number, "12")],
        );
        expect("a.toml", "name = true", &[(Key, "name"), (Keyword, "true")]);
        expect("a.html", "<a href=\"x\">", &[(Keyword, "a"), (Key, "href"), (Text, "\"x\"")]);
    }

    #[test]
    fn every_byte_of_arbitrary_text_is_kept() {
        let texts =
            ["é'\u{1F600}\"\\", "'\\", "\"\\é", "<é/*", "$", "@", "#中", "0é", "-- x '", "``` `é"];
        for name in ["a.rs", "a.py", "a.sh", "a.css", "a.html", "a.sql", "a.yml", "Makefile"] {
            for text in texts {
                tokens(name, text);
            }
        }
        assert!(find_pieces("a.unknown", &[]).is_none());
    }
}
