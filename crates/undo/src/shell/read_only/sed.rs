//! Determines when sed only reads. With `-i`, sed changes files. Some commands in a sed script also
//! change files.

use crate::shell::syntax::Arg;

/// Returns true if sed only prints: it is not told to edit files, and every command of its script
/// only prints.
pub(super) fn is_read_only(args: &[Arg]) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut first_operand: Option<&Arg> = None;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg.is_operand() {
            first_operand = first_operand.or(Some(arg));
            continue;
        }
        let Some(text) = arg.known() else { return false };
        if let Some(script) = text.strip_prefix("--expression=") {
            scripts.push(script);
        } else if text.starts_with("--") {
            // `--in-place` is not in the list, because it edits files.
            #[rustfmt::skip]
            const LONG: &[&str] =
                &["--quiet", "--silent", "--regexp-extended", "--null-data", "--posix", "--separate"];
            if !LONG.contains(&text) {
                return false;
            }
        } else {
            let letters = &text[1..];
            // `i` is not in the list, because it edits files in place.
            let flags = letters.trim_start_matches(['n', 'E', 'r', 's', 'u', 'z']);
            match flags.strip_prefix('e') {
                None if flags.is_empty() => {}
                None => return false,
                Some("") => {
                    let Some(script) = args.get(at).and_then(Arg::known) else { return false };
                    scripts.push(script);
                    at += 1;
                }
                Some(script) => scripts.push(script),
            }
        }
    }
    if scripts.is_empty() {
        let Some(script) = first_operand.and_then(Arg::known) else { return false };
        scripts.push(script);
    }
    scripts.iter().all(|script| SedScript { rest: script }.only_prints())
}

struct SedScript<'s> {
    rest: &'s str,
}

impl SedScript<'_> {
    fn only_prints(mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
            if self.rest.is_empty() {
                return true;
            }
            if !self.skip_address() || !self.skip_harmless_command() {
                return false;
            }
        }
    }

    fn take_char(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Skips the address before a command. Returns false if the address is malformed.
    fn skip_address(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| {
                c.is_ascii_digit() || matches!(c, ' ' | '$' | ',' | '!' | '~' | '+')
            });
            let delimiter = match self.rest.as_bytes() {
                [b'/', ..] => '/',
                [b'\\', c, ..] if c.is_ascii_punctuation() && *c != b'\\' => {
                    self.rest = &self.rest[1..];
                    char::from(*c)
                }
                _ => return true,
            };
            self.rest = &self.rest[1..];
            if !self.skip_part(delimiter) {
                return false;
            }
            self.rest = self.rest.trim_start_matches(['I', 'M']);
        }
    }

    /// Skips a command. Returns false if the command may do more than print.
    fn skip_harmless_command(&mut self) -> bool {
        match self.take_char() {
            Some('p' | 'P' | 'd' | 'D' | 'n' | 'N' | '=' | 'l' | 'h' | 'H' | 'g' | 'G' | 'x') => {
                self.is_at_end()
            }
            Some('q' | 'Q') => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                self.is_at_end()
            }
            Some('{' | '}') => true,
            Some('b' | 't' | 'T' | ':') => {
                let label = self.rest.trim_start_matches(' ');
                self.rest = label.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
                self.is_at_end()
            }
            Some('y') => self.skip_two_parts() && self.is_at_end(),
            Some('s') => {
                if !self.skip_two_parts() {
                    return false;
                }
                // `w` writes a file and `e` runs a command, so neither is in the list.
                self.rest = self.rest.trim_start_matches(|c: char| {
                    matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()
                });
                self.is_at_end()
            }
            _ => false,
        }
    }

    fn skip_two_parts(&mut self) -> bool {
        match self.take_char() {
            Some(delimiter) if delimiter.is_ascii_punctuation() && delimiter != '\\' => {
                self.skip_part(delimiter) && self.skip_part(delimiter)
            }
            _ => false,
        }
    }

    /// Skips text up to and including the delimiter. Brackets must be closed before the delimiter,
    /// because implementations of sed disagree on whether a delimiter within brackets ends the
    /// text.
    fn skip_part(&mut self, delimiter: char) -> bool {
        let mut brackets = false;
        loop {
            match self.take_char() {
                None | Some('\n') => return false,
                Some('\\') => {
                    if self.take_char().is_none() {
                        return false;
                    }
                }
                Some(c) if c == delimiter => return !brackets,
                Some('[') => brackets = true,
                Some(']') => brackets = false,
                Some(_) => {}
            }
        }
    }

    fn is_at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.is_empty() || self.rest.starts_with([';', '\n', '}'])
    }
}
