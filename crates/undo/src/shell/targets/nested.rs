//! Programs that run other commands: wrappers like `sudo`, shells, interpreters.

use std::path::Path;
use std::rc::Rc;

use super::arguments::{split_operands, to_args};
use super::state::SavedVariable;
use super::value::Value;
use super::{Finder, Stream, literals};
use crate::shell::nested_commands::{NestedCommand, SHELLS, find_nested_commands};
use crate::shell::parser::{Dialect, is_name};
use crate::shell::read_only::programs::is_in_usual_place;
use crate::shell::syntax::Arg;

/// Interpreters, each with the options that take code.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("bun", &["-e", "--eval"]),
    ("deno", &["eval"]),
    ("node", &["-e", "-p", "-pe", "--eval", "--print"]),
    ("perl", &["-e", "-E", "-ne", "-pe", "-le"]),
    ("php", &["-r"]),
    ("python", &["-c"]),
    ("python3", &["-c"]),
    ("ruby", &["-e", "-ne", "-pe"]),
];

/// The texts that some files may contain when a command reads them.
pub(super) struct FileVersions {
    pub(super) texts: Vec<String>,
    /// True if the files can contain no other texts.
    pub(super) is_known: bool,
}

impl Default for FileVersions {
    fn default() -> FileVersions {
        FileVersions { texts: Vec::new(), is_known: true }
    }
}

