//! Expands words: braces, `~`, variables, substitutions and patterns.

use std::path::Path;

use super::braces::{self, Piece};
use super::glob::{self, GlobOptions, Pattern};
use super::state::{MAX_VALUES, bound_values};
use super::value::Value;
use super::{Finder, Stream};
use crate::shell::syntax::{Word, WordPart};

/// Environment variables that are assumed to have the same values in this process and in the shell
/// that runs the script.
const INHERITED: &[&str] = &["LOGNAME", "TMPDIR", "USER"];

/// The maximum length of a word, in bytes. The rest of a longer word counts as unknown.
const MAX_LENGTH: usize = 64 * 1024;

/// A word that is being expanded.
#[derive(Clone)]
struct Field {
    value: Value,
    /// The text as a pattern, with a backslash before each special character that is quoted.
    pattern: String,
    /// The length of the text before the first unquoted pattern character.
    glob: Option<usize>,
}

impl Field {
    fn new() -> Field {
        Field { value: Value::Text(String::new()), pattern: String::new(), glob: None }
    }

    fn push_text(&mut self, text: &str, quoted: bool) {
        if matches!(self.value, Value::Text(_)) {
            let is_special = |c: char| matches!(c, '*' | '?' | '[');
            if !quoted && self.glob.is_none() {
                self.glob = text.find(is_special).map(|at| self.value.start().len() + at);
            }
            if self.pattern.len() + text.len() > MAX_LENGTH {
                return self.value.push(&Value::unknown());
            }
            if text.contains(['\\', '*', '?', '[', ']']) {
                for c in text.chars() {
                    if c == '\\' || (quoted && (is_special(c) || c == ']')) {
                        self.pattern.push('\\');
                    }
                    self.pattern.push(c);
                }
            } else {
                self.pattern.push_str(text);
            }
        }
        self.value.push_text(text);
    }

    fn push(&mut self, value: &Value, quoted: bool) {
        match value {
            Value::Text(text) => self.push_text(text, quoted),
            other => self.value.push(other),
        }
    }
}

