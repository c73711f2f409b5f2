//! The commands that change the shell itself: its directory, its variables, its arguments.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use takeback_base::paths::canonicalize_or_keep;

use super::state::bound_values;
use super::value::Value;
use super::{Finder, Stream, literals};
use crate::shell::parser::{Dialect, is_name};

/// The maximum number of scripts that the arguments of `eval` may form.
const MAX_EVALUATED: usize = 16;

impl Finder<'_> {
    /// Visits a shell builtin that affects later commands. Returns `None` for other commands.
    pub(super) fn visit_builtin(
        &mut self,
        name: &str,
        args: &[Vec<Value>],
        input: &Stream,
    ) -> Option<Stream> {
        match name {
            "cd" | "chdir" => drop(self.change_directory(args)),
            "pushd" => self.push_directory(args),
            "popd" => match args.is_empty() {
                true => self.state.pop_directory(),
                false => self.forget_directories(),
            },
            "export" | "readonly" => self.declare(args),
            // Outside a function, bash rejects `local`.
            "local" if self.locals.is_none() => {
                let before = self.state.clone();
                self.declare(args);
                self.state.join(&before);
            }
            "declare" | "typeset" | "local" => {
                self.note_locals(args);
                self.declare(args);
            }
            "unset" => {
                for name in args.iter().flatten().filter_map(Value::text) {
                    self.state.doubt_function(name);
                    if self.state.variable(name).is_some() {
                        self.state.set_variable(name, vec![Value::Text(String::new())]);
                    }
                }
            }
            "printf"
                if args
                    .first()
                    .is_some_and(|group| group[..] == [Value::Text("-v".to_owned())]) =>
            {
                let wanted = std::mem::replace(&mut self.wants_output, true);
                let output = self.find_output("printf", args.get(2..).unwrap_or_default(), input);
                self.wants_output = wanted;
                for name in args.get(1).into_iter().flatten().filter_map(Value::text) {
                    self.state.set_variable(name, output.values.clone());
                }
            }
            "read" | "mapfile" | "readarray" => self.read_variables(args, input),
            "set" => self.set_arguments(args),
            "shift" => self.shift_arguments(),
            "eval" => return Some(self.eval(args)),
            "trap" => self.set_trap(args),
            "source" | "." => self.source(args),
            "alias" => self.is_bounded = false,
            "exit" => self.visit_traps(),
            "break" | "continue" | "return" => self.escape(),
            "wait" | "umask" | "ulimit" | "shopt" | "setopt" => {}
            _ => return None,
        }
        Some(Stream::default())
    }

    fn push_directory(&mut self, args: &[Vec<Value>]) {
        let rotates = |value: &Value| value.start().starts_with(['+', '-']);
        if args.is_empty() || args.iter().flatten().any(rotates) {
            return self.forget_directories();
        }
        let before = self.state.directories.clone();
        let exists = self.change_directory(args);
        self.state.push_directory(before, exists);
    }

    /// Handles a `cd` to an unknown directory.
    fn forget_directories(&mut self) {
        self.state.previous = self.state.directories.clone();
        self.state.set_directories(None);
        self.state.forget_stack();
    }

    /// Handles `cd`. Returns true if the `cd` certainly succeeds.
    fn change_directory(&mut self, args: &[Vec<Value>]) -> bool {
        let is_flag =
            |value: &Value| matches!(value.text(), Some("--" | "-P" | "-L" | "-e" | "-q"));
        let is_physical = args.iter().flatten().any(|value| value.text() == Some("-P"));
        let operands: Vec<&Vec<Value>> =
            args.iter().filter(|group| !group.iter().all(is_flag)).collect();
        let before = self.state.directories.clone();
        let after = match operands.as_slice() {
            [] => self.find_directories(&self.home()),
            [group] if matches!(group.as_slice(), [Value::Text(text)] if text == "-") => {
                self.state.previous.clone()
            }
            _ if self.state.variable("CDPATH").is_some() => None,
            [group] if group.iter().any(|value| value.start().is_empty()) => {
                // If the argument expands to no word, `cd` goes to the home directory.
                let values = [group.as_slice(), &self.home()].concat();
                self.find_directories(&values)
            }
            [group] => self.find_directories(group),
            _ => None,
        };
        let after = match is_physical {
            true => {
                after.map(|after| after.iter().map(|path| canonicalize_or_keep(path)).collect())
            }
            false => after,
        };
        let exists = after.as_ref().is_some_and(|after: &Vec<PathBuf>| {
            after.iter().all(|directory| self.is_certain_directory(directory))
        });
        if !exists {
            // If an earlier `cd` failed, the script may have skipped this one.
            let mut failed = self.failed_cd.take().unwrap_or_default();
            failed.extend(before.iter().flatten().cloned());
            failed.dedup();
            self.failed_cd = (!failed.is_empty()).then_some(failed);
        }
        // A `cd` that fails does not change the previous directory.
        self.state.previous = match (self.state.previous.take(), before) {
            (Some(previous), Some(before)) if !exists => Some([before, previous].concat()),
            (_, before) => before,
        };
        self.state.set_directories(after);
        exists
    }

    /// Returns true if a directory exists and the script has not removed it.
    fn is_certain_directory(&mut self, directory: &Path) -> bool {
        if !self.file_system.is_directory(directory) {
            return false;
        }
        let resolved = canonicalize_or_keep(directory);
        !self
            .removed
            .iter()
            .chain(&self.sweeps)
            .any(|removed| resolved.starts_with(removed) || directory.starts_with(removed))
    }

    /// Records the script of a `trap`, which runs when the shell ends or, for some events, at any
    /// time.
    fn set_trap(&mut self, args: &[Vec<Value>]) {
        let Some((script, events)) = args.split_first() else { return };
        for script in script {
            let Value::Text(script) = script else {
                self.is_bounded = false;
                continue;
            };
            if matches!(script.as_str(), "-" | "" | "-l" | "-p") || events.is_empty() {
                continue;
            }
            self.state.add_trap(script);
            let ends = |event: &Value| {
                let name = event.text().map(|name| name.trim_start_matches("SIG"));
                matches!(name, Some("EXIT" | "0" | "HUP" | "INT" | "QUIT" | "TERM"))
            };
            if !events.iter().flatten().all(ends) {
                // The script may run in any directory.
                let at_trap = self.state.at_trap();
                let before = std::mem::replace(&mut self.state, at_trap);
                self.state.directories = None;
                self.is_bounded = false;
                self.go_deeper(6, |finder| finder.visit_script(script, Dialect::Bash, true));
                self.state = before;
            }
        }
    }

    /// Records the variables that are local to the current function.
    fn note_locals(&mut self, args: &[Vec<Value>]) {
        let Some(locals) = &mut self.locals else { return };
        for value in args.iter().filter_map(|group| group.first()) {
            let name = value.start().split('=').next().unwrap_or_default().trim_end_matches('+');
            if is_name(name) && !locals.iter().any(|(known, _)| known == name) {
                locals.push((name.to_owned(), self.state.saved_variable(name)));
            }
        }
    }

    /// Sets the variables in `export name=value` and similar commands.
    fn declare(&mut self, args: &[Vec<Value>]) {
        for group in args {
            let Some((name, _)) = group.first().and_then(|value| value.start().split_once('='))
            else {
                continue;
            };
            let start = format!("{name}=");
            let name = name.trim_end_matches('+');
            let values: Vec<Value> = group
                .iter()
                .map(|value| value.strip_start(&start).unwrap_or_else(|| value.clone()))
                .map(|value| self.expand_home(value))
                .collect();
            if is_name(name) {
                self.state.set_variable(name, values);
            }
        }
    }

    /// Expands `~` at the start of an assigned value.
    pub(super) fn expand_home(&self, value: Value) -> Value {
        let Value::Text(text) = &value else { return value };
        match (text.strip_prefix('~'), self.home().as_slice()) {
            (Some(below), [Value::Text(home)]) if below.is_empty() || below.starts_with('/') => {
                Value::Text(format!("{home}{below}"))
            }
            _ => value,
        }
    }

    fn read_variables(&mut self, args: &[Vec<Value>], input: &Stream) {
        let values = match input.values.as_slice() {
            [] => vec![Value::unknown()],
            values => values.to_vec(),
        };
        let values = self.split_lines(values);
        let mut is_value = false;
        let mut is_named = false;
        for name in args.iter().flatten().filter_map(Value::text) {
            if std::mem::take(&mut is_value) {
                continue;
            }
            if name.starts_with('-') {
                // These options take a value; `-a` takes the name of a variable.
                is_value =
                    name.ends_with(['d', 'n', 'N', 'p', 't', 'u', 'i', 'O', 's']) && name != "-s";
            } else if is_name(name) {
                self.state.set_variable(name, values.clone());
                is_named = true;
            }
        }
        if !is_named {
            self.state.set_variable("REPLY", values.clone());
            self.state.set_variable("MAPFILE", values);
        }
    }

    /// Adds the parts of lines that `read` may assign if several variables are named.
    fn split_lines(&self, mut values: Vec<Value>) -> Vec<Value> {
        let separators = self.separators();
        let is_end = |c: char| c.is_whitespace() || separators.contains(&c);
        let mut parts = Vec::new();
        for text in values.iter().filter_map(Value::text) {
            let mut rest = text.trim_start_matches(is_end);
            while let Some((word, after)) = rest.split_once(is_end) {
                parts.push(Value::Text(word.to_owned()));
                rest = after.trim_start_matches(is_end);
                parts.push(Value::Text(rest.to_owned()));
            }
        }
        values.extend(parts);
        bound_values(values)
    }

    fn set_arguments(&mut self, args: &[Vec<Value>]) {
        let ends =
            |group: &Vec<Value>| matches!(group.as_slice(), [Value::Text(text)] if text == "--");
        if let Some(at) = args.iter().position(ends) {
            self.state.arguments = Some(Rc::new(args[at + 1..].to_vec()));
        } else if args.iter().flatten().any(|value| !value.is_option()) {
            self.state.arguments = None;
        }
    }

    /// Handles `shift`. A loop may run `shift` any number of times, so each argument may take the
    /// place of any other.
    fn shift_arguments(&mut self) {
        if let Some(arguments) = &self.state.arguments {
            let all: Vec<Value> = arguments.iter().flatten().cloned().collect();
            let count = arguments.len().min(9);
            self.state.arguments = Some(Rc::new(vec![all; count]));
        }
    }

    /// Visits the scripts that the arguments of `eval` may form.
    fn eval(&mut self, args: &[Vec<Value>]) -> Stream {
        let mut scripts = vec![Value::Text(String::new())];
        for group in args {
            if scripts.len() * group.len() > MAX_EVALUATED {
                scripts = vec![Value::unknown()];
                break;
            }
            let append = |script: &Value, word: &Value| {
                let mut script = script.clone();
                script.push(word);
                script.push_text(" ");
                script
            };
            scripts = scripts
                .iter()
                .flat_map(|script| group.iter().map(|word| append(script, word)))
                .collect();
        }
        self.is_bounded &= scripts.len() == 1;
        let mut output = Stream::default();
        let before = self.state.clone();
        for script in scripts {
            let Value::Text(script) = &script else {
                self.is_bounded = false;
                literals::visit_words(self, script.start(), true);
                return Stream::unknown();
            };
            if !self.spend(script.len()) {
                return Stream::unknown();
            }
            let visit = |finder: &mut Self| finder.visit_script(script, Dialect::Bash, true);
            output.values.extend(self.go_deeper(6, visit).unwrap_or_else(Stream::unknown).values);
            if args.iter().any(|group| group.len() > 1) {
                self.state.join(&before);
            }
        }
        output
    }

    /// Visits the script of `source`, which runs in this shell.
    fn source(&mut self, args: &[Vec<Value>]) {
        self.is_bounded = false;
        let Some((files, rest)) = args.split_first() else { return };
        let arguments = self.state.arguments.clone();
        if !rest.is_empty() {
            self.state.arguments = Some(Rc::new(rest.to_vec()));
        }
        let command = format!("source {}", files.first().map(Value::start).unwrap_or_default());
        for script in self.read_scripts(files, &command) {
            self.go_deeper(6, |finder| finder.visit_script(&script, Dialect::Bash, false));
        }
        self.state.arguments = arguments;
    }
}
