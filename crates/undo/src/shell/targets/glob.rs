//! Shell patterns: `*`, `?`, `[…]` and `**`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::file_system::FileSystem;
use super::value::Value;

/// A pattern for one name.
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

enum Token {
    Char(char),
    One,
    Many,
    Class { negated: bool, items: Vec<ClassItem> },
}

enum ClassItem {
    Range(char, char),
    /// A class like `[:alpha:]`, which is assumed to match every character.
    Any,
}

impl Pattern {
    /// Parses a pattern. A backslash escapes the next character.
    pub(super) fn new(text: &str) -> Pattern {
        let chars: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            match c {
                '*' => {
                    if !matches!(tokens.last(), Some(Token::Many)) {
                        tokens.push(Token::Many);
                    }
                }
                '?' => tokens.push(Token::One),
                '\\' => {
                    tokens.push(Token::Char(chars.get(at).copied().unwrap_or('\\')));
                    at += 1;
                }
                '[' => match read_class(&chars, at) {
                    Some((class, end)) => {
                        tokens.push(class);
                        at = end;
                    }
                    None => tokens.push(Token::Char('[')),
                },
                other => tokens.push(Token::Char(other)),
            }
        }
        Pattern { tokens }
    }

    /// Returns true if the pattern matches every name.
    pub(super) fn matches_all(&self) -> bool {
        matches!(self.tokens.as_slice(), [Token::Many])
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.matches_chars(&name.chars().collect::<Vec<char>>())
    }

    fn matches_chars(&self, name: &[char]) -> bool {
        let (mut at, mut token) = (0, 0);
        // The last `*`, and the position up to which it has matched.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.tokens.get(token) {
                Some(Token::Many) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(other) if other.matches(name[at]) => {
                    at += 1;
                    token += 1;
                    continue;
                }
                _ => {}
            }
            let Some((star_token, taken)) = star else { return false };
            star = Some((star_token, taken + 1));
            at = taken + 1;
            token = star_token + 1;
        }
        self.tokens[token..].iter().all(|token| matches!(token, Token::Many))
    }

    /// Returns the length in bytes of the shortest or longest prefix that matches.
    pub(super) fn match_start(&self, text: &str, longest: bool) -> Option<usize> {
        let mut ends: Vec<usize> =
            text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        if longest {
            ends.reverse();
        }
        ends.into_iter().find(|&end| self.matches(&text[..end]))
    }

    /// Returns the position in bytes at which the shortest or longest matching suffix starts.
    pub(super) fn match_end(&self, text: &str, longest: bool) -> Option<usize> {
        let mut starts: Vec<usize> =
            text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        if !longest {
            starts.reverse();
        }
        starts.into_iter().find(|&start| self.matches(&text[start..]))
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Token::Char(wanted) => *wanted == c,
            Token::One => true,
            Token::Many => false,
            Token::Class { negated: false, items } => items.iter().any(|item| item.matches(c)),
            // What a range matches depends on the locale, so a negated class excludes only the
            // single characters that it lists.
            Token::Class { negated: true, items } => !items
                .iter()
                .any(|item| matches!(item, ClassItem::Range(a, b) if a == b && *a == c)),
        }
    }
}

impl ClassItem {
    /// Returns true if the item may match a character. In some locales, a range contains both upper
    /// and lower case.
    fn matches(&self, c: char) -> bool {
        match self {
            ClassItem::Any => true,
            ClassItem::Range(from, to) => {
                let within = |c: char| (*from..=*to).contains(&c);
                within(c)
                    || (from != to
                        && (within(c.to_ascii_lowercase()) || within(c.to_ascii_uppercase())))
            }
        }
    }
}

/// Parses a class after its opening bracket. Also returns the position after the class.
fn read_class(chars: &[char], start: usize) -> Option<(Token, usize)> {
    let mut at = start;
    let negated = matches!(chars.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut items = Vec::new();
    loop {
        let c = *chars.get(at)?;
        if c == ']' && at > first {
            return Some((Token::Class { negated, items }, at + 1));
        }
        if c == '[' && matches!(chars.get(at + 1), Some(':' | '.' | '=')) {
            let closes = |pair: &[char]| matches!(pair[0], ':' | '.' | '=') && pair[1] == ']';
            let length = chars.get(at + 2..)?.windows(2).position(closes)?;
            items.push(ClassItem::Any);
            at += length + 4;
            continue;
        }
        let is_escaped = c == '\\' && chars.get(at + 1).is_some();
        let from = if is_escaped { chars[at + 1] } else { c };
        at += 1 + usize::from(is_escaped);
        match (chars.get(at), chars.get(at + 1)) {
            (Some('-'), Some(&to)) if to != ']' => {
                items.push(ClassItem::Range(from, to));
                at += 2;
            }
            _ => items.push(ClassItem::Range(from, from)),
        }
    }
}

/// Returns true if a pattern contains an unescaped special character.
fn has_meaning(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '*' | '?' | '[' => return true,
            _ => {}
        }
    }
    false
}

