//! Parses expansions: everything that starts with `$`.

use crate::shell::syntax::{CommandList, Word, WordPart};

use super::{Parsed, Parser};

impl Parser<'_> {
    pub(super) fn parse_expansion(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        let rest = &self.rest()[1..];
        match rest.bytes().next() {
            Some(b'(') if rest.starts_with("((") => {
                self.at += 3;
                self.go_deeper(|parser| parser.parse_arithmetic(word))?;
                word.parts.push(WordPart::Expansion { name: None, quoted, many: false });
                Ok(())
            }
            Some(b'(') => {
                self.at += 2;
                let list = self.parse_substitution()?;
                word.parts.push(WordPart::Substitution { list, quoted });
                Ok(())
            }
            Some(b'{') => {
                self.at += 2;
                self.go_deeper(|parser| parser.parse_braced_expansion(word, quoted))
            }
            Some(b'[') => Err("old-style arithmetic"),
            Some(b'\\') if rest.starts_with("\\\n") => Err("an expansion is split over two lines"),
            Some(b'\'') if !quoted => self.parse_ansi_quoted(word),
            Some(b'"') if !quoted => Err("a translated string is not supported"),
            Some(c) if c == b'_' || c.is_ascii_alphabetic() => {
                let name = |c: char| c == '_' || c.is_ascii_alphanumeric();
                let length = rest.find(|c| !name(c)).unwrap_or(rest.len());
                word.parts.push(variable_part(&rest[..length], quoted));
                self.at += 1 + length;
                Ok(())
            }
            Some(c @ (b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' | b'0'..=b'9')) => {
                let name = Some(char::from(c).to_string());
                let many = matches!(c, b'@' | b'*');
                word.parts.push(WordPart::Expansion { name, quoted, many });
                self.at += 2;
                Ok(())
            }
            // These are zsh modifiers, which may split a value into several words.
            Some(b'=' | b'^' | b'~' | b'+') => {
                word.parts.push(WordPart::Expansion { name: None, quoted, many: true });
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

    /// Parses the commands of a substitution, up to and including its closing parenthesis.
    pub(super) fn parse_substitution(&mut self) -> Parsed<CommandList> {
        if !self.pending.is_empty() {
            return Err("a here-document starts before a substitution");
        }
        self.go_deeper(|parser| {
            let list = parser.parse_list(&[])?;
            if !parser.pending.is_empty() {
                return Err("a here-document has no end");
            }
            parser.expect(")", "a substitution is not closed")?;
            Ok(list)
        })
    }

    /// Parses arithmetic after its `((`. Only arithmetic on plain numbers is certain to run
    /// nothing: the value of a variable may contain a subscript, and a subscript may contain a
    /// command.
    pub(super) fn parse_arithmetic(&mut self, word: &mut Word) -> Parsed<()> {
        let mut open = 0usize;
        let mut plain = true;
        loop {
            let Some(byte) = self.peek() else { return Err("arithmetic is not closed") };
            match byte {
                b'$' | b'`' => {
                    self.parse_quoted_piece(word, false)?;
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
                    return Err("unusual arithmetic");
                }
                _ => plain = false,
            }
            self.at += 1;
        }
        if !plain {
            word.parts.push(WordPart::Hidden("arithmetic with variables"));
        }
        Ok(())
    }

    /// Parses an expansion after its `${`. Forms that treat a value as code or as arithmetic are
    /// not accepted.
    fn parse_braced_expansion(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
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
            return Err("an unusual expansion");
        }
        let name = &rest[..length];
        self.at += length;
        let subscript = self.parse_subscript()?;
        if self.eat("}") {
            let many = subscript || matches!(name, "@" | "*");
            word.parts.push(match counted {
                true => WordPart::Expansion { name: None, quoted, many: false },
                false if many => WordPart::Expansion { name: Some(name.to_owned()), quoted, many },
                false => variable_part(name, quoted),
            });
            return Ok(());
        }
        if counted || name == "!" {
            return Err("an unusual expansion");
        }
        let operator = self.skip_modifier()?;
        let inner = self.parse_until_brace(quoted)?;
        let name = name.to_owned();
        word.parts.push(WordPart::Modified { name, operator, word: inner, quoted });
        Ok(())
    }

    /// Parses `[@]`, `[*]` or `[3]`, and returns true if there was one.
    fn parse_subscript(&mut self) -> Parsed<bool> {
        if self.peek() != Some(b'[') {
            return Ok(false);
        }
        let length = self.rest().find(']').ok_or("a subscript is not closed")?;
        let inner = &self.rest()[1..length];
        let plain = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
        if !plain && !matches!(inner, "@" | "*") {
            return Err("an unusual subscript");
        }
        self.at += length + 1;
        Ok(true)
    }

    /// Skips the operator of an expansion and returns it: `:-`, `##`, `/` and so on, or the `:` of
    /// a substring.
    fn skip_modifier(&mut self) -> Parsed<&'static str> {
        const MODIFIERS: &[&str] = &[
            ":-", ":+", ":?", "##", "%%", "//", "^^", ",,", "-", "+", "?", "#", "%", "/", "^", ",",
        ];
        if let Some(modifier) = MODIFIERS.iter().find(|modifier| self.eat(modifier)) {
            return Ok(modifier);
        }
        let rest = self.rest();
        let numbers = |c: char| c.is_ascii_digit() || matches!(c, ':' | ' ' | '-');
        let length = rest.find(|c| !numbers(c)).unwrap_or(rest.len());
        if rest.starts_with(':') && rest[length..].starts_with('}') {
            return Ok(":");
        }
        Err("an unusual expansion")
    }

    /// Parses the word after the operator, up to and including the closing brace.
    fn parse_until_brace(&mut self, quoted: bool) -> Parsed<Word> {
        let mut word = Word::default();
        loop {
            match self.peek() {
                None => return Err("an expansion is not closed"),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(word);
                }
                Some(b'$' | b'`') => self.parse_quoted_piece(&mut word, quoted)?,
                // The meaning of quotes, backslashes and braces here depends on the shell.
                Some(b'\'') if !quoted => self.parse_single_quoted(&mut word)?,
                Some(b'"' | b'\'' | b'\\' | b'{' | b'\n') => {
                    return Err("an unusual expansion");
                }
                Some(_) => {
                    let rest = self.rest();
                    let special = ['}', '$', '`', '"', '\'', '\\', '{', '\n'];
                    let length = rest.find(special).unwrap_or(rest.len());
                    // This may be a process substitution.
                    if rest[..length].contains("<(") || rest[..length].contains(">(") {
                        return Err("an unusual expansion");
                    }
                    word.push_text(&rest[..length], quoted);
                    self.at += length;
                }
            }
        }
    }

    /// Parses `$'…'`. An escaped quote is not accepted: other shells end the string there.
    fn parse_ansi_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.require_bash()?;
        self.at += 1;
        let mut raw = Word::default();
        self.parse_single_quoted(&mut raw)?;
        let Some(WordPart::Text { text, .. }) = raw.parts.first() else { return Ok(()) };
        if text.ends_with('\\') {
            return Err("an escaped quote in $'…'");
        }
        match text.replace("\\t", "\t").replace("\\n", "\n") {
            plain if !plain.contains('\\') => word.push_text(&plain, true),
            _ => word.parts.push(WordPart::Expansion { name: None, quoted: true, many: false }),
        }
        Ok(())
    }
}

fn variable_part(name: &str, quoted: bool) -> WordPart {
    match name {
        "HOME" => WordPart::Home,
        _ => WordPart::Expansion { name: Some(name.to_owned()), quoted, many: false },
    }
}