impl Finder<'_> {
    /// Visits a command that runs another command. Returns `None` for any other command.
    pub(super) fn visit_nested(
        &mut self,
        name: &str,
        base: &str,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> Option<Stream> {
        match base {
            "find" | "xargs" if !is_in_usual_place(name) => self.is_bounded = false,
            _ => {}
        }
        match base {
            "xargs" => return Some(self.visit_xargs(args, text, input)),
            "find" => return Some(self.visit_find(args, text)),
            "fd" | "fdfind" => return self.visit_fd(args, text),
            "su" => {
                self.is_bounded = false;
                return self.visit_shell(args, text, input);
            }
            _ if SHELLS.contains(&base) => return self.visit_shell(args, text, input),
            _ => {}
        }
        if let Some((_, options)) = INTERPRETERS.iter().find(|(name, _)| *name == base)
            && self.visit_interpreter(args, options, text, input)
        {
            self.is_bounded = false;
            return Some(Stream::unknown());
        }
        let nested = find_nested_commands(name, &to_wrapped_args(args))?;
        let mut output = Stream::default();
        for command in nested {
            // A process that `setsid` starts may outlive the script.
            self.is_bounded &= command.is_exact() && base != "setsid" && is_in_usual_place(name);
            let NestedCommand::Program { args: inner, .. } = command else {
                self.is_bounded = false;
                continue;
            };
            let Some(at) = args.len().checked_sub(inner.len()) else { continue };
            let directory = if base == "env" { find_chdir(&args[..at]) } else { None };
            let command = &args[at..];
            let assigned = self.assign_variables(&args[..at]);
            let visited = self.go_deeper(2, |finder| match directory {
                Some(directory) => {
                    let mut output = Stream::default();
                    finder.in_directory(&directory, |finder| {
                        output = finder.visit_call(command, text, input);
                    });
                    output
                }
                None => finder.visit_call(command, text, input),
            });
            for (name, values) in assigned {
                self.state.restore_variable(&name, values);
            }
            output = visited.unwrap_or_else(Stream::unknown);
        }
        Some(output)
    }

    /// Sets the variables in `env name=value`. Returns their previous values, which are restored
    /// later.
    fn assign_variables(&mut self, args: &[Vec<Value>]) -> Vec<SavedVariable> {
        let mut before = Vec::new();
        for group in args {
            let start = group.first().map(Value::start).unwrap_or_default();
            let Some((name, _)) = start.split_once('=').filter(|(name, _)| is_name(name)) else {
                continue;
            };
            let prefix = format!("{name}=");
            let mut values: Vec<Value> =
                group.iter().filter_map(|value| value.strip_start(&prefix)).collect();
            // Not every shell expands `~` here.
            values.extend(values.clone().into_iter().map(|value| self.expand_home(value)));
            before.push((name.to_owned(), self.state.saved_variable(name)));
            match before.iter().filter(|(known, _)| known == name).count() {
                1 => self.state.set_variable(name, values),
                _ => self.state.add_values(name, values),
            }
        }
        before.reverse();
        before
    }

    /// Visits the script of a shell: after `-c`, in a file, or on standard input.
    fn visit_shell(&mut self, args: &[Vec<Value>], text: &str, input: &Stream) -> Option<Stream> {
        let is_command = |group: &Vec<Value>| {
            let text = group.first().and_then(Value::text).unwrap_or_default();
            text.starts_with('-') && !text.starts_with("--") && text.contains('c')
        };
        let (scripts, arguments) = match args.iter().position(is_command) {
            Some(at) => {
                let script = args.get(at + 1).map(Vec::as_slice);
                self.is_bounded &= matches!(script, Some([Value::Text(_)]));
                let scripts = args.get(at + 1).map(Vec::as_slice).unwrap_or_default();
                for script in scripts.iter().filter(|script| script.text().is_none()) {
                    literals::visit_words(self, script.start(), true);
                }
                let scripts = scripts.iter().filter_map(Value::text).map(str::to_owned).collect();
                (scripts, args.get(at + 3..).unwrap_or_default())
            }
            None => {
                self.is_bounded = false;
                let is_operand = |group: &Vec<Value>| !group.iter().any(Value::is_option);
                match args.iter().position(is_operand) {
                    Some(at) => (self.read_scripts(&args[at], text), &args[at + 1..]),
                    None => {
                        if input.text.is_none() {
                            // The known parts of the input may name files.
                            for line in &input.values {
                                literals::visit_words(self, line.start(), true);
                            }
                        }
                        (input.text.clone().into_iter().collect::<Vec<String>>(), &args[..0])
                    }
                }
            }
        };
        let mut output = Stream::unknown();
        for script in scripts {
            output = self.visit_inner_script(&script, arguments);
        }
        Some(output)
    }

    /// Visits a script that runs in a shell of its own.
    pub(super) fn visit_inner_script(&mut self, script: &str, arguments: &[Vec<Value>]) -> Stream {
        if !self.spend(script.len()) {
            return Stream::unknown();
        }
        let (output, _) = self.in_own_shell(|finder| {
            finder.state.arguments = Some(Rc::new(arguments.to_vec()));
            finder.state.functions = Rc::default();
            finder.state.doubt_variables();
            finder.go_deeper(6, |finder| finder.visit_script(script, Dialect::Bash, true))
        });
        output.unwrap_or_else(Stream::unknown)
    }

    /// Reads scripts from small files. If the script that is being analyzed changes such a file
    /// before `command` runs it, records the command as unknown, unless the new text is known.
    pub(super) fn read_scripts(&mut self, files: &[Value], command: &str) -> Vec<String> {
        let scripts = self.read_versions(files);
        if !scripts.is_known {
            self.note_unknown(command);
        }
        scripts.texts
    }

    /// Reads small files, in every version that they may have when a command reads them.
    pub(super) fn read_versions(&mut self, files: &[Value]) -> FileVersions {
        let mut versions = FileVersions::default();
        for file in files.iter().take(8).filter_map(Value::text) {
            for path in self.absolute_paths(file).unwrap_or_default() {
                let path = self.file_system.resolve(&path);
                let is_changed = path.ancestors().any(|path| self.known_paths.contains(path));
                let is_known = self.add_scripts(&path, &mut versions.texts);
                versions.is_known &= is_known.unwrap_or(!is_changed);
            }
        }
        versions
    }

    /// Adds every version of the text that may be in a file when the file is run. Returns true if
    /// there can be no other versions, and `None` if the script that is being analyzed does not
    /// redirect output to the file.
    fn add_scripts(&mut self, path: &Path, scripts: &mut Vec<String>) -> Option<bool> {
        // The command that changes the file may be in a branch that does not run.
        scripts.extend(self.file_system.read_text(path));
        let (texts, is_known) = self.find_written(path)?;
        scripts.extend(texts);
        Some(is_known)
    }

    /// Visits a program that is itself a shell script.
    pub(super) fn visit_script_program(&mut self, name: &str, args: &[Vec<Value>], text: &str) {
        if !name.contains('/') {
            return;
        }
        let mut scripts = Vec::new();
        for path in self.absolute_paths(name).unwrap_or_default() {
            let path = self.file_system.resolve(&path);
            // A program that the script builds, for example with a compiler, is judged only by its
            // arguments.
            if self.add_scripts(&path, &mut scripts) == Some(false) {
                self.note_unknown(text);
            }
        }
        for script in scripts.iter().filter(|script| is_shell_script(script)) {
            self.visit_inner_script(script, args);
        }
    }

    /// Visits the script that `npm run` and similar commands find in package.json.
    pub(super) fn visit_package_script(&mut self, base: &str, args: &[Vec<Value>]) {
        if !matches!(base, "npm" | "pnpm" | "yarn" | "bun") {
            return;
        }
        let split = split_operands(args, "C w prefix cwd dir filter workspace");
        let words: Vec<&str> = split.operands.iter().flatten().filter_map(Value::text).collect();
        let script = match words.as_slice() {
            ["run" | "run-script", script, ..] => *script,
            [script, ..] => *script,
            [] => return,
        };
        for directory in self.state.directories.clone().unwrap_or_default() {
            for directory in directory.ancestors().take(8) {
                let Some(text) = self.file_system.read_text(&directory.join("package.json")) else {
                    continue;
                };
                let Ok(package) = serde_json::from_str::<serde_json::Value>(&text) else { break };
                for name in [format!("pre{script}"), script.to_owned(), format!("post{script}")] {
                    if let Some(script) = package["scripts"][&name].as_str() {
                        let before = self.state.clone();
                        self.state.directories = Some(vec![directory.to_owned()]);
                        self.visit_inner_script(script, &[]);
                        self.state = before;
                    }
                }
                break;
            }
        }
    }

    /// Visits the code that an interpreter receives on the command line or on standard input.
    /// Returns false if the interpreter receives no code in either way.
    fn visit_interpreter(
        &mut self,
        args: &[Vec<Value>],
        options: &[&str],
        text: &str,
        input: &Stream,
    ) -> bool {
        let is_code = |group: &Vec<Value>| {
            group.first().and_then(Value::text).is_some_and(|text| options.contains(&text))
        };
        if let Some(at) = args.iter().position(is_code) {
            for code in args.get(at + 1).into_iter().flatten().filter_map(Value::text) {
                literals::visit_code(self, code, text);
            }
            // `perl -i` changes its operands.
            if let Some(rest) = args.get(at + 2..) {
                self.name_operands("", rest);
            }
            return true;
        }
        let reads_input = args.iter().flatten().all(|value| value.text() == Some("-"));
        match &input.text {
            Some(code) if reads_input => {
                literals::visit_code(self, code, text);
                true
            }
            _ => {
                self.visit_code_file(args);
                false
            }
        }
    }

    /// Adds the paths that the program file of an interpreter deletes or moves.
    fn visit_code_file(&mut self, args: &[Vec<Value>]) {
        let is_operand = |value: &&Value| !value.is_option() && value.text() != Some("run");
        let file = args.iter().flatten().find(is_operand).and_then(Value::text);
        let mut programs = Vec::new();
        for path in file.and_then(|file| self.absolute_paths(file)).unwrap_or_default() {
            let path = self.file_system.resolve(&path);
            self.add_scripts(&path, &mut programs);
        }
        for program in programs {
            literals::visit_program(self, &program);
        }
    }
}

/// Returns true if a program file with this text is a shell script. This includes a text file that
/// names no interpreter, because the shell runs such a file itself.
fn is_shell_script(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    match first.strip_prefix("#!") {
        Some(line) => SHELLS.iter().any(|shell| line.split(['/', ' ']).any(|word| word == *shell)),
        None => !first.contains('\0'),
    }
}

/// Finds the directory that `env -C` names.
fn find_chdir(options: &[Vec<Value>]) -> Option<Vec<Value>> {
    let split = split_operands(options, "C u chdir unset");
    split.option(&["-C", "--chdir"])
}

/// Converts arguments so that `name=value` is known not to be a command, even if the value is
/// unknown.
fn to_wrapped_args(args: &[Vec<Value>]) -> Vec<Arg> {
    let to_arg = |(group, arg): (&Vec<Value>, Arg)| {
        let start = group.first().map(Value::start).unwrap_or_default();
        match start.split_once('=') {
            Some((name, _)) if is_name(name) => Arg::Known(start.to_owned()),
            _ => arg,
        }
    };
    args.iter().zip(to_args(args)).map(to_arg).collect()
}