fn unescape(pattern: &str) -> String {
    let mut chars = pattern.chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        text.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    text
}

/// The options for expanding a pattern.
#[derive(Clone, Copy)]
pub(super) struct GlobOptions {
    /// True if the script makes `*` match all hidden names. Otherwise, `*` still matches hidden
    /// files, because the user's shell may be set up that way, but not hidden directories, which
    /// are often large.
    pub(super) matches_hidden: bool,
    pub(super) ignores_case: bool,
    /// The maximum number of results. If there are more, the expansion fails.
    pub(super) max_results: usize,
}

/// Expands a pattern in a directory. Returns `None` if there are too many results, or too many
/// entries to check.
pub(super) fn expand(
    pattern: &str,
    directory: &Path,
    options: GlobOptions,
    file_system: &mut FileSystem,
) -> Option<Vec<Value>> {
    let components: Vec<&str> = pattern.split('/').collect();
    let mut expansion = Expansion { directory, options, file_system, results: Vec::new() };
    expansion.descend(String::new(), &components, 0)?;
    Some(expansion.results)
}

struct Expansion<'e> {
    directory: &'e Path,
    options: GlobOptions,
    file_system: &'e mut FileSystem,
    results: Vec<Value>,
}

impl Expansion<'_> {
    /// Expands the components after `before`, which is empty or ends in a slash.
    fn descend(&mut self, before: String, components: &[&str], level: usize) -> Option<()> {
        let Some((component, rest)) = components.split_first() else { return Some(()) };
        if level > 64 || self.results.len() > self.options.max_results {
            return None;
        }
        if !has_meaning(component) {
            let mut path = before + &unescape(component);
            if rest.is_empty() {
                if self.file_system.exists(&self.directory.join(&path)) {
                    self.results.push(Value::Text(path));
                }
                return Some(());
            }
            path.push('/');
            return self.descend(path, rest, level + 1);
        }
        let directory = self.directory.join(&before);
        if self.file_system.is_written(&directory) {
            if !rest.is_empty() {
                for link in self.file_system.find_links(&directory)? {
                    self.results.push(Value::Below(format!("{before}{}/", link.to_str()?)));
                }
            }
            let below = if before.is_empty() { ".".to_owned() } else { before };
            self.results.push(Value::Below(below));
            return Some(());
        }
        let listing = self.file_system.list(&directory)?;
        if *component == "**" {
            self.descend(before.clone(), rest, level + 1)?;
        }
        let folded = if self.options.ignores_case {
            component.to_lowercase()
        } else {
            (*component).to_owned()
        };
        let pattern = Pattern::new(&folded);
        for entry in listing.iter() {
            let Some(name) = entry.name.to_str() else {
                self.push_bytes(&before, entry.name.as_bytes());
                continue;
            };
            let is_hidden = name.starts_with('.') && !component.starts_with('.');
            if is_hidden && !self.options.matches_hidden && (entry.is_directory || !rest.is_empty())
            {
                continue;
            }
            let is_match = match self.options.ignores_case {
                true => pattern.matches(&name.to_lowercase()),
                false => pattern.matches(name),
            };
            if !is_match {
                continue;
            }
            let path = format!("{before}{name}");
            if rest.is_empty() {
                self.results.push(Value::Text(path));
            } else {
                // Without `globstar`, `**` is a plain `*`, which follows links.
                let next = format!("{path}/");
                let goes_on = *component == "**" && entry.is_directory;
                self.descend(next, if goes_on { components } else { rest }, level + 1)?;
            }
            if self.results.len() > self.options.max_results {
                return None;
            }
        }
        Some(())
    }

    /// Adds a name that is not valid UTF-8. It is added as a prefix: the part before the first
    /// invalid byte.
    fn push_bytes(&mut self, before: &str, name: &[u8]) {
        let valid = match std::str::from_utf8(name) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
        };
        self.results.push(match valid {
            "" => Value::Below(if before.is_empty() { ".".to_owned() } else { before.to_owned() }),
            start => Value::Prefix(format!("{before}{start}")),
        });
    }
}
