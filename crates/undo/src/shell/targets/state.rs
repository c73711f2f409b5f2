//! The known state of the shell at one point in the script: its directory and its variables.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::value::Value;
use crate::shell::syntax::CompoundCommand;

/// The maximum number of values that are kept for one word or variable.
pub(super) const MAX_VALUES: usize = 1000;

/// The maximum number of directories that the shell may be in. If there are more, the directory
/// counts as unknown.
const MAX_DIRECTORIES: usize = 32;

/// The maximum number of variables, and of functions, that are tracked.
const MAX_VARIABLES: usize = 256;

/// The state of a shell. Where several values are possible, the state contains all of them.
#[derive(Clone)]
pub(super) struct State {
    /// The directories that the shell may be in, or `None` if they are unknown.
    pub(super) directories: Option<Vec<PathBuf>>,
    /// The directories that the shell may have been in before the last `cd`.
    pub(super) previous: Option<Vec<PathBuf>>,
    /// The directories that `popd` returns to.
    stack: Vec<StackEntry>,
    /// The variables that the script assigns, with the values that they may have.
    variables: Rc<HashMap<String, Rc<Vec<Value>>>>,
    /// The arguments of the script or function, if they are known.
    pub(super) arguments: Option<Rc<Vec<Vec<Value>>>>,
    pub(super) functions: Rc<HashMap<String, Function>>,
    /// The scripts that run when this shell ends.
    pub(super) traps: Rc<Vec<String>>,
    /// The directories that the shell has been in since the first `trap`. The shell may end in any
    /// of them.
    trap_directories: Vec<PathBuf>,
}

/// The name of a variable, and the values to restore.
pub(super) type SavedVariable = (String, Option<Rc<Vec<Value>>>);

/// An entry on the stack of `pushd`.
#[derive(Clone, PartialEq, Eq)]
struct StackEntry {
    directories: Option<Vec<PathBuf>>,
    /// False if the `pushd` may have failed.
    is_certain: bool,
}

/// A function of the script.
#[derive(Clone)]
pub(super) struct Function {
    /// All bodies that the function may have.
    pub(super) bodies: Vec<Rc<CompoundCommand>>,
    /// False if the function may be undefined. Its name may then refer to a program.
    pub(super) is_certain: bool,
}

impl Function {
    fn is_same(&self, other: &Function) -> bool {
        self.is_certain == other.is_certain
            && self.bodies.len() == other.bodies.len()
            && self.bodies.iter().zip(&other.bodies).all(|(own, other)| Rc::ptr_eq(own, other))
    }
}

impl State {
    pub(super) fn new(directory: PathBuf) -> State {
        State {
            directories: Some(vec![directory]),
            previous: None,
            stack: Vec::new(),
            variables: Rc::default(),
            arguments: None,
            functions: Rc::default(),
            traps: Rc::default(),
            trap_directories: Vec::new(),
        }
    }

    /// Adds a script that runs when this shell ends.
    pub(super) fn add_trap(&mut self, script: &str) {
        if !self.traps.iter().any(|known| known == script) {
            Rc::make_mut(&mut self.traps).push(script.to_owned());
        }
    }

    /// Forgets the scripts that `trap` set, because a subshell does not inherit them.
    pub(super) fn clear_traps(&mut self) {
        self.traps = Rc::default();
        self.trap_directories.clear();
    }

    /// Returns the state in which the scripts of `trap` run. The shell may end in any directory
    /// that it has been in since the first `trap`.
    pub(super) fn at_trap(&self) -> State {
        let mut state = self.clone();
        state.clear_traps();
        if !self.trap_directories.is_empty() {
            state.join_directories(self.trap_directories.clone());
        }
        state
    }

    /// Sets the directories that the shell may be in.
    pub(super) fn set_directories(&mut self, directories: Option<Vec<PathBuf>>) {
        let before = std::mem::replace(&mut self.directories, directories);
        if !self.traps.is_empty() {
            for directory in before.into_iter().flatten() {
                if !self.trap_directories.contains(&directory) {
                    self.trap_directories.push(directory);
                }
            }
        }
    }

    /// Pushes the directory that `popd` returns to. After a `pushd` that may have failed, each
    /// entry on the stack may be any of the directories.
    pub(super) fn push_directory(&mut self, directories: Option<Vec<PathBuf>>, is_certain: bool) {
        self.stack.push(StackEntry { directories, is_certain });
        if !is_certain {
            let all = self.stack.iter().map(|entry| entry.directories.clone());
            let all = all.reduce(|all, more| join_directories(all, &more)).flatten();
            let entry = StackEntry { directories: all, is_certain };
            self.stack.iter_mut().for_each(|own| *own = entry.clone());
        }
    }

