//! `xargs`, which runs a command with words from standard input.

use super::arguments::{SplitArguments, split_operands_until};
use super::state::{MAX_VALUES, bound_values};
use super::value::Value;
use super::{Finder, Stream};

impl Finder<'_> {
    pub(super) fn visit_xargs(
        &mut self,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> Stream {
        let (split, at) = split_operands_until(
            args,
            "n P I L d s E a max-args max-procs delimiter arg-file max-chars",
        );
        let mut words = match split.option(&["-a", "--arg-file"]) {
            Some(file) => self.read_files(&file).values,
            None => input.values.clone(),
        };
        if words.is_empty() {
            words.push(Value::unknown());
        }
        self.split_words(&split, &mut words);
        let mark = match split.option(&["-I", "--replace"]) {
            Some(mark) => mark.first().and_then(Value::text).map(str::to_owned),
            None if split.has(&["--replace", "-i"]) => Some("{}".to_owned()),
            None => None,
        };
        let mut command: Vec<Vec<Value>> = args[at..].to_vec();
        if command.is_empty() {
            return Stream::of(words);
        }
        match mark {
            Some(mark) if !mark.is_empty() => {
                for group in &mut command {
                    *group = self.replace_mark(group, &mark, &words);
                }
            }
            _ => command.push(words),
        }
        let output = self.go_deeper(2, |finder| finder.visit_call(&command, text, input));
        output.unwrap_or_else(Stream::unknown)
    }

    /// Adds the words that xargs forms from lines: it splits lines and removes quotes.
    fn split_words(&mut self, split: &SplitArguments, words: &mut Vec<Value>) {
        let delimiter = split.option(&["-d", "--delimiter"]);
        let is_split = !split.has(&["-0", "--null"]);
        let mut more = Vec::new();
        for text in words.iter().filter_map(Value::text) {
            match delimiter.as_deref() {
                Some([Value::Text(delimiter)]) if !delimiter.starts_with('\\') => {
                    let parts = text.split(delimiter.as_str());
                    more.extend(parts.map(|part| Value::Text(part.to_owned())));
                }
                Some(_) => {}
                None if is_split => {
                    let plain = text.replace(['\'', '"', '\\'], "");
                    let words = plain.split_whitespace().filter(|word| *word != text);
                    more.extend(words.map(|word| Value::Text(word.to_owned())));
                    if plain != *text {
                        more.push(Value::Text(plain));
                    }
                }
                None => {}
            }
        }
        words.extend(more);
    }

    /// Replaces a placeholder such as `{}` in words with each of the values.
    pub(super) fn replace_mark(
        &mut self,
        group: &[Value],
        mark: &str,
        values: &[Value],
    ) -> Vec<Value> {
        let mut replaced = Vec::new();
        for word in group {
            let Value::Text(text) = word else {
                replaced.push(word.clone());
                continue;
            };
            let Some((before, after)) = text.split_once(mark) else {
                replaced.push(word.clone());
                continue;
            };
            // The placeholder may occur more than once.
            let rest = match after.split_once(mark) {
                None => Value::Text(after.to_owned()),
                Some((between, _)) => Value::Prefix(between.to_owned()),
            };
            if values.len() > MAX_VALUES || !self.spend(values.len() * (text.len() + 64)) {
                replaced.push(Value::Prefix(before.to_owned()));
                continue;
            }
            for value in values {
                let mut word = Value::Text(before.to_owned());
                word.push(value);
                word.push(&rest);
                replaced.push(word);
            }
        }
        bound_values(replaced)
    }
}
