//! Goes through the commands of a script, in the order in which they run.

use std::rc::Rc;

use super::literals;
use super::state::{Function, State, bound_values};
use super::value::Value;
use super::{Change, Finder, Stream};
use crate::shell::analyzer::is_write;
use crate::shell::parser::{Dialect, MAX_DEPTH, is_name, parse_script};
use crate::shell::read_only::builtins::{self, is_harmless_test};
use crate::shell::read_only::variables::is_harmless_in_shell;
use crate::shell::syntax::{
    Arg, Command, CompoundCommand, CompoundKind, ListEntry, Redirect, RedirectOperator,
    SimpleCommand, Word, WordPart,
};

/// The number of times that the body of a loop is visited before what it changes counts as unknown.
const KNOWN_ROUNDS: usize = 2;

/// The number of times that the body of a loop is visited. A change may lead to another one in the
/// next round.
const MAX_ROUNDS: usize = 16;

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

    /// Visits the scripts that run when the shell ends here.
    pub(super) fn visit_traps(&mut self) {
        if self.state.traps.is_empty() {
            return;
        }
        let at_trap = self.state.at_trap();
        let before = std::mem::replace(&mut self.state, at_trap);
        for script in before.traps.iter() {
            self.visit_script(script, Dialect::Bash, true);
        }
        self.state = before;
    }

    /// Runs `inner` in another process of the shell, which leaves this one unchanged. Returns its
    /// last state as well.
    pub(super) fn in_own_shell<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> (T, State) {
        let before = self.state.clone();
        let failed_cd = self.failed_cd.take();
        let escaped = self.escaped.take();
        self.state.clear_traps();
        let result = inner(self);
        self.visit_traps();
        self.failed_cd = failed_cd;
        self.escaped = escaped;
        (result, std::mem::replace(&mut self.state, before))
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
        let wanted = std::mem::replace(&mut self.wants_output, true);
        let visit = |finder: &mut Self| finder.visit_list(list, input);
        let (output, _) = self.in_own_shell(|finder| finder.go_deeper(1, visit));
        self.wants_output = wanted;
        output.unwrap_or_else(Stream::unknown)
    }

    /// Visits the commands of a list and returns what they print.
    pub(super) fn visit_list(&mut self, list: &[ListEntry], input: &Stream) -> Stream {
        let mut output = Stream::default();
        let outer_failure = self.failed_cd.take();
        let mut rest = list;
        while !rest.is_empty() && !self.is_exhausted() {
            let is_next = |entry: &ListEntry| !entry.is_conditional;
            let first =
                rest.iter().position(|entry| !entry.is_piped).map_or(rest.len(), |at| at + 1);
            let length = rest[first..].iter().position(is_next).map_or(rest.len(), |at| first + at);
            let (chain, after) = rest.split_at(length);
            rest = after;
            if chain.iter().any(|entry| entry.in_background) {
                // It may go on after the script has ended.
                self.is_bounded = false;
                self.in_own_shell(|finder| finder.visit_chain(chain, input, &mut output));
            } else {
                self.visit_chain(chain, input, &mut output);
            }
        }
        self.failed_cd = outer_failure;
        output
    }

    /// Visits pipelines that are joined by `&&` and `||`. Only the first one runs for certain.
    fn visit_chain(&mut self, chain: &[ListEntry], input: &Stream, output: &mut Stream) {
        // Everything that is possible after the pipelines so far.
        let mut possible: Option<State> = None;
        let mut rest = chain;
        while let Some(first) = rest.first() {
            let length = rest.iter().position(|entry| !entry.is_piped);
            let (pipeline, after) = rest.split_at(length.map_or(rest.len(), |at| at + 1));
            rest = after;
            let printed = match &possible {
                Some(possible) if first.is_alternative => {
                    self.visit_alternative(pipeline, input, possible)
                }
                _ => self.visit_pipeline(pipeline, input),
            };
            if first.is_negated
                && let Some(failed) = self.failed_cd.take()
            {
                self.state.join_directories(failed);
            }
            output.values.extend(printed.values);
            output.text = output.text.take().or(printed.text);
            match &mut possible {
                Some(possible) if !possible.is_same(&self.state) => possible.join(&self.state),
                Some(_) => {}
                None => possible = Some(self.state.clone()),
            }
        }
        if let Some(possible) = possible {
            self.state = possible;
        }
        if let Some(failed) = self.failed_cd.take() {
            self.state.join_directories(failed);
        }
    }

    /// Visits the pipeline after `||`, which runs if one before it failed.
    fn visit_alternative(
        &mut self,
        pipeline: &[ListEntry],
        input: &Stream,
        possible: &State,
    ) -> Stream {
        let before = self.state.clone();
        match self.failed_cd.take() {
            // The only command so far is `cd`.
            Some(failed) if possible.is_same(&self.state) => {
                self.state.directories = Some(failed);
            }
            failed => {
                self.state.join(possible);
                self.state.join_directories(failed.unwrap_or_default());
            }
        }
        let printed = self.visit_pipeline(pipeline, input);
        match pipeline {
            [only] if is_exit(&only.command) => self.state = before,
            _ => self.state.join(&before),
        }
        printed
    }

    fn visit_pipeline(&mut self, pipeline: &[ListEntry], input: &Stream) -> Stream {
        if let [only] = pipeline {
            return self.visit_command(&only.command, input);
        }
        let mut printed: Option<Stream> = None;
        for entry in pipeline {
            let wanted = self.wants_output;
            self.wants_output |= entry.is_piped;
            let read = printed.take();
            let (output, after) = self.in_own_shell(|finder| {
                finder.visit_command(&entry.command, read.as_ref().unwrap_or(input))
            });
            self.wants_output = wanted;
            printed = Some(output);
            // In zsh, the last command of a pipeline runs in the shell itself.
            if !entry.is_piped && !self.state.is_same(&after) {
                self.state.join(&after);
            }
        }
        printed.unwrap_or_default()
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
                self.is_bounded &= self.state.define_function(name, body);
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
                self.is_bounded &= is_harmless_test(&compound.words);
                self.expand_words(&compound.words);
                Stream::default()
            }
            CompoundKind::Subshell => {
                self.in_own_shell(|finder| finder.visit_lists(compound, input)).0
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
        let may_be_empty = |value: &Value| value.start().is_empty() || value.start().contains('*');
        let skipped = (compound.variable.is_some()
            && (values.is_empty() || values.iter().any(may_be_empty)))
        .then(|| self.state.clone());
        let outer_escape = self.escaped.take();
        let mut output = Stream::default();
        for round in 0..=MAX_ROUNDS {
            if let Some(variable) = &compound.variable {
                self.is_bounded &= is_harmless_in_shell(variable);
                self.state.set_variable(variable, values.clone());
            }
            let before = self.state.clone();
            output = self.visit_lists(compound, input);
            self.join_escaped();
            if self.state.is_same(&before) {
                break;
            }
            let is_known = self.state.is_within(&before);
            self.state.join(&before);
            if is_known {
                break;
            }
            if round + 1 >= KNOWN_ROUNDS {
                self.state.forget_differences(&before);
            }
            if round == MAX_ROUNDS {
                self.note_unknown("a loop that changes too much");
            }
        }
        self.escaped = outer_escape;
        if let Some(skipped) = skipped {
            self.state.join(&skipped);
        }
        output
    }

    /// Adds the states in which `break`, `continue` or `return` left the commands before.
    fn join_escaped(&mut self) {
        if let Some(escaped) = self.escaped.take() {
            self.state.join(&escaped);
        }
    }

    /// Notes the state in which `break`, `continue` or `return` leaves a loop or a function.
    pub(super) fn escape(&mut self) {
        match &mut self.escaped {
            Some(escaped) => escaped.join(&self.state),
            None => self.escaped = Some(self.state.clone()),
        }
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

    fn visit_simple(&mut self, simple: &SimpleCommand, input: &Stream) -> Stream {
        let mut groups = Vec::new();
        let name = simple.words.first().and_then(Word::bare);
        let declares =
            matches!(name, Some("export" | "readonly" | "declare" | "typeset" | "local"));
        for word in &simple.words {
            let mut values = self.expand_word(word);
            if name == Some("cd") && values.len() > self.expand_assigned(word).len() {
                // With several words, it fails.
                values.push(Value::Text(".".to_owned()));
            }
            if declares && !groups.is_empty() {
                // Shells disagree on whether these words are split.
                values.extend(self.expand_assigned(word));
                values = bound_values(values);
            }
            groups.push(values);
        }
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

    /// Calls a function of the script, with each of the bodies that it may have.
    pub(super) fn call_function(
        &mut self,
        function: &Function,
        arguments: &[Vec<Value>],
        input: &Stream,
    ) -> Stream {
        let outer = self.state.arguments.replace(Rc::new(arguments.to_vec()));
        let outer_escape = self.escaped.take();
        let outer_locals = self.locals.replace(Vec::new());
        let before = self.state.clone();
        let mut after: Option<State> = None;
        let mut output = Stream::default();
        for body in &function.bodies {
            self.state = before.clone();
            let printed = self.go_deeper(4, |finder| finder.visit_compound(body, input));
            output.values.extend(printed.unwrap_or_else(Stream::unknown).values);
            self.join_escaped();
            match &mut after {
                Some(after) => after.join(&self.state),
                None => after = Some(self.state.clone()),
            }
        }
        self.state = after.unwrap_or(before);
        self.escaped = outer_escape;
        for (name, values) in std::mem::replace(&mut self.locals, outer_locals).unwrap_or_default()
        {
            // The declaration may not have run.
            let values = values.map_or_else(|| vec![Value::unknown()], |values| values.to_vec());
            self.state.add_values(&name, values);
        }
        self.state.arguments = outer;
        output
    }
}

/// True for an argument of `set` after which patterns are not expanded.
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

/// True if a command leaves the meaning of later ones as it is: it sets no variable that programs
/// or the shell read, and no option of the shell.
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
                    // The value may be unknown.
                    Some(WordPart::Text { text, .. }) if text.contains('=') => {
                        Arg::Known(text.clone())
                    }
                    _ => word.to_arg(),
                });
                names.into_iter().all(|arg| is_harmless_declaration(&arg))
            }
            // Without patterns, words stand for themselves.
            Some("set") if args.iter().any(turns_patterns_off) => false,
            Some(name) => builtins::is_harmless(name, &args[1..]) != Some(false),
            None => true,
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
