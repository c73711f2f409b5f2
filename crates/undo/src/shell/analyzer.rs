//! Visits the commands of a parsed script, in the order in which they run.

use std::collections::HashSet;

use super::nested_commands::{NestedCommand, find_nested_commands};
use super::parser::{Dialect, MAX_DEPTH, parse_script};
use super::read_only::{builtins, programs, variables};
use super::syntax::{
    Arg, Assignment, Command, CompoundCommand, CompoundKind, ListEntry, Redirect, RedirectOperator,
    SimpleCommand, Word, WordPart,
};
use super::targets::{Targets, find_targets};
use super::{Effect, ScriptAnalysis, ScriptContext, effects};

/// The maximum number of commands that are visited, including those in nested scripts.
const MAX_COMMANDS: usize = 20_000;

/// The number of nesting levels that a nested script adds. It is more than one, because the text of
/// a nested script is parsed again for each script around it.
const SCRIPT_LEVELS: usize = 6;

pub(super) struct Analyzer<'a> {
    context: &'a ScriptContext<'a>,
    /// The reason why files may change. If there are several, the first one that was found.
    reason: Option<String>,
    effects: Vec<Effect>,
    /// The functions that are certainly defined. Their bodies have been visited.
    functions: HashSet<String>,
    depth: usize,
    commands: usize,
}

