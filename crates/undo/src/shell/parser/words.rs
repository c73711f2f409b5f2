//! Parses words and quotes.

use crate::shell::syntax::{Word, WordPart};

use super::{Dialect, Parsed, Parser, parse_script};

impl Parser<'_> {
    /// Parses a word, if one comes next.
    pub(super) fn parse_word(&mut self) -> Parsed<Option<Word>> {
        self.parse_word_with(false)
    }

    /// Parses the regular expression after `=~`. Parentheses and bars belong to the word.
    pub(super) fn parse_regex_word(&mut self) -> Parsed<Option<Word>> {
        self.parse_word_with(true)
    }

    fn parse_word_with(&mut self, is_regex: bool) -> Parsed<Option<Word>> {
        let start = self.at;
        let mut word = Word::default();
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' | b')' | b'|' if is_regex && (byte != b')' || open > 0) => {
                    match byte {
                        b'(' => open += 1,
                        b')' => open -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    word.push_text(if byte == b'|' { "|" } else { "()" }, false);
                }
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.require_bash()?;
                    self.at += 2;
                    let list = self.parse_substitution()?;
                    // A process substitution becomes the name of a file in /dev/fd.
                    word.push_text("/dev/fd/", false);
                    word.parts.push(WordPart::Substitution { list, quoted: true });
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')' => break,
                b'(' => {
                    if !is_array_start(&word) {
                        break;
                    }
                    self.at += 1;
                    let words = self.parse_array()?;
                    word.parts.push(WordPart::Array(words));
                }
                b'\\' => self.parse_escape(&mut word)?,
                b'\'' => self.parse_single_quoted(&mut word)?,
                b'"' => self.parse_double_quoted(&mut word)?,
                b'$' => self.parse_expansion(&mut word, false)?,
                b'`' => self.parse_backticks(&mut word, false)?,
                b'~' if self.at == start => self.parse_tilde(&mut word),
                _ => self.parse_plain(&mut word),
            }
        }
        if self.at == start { Ok(None) } else { Ok(Some(word)) }
    }

    /// Parses text up to the next character that may be special.
    fn parse_plain(&mut self, word: &mut Word) {
        const SPECIAL: &[char] =
            &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '\\', '\'', '"', '$', '`'];
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest[first..].find(SPECIAL).map_or(rest.len(), |found| first + found);
        word.push_text(&rest[..length], false);
        self.at += length;
    }

    /// Parses `~` and `~/…`. The home directories of other users are unknown.
    fn parse_tilde(&mut self, word: &mut Word) {
        self.at += 1;
        match self.peek() {
            None | Some(b'/' | b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')') => {
                word.parts.push(WordPart::Home);
            }
            _ => {
                word.push_text("/", false);
                word.parts.push(WordPart::Expansion { name: None, quoted: true, many: false });
            }
        }
    }

    fn parse_escape(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        let Some(escaped) = self.rest().chars().next() else {
            return Err("it ends in a backslash");
        };
        self.at += escaped.len_utf8();
        if escaped != '\n' {
            word.push_text(escaped.encode_utf8(&mut [0; 4]), true);
        }
        Ok(())
    }

    pub(super) fn parse_single_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        let length = self.rest().find('\'').ok_or("a quote is not closed")?;
        let text = &self.rest()[..length];
        self.check_no_break(text)?;
        word.push_text(text, true);
        self.at += length + 1;
        Ok(())
    }

    fn parse_double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        word.push_text("", true);
        loop {
            match self.peek() {
                None => return Err("a quote is not closed"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.parse_quoted_piece(word, true)?,
            }
        }
    }

    /// Parses the next piece of text in double quotes or in a here-document.
    pub(super) fn parse_quoted_piece(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
        match self.peek() {
            Some(b'\\') => {
                let escaped = self.rest()[1..].chars().next();
                match escaped {
                    Some('\n') => self.at += 2,
                    Some(c @ ('$' | '`' | '\\' | '"')) if c != '"' || in_quotes => {
                        word.push_text(c.encode_utf8(&mut [0; 4]), true);
                        self.at += 2;
                    }
                    _ => {
                        word.push_text("\\", true);
                        self.at += 1;
                    }
                }
                Ok(())
            }
            Some(b'$') => self.parse_expansion(word, true),
            Some(b'`') => self.parse_backticks(word, in_quotes),
            _ => {
                let rest = self.rest();
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let special = |c| matches!(c, '\\' | '$' | '`') || (c == '"' && in_quotes);
                let length = rest[first..].find(special).map_or(rest.len(), |found| first + found);
                self.check_no_break(&rest[..length])?;
                word.push_text(&rest[..length], true);
                self.at += length;
                Ok(())
            }
        }
    }

    /// Fails if a word that comes after `<<` contains a line break, because it would be unclear
    /// where the here-document starts.
    fn check_no_break(&self, text: &str) -> Parsed<()> {
        if !self.pending.is_empty() && text.contains('\n') {
            return Err("a here-document starts within a quote");
        }
        Ok(())
    }

    /// Parses a substitution in backticks. Its text is unescaped once, and then parsed as a
    /// separate script.
    fn parse_backticks(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
        if !self.pending.is_empty() {
            return Err("a here-document starts before a substitution");
        }
        self.at += 1;
        let mut script = String::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err("a backtick is not closed");
            };
            self.at += next.len_utf8();
            match (next, self.peek()) {
                ('`', _) => break,
                ('\\', Some(escaped @ (b'`' | b'$' | b'\\'))) => {
                    script.push(char::from(escaped));
                    self.at += 1;
                }
                // Shells disagree on whether `\"` is unescaped here.
                ('\\', Some(b'"')) if in_quotes => return Err("an escaped quote within backticks"),
                (other, _) => script.push(other),
            }
        }
        let list = parse_script(&script, self.dialect, self.depth + 1)?;
        word.parts.push(WordPart::Substitution { list, quoted: in_quotes });
        Ok(())
    }

    /// Parses the words of `x=( … )`, after the opening parenthesis.
    fn parse_array(&mut self) -> Parsed<Vec<Word>> {
        if self.dialect == Dialect::Posix || !self.pending.is_empty() {
            return Err("an unexpected array");
        }
        self.go_deeper(|parser| {
            let mut words = Vec::new();
            loop {
                parser.skip_lines()?;
                if parser.eat(")") {
                    return Ok(words);
                }
                match parser.parse_word()? {
                    // In `[subscript]=value`, the subscript is arithmetic, which may run a command.
                    Some(word)
                        if word
                            .bare()
                            .is_some_and(|text| text.starts_with('[') && text.contains("]=")) =>
                    {
                        return Err("an array with subscripts");
                    }
                    Some(word) => words.push(word),
                    None => return Err("an array is not closed"),
                }
            }
        })
    }
}

/// Returns true if a parenthesis after this word opens an array: `name=` or `name+=`.
fn is_array_start(word: &Word) -> bool {
    let Some(name) = word.bare().and_then(|text| text.strip_suffix('=')) else { return false };
    is_name(name.strip_suffix('+').unwrap_or(name))
}

/// Returns true if `text` can be the name of a variable.
pub(in crate::shell) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
