//! Words and quotes.

use crate::shell::syntax::{Part, Word};

use super::{Dialect, Parsed, Parser, parse};

impl Parser<'_> {
    /// The next word; `None` if something else comes next.
    pub(super) fn word(&mut self) -> Parsed<Option<Word>> {
        self.word_with(false)
    }

    /// The expression after `=~`, in which parentheses and bars belong to the word.
    pub(super) fn expression(&mut self) -> Parsed<Option<Word>> {
        self.word_with(true)
    }

    fn word_with(&mut self, expression: bool) -> Parsed<Option<Word>> {
        let start = self.at;
        let mut word = Word::default();
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' | b')' | b'|' if expression && (byte != b')' || open > 0) => {
                    match byte {
                        b'(' => open += 1,
                        b')' => open -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    word.push_text(if byte == b'|' { "|" } else { "()" }, false);
                }
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.extension()?;
                    self.at += 2;
                    let list = self.substitution()?;
                    // It becomes the name of a file in /dev/fd.
                    word.push_text("/dev/fd/", false);
                    word.parts.push(Part::Substitution { list, quoted: true });
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')' => break,
                b'(' => {
                    if !is_array_start(&word) {
                        break;
                    }
                    self.at += 1;
                    let words = self.array()?;
                    word.parts.push(Part::Nested(words));
                }
                b'\\' => self.escape(&mut word)?,
                b'\'' => self.single_quoted(&mut word)?,
                b'"' => self.double_quoted(&mut word)?,
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backticks(&mut word, false)?,
                b'~' if self.at == start => self.tilde(&mut word),
                _ => self.plain(&mut word),
            }
        }
        if self.at == start { Ok(None) } else { Ok(Some(word)) }
    }

    /// Everything up to the next character that may mean something.
    fn plain(&mut self, word: &mut Word) {
        const SPECIAL: &[char] =
            &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '\\', '\'', '"', '$', '`'];
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = rest[first..].find(SPECIAL).map_or(rest.len(), |found| first + found);
        word.push_text(&rest[..length], false);
        self.at += length;
    }

    /// `~` or `~/…`; what other users have is not known.
    fn tilde(&mut self, word: &mut Word) {
        self.at += 1;
        match self.peek() {
            None | Some(b'/' | b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')') => {
                word.parts.push(Part::Home);
            }
            _ => {
                word.push_text("/", false);
                word.parts.push(Part::Expansion { quoted: true, many: false });
            }
        }
    }

    fn escape(&mut self, word: &mut Word) -> Parsed<()> {
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

    pub(super) fn single_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        let length = self.rest().find('\'').ok_or("a quote is not closed")?;
        let text = &self.rest()[..length];
        self.no_break_while_pending(text)?;
        word.push_text(text, true);
        self.at += length + 1;
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.at += 1;
        word.push_text("", true);
        loop {
            match self.peek() {
                None => return Err("a quote is not closed"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.quoted_piece(word, true)?,
            }
        }
    }

    /// A piece of what stands in double quotes or in a here-document.
    pub(super) fn quoted_piece(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
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
            Some(b'$') => self.dollar(word, true),
            Some(b'`') => self.backticks(word, in_quotes),
            _ => {
                let rest = self.rest();
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let special = |c| matches!(c, '\\' | '$' | '`') || (c == '"' && in_quotes);
                let length = rest[first..].find(special).map_or(rest.len(), |found| first + found);
                self.no_break_while_pending(&rest[..length])?;
                word.push_text(&rest[..length], true);
                self.at += length;
                Ok(())
            }
        }
    }

    /// A line break in a word that comes after `<<`: where the here-document starts is unclear.
    fn no_break_while_pending(&self, text: &str) -> Parsed<()> {
        if !self.pending.is_empty() && text.contains('\n') {
            return Err("a here-document starts within a quote");
        }
        Ok(())
    }

    /// Old substitutions are unquoted once and then read as a script of their own.
    fn backticks(&mut self, word: &mut Word, in_quotes: bool) -> Parsed<()> {
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
                // Shells differ in whether such a quote is unquoted here.
                ('\\', Some(b'"')) if in_quotes => return Err("quotes within backticks"),
                (other, _) => script.push(other),
            }
        }
        let list = parse(&script, self.dialect, self.depth + 1)?;
        word.parts.push(Part::Substitution { list, quoted: in_quotes });
        Ok(())
    }

    /// The words of `x=( … )`, whose opening parenthesis has been read.
    fn array(&mut self) -> Parsed<Vec<Word>> {
        if self.dialect == Dialect::Posix || !self.pending.is_empty() {
            return Err("an array where none can be");
        }
        self.deeper(|parser| {
            let mut words = Vec::new();
            loop {
                parser.lines()?;
                if parser.eat(")") {
                    return Ok(words);
                }
                match parser.word()? {
                    // `[subscript]=value`: a subscript is arithmetic.
                    Some(word) if word.bare().is_some_and(|text| text.starts_with('[')) => {
                        return Err("an array with subscripts");
                    }
                    Some(word) => words.push(word),
                    None => return Err("an array is not closed"),
                }
            }
        })
    }
}

/// Whether a parenthesis here opens an array: `name=` or `name+=`.
fn is_array_start(word: &Word) -> bool {
    let Some(name) = word.bare().and_then(|text| text.strip_suffix('=')) else { return false };
    is_name(name.strip_suffix('+').unwrap_or(name))
}

/// Whether it can be the name of a variable.
pub(in crate::shell) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