    /// Returns to the last directory on the stack, or to an unknown one if the stack is empty.
    pub(super) fn pop_directory(&mut self) {
        let after = match self.stack.pop() {
            Some(StackEntry { directories, is_certain: true }) => directories,
            Some(entry) => join_directories(entry.directories, &self.directories),
            None => None,
        };
        self.set_directories(after);
    }

    /// Records that `popd` may return to any directory.
    pub(super) fn forget_stack(&mut self) {
        self.stack = vec![StackEntry { directories: None, is_certain: false }];
    }

    pub(super) fn variable(&self, name: &str) -> Option<&[Value]> {
        self.variables.get(name).map(|values| values.as_slice())
    }

    pub(super) fn set_variable(&mut self, name: &str, values: Vec<Value>) {
        let variables = Rc::make_mut(&mut self.variables);
        if variables.len() < MAX_VARIABLES || variables.contains_key(name) {
            variables.insert(name.to_owned(), Rc::new(bound_values(values)));
        }
    }

    /// Returns the values of a variable, to restore them later.
    pub(super) fn saved_variable(&self, name: &str) -> Option<Rc<Vec<Value>>> {
        self.variables.get(name).cloned()
    }

    pub(super) fn restore_variable(&mut self, name: &str, values: Option<Rc<Vec<Value>>>) {
        let variables = Rc::make_mut(&mut self.variables);
        match values {
            Some(values) => variables.insert(name.to_owned(), values),
            None => variables.remove(name),
        };
    }

    /// Adds values that a variable may have.
    pub(super) fn add_values(&mut self, name: &str, values: Vec<Value>) {
        let before = self.variable(name).unwrap_or_default().to_vec();
        self.set_variable(name, before.into_iter().chain(values).collect());
    }

    /// Notes that each variable may also be empty, because a new shell has only the exported
    /// variables.
    pub(super) fn doubt_variables(&mut self) {
        for values in Rc::make_mut(&mut self.variables).values_mut() {
            let empty = Value::Text(String::new());
            if !values.contains(&empty) {
                Rc::make_mut(values).push(empty);
            }
        }
    }

    /// Defines a function. Returns false if there are already too many functions.
    pub(super) fn define_function(&mut self, name: &str, body: &Rc<CompoundCommand>) -> bool {
        let functions = Rc::make_mut(&mut self.functions);
        let has_room = functions.len() < MAX_VARIABLES || functions.contains_key(name);
        if has_room {
            let function = Function { bodies: vec![Rc::clone(body)], is_certain: true };
            functions.insert(name.to_owned(), function);
        }
        has_room
    }

    /// Records that a function may no longer be defined.
    pub(super) fn doubt_function(&mut self, name: &str) {
        if let Some(function) = Rc::make_mut(&mut self.functions).get_mut(name) {
            function.is_certain = false;
        }
    }

    /// Adds directories that the shell may be in.
    pub(super) fn join_directories(&mut self, directories: Vec<PathBuf>) {
        self.directories = join_directories(self.directories.take(), &Some(directories));
    }

    /// Adds all values that are possible in another state.
    pub(super) fn join(&mut self, other: &State) {
        self.directories = join_directories(self.directories.take(), &other.directories);
        self.previous = join_directories(self.previous.take(), &other.previous);
        if self.stack != other.stack {
            self.forget_stack();
        }
        if !Rc::ptr_eq(&self.variables, &other.variables) {
            self.join_variables(other);
        }
        if self.arguments != other.arguments {
            self.join_arguments(other);
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            self.join_functions(other);
        }
        other.traps.iter().for_each(|script| self.add_trap(script));
        for directory in &other.trap_directories {
            if !self.trap_directories.contains(directory) {
                self.trap_directories.push(directory.clone());
            }
        }
    }

    /// Gives each argument all the values that any of the arguments has in either state.
    fn join_arguments(&mut self, other: &State) {
        let (Some(own), Some(other)) = (&self.arguments, &other.arguments) else {
            self.arguments = None;
            return;
        };
        let empty = Value::Text(String::new());
        let all: Vec<Value> =
            own.iter().chain(other.iter()).flatten().cloned().chain([empty]).collect();
        let count = own.len().max(other.len());
        self.arguments = Some(Rc::new(vec![bound_values(all); count]));
    }

    fn join_functions(&mut self, other: &State) {
        let functions = Rc::make_mut(&mut self.functions);
        for (name, function) in functions.iter_mut() {
            function.is_certain &= other.functions.contains_key(name);
        }
        for (name, function) in other.functions.iter() {
            let Some(own) = functions.get_mut(name) else {
                functions.insert(name.clone(), Function { is_certain: false, ..function.clone() });
                continue;
            };
            own.is_certain &= function.is_certain;
            for body in &function.bodies {
                if !own.bodies.iter().any(|known| Rc::ptr_eq(known, body)) {
                    own.bodies.push(Rc::clone(body));
                }
            }
        }
    }

