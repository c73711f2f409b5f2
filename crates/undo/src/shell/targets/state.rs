//! What is known of the shell at a point of the script: its directory, its variables.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::value::Value;
use crate::shell::syntax::CompoundCommand;

/// The number of values that are kept for one word or variable.
pub(super) const MAX_VALUES: usize = 1000;

/// The number of directories that the shell may be in.
const MAX_DIRECTORIES: usize = 32;

/// The number of variables whose values are kept.
const MAX_VARIABLES: usize = 256;

/// The state of a shell. Where several values are possible, it has all of them.
#[derive(Clone)]
pub(super) struct State {
    /// The directories that the shell may be in; `None` if that is unknown.
    pub(super) directories: Option<Vec<PathBuf>>,
    /// The directories before the last `cd`.
    pub(super) previous: Option<Vec<PathBuf>>,
    /// The directories that `popd` returns to.
    pub(super) stack: Vec<Option<Vec<PathBuf>>>,
    /// The values of variables that the script assigns.
    pub(super) variables: Rc<HashMap<String, Rc<Vec<Value>>>>,
    /// The arguments of the script or function, if they are known.
    pub(super) arguments: Option<Rc<Vec<Vec<Value>>>>,
    pub(super) functions: Rc<HashMap<String, Rc<CompoundCommand>>>,
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
        }
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

    /// Adds to the values that a variable may have.
    pub(super) fn add_values(&mut self, name: &str, values: Vec<Value>) {
        let before = self.variable(name).unwrap_or_default().to_vec();
        self.set_variable(name, before.into_iter().chain(values).collect());
    }

    pub(super) fn define_function(&mut self, name: &str, body: &Rc<CompoundCommand>) {
        let functions = Rc::make_mut(&mut self.functions);
        if functions.len() < MAX_VARIABLES {
            functions.insert(name.to_owned(), Rc::clone(body));
        }
    }

    /// Adds everything that is possible in the other state.
    pub(super) fn join(&mut self, other: &State) {
        self.directories = join_directories(self.directories.take(), &other.directories);
        if !Rc::ptr_eq(&self.variables, &other.variables) {
            self.join_variables(other);
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            for (name, body) in other.functions.iter() {
                if !self.functions.contains_key(name) {
                    self.define_function(name, body);
                }
            }
        }
    }

    fn join_variables(&mut self, other: &State) {
        for (name, values) in other.variables.iter() {
            match self.variable(name) {
                Some(own) if own == values.as_slice() => {}
                // In one of the states it has a value that the script did not assign.
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

    /// True if nothing changed since the other state.
    pub(super) fn is_same(&self, other: &State) -> bool {
        self.directories == other.directories
            && (Rc::ptr_eq(&self.variables, &other.variables) || self.variables == other.variables)
    }

    /// Forgets the values of the variables that differ from the other state, and the directory if
    /// that does.
    pub(super) fn forget_differences(&mut self, other: &State) {
        if self.directories != other.directories {
            self.directories = None;
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

/// Removes duplicates, and widens too many values to what they have in common.
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
