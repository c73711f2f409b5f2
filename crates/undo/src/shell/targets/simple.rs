//! Simple commands: their words, assignments and redirections.

use super::state::bound_values;
use super::value::Value;
use super::{Change, Finder, Stream};
use crate::shell::analyzer::is_write;
use crate::shell::parser::is_name;
use crate::shell::read_only::builtins;
use crate::shell::read_only::variables::is_harmless_in_shell;
use crate::shell::syntax::{Arg, Redirect, RedirectOperator, SimpleCommand, Word, WordPart};

impl Finder<'_> {
    /// Adds the files that redirections write. Returns the text that they feed to standard input.
    pub(super) fn visit_redirects(&mut self, redirects: &[Redirect]) -> Option<Stream> {
        let mut input = None;
        for redirect in redirects {
            let stream = match redirect.operator {
                RedirectOperator::Read => self.read_target(&redirect.target),
                RedirectOperator::HereDocument => match redirect.body.get() {
                    Some(body) => self.read_words(body),
                    None => Stream::unknown(),
                },
                RedirectOperator::HereString => self.read_words(&redirect.target),
                RedirectOperator::DuplicateInput => Stream::unknown(),
                RedirectOperator::Write | RedirectOperator::Duplicate => {
                    let values = self.expand_word(&redirect.target);
                    if is_write(redirect.operator, &redirect.target.to_arg()) {
                        self.add_values(&values, Change::Overwrites, &redirect.text);
                    }
                    Stream::unknown()
                }
            };
            if redirect.is_input() {
                // Of several redirections, bash reads the last one, and zsh reads all of them.
                input.get_or_insert_with(Stream::default).append(stream);
            }
        }
        input
    }

    /// Returns the text that `< file` or `< <(command)` feeds to standard input.
    fn read_target(&mut self, target: &Word) -> Stream {
        if let [WordPart::Text { text, .. }, WordPart::Substitution { list, .. }] =
            target.parts.as_slice()
            && text == "/dev/fd/"
        {
            return self.visit_in_subshell(list, &Stream::unknown());
        }
        let values = self.expand_word(target);
        self.read_files(&values)
    }

    fn read_words(&mut self, word: &Word) -> Stream {
        match word.to_arg().known() {
            Some(text) => Stream::of_text(text.to_owned()),
            None => {
                let values = self.expand_assigned(word);
                if let [Value::Text(text)] = values.as_slice() {
                    return Stream::of_text(text.clone());
                }
                let mut stream = Stream::default();
                for value in values {
                    match value {
                        Value::Text(text) => stream.values.extend(Stream::of_text(text).values),
                        other => stream.values.push(other),
                    }
                }
                stream
            }
        }
    }

    pub(super) fn visit_simple(&mut self, simple: &SimpleCommand, input: &Stream) -> Stream {
        let mut groups = Vec::new();
        let name = simple.words.first().and_then(Word::bare);
        let declares =
            matches!(name, Some("export" | "readonly" | "declare" | "typeset" | "local"));
        for word in &simple.words {
            let mut values = self.expand_word(word);
            if name == Some("cd") && values.len() > self.expand_assigned(word).len() {
                // If `cd` is given several words, it fails, and the shell stays in its directory.
                values.push(Value::Text(".".to_owned()));
            }
            if name == Some("find")
                && matches!(word.parts.as_slice(), [WordPart::Substitution { quoted: false, .. }])
            {
                // If the substitution prints nothing, `find` starts in the current directory.
                values.push(Value::Text(String::new()));
            }
            if declares && !groups.is_empty() {
                // Shells disagree on whether these words are split.
                values.extend(self.expand_assigned(word));
                values = bound_values(values);
            }
            groups.push(values);
        }
        let written = self.find_output_files(&simple.redirects);
        self.keep_written(written, |finder| finder.visit_expanded(simple, &groups, input))
    }

    /// Visits a simple command whose words are expanded.
    fn visit_expanded(
        &mut self,
        simple: &SimpleCommand,
        groups: &[Vec<Value>],
        input: &Stream,
    ) -> Stream {
        let redirected = self.visit_redirects(&simple.redirects);
        let mut before = Vec::new();
        self.is_bounded &= keeps_programs(simple);
        for assignment in &simple.assignments {
            let values = self.expand_assigned(&assignment.value);
            before.push((&assignment.name, self.state.saved_variable(&assignment.name)));
            if assignment.appends {
                self.append_values(&assignment.name, &assignment.value, values);
            } else {
                self.state.set_variable(&assignment.name, values);
            }
        }
        if let [word] = simple.words.as_slice()
            && let Some(name) = element_name(word)
        {
            self.is_bounded = false;
            let values = self.expand_assigned(word);
            let to_value = |value: &Value| match value.start().find("]=") {
                Some(at) => value.strip_start(&value.start()[..at + 2]),
                None => Some(Value::unknown()),
            };
            self.state.add_values(name, values.iter().filter_map(to_value).collect());
            return Stream::default();
        }
        // `$(< file)` prints the file.
        if groups.is_empty() {
            return redirected.unwrap_or_default();
        }
        let input = redirected.as_ref().unwrap_or(input);
        let output = self.visit_call(groups, &simple.text, input);
        // These assignments apply to one command only.
        for (name, values) in before {
            self.state.restore_variable(name, values);
        }
        output
    }

    /// Handles `name+=value`. An array keeps its other elements.
    fn append_values(&mut self, name: &str, word: &Word, values: Vec<Value>) {
        let before =
            self.state.variable(name).map_or_else(|| vec![Value::unknown()], <[Value]>::to_vec);
        if matches!(word.parts.last(), Some(WordPart::Array(_))) {
            return self.state.add_values(name, values);
        }
        let cost: usize = values.iter().map(|value| value.start().len()).sum();
        if before.len() * values.len() > 1000 || !self.spend((cost + 64) * (before.len() + 1)) {
            return self.state.set_variable(name, vec![Value::unknown()]);
        }
        let mut all = Vec::new();
        for start in &before {
            for value in &values {
                let mut joined = start.clone();
                joined.push(value);
                all.push(joined);
            }
        }
        let cost = all.iter().map(|value| value.start().len()).sum();
        if self.spend(cost) {
            self.state.set_variable(name, all);
        }
    }
}