impl Finder<'_> {
    /// Returns the values that a word may expand to.
    pub(super) fn expand_word(&mut self, word: &Word) -> Vec<Value> {
        let Some(words) = braces::expand(word) else {
            let start = match word.parts.first() {
                Some(WordPart::Text { text, .. }) => text.split('{').next().unwrap_or_default(),
                _ => "",
            };
            return vec![Value::Prefix(start.to_owned())];
        };
        let mut values = Vec::new();
        for pieces in words {
            self.expand_pieces(&pieces, &mut values);
        }
        bound_values(values)
    }

    /// Returns the values that an assignment gives to a variable. They are not split, and patterns
    /// in them are not expanded.
    pub(super) fn expand_assigned(&mut self, word: &Word) -> Vec<Value> {
        let pieces: Vec<Piece<'_>> = word.parts.iter().map(Piece::from).collect();
        let fields = self.expand_fields(&pieces, true);
        bound_values(fields.into_iter().map(|field| field.value).collect())
    }

    fn expand_pieces(&mut self, pieces: &[Piece<'_>], values: &mut Vec<Value>) {
        for field in self.expand_fields(pieces, false) {
            self.finish_field(field, values);
        }
    }

    fn expand_fields(&mut self, pieces: &[Piece<'_>], is_assigned: bool) -> Vec<Field> {
        let mut open = vec![Field::new()];
        let mut done = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Text(text, quoted) => {
                    let below = text.strip_prefix('~').filter(|_| at == 0 && !quoted);
                    let is_home = |below: &&str| below.is_empty() || below.starts_with('/');
                    let (home, text) = match (below.filter(is_home), below) {
                        (Some(below), _) => (self.home(), below),
                        // `~user`, `~+`, `~-`
                        (None, Some(_)) => (vec![Value::unknown()], ""),
                        (None, None) => (Vec::new(), text.as_str()),
                    };
                    open = self.push_values(&open, &home, true, &mut done);
                    let quoted = *quoted || is_assigned;
                    open.iter_mut().for_each(|field| field.push_text(text, quoted));
                }
                Piece::Part(part) => {
                    let (found, quoted) = self.expand_part(part);
                    let quoted = quoted || is_assigned;
                    open = self.push_values(&open, &found, quoted, &mut done);
                    let is_many = matches!(part, WordPart::Expansion { many: true, .. });
                    if is_many && pieces.len() > 1 && found.len() > 1 {
                        // Only the first word is joined to the preceding text, and only the last
                        // word to the following text.
                        let single = self.push_values(&[Field::new()], &found, quoted, &mut done);
                        done.extend(open.iter().chain(&single).cloned());
                        open.extend(single);
                    }
                }
            }
        }
        done.append(&mut open);
        done
    }

    /// Appends each value to each field. Unquoted values are split at blanks.
    fn push_values(
        &mut self,
        open: &[Field],
        values: &[Value],
        quoted: bool,
        done: &mut Vec<Field>,
    ) -> Vec<Field> {
        let cost: usize = values.iter().map(|value| value.start().len() + 16).sum();
        let is_too_much =
            open.len() * values.len() > MAX_VALUES || !self.spend(cost.saturating_mul(open.len()));
        let (unknown, empty) = ([Value::unknown()], [Value::Text(String::new())]);
        let values = match values {
            _ if is_too_much => &unknown,
            [] => &empty,
            values => values,
        };
        let separators = self.separators();
        // With a custom `IFS`, values are not always split at blanks.
        let has_separators = self.state.variable("IFS").is_some();
        let mut next = Vec::new();
        for field in open {
            for value in values {
                let mut field = field.clone();
                match value {
                    Value::Text(text) if !quoted => {
                        if text.contains(separators.as_slice()) {
                            let is_end = |c: char| separators.contains(&c) || c.is_whitespace();
                            for part in text.split(is_end) {
                                for mut own in [Field::new(), field.clone()] {
                                    own.push_text(part, false);
                                    done.push(own);
                                }
                            }
                        }
                        if has_separators && text.contains(char::is_whitespace) {
                            let mut whole = field.clone();
                            whole.push_text(text, true);
                            next.push(whole);
                        }
                        let mut parts = text.split([' ', '\t', '\n']);
                        field.push_text(parts.next().unwrap_or_default(), false);
                        for part in parts {
                            done.push(std::mem::replace(&mut field, Field::new()));
                            field.push_text(part, false);
                        }
                    }
                    other => field.push(other, quoted),
                }
                next.push(field);
            }
        }
        next
    }

    /// Returns the characters other than blanks at which unquoted values are split.
    pub(super) fn separators(&self) -> Vec<char> {
        let values = self.state.variable("IFS").unwrap_or_default();
        let chars = values.iter().flat_map(|value| value.start().chars());
        chars.filter(|c| !c.is_whitespace()).collect()
    }

    /// Returns the values of a part, and true if they are quoted.
    fn expand_part(&mut self, part: &WordPart) -> (Vec<Value>, bool) {
        match part {
            WordPart::Text { text, quoted } => (vec![Value::Text(text.clone())], *quoted),
            WordPart::Home => (self.home(), true),
            WordPart::Expansion { name, quoted, .. } => {
                let values = match name {
                    Some(name) => self.look_up_variable(name),
                    None => vec![Value::unknown()],
                };
                (values, *quoted)
            }
            WordPart::Substitution { list, quoted } => {
                let mut values = self.visit_in_subshell(list, &Stream::unknown()).values;
                let texts: Vec<&str> = values.iter().filter_map(Value::text).collect();
                // The whole output is another possible value. If it is split, only its first word
                // is joined to the preceding text.
                if texts.len() > 1 {
                    let all = texts.join("\n");
                    if all.len() < 4096 {
                        values.push(Value::Text(all));
                    } else {
                        values.push(Value::unknown());
                    }
                }
                (values, *quoted)
            }
            WordPart::Modified { name, operator, word, quoted } => {
                (self.modify(name, operator, word), *quoted)
            }
            WordPart::Array(words) => {
                (words.iter().flat_map(|word| self.expand_word(word)).collect(), true)
            }
            WordPart::Hidden(_) => {
                self.is_bounded = false;
                (vec![Value::Text(String::new())], true)
            }
        }
    }

    pub(super) fn home(&self) -> Vec<Value> {
        if let Some(values) = self.state.variable("HOME") {
            return values.to_vec();
        }
        let home = self.context.home.and_then(Path::to_str);
        vec![home.map_or_else(Value::unknown, |home| Value::Text(home.to_owned()))]
    }

    fn look_up_variable(&self, name: &str) -> Vec<Value> {
        if let Some(values) = self.state.variable(name) {
            return values.to_vec();
        }
        let arguments = self.state.arguments.as_ref();
        if let Ok(number) = name.parse::<usize>() {
            let Some(arguments) = arguments.filter(|_| number > 0) else {
                return vec![Value::unknown()];
            };
            // An argument that expands to several words, or to none, shifts the arguments after it.
            let is_one = |group: &Vec<Value>| matches!(group.as_slice(), [Value::Text(text)] if !text.is_empty());
            let count = number.min(arguments.len());
            return match arguments[..count].iter().all(is_one) {
                true => arguments.get(number - 1).cloned().unwrap_or_default(),
                false => {
                    let empty = Value::Text(String::new());
                    arguments.iter().flatten().cloned().chain([empty]).collect()
                }
            };
        }
        match name {
            "@" | "*" => match arguments {
                Some(arguments) => arguments.iter().flatten().cloned().collect(),
                None => vec![Value::unknown()],
            },
            "PWD" => self.directory_values(),
            _ => match std::env::var(name) {
                Ok(value) if INHERITED.contains(&name) => vec![Value::Text(value)],
                // In the shell that runs the script, the variable may have another value.
                Ok(value) => vec![Value::Text(value), Value::unknown()],
                Err(_) => vec![Value::unknown()],
            },
        }
    }

    pub(super) fn directory_values(&self) -> Vec<Value> {
        let to_value = |path: &std::path::PathBuf| match path.to_str() {
            Some(path) => Value::Text(path.to_owned()),
            None => Value::unknown(),
        };
        match &self.state.directories {
            Some(directories) => directories.iter().map(to_value).collect(),
            None => vec![Value::unknown()],
        }
    }

    /// Returns the values of `${name:-word}`, `${name%word}` and similar expansions.
    fn modify(&mut self, name: &str, operator: &str, word: &Word) -> Vec<Value> {
        let values = self.look_up_variable(name);
        let is_set = self.state.variable(name).is_some();
        match operator {
            ":-" | "-" => {
                let mut all = values;
                let is_certain = is_set && !all.is_empty() && all.iter().all(is_filled);
                if !is_certain {
                    all.extend(self.expand_word(word));
                }
                if std::env::var_os(name).is_none() && INHERITED.contains(&name) {
                    all.retain(|value| !value.is_unknown());
                }
                all
            }
            ":+" | "+" => {
                let mut all = self.expand_word(word);
                all.push(Value::Text(String::new()));
                all
            }
            ":?" | "?" => values,
            "#" | "##" | "%" | "%%" => {
                let pattern = match self.expand_pattern(word) {
                    Some(pattern) => Pattern::new(&pattern),
                    None => return vec![Value::unknown()],
                };
                if !self.spend(values.len() * 2048) {
                    return vec![Value::unknown()];
                }
                values.iter().map(|value| remove_match(value, &pattern, operator)).collect()
            }
            _ => vec![Value::unknown()],
        }
    }

    /// Returns a word as a pattern, or `None` if the word is too long or not fully known.
    fn expand_pattern(&mut self, word: &Word) -> Option<String> {
        let mut field = Field::new();
        for part in &word.parts {
            let (values, quoted) = self.expand_part(part);
            let [Value::Text(text)] = values.as_slice() else { return None };
            field.push_text(text, quoted);
        }
        (field.pattern.len() < 64).then_some(field.pattern)
    }

    /// Expands the patterns of a field against the file system.
    fn finish_field(&mut self, field: Field, values: &mut Vec<Value>) {
        let Some(at) = field.glob else { return values.push(field.value) };
        let start = field.value.start()[..at.min(field.value.start().len())].to_owned();
        let Value::Text(text) = field.value else { return values.push(Value::Prefix(start)) };
        let Some(directories) = self.state.directories.clone() else {
            return values.push(Value::Prefix(start));
        };
        let options = GlobOptions {
            matches_hidden: self.matches_hidden,
            ignores_case: self.ignores_case,
            max_results: MAX_VALUES.saturating_sub(values.len()),
        };
        let pattern = field.pattern;
        let before = values.len();
        for directory in &directories {
            match glob::expand(&pattern, directory, options, &mut self.file_system) {
                Some(found) => {
                    // If nothing matches, the pattern is taken literally.
                    if found.is_empty() && directories.len() > 1 {
                        values.push(Value::Text(text.clone()));
                    }
                    values.extend(found);
                }
                None => {
                    let directory = match start.rfind('/') {
                        Some(0) => "/",
                        Some(end) => &start[..end],
                        None => ".",
                    };
                    return values.push(Value::Below(directory.to_owned()));
                }
            }
        }
        if values.len() == before {
            values.push(Value::Text(text));
        }
    }
}

/// Returns true if a value is certainly not empty.
fn is_filled(value: &Value) -> bool {
    !value.start().is_empty() || *value == Value::Fresh
}

/// Removes the part of a value that the pattern matches, at its start or at its end.
fn remove_match(value: &Value, pattern: &Pattern, operator: &str) -> Value {
    let Value::Text(text) = value else {
        return match value {
            Value::Below(path) if operator.starts_with('%') => Value::Below(path.clone()),
            Value::Fresh => Value::Fresh,
            _ => Value::unknown(),
        };
    };
    if text.len() > 256 {
        return Value::unknown();
    }
    let longest = operator.len() == 2;
    Value::Text(if operator.starts_with('#') {
        text[pattern.match_start(text, longest).unwrap_or(0)..].to_owned()
    } else {
        text[..pattern.match_end(text, longest).unwrap_or(text.len())].to_owned()
    })
}
