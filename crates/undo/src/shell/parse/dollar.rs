//! Expansions: everything that starts with `$`.

use crate::shell::syntax::{List, Part, Word};

use super::{Parsed, Parser};

impl Parser<'_> {
    pub(super) fn dollar(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        let rest = &self.rest()[1..];
        match rest.bytes().next() {
            Some(b'(') if rest.starts_with("((") => {
                self.at += 3;
                self.deeper(|parser| parser.arithmetic(word))?;
                word.parts.push(Part::Expansion { quoted, many: false });
                Ok(())
            }
            Some(b'(') => {
                self.at += 2;
                let list = self.substitution()?;
                word.parts.push(Part::Substitution { list, quoted });
                Ok(())
            }
            Some(b'{') => {
                self.at += 2;
                self.deeper(|parser| parser.braces(word, quoted))
            }
            Some(b'[') => Err("old arithmetic"),
            Some(b'\\') if rest.starts_with("\\\n") => Err("an expansion is split over two lines"),
            Some(b'\'') if !quoted => self.ansi_quoted(word),
            Some(b'"') if !quoted => Err("a translated string"),
            Some(c) if c == b'_' || c.is_ascii_alphabetic() => {
                let name = |c: char| c == '_' || c.is_ascii_alphanumeric();
                let length = rest.find(|c| !name(c)).unwrap_or(rest.len());
                word.parts.push(variable(&rest[..length], quoted));
                self.at += 1 + length;
                Ok(())
            }
            Some(c @ (b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' | b'0'..=b'9')) => {
                word.parts.push(Part::Expansion { quoted, many: matches!(c, b'@' | b'*') });
                self.at += 2;
                Ok(())
            }
            // Modifiers of zsh, which may make several words of a value.
            Some(b'=' | b'^' | b'~' | b'+') => {
                word.parts.push(Part::Expansion { quoted, many: true });
                self.at += 2;
                Ok(())
            }
            _ => {
                word.push_text("$", true);
                self.at += 1;
                Ok(())
            }
        }
    }

    /// The commands of a substitution, up to and with its closing parenthesis.
    pub(super) fn substitution(&mut self) -> Parsed<List> {
        if !self.pending.is_empty() {
            return Err("a here-document starts before a substitution");
        }
        self.deeper(|parser| {
            let list = parser.list(&[])?;
            if !parser.pending.is_empty() {
                return Err("a here-document has no end");
            }
            parser.expect(")", "a substitution is not closed")?;
            Ok(list)
        })
    }

    /// After `((`. The value of a name may hold a subscript, and a subscript may hold a command:
    /// only numbers are sure to run nothing.
    pub(super) fn arithmetic(&mut self, word: &mut Word) -> Parsed<()> {
        let mut open = 0usize;
        let mut plain = true;
        loop {
            let Some(byte) = self.peek() else { return Err("arithmetic is not closed") };
            match byte {
                b'$' | b'`' => {
                    self.quoted_piece(word, false)?;
                    plain = false;
                    continue;
                }
                b'(' => open += 1,
                b')' if open > 0 => open -= 1,
                b')' if self.eat("))") => break,
                b')' => return Err("arithmetic is not closed"),
                b'0'..=b'9' | b' ' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => {}
                b'!' | b'&' | b'|' | b'^' | b'~' | b'?' | b':' | b',' => {}
                b'\'' | b'"' | b'\\' | b'{' | b'}' | b'#' => {
                    return Err("arithmetic that is too odd");
                }
                _ => plain = false,
            }
            self.at += 1;
        }
        if !plain {
            word.parts.push(Part::Hidden("arithmetic with variables"));
        }
        Ok(())
    }

    /// After `${`. Forms in which a value is looked at as code or as arithmetic are not accepted.
    fn braces(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        let rest = self.rest();
        let counted = rest.starts_with('#') && !rest.starts_with("#}");
        self.at += usize::from(counted);
        let rest = self.rest();
        let name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let mut length = rest.find(|c| !name(c)).unwrap_or(rest.len());
        if length == 0 && rest.starts_with(['@', '*', '#', '?', '-', '$', '!']) {
            length = 1;
        }
        if length == 0 {
            return Err("an expansion that is too odd");
        }
        let name = &rest[..length];
        self.at += length;
        let subscript = self.subscript()?;
        if self.eat("}") {
            let many = subscript || matches!(name, "@" | "*");
            word.parts.push(match counted {
                true => Part::Expansion { quoted, many: false },
                false if many => Part::Expansion { quoted, many },
                false => variable(name, quoted),
            });
            return Ok(());
        }
        if counted || name == "!" {
            return Err("an expansion that is too odd");
        }
        self.modifier()?;
        let inner = self.until_brace(quoted)?;
        word.parts.push(Part::Nested(vec![inner]));
        Ok(())
    }

    /// `[@]`, `[*]`, `[3]`: whether there is one.
    fn subscript(&mut self) -> Parsed<bool> {
        if self.peek() != Some(b'[') {
            return Ok(false);
        }
        let length = self.rest().find(']').ok_or("a subscript is not closed")?;
        let inner = &self.rest()[1..length];
        let plain = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
        if !plain && !matches!(inner, "@" | "*") {
            return Err("a subscript that is too odd");
        }
        self.at += length + 1;
        Ok(true)
    }

    /// What is done to the value: `:-`, `##`, `/` and so on, or a part of it by numbers.
    fn modifier(&mut self) -> Parsed<()> {
        const MODIFIERS: &[&str] = &[
            ":-", ":+", ":?", "##", "%%", "//", "^^", ",,", "-", "+", "?", "#", "%", "/", "^", ",",
        ];
        if MODIFIERS.iter().any(|modifier| self.eat(modifier)) {
            return Ok(());
        }
        let rest = self.rest();
        let numbers = |c: char| c.is_ascii_digit() || matches!(c, ':' | ' ' | '-');
        let length = rest.find(|c| !numbers(c)).unwrap_or(rest.len());
        if rest.starts_with(':') && rest[length..].starts_with('}') {
            return Ok(());
        }
        Err("an expansion that is too odd")
    }

    /// The word after the modifier, up to and with the closing brace.
    fn until_brace(&mut self, quoted: bool) -> Parsed<Word> {
        let mut word = Word::default();
        loop {
            match self.peek() {
                None => return Err("an expansion is not closed"),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(word);
                }
                Some(b'$' | b'`') => self.quoted_piece(&mut word, quoted)?,
                // How quotes, backslashes and braces count here depends on the shell.
                Some(b'\'') if !quoted => self.single_quoted(&mut word)?,
                Some(b'"' | b'\'' | b'\\' | b'{' | b'\n') => {
                    return Err("an expansion that is too odd");
                }
                Some(_) => {
                    let rest = self.rest();
                    let special = ['}', '$', '`', '"', '\'', '\\', '{', '\n'];
                    let length = rest.find(special).unwrap_or(rest.len());
                    // A process substitution within it.
                    if rest[..length].contains("<(") || rest[..length].contains(">(") {
                        return Err("an expansion that is too odd");
                    }
                    self.at += length;
                }
            }
        }
    }

    /// `$'…'`. An escaped quote would end the string for other shells.
    fn ansi_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.extension()?;
        self.at += 1;
        let mut raw = Word::default();
        self.single_quoted(&mut raw)?;
        let Some(Part::Text { text, .. }) = raw.parts.first() else { return Ok(()) };
        if text.ends_with('\\') {
            return Err("an escaped quote in $'…'");
        }
        match text.replace("\\t", "\t").replace("\\n", "\n") {
            plain if !plain.contains('\\') => word.push_text(&plain, true),
            _ => word.parts.push(Part::Expansion { quoted: true, many: false }),
        }
        Ok(())
    }
}

fn variable(name: &str, quoted: bool) -> Part {
    match name {
        "HOME" => Part::Home,
        _ => Part::Expansion { quoted, many: false },
    }
}