/// Returns true for an argument of `set` that may turn pattern expansion off.
fn turns_patterns_off(arg: &Arg) -> bool {
    let Some(text) = arg.known() else { return true };
    text == "noglob" || (text.starts_with('-') && !text.starts_with("--") && text.contains('f'))
}

/// Returns the name of the array in `name[0]=value`.
fn element_name(word: &Word) -> Option<&str> {
    let Some(WordPart::Text { text, quoted: false }) = word.parts.first() else { return None };
    let (name, _) = text.split_once('[')?;
    (is_name(name) && text.contains("]=")).then_some(name)
}

/// Returns true if a command does not change the meaning of later commands: it sets no variable
/// that programs or the shell read, and no shell option.
fn keeps_programs(simple: &SimpleCommand) -> bool {
    let args: Vec<Arg> = simple.words.iter().map(Word::to_arg).collect();
    let name = args.first().and_then(Arg::known);
    let are_harmless = simple.assignments.iter().all(|assignment| {
        is_harmless_in_shell(&assignment.name) || (assignment.name == "IFS" && name == Some("read"))
    });
    let is_harmless_declaration = |arg: &Arg| match arg.known() {
        Some(option) if option.starts_with('-') => !option.contains(['n', 'i']),
        Some(text) => is_harmless_in_shell(text.split(['=', '+']).next().unwrap_or(text)),
        None => false,
    };
    are_harmless
        && match name {
            Some("export" | "readonly" | "declare" | "typeset" | "local") => {
                let names = simple.words[1..].iter().map(|word| match word.parts.first() {
                    // Only the name matters. The value may be unknown.
                    Some(WordPart::Text { text, .. }) if text.contains('=') => {
                        Arg::Known(text.clone())
                    }
                    _ => word.to_arg(),
                });
                names.into_iter().all(|arg| is_harmless_declaration(&arg))
            }
            // Without pattern expansion, a `*` in later words is literal.
            Some("set") if args.iter().any(turns_patterns_off) => false,
            Some(name) => builtins::is_harmless(name, &args[1..]) != Some(false),
            None => true,
        }
}