impl<'a> Analyzer<'a> {
    pub(super) fn new(context: &'a ScriptContext<'a>) -> Analyzer<'a> {
        Analyzer {
            context,
            reason: None,
            effects: Vec::new(),
            functions: HashSet::new(),
            depth: 0,
            commands: 0,
        }
    }

    pub(super) fn analyze(mut self, script: &str) -> ScriptAnalysis {
        self.visit_script(script, Dialect::Bash);
        let because = match (&self.reason, self.commands) {
            (Some(reason), _) => reason.clone(),
            (None, 0) => "it runs nothing".to_owned(),
            (None, _) => "every command in it only reads".to_owned(),
        };
        let targets = match self.reason {
            Some(_) => find_targets(script, self.context),
            None => Targets::default(),
        };
        ScriptAnalysis {
            mutates: self.reason.is_some(),
            because,
            effects: self.effects,
            outside: targets.outside,
            deleted: targets.deleted,
            paths: targets.paths,
            sweeps: targets.sweeps,
            sweeps_repositories: targets.sweeps_repositories,
            unknown: targets.unknown,
            history: targets.history,
            bounded: targets.is_bounded,
        }
    }

    /// Records that files may change. Keeps only the first reason.
    fn note_change(&mut self, because: impl Into<String>) {
        if self.reason.is_none() {
            self.reason = Some(because.into());
        }
    }

    fn visit_script(&mut self, script: &str, dialect: Dialect) {
        match parse_script(script, dialect, self.depth) {
            Ok(list) => self.visit_list(&list, true),
            Err(fault) => self.note_change(format!("it cannot be parsed: {fault}")),
        }
    }

    /// Calls `inner` at a depth increased by `levels`, unless that is too deep.
    fn go_deeper(&mut self, levels: usize, inner: impl FnOnce(&mut Self)) {
        if self.depth + levels > MAX_DEPTH {
            self.note_change("it is nested too deeply");
            return;
        }
        self.depth += levels;
        inner(self);
        self.depth -= levels;
    }

    /// Visits the commands of a list. `is_certain` is true if the list certainly runs, in the shell
    /// itself rather than in a subshell.
    fn visit_list(&mut self, list: &[ListEntry], is_certain: bool) {
        for entry in list {
            if self.commands >= MAX_COMMANDS {
                return self.note_change("it has too many commands");
            }
            let in_shell = !entry.in_subshell && !entry.in_background;
            let is_certain = is_certain && !entry.is_conditional && in_shell;
            self.visit_command(&entry.command, is_certain);
        }
    }

    fn visit_command(&mut self, command: &Command, is_certain: bool) {
        match command {
            Command::Simple(simple) => self.visit_simple(simple),
            Command::Compound(compound) => self.visit_compound(compound),
            Command::Function { name, body } => {
                if is_certain {
                    self.functions.insert(name.clone());
                }
                self.visit_compound(body);
            }
        }
    }

    fn visit_compound(&mut self, compound: &CompoundCommand) {
        self.commands += 1;
        self.visit_words(&compound.words);
        self.visit_redirects(&compound.redirects);
        if let Some(variable) = &compound.variable
            && !variables::is_harmless_in_shell(variable)
        {
            self.note_variable(variable);
        }
        if compound.kind == CompoundKind::Test && !builtins::is_harmless_test(&compound.words) {
            self.note_change("a test with variables may run something");
        }
        compound.lists.iter().for_each(|list| self.visit_list(list, false));
    }

    fn visit_words(&mut self, words: &[Word]) {
        words.iter().for_each(|word| self.visit_word(word));
    }

    /// Visits the commands that run while a word is expanded.
    fn visit_word(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                WordPart::Substitution { list, .. } => self.visit_list(list, false),
                WordPart::Modified { word, .. } => self.visit_word(word),
                WordPart::Array(words) => self.visit_words(words),
                WordPart::Hidden(what) => self.note_change(format!("{what} may run something")),
                WordPart::Text { .. } | WordPart::Home | WordPart::Expansion { .. } => {}
            }
        }
    }

    fn visit_redirects(&mut self, redirects: &[Redirect]) {
        for redirect in redirects {
            self.visit_word(&redirect.target);
            if let Some(body) = redirect.body.get() {
                self.visit_word(body);
            }
            let target = redirect.target.to_arg();
            if is_write(redirect.operator, &target) {
                self.note_change(format!("`{}` writes a file", shorten(&redirect.text)));
            }
        }
    }

    fn visit_simple(&mut self, simple: &SimpleCommand) {
        self.commands += 1;
        for assignment in &simple.assignments {
            self.visit_word(&assignment.value);
        }
        self.visit_words(&simple.words);
        self.visit_redirects(&simple.redirects);
        let args: Vec<Arg> = simple.words.iter().map(Word::to_arg).collect();
        self.check_assignments(&simple.assignments, args.first());
        if args.is_empty() {
            return;
        }
        if args[0].known().is_some_and(|name| self.functions.contains(name)) {
            // The body of the function was visited where it was defined.
            return;
        }
        // Of several redirections of standard input, bash reads the last one, and zsh reads all of
        // them.
        let input = simple.redirects.iter().filter(|redirect| redirect.is_input());
        let input: Vec<String> = input.filter_map(text_for_stdin).collect();
        let stdin = (!input.is_empty()).then(|| input.join("\n"));
        self.visit_call(&args, &simple.text, stdin.as_deref());
    }

    /// Checks the assignments before a command. If no command follows, the assignments set shell
    /// variables.
    fn check_assignments(&mut self, assignments: &[Assignment], command: Option<&Arg>) {
        for Assignment { name, value, .. } in assignments {
            let is_harmless = match command {
                None => variables::is_harmless_in_shell(name),
                Some(Arg::Known(program)) if program == "read" && name == "IFS" => true,
                Some(_) => variables::is_harmless_for_programs(name, value.to_arg().known()),
            };
            if !is_harmless {
                self.note_variable(name);
            }
        }
    }

    fn note_variable(&mut self, name: &str) {
        self.note_change(format!("it sets `{name}`, which can change what programs do"));
    }

    /// Visits a program with its arguments. `text` is the command as written, and `stdin` is the
    /// text on its standard input, if that is known.
    fn visit_call(&mut self, args: &[Arg], text: &str, stdin: Option<&str>) {
        let Some((first, args)) = args.split_first() else { return };
        let Some(name) = first.known() else {
            return self.note_change("the name of a command is only known at run time");
        };
        match find_nested_commands(name, args) {
            Some(nested) => {
                if !programs::is_in_usual_place(name) {
                    self.note_change(format!("`{name}` is not known to be read-only"));
                }
                nested.into_iter().for_each(|nested| self.visit_nested(name, nested, text, stdin));
            }
            None => self.visit_program(name, args, text, stdin),
        }
    }

    fn visit_nested(&mut self, name: &str, nested: NestedCommand, text: &str, stdin: Option<&str>) {
        let is_exact = nested.is_exact();
        match nested {
            NestedCommand::Program { args, .. } => {
                self.go_deeper(2, |analyzer| analyzer.visit_call(&args, text, stdin));
            }
            NestedCommand::Script { text, dialect, .. } => self.visit_inner_script(&text, dialect),
        }
        if !is_exact {
            let name = programs::base_name(name);
            self.note_change(format!("`{name}` may do more than run the command it is given"));
        }
    }

    /// Visits a nested script. It runs in a shell of its own, where the functions of the outer
    /// script are not defined.
    fn visit_inner_script(&mut self, script: &str, dialect: Dialect) {
        self.go_deeper(SCRIPT_LEVELS, |analyzer| {
            let functions = std::mem::take(&mut analyzer.functions);
            analyzer.visit_script(script, dialect);
            analyzer.functions = functions;
        });
    }

    fn visit_program(&mut self, name: &str, args: &[Arg], text: &str, stdin: Option<&str>) {
        let base = programs::base_name(name);
        if let Some(kind) = effects::find_effect(base, args) {
            let effect = Effect { kind, command: text.to_owned() };
            if !self.effects.contains(&effect) {
                self.effects.push(effect);
            }
        }
        match name {
            _ if builtins::is_harmless(name, args) == Some(false) => {
                self.note_change(format!("`{name}` with these arguments may change something"));
            }
            "eval" => self.visit_eval(args),
            "trap" => self.visit_trap(args),
            // `unset` may remove a function, so no function is certainly defined any more.
            "unset" => self.functions.clear(),
            _ if builtins::is_harmless(name, args) == Some(true) => {}
            _ => {
                if let Some(because) = programs::why_may_change(name, args) {
                    self.note_change(because);
                    self.visit_stdin(base, stdin);
                }
            }
        }
    }

    /// Visits the script that a shell receives on standard input.
    fn visit_stdin(&mut self, base: &str, stdin: Option<&str>) {
        if let Some(script) = stdin
            && matches!(base, "bash" | "sh" | "zsh")
        {
            self.visit_inner_script(script, Dialect::Bash);
        }
    }

    fn visit_eval(&mut self, args: &[Arg]) {
        let words: Option<Vec<&str>> = args.iter().map(Arg::known).collect();
        match words {
            Some(words) => self.go_deeper(SCRIPT_LEVELS, |analyzer| {
                match parse_script(&words.join(" "), Dialect::Bash, analyzer.depth) {
                    Ok(list) => analyzer.visit_list(&list, false),
                    Err(fault) => analyzer.note_change(format!("it cannot be parsed: {fault}")),
                }
            }),
            None => self.note_change("`eval` runs a script that is only known at run time"),
        }
    }

    fn visit_trap(&mut self, args: &[Arg]) {
        match args.first().map(Arg::known) {
            None => {}
            Some(Some("-" | "" | "-l" | "-p")) => {}
            Some(Some(script)) => self.visit_inner_script(script, Dialect::Bash),
            Some(None) => self.note_change("`trap` runs a script that is only known at run time"),
        }
    }
}