    fn join_variables(&mut self, other: &State) {
        for (name, values) in other.variables.iter() {
            match self.variable(name) {
                Some(own) if own == values.as_slice() => {}
                // In one of the states, the variable has a value that the script did not assign.
                None => {
                    let values = [values.as_slice(), &[Value::unknown()]].concat();
                    self.set_variable(name, values);
                }
                Some(_) => self.add_values(name, values.to_vec()),
            }
        }
        let missing: Vec<String> = self
            .variables
            .keys()
            .filter(|name| !other.variables.contains_key(*name))
            .cloned()
            .collect();
        for name in missing {
            self.add_values(&name, vec![Value::unknown()]);
        }
    }

    /// Returns true if two states are the same.
    pub(super) fn is_same(&self, other: &State) -> bool {
        self.directories == other.directories
            && self.previous == other.previous
            && self.stack == other.stack
            && (Rc::ptr_eq(&self.variables, &other.variables) || self.variables == other.variables)
            && self.arguments == other.arguments
            && self.has_same_functions(other)
            && self.traps == other.traps
            && self.trap_directories == other.trap_directories
    }

    /// Returns true if all values that are possible in this state are also possible in another
    /// state.
    pub(super) fn is_within(&self, other: &State) -> bool {
        let has_variable = |(name, values): (&String, &Rc<Vec<Value>>)| {
            let known = other.variable(name).unwrap_or_default();
            known.iter().any(Value::is_unknown) || values.iter().all(|value| known.contains(value))
        };
        are_within(self.directories.as_deref(), other.directories.as_deref())
            && are_within(self.previous.as_deref(), other.previous.as_deref())
            && self.stack == other.stack
            && self.variables.iter().all(has_variable)
            && (other.arguments.is_none() || self.arguments == other.arguments)
            && self.has_same_functions(other)
            && self.traps == other.traps
    }

    fn has_same_functions(&self, other: &State) -> bool {
        let has_same = |(name, function): (&String, &Function)| {
            other.functions.get(name).is_some_and(|other| function.is_same(other))
        };
        Rc::ptr_eq(&self.functions, &other.functions)
            || (self.functions.len() == other.functions.len()
                && self.functions.iter().all(has_same))
    }

    /// Forgets the directories, arguments and variables that differ from those of another state.
    pub(super) fn forget_differences(&mut self, other: &State) {
        if self.directories != other.directories {
            self.directories = None;
        }
        if self.previous != other.previous {
            self.previous = None;
        }
        if self.arguments != other.arguments {
            self.arguments = None;
        }
        let differs = |(name, values): &(&String, &Rc<Vec<Value>>)| {
            other.variable(name) != Some(values.as_slice())
        };
        let changed: Vec<String> =
            self.variables.iter().filter(differs).map(|(name, _)| name.clone()).collect();
        for name in changed {
            self.set_variable(&name, vec![Value::unknown()]);
        }
    }
}

/// Returns true if all of `own` are among `others`. `None` means that any directory is possible.
fn are_within(own: Option<&[PathBuf]>, others: Option<&[PathBuf]>) -> bool {
    match (own, others) {
        (_, None) => true,
        (Some(own), Some(others)) => own.iter().all(|directory| others.contains(directory)),
        (None, Some(_)) => false,
    }
}

fn join_directories(
    one: Option<Vec<PathBuf>>,
    other: &Option<Vec<PathBuf>>,
) -> Option<Vec<PathBuf>> {
    let (mut one, other) = (one?, other.as_ref()?);
    for directory in other {
        if !one.contains(directory) {
            one.push(directory.clone());
        }
    }
    (one.len() <= MAX_DIRECTORIES).then_some(one)
}

/// Removes duplicates. If too many values remain, replaces them with their common prefix.
pub(super) fn bound_values(values: Vec<Value>) -> Vec<Value> {
    if values.len() < 2 {
        return values;
    }
    let mut seen = std::collections::HashSet::new();
    let mut values = values;
    values.retain(|value| seen.insert(value.clone()));
    if values.len() <= MAX_VALUES {
        return values;
    }
    let mut common = values[0].start().to_owned();
    for value in &values {
        let length = common
            .char_indices()
            .zip(value.start().chars())
            .find(|((_, a), b)| a != b)
            .map_or(common.len().min(value.start().len()), |((at, _), _)| at);
        common.truncate(length);
    }
    vec![Value::Prefix(common)]
}
