//! Visits the commands of a script, in the order in which they run.

use super::literals;
use super::state::State;
use super::{Finder, Stream};
use crate::shell::parser::{Dialect, MAX_DEPTH, parse_script};
use crate::shell::syntax::{Command, CompoundKind, ListEntry, Word};

impl Finder<'_> {
    /// Visits a script and returns its output. If the script cannot be parsed, adds the paths among
    /// its words.
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

    /// Visits the scripts of `trap` that run if the shell ends at this point.
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

    /// Calls `inner` as if in a subshell, which leaves the state of this shell unchanged. Also
    /// returns the last state of the subshell.
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

    /// Calls `inner` at a depth increased by `levels`. Returns `None` if that is too deep.
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

    /// Visits commands in a subshell, and returns their output.
    pub(super) fn visit_in_subshell(&mut self, list: &[ListEntry], input: &Stream) -> Stream {
        let wanted = std::mem::replace(&mut self.wants_output, true);
        let visit = |finder: &mut Self| finder.visit_list(list, input);
        let (output, _) = self.in_own_shell(|finder| finder.go_deeper(1, visit));
        self.wants_output = wanted;
        output.unwrap_or_else(Stream::unknown)
    }

    /// Visits the commands of a list and returns their output.
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
                // A background command may outlive the script.
                self.is_bounded = false;
                self.in_own_shell(|finder| finder.visit_chain(chain, input, &mut output));
            } else {
                self.visit_chain(chain, input, &mut output);
            }
        }
        self.failed_cd = outer_failure;
        output
    }

    /// Visits pipelines that are joined by `&&` and `||`. Only the first pipeline is certain to
    /// run.
    fn visit_chain(&mut self, chain: &[ListEntry], input: &Stream, output: &mut Stream) {
        // The states that are possible after the pipelines so far, joined into one.
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
            output.append(printed);
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

    /// Visits the pipeline after `||`, which runs if a pipeline before it failed.
    fn visit_alternative(
        &mut self,
        pipeline: &[ListEntry],
        input: &Stream,
        possible: &State,
    ) -> Stream {
        let before = self.state.clone();
        match self.failed_cd.take() {
            // So far, only a `cd` has run, and the pipeline runs only if that `cd` failed. So the
            // pipeline runs in the directory from before the `cd`.
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
}

/// Returns true for a command that ends the script, the function or the loop.
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
