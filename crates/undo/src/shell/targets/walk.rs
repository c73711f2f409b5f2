//! Goes through the commands of a script, in the order in which they run.

use std::rc::Rc;

use super::literals;
use super::state::State;
use super::value::Value;
use super::{Change, Finder, Stream};
use crate::shell::analyzer::is_write;
use crate::shell::parser::{Dialect, MAX_DEPTH, parse_script};
use crate::shell::syntax::{
    Command, CompoundCommand, CompoundKind, ListEntry, Redirect, RedirectOperator, SimpleCommand,
    Word, WordPart,
};

/// The number of times that the body of a loop is visited before what it changes counts as unknown.
const MAX_ROUNDS: usize = 2;

impl Finder<'_> {
    /// Visits a script and returns what it prints. If it cannot be parsed, the paths among its words
    /// are taken.
    pub(super) fn visit_script(&mut self, script: &str, dialect: Dialect, reports: bool) -> Stream {
        match parse_script(script, dialect, self.depth) {
            Ok(list) => self.visit_list(&list, &Stream::unknown()),
            Err(_) => {
                self.is_bounded = false;
                literals::visit_words(self, script, reports);
                Stream::unknown()
            }
        }
    }

    /// Visits the scripts of `trap`.
    pub(super) fn visit_traps(&mut self) {
        for script in std::mem::take(&mut self.traps) {
            self.visit_script(&script, Dialect::Bash, true);
        }
    }

    /// Runs `inner` some levels deeper; returns `None` if that is too deep.
    pub(super) fn go_deeper<T>(
        &mut self,
        levels: usize,
        inner: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        if self.depth + levels > MAX_DEPTH {
            self.is_bounded = false;
            return None;
        }
        self.depth += levels;
        let result = inner(self);
        self.depth -= levels;
        Some(result)
    }

    /// Visits commands that leave the shell itself unchanged.
    pub(super) fn visit_in_subshell(&mut self, list: &[ListEntry], input: &Stream) -> Stream {
        let state = self.state.clone();
        let wanted = std::mem::replace(&mut self.wants_output, true);
        let output = self.go_deeper(1, |finder| finder.visit_list(list, input));
        self.wants_output = wanted;
        self.state = state;
        output.unwrap_or_else(Stream::unknown)
    }

    /// Visits the commands of a list and returns what they print.
    pub(super) fn visit_list(&mut self, list: &[ListEntry], input: &Stream) -> Stream {
        let mut output = Stream::default();
        let mut piped: Option<Stream> = None;
        // The state after the first command of a chain: the others may not run.
        let mut chain: Option<State> = None;
        let outer_failure = self.failed_cd.take();
        let mut exits = false;
        for entry in list {
            if self.is_exhausted() {
                break;
            }
            if !entry.is_conditional && piped.is_none() {
                self.end_chain(chain.take(), exits);
                exits = false;
            }
            exits |= entry.is_conditional && is_exit(&entry.command);
            let read = piped.take();
            let printed = self.visit_entry(entry, read.as_ref().unwrap_or(input), read.is_some());
            if entry.is_piped {
                piped = Some(printed);
            } else {
                output.values.extend(printed.values);
                output.text = output.text.or(printed.text);
            }
            chain.get_or_insert_with(|| self.state.clone());
        }
        self.end_chain(chain, exits);
        self.failed_cd = outer_failure;
        output
    }

    fn visit_entry(&mut self, entry: &ListEntry, input: &Stream, is_reader: bool) -> Stream {
        let before = self.state.clone();
        if entry.is_alternative
            && let Some(failed) = &self.failed_cd
        {
            // It runs because the command before failed.
            self.state.directories = Some(failed.clone());
        }
        let wanted = self.wants_output;
        self.wants_output |= entry.is_piped;
        let printed = self.visit_command(&entry.command, input);
        self.wants_output = wanted;
        if entry.in_subshell {
            // In zsh, the last command of a pipeline runs in the shell itself.
            let after = std::mem::replace(&mut self.state, before);
            if is_reader && !entry.is_piped && !self.state.is_same(&after) {
                self.state.join(&after);
            }
        } else if entry.is_alternative && self.failed_cd.is_some() {
            self.state.directories = before.directories;
        }
        printed
    }

    /// Ends a chain of `&&` and `||`, of which perhaps only the first command ran.
    fn end_chain(&mut self, first: Option<State>, exits: bool) {
        if let Some(first) = first
            && !first.is_same(&self.state)
        {
            self.state.join(&first);
        }
        if let Some(failed) = self.failed_cd.take()
            && !exits
        {
            self.state.join_directories(failed);
        }
    }

    fn visit_command(&mut self, command: &Command, input: &Stream) -> Stream {
        self.commands += 1;
        match command {
            Command::Simple(simple) => self.visit_simple(simple, input),
            Command::Compound(compound) => {
                let output = self.go_deeper(1, |finder| finder.visit_compound(compound, input));
                output.unwrap_or_else(Stream::unknown)
            }
            Command::Function { name, body } => {
                self.state.define_function(name, body);
                Stream::default()
            }
        }
    }

    pub(super) fn visit_compound(&mut self, compound: &CompoundCommand, input: &Stream) -> Stream {
        let redirected = self.visit_redirects(&compound.redirects);
        let input = redirected.as_ref().unwrap_or(input);
        match compound.kind {
            CompoundKind::Group => {
                self.expand_words(&compound.words);
                self.visit_lists(compound, input)
            }
            CompoundKind::Test => {
                self.expand_words(&compound.words);
                Stream::default()
            }
            CompoundKind::Subshell => {
                let state = self.state.clone();
                let output = self.visit_lists(compound, input);
                self.state = state;
                output
            }
            CompoundKind::Branches => {
                self.expand_words(&compound.words);
                self.visit_branches(compound, input)
            }
            CompoundKind::Loop => self.visit_loop(compound, input),
        }
    }

    fn expand_words(&mut self, words: &[Word]) -> Vec<Value> {
        words.iter().flat_map(|word| self.expand_word(word)).collect()
    }

    fn visit_lists(&mut self, compound: &CompoundCommand, input: &Stream) -> Stream {
        let mut output = Stream::default();
        for list in &compound.lists {
            output.values.extend(self.visit_list(list, input).values);
        }
        output
    }

    fn visit_branches(&mut self, compound: &CompoundCommand, input: &Stream) -> Stream {
        let mut output = Stream::default();
        for list in &compound.lists {
            let before = self.state.clone();
            output.values.extend(self.visit_list(list, input).values);
            if !self.state.is_same(&before) {
                self.state.join(&before);
            }
        }
        output
    }

    /// Visits a loop: again with what its body changed, and then with that unknown.
    fn visit_loop(&mut self, compound: &CompoundCommand, input: &Stream) -> Stream {
        let values = match (&compound.variable, compound.words.is_empty()) {
            (Some(_), true) => self.argument_values(),
            _ => self.expand_words(&compound.words),
        };
        let mut output = Stream::default();
        for round in 0..=MAX_ROUNDS {
            if let Some(variable) = &compound.variable {
                self.state.set_variable(variable, values.clone());
            }
            let before = self.state.clone();
            output = self.visit_lists(compound, input);
            if self.state.is_same(&before) {
                break;
            }
            self.state.join(&before);
            if round + 1 == MAX_ROUNDS {
                self.state.forget_differences(&before);
            }
        }
        output
    }

    fn argument_values(&self) -> Vec<Value> {
        match &self.state.arguments {
            Some(arguments) => arguments.iter().flatten().cloned().collect(),
            None => vec![Value::unknown()],
        }
    }

    /// Adds the files that redirections write, and returns what they give to read.
    fn visit_redirects(&mut self, redirects: &[Redirect]) -> Option<Stream> {
        let mut input = None;
        for redirect in redirects {
            match redirect.operator {
                RedirectOperator::Read => input = Some(self.read_target(&redirect.target)),
                RedirectOperator::HereDocument => {
                    input = Some(match redirect.body.get() {
                        Some(body) => self.read_words(body),
                        None => Stream::unknown(),
                    });
                }
                RedirectOperator::HereString => input = Some(self.read_words(&redirect.target)),
                RedirectOperator::DuplicateInput => {}
                RedirectOperator::Write | RedirectOperator::Duplicate => {
                    let values = self.expand_word(&redirect.target);
                    if is_write(redirect.operator, &redirect.target.to_arg()) {
                        self.add_values(&values, Change::Overwrites, &redirect.text);
                    }
                }
            }
        }
        input
    }

    /// Returns the text that `< file` or `< <(command)` gives to read.
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

    fn visit_simple(&mut self, simple: &SimpleCommand, input: &Stream) -> Stream {
        let mut assigned = Vec::new();
        for assignment in &simple.assignments {
            let values = self.expand_assigned(&assignment.value);
            assigned.push((assignment, values));
        }
        let mut groups = Vec::new();
        let name = simple.words.first().and_then(Word::bare);
        let declares =
            matches!(name, Some("export" | "readonly" | "declare" | "typeset" | "local"));
        for word in &simple.words {
            let mut values = self.expand_word(word);
            if declares {
                // Shells disagree on whether these words are split.
                values.extend(self.expand_assigned(word));
            }
            groups.push(values);
        }
        let redirected = self.visit_redirects(&simple.redirects);
        let mut before = Vec::new();
        for (assignment, values) in assigned {
            before.push((&assignment.name, self.state.saved_variable(&assignment.name)));
            if assignment.appends {
                self.append_values(&assignment.name, &assignment.value, values);
            } else {
                self.state.set_variable(&assignment.name, values);
            }
        }
        // `$(< file)` prints the file.
        if groups.is_empty() {
            return redirected.unwrap_or_default();
        }
        let input = redirected.as_ref().unwrap_or(input);
        let output = self.visit_call(&groups, &simple.text, input);
        // These assignments were for one command.
        for (name, values) in before {
            self.state.restore_variable(name, values);
        }
        output
    }

    /// Handles `name+=value`, for which an array keeps its other elements.
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

    /// Calls a function of the script.
    pub(super) fn call_function(
        &mut self,
        body: &Rc<CompoundCommand>,
        arguments: &[Vec<Value>],
        input: &Stream,
    ) -> Stream {
        let outer = self.state.arguments.replace(Rc::new(arguments.to_vec()));
        let output = self.go_deeper(4, |finder| finder.visit_compound(body, input));
        self.state.arguments = outer;
        output.unwrap_or_else(Stream::unknown)
    }
}

/// True for a command that ends the script or the function.
fn is_exit(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        let Command::Compound(compound) = command else { return false };
        let last = compound.lists.last().and_then(|list| list.last());
        return compound.kind == CompoundKind::Group
            && last.is_some_and(|entry| {
                matches!(&entry.command, Command::Simple(_)) && is_exit(&entry.command)
            });
    };
    let name = simple.words.first().and_then(Word::bare);
    matches!(name, Some("exit" | "return" | "continue" | "break" | "die"))
}
