//! Compound commands and functions, and the states that the shell may be in after them.

use std::rc::Rc;

use super::state::{Function, State};
use super::value::Value;
use super::{Finder, Stream};
use crate::shell::read_only::builtins::is_harmless_test;
use crate::shell::read_only::variables::is_harmless_in_shell;
use crate::shell::syntax::{CompoundCommand, CompoundKind, Word};

/// After this many visits to the body of a loop, values that are still changing count as unknown.
const KNOWN_ROUNDS: usize = 2;

/// The maximum number of repeated visits to the body of a loop. A change in one round may cause
/// another change in the next round.
const MAX_ROUNDS: usize = 16;

impl Finder<'_> {
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

    /// Visits the body of a loop again and again until a visit no longer changes the state. After
    /// some rounds, values that are still changing count as unknown.
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
                self.is_cut_off = true;
            }
        }
        self.escaped = outer_escape;
        if let Some(skipped) = skipped {
            self.state.join(&skipped);
        }
        output
    }

    /// Joins the current state with the state in which `break`, `continue` or `return` may have
    /// ended the preceding commands early.
    fn join_escaped(&mut self) {
        if let Some(escaped) = self.escaped.take() {
            self.state.join(&escaped);
        }
    }

    /// Records the state of the shell when `break`, `continue` or `return` leaves a loop or a
    /// function.
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

    /// Visits a call to a function, with each body that the function may have.
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
            // It is uncertain whether the declaration ran.
            let values = values.map_or_else(|| vec![Value::unknown()], |values| values.to_vec());
            self.state.add_values(&name, values);
        }
        self.state.arguments = outer;
        output
    }
}