/// Returns true if a redirection writes a file or opens a connection.
pub(super) fn is_write(operator: RedirectOperator, target: &Arg) -> bool {
    let Arg::Known(target) = target else {
        return matches!(operator, RedirectOperator::Write | RedirectOperator::Duplicate);
    };
    match operator {
        RedirectOperator::Write => !is_harmless_device(target),
        RedirectOperator::Duplicate => {
            let descriptor = target.strip_suffix('-').unwrap_or(target);
            let is_descriptor = descriptor.bytes().all(|byte| byte.is_ascii_digit());
            !is_descriptor && !is_harmless_device(target)
        }
        // bash opens a connection for these paths.
        RedirectOperator::Read => {
            target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")
        }
        RedirectOperator::DuplicateInput
        | RedirectOperator::HereDocument
        | RedirectOperator::HereString => false,
    }
}

/// Returns true if writing to this path changes nothing.
fn is_harmless_device(path: &str) -> bool {
    let is_descriptor = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero")
        || path.strip_prefix("/dev/fd/").is_some_and(is_descriptor)
}

/// Returns the text that a redirection feeds to a program, if it is known.
fn text_for_stdin(redirect: &Redirect) -> Option<String> {
    match redirect.operator {
        RedirectOperator::HereDocument => redirect.body.get()?.to_arg().known().map(str::to_owned),
        RedirectOperator::HereString => redirect.target.to_arg().known().map(str::to_owned),
        _ => None,
    }
}

/// Shortens text so that it fits into a sentence.
pub(super) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
