//! The commands that change the shell itself: its directory, its variables, its arguments.

use std::rc::Rc;

use super::value::Value;
use super::{Finder, Stream};
use crate::shell::parser::{Dialect, is_name};

impl Finder<'_> {
    /// Visits a command that the shell itself runs; returns `None` if it is no such command.
    pub(super) fn visit_builtin(
        &mut self,
        name: &str,
        args: &[Vec<Value>],
        input: &Stream,
    ) -> Option<Stream> {
        match name {
            "cd" | "chdir" => self.change_directory(args),
            "pushd" => {
                self.state.stack.push(self.state.directories.clone());
                self.change_directory(args);
            }
            "popd" => {
                self.state.directories = self.state.stack.pop().flatten();
            }
            "export" | "readonly" | "declare" | "typeset" | "local" => self.declare(args),
            "unset" => {
                for name in args.iter().flatten().filter_map(Value::text) {
                    if self.state.variable(name).is_some() {
                        self.state.set_variable(name, vec![Value::Text(String::new())]);
                    }
                }
            }
            "read" | "mapfile" | "readarray" => self.read_variables(args, input),
            "set" => self.set_arguments(args),
            "shift" => self.shift_arguments(),
            "eval" => return Some(self.eval(args)),
            "trap" => {
                if let Some(Value::Text(script)) = args.first().and_then(|group| group.first())
                    && !matches!(script.as_str(), "-" | "" | "-l" | "-p")
                {
                    self.traps.push(script.clone());
                }
            }
            "source" | "." => self.source(args),
            "alias" => self.is_bounded = false,
            "wait" | "umask" | "ulimit" | "exit" | "return" | "shopt" | "setopt" => {}
            _ => return None,
        }
        Some(Stream::default())
    }

    fn change_directory(&mut self, args: &[Vec<Value>]) {
        let is_flag =
            |value: &Value| matches!(value.text(), Some("--" | "-P" | "-L" | "-e" | "-q"));
        let operands: Vec<&Vec<Value>> =
            args.iter().filter(|group| !group.iter().all(is_flag)).collect();
        let before = self.state.directories.clone();
        let after = match operands.as_slice() {
            [] => self.find_directories(&self.home()),
            [group] if matches!(group.as_slice(), [Value::Text(text)] if text == "-") => {
                self.state.previous.clone()
            }
            [group] => self.find_directories(group),
            _ => None,
        };
        let exists = after.as_ref().is_some_and(|after| {
            let mut after = after.iter();
            after.all(|directory| self.files.is_directory(directory))
        });
        if !exists {
            // Where the first one failed, the second one did not run.
            let mut failed = self.failed_cd.take().unwrap_or_default();
            failed.extend(before.iter().flatten().cloned());
            failed.dedup();
            self.failed_cd = (!failed.is_empty()).then_some(failed);
        }
        // A `cd` that fails leaves the directory before the last one as it is.
        self.state.previous = match (self.state.previous.take(), before) {
            (Some(previous), Some(before)) if !exists => Some([before, previous].concat()),
            (_, before) => before,
        };
        self.state.directories = after;
    }

    /// Sets the variables of `export name=value` and the like.
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
    fn expand_home(&self, value: Value) -> Value {
        let Value::Text(text) = &value else { return value };
        match (text.strip_prefix('~'), self.home().pop()) {
            (Some(below), Some(Value::Text(home)))
                if below.is_empty() || below.starts_with('/') =>
            {
                Value::Text(home + below)
            }
            _ => value,
        }
    }

    fn read_variables(&mut self, args: &[Vec<Value>], input: &Stream) {
        let values = match input.values.as_slice() {
            [] => vec![Value::unknown()],
            values => values.to_vec(),
        };
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

    fn set_arguments(&mut self, args: &[Vec<Value>]) {
        let ends =
            |group: &Vec<Value>| matches!(group.as_slice(), [Value::Text(text)] if text == "--");
        if let Some(at) = args.iter().position(ends) {
            self.state.arguments = Some(Rc::new(args[at + 1..].to_vec()));
        } else if args.iter().flatten().any(|value| !value.is_option()) {
            self.state.arguments = None;
        }
    }

    /// Handles `shift`, which may run any number of times: each argument may then be any other.
    fn shift_arguments(&mut self) {
        if let Some(arguments) = &self.state.arguments {
            let all: Vec<Value> = arguments.iter().flatten().cloned().collect();
            let count = arguments.len().min(9);
            self.state.arguments = Some(Rc::new(vec![all; count]));
        }
    }

    fn eval(&mut self, args: &[Vec<Value>]) -> Stream {
        let words: Option<Vec<&str>> = args
            .iter()
            .map(|group| match group.as_slice() {
                [Value::Text(text)] => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let Some(words) = words else {
            self.is_bounded = false;
            return Stream::unknown();
        };
        let script = words.join(" ");
        if !self.spend(script.len()) {
            return Stream::unknown();
        }
        let output = self.go_deeper(6, |finder| finder.visit_script(&script, Dialect::Bash, true));
        output.unwrap_or_else(Stream::unknown)
    }

    /// Visits a script that runs in this shell.
    fn source(&mut self, args: &[Vec<Value>]) {
        self.is_bounded = false;
        let Some((files, rest)) = args.split_first() else { return };
        let arguments = self.state.arguments.clone();
        if !rest.is_empty() {
            self.state.arguments = Some(Rc::new(rest.to_vec()));
        }
        for script in self.read_scripts(files) {
            self.go_deeper(6, |finder| finder.visit_script(&script, Dialect::Bash, false));
        }
        self.state.arguments = arguments;
    }
}
