//! Goes through a parsed script, command by command, in the order in which they run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::parse::{DEPTH, Dialect, parse};
use super::syntax::{
    Arg, Assignment, Command, Compound, Kind, Operator, Part, Redirect, Simple, Step, Word,
};
use super::wrappers::{self, Inner};
use super::{Analysis, Effect, Surroundings, builtins, effects, outside, programs, variables};

/// How many commands are looked at, in all scripts within scripts.
const COMMANDS: usize = 20_000;

/// How many levels a script within a script counts for: it is read once more for each.
const SCRIPT: usize = 6;

pub(super) struct Walk<'a> {
    around: &'a Surroundings<'a>,
    /// Why something may change: the first reason found.
    reason: Option<String>,
    effects: Vec<Effect>,
    outside: Vec<PathBuf>,
    /// Functions that are defined for sure; what they do has been looked at.
    functions: HashSet<String>,
    /// Where the next command runs, if that is known.
    directory: Option<PathBuf>,
    depth: usize,
    commands: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(around: &'a Surroundings<'a>) -> Walk<'a> {
        Walk {
            around,
            reason: None,
            effects: Vec::new(),
            outside: Vec::new(),
            functions: HashSet::new(),
            directory: Some(around.directory.to_owned()),
            depth: 0,
            commands: 0,
        }
    }

    pub(super) fn script(mut self, script: &str) -> Analysis {
        self.parsed(script, Dialect::Bash);
        let because = match (&self.reason, self.commands) {
            (Some(reason), _) => reason.clone(),
            (None, 0) => "it runs nothing".to_owned(),
            (None, _) => "every command in it only reads".to_owned(),
        };
        Analysis {
            mutates: self.reason.is_some(),
            because,
            effects: self.effects,
            outside: self.outside,
        }
    }

    fn mutates(&mut self, because: impl Into<String>) {
        if self.reason.is_none() {
            self.reason = Some(because.into());
        }
    }

    fn parsed(&mut self, script: &str, dialect: Dialect) {
        match parse(script, dialect, self.depth) {
            Ok(list) => self.list(&list, true),
            Err(fault) => self.mutates(format!("it cannot be parsed: {fault}")),
        }
    }

    /// Runs `inner` some levels deeper, unless that is too deep.
    fn deeper(&mut self, levels: usize, inner: impl FnOnce(&mut Self)) {
        if self.depth + levels > DEPTH {
            self.mutates("it is nested too deeply");
            return;
        }
        self.depth += levels;
        inner(self);
        self.depth -= levels;
    }

    /// As `inner` leaves the shell unchanged, whatever it does to the directory is undone.
    fn apart(&mut self, inner: impl FnOnce(&mut Self)) {
        let directory = self.directory.clone();
        inner(self);
        self.directory = directory;
    }

    /// `top` if its commands run for sure and in the shell itself.
    fn list(&mut self, list: &[Step], top: bool) {
        for step in list {
            if self.commands >= COMMANDS {
                return self.mutates("it has too many commands");
            }
            if step.apart {
                self.apart(|walk| walk.command(&step.command, false));
            } else {
                self.command(&step.command, top && !step.conditional);
            }
        }
    }

    fn command(&mut self, command: &Command, top: bool) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound) => self.compound(compound),
            Command::Function { name, body } => {
                if top {
                    self.functions.insert(name.clone());
                }
                // It runs later, in whatever directory that is.
                let directory = self.directory.take();
                self.compound(body);
                self.directory = directory;
            }
        }
    }

    fn compound(&mut self, compound: &Compound) {
        self.commands += 1;
        self.words(&compound.words);
        self.redirects(&compound.redirects);
        if let Some(variable) = &compound.variable
            && !variables::is_harmless_in_shell(variable)
        {
            self.mutates(format!("it sets `{variable}`, which programs may listen to"));
        }
        if compound.kind == Kind::Test && !builtins::is_harmless_test(&compound.words) {
            self.mutates("a test with variables may run something");
        }
        let before = self.directory.clone();
        for list in &compound.lists {
            if compound.kind == Kind::Branches {
                // A branch may come after any other, so each starts where all of them may have.
                self.list(list, false);
                if self.directory != before {
                    self.directory = None;
                }
            } else {
                self.list(list, false);
            }
        }
        if compound.kind == Kind::Subshell {
            self.directory = before;
        }
    }

    fn words(&mut self, words: &[Word]) {
        words.iter().for_each(|word| self.word(word));
    }

    /// What runs while a word is expanded.
    fn word(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                Part::Substitution { list, .. } => {
                    self.apart(|walk| walk.list(list, false));
                }
                Part::Nested(words) => self.words(words),
                Part::Hidden(what) => self.mutates(format!("{what} may run something")),
                Part::Text { .. } | Part::Home | Part::Expansion { .. } => {}
            }
        }
    }

    fn redirects(&mut self, redirects: &[Redirect]) {
        for redirect in redirects {
            self.word(&redirect.target);
            if let Some(body) = redirect.body.get() {
                self.word(body);
            }
            let target = redirect.target.arg();
            if writes(redirect.operator, &target) {
                self.mutates(format!("`{}` writes a file", short(&redirect.text)));
                self.names(&target);
            }
        }
    }

    /// A path that is changed, if it lies outside.
    fn names(&mut self, arg: &Arg) {
        let directory = self.directory.clone();
        let path = outside::resolve(arg, directory.as_deref(), self.around);
        self.add_outside(path);
    }

    fn add_outside(&mut self, path: Option<PathBuf>) {
        if let Some(path) = path
            && !self.outside.contains(&path)
        {
            self.outside.push(path);
        }
    }

    fn simple(&mut self, simple: &Simple) {
        self.commands += 1;
        for assignment in &simple.assignments {
            self.word(&assignment.value);
        }
        self.words(&simple.words);
        self.redirects(&simple.redirects);
        let args: Vec<Arg> = simple.words.iter().map(Word::arg).collect();
        self.assignments(&simple.assignments, args.first());
        if args.is_empty() {
            return;
        }
        if args[0].known().is_some_and(|name| self.functions.contains(name)) {
            // What it does was looked at where it was defined, but not where it goes.
            self.directory = None;
            return;
        }
        let stdin = simple.redirects.iter().rev().find_map(given);
        self.run(&args, &simple.text, stdin.as_deref());
    }

    /// `command` is what gets them; without one they are set in the shell.
    fn assignments(&mut self, assignments: &[Assignment], command: Option<&Arg>) {
        for Assignment { name, value } in assignments {
            let harmless = match command {
                None => variables::is_harmless_in_shell(name),
                Some(Arg::Known(program)) if program == "read" && name == "IFS" => true,
                Some(_) => variables::is_harmless_for_programs(name, value.arg().known()),
            };
            if !harmless {
                self.mutates(format!("it sets `{name}`, which programs may listen to"));
            }
        }
    }

    /// A program with its arguments. `text` is how it was written, `stdin` what it is given.
    fn run(&mut self, args: &[Arg], text: &str, stdin: Option<&str>) {
        let Some((first, args)) = args.split_first() else { return };
        let Some(name) = first.known() else {
            self.mutates("the name of a command is only known when it runs");
            return self.changes("", args);
        };
        match wrappers::inner(name, args) {
            Some(inner) => {
                if !programs::is_trusted(name) {
                    self.mutates(format!("`{name}` is not known to only read"));
                }
                inner.into_iter().for_each(|inner| self.inner(name, inner, text, stdin));
            }
            None => self.program(name, args, text, stdin),
        }
    }

    /// What a program runs.
    fn inner(&mut self, name: &str, inner: Inner, text: &str, stdin: Option<&str>) {
        let (Inner::Command { exact, .. } | Inner::Script { exact, .. }) = inner;
        let levels = if matches!(inner, Inner::Script { .. }) { SCRIPT } else { 2 };
        self.deeper(levels, |walk| match inner {
            Inner::Command { args, .. } => walk.run(&args, text, stdin),
            Inner::Script { text, dialect, .. } => walk.apart(|walk| walk.nested(&text, dialect)),
        });
        if !exact {
            self.mutates(format!("`{}` may do more than it says", programs::base_name(name)));
        }
    }

    /// A script within a script, in which the functions of the outer one are not known.
    fn nested(&mut self, text: &str, dialect: Dialect) {
        let functions = std::mem::take(&mut self.functions);
        self.parsed(text, dialect);
        self.functions = functions;
    }

    fn program(&mut self, name: &str, args: &[Arg], text: &str, stdin: Option<&str>) {
        let base = programs::base_name(name);
        if let Some(kind) = effects::of(base, args) {
            let effect = Effect { kind, command: text.to_owned() };
            if !self.effects.contains(&effect) {
                self.effects.push(effect);
            }
        }
        match name {
            _ if builtins::is_harmless(name, args) == Some(false) => {
                self.mutates(format!("`{name}` with these arguments may change something"));
            }
            "eval" => self.eval(args),
            "trap" => self.trap(args),
            "cd" | "pushd" => self.directory = self.destination(args),
            "popd" => self.directory = None,
            // It may be a function that is no more.
            "unset" => self.functions.clear(),
            _ if builtins::is_harmless(name, args) == Some(true) => {}
            _ => {
                if let Some(because) = programs::why_mutates(name, args) {
                    self.mutates(because);
                    self.changes(base, args);
                    self.fed(base, stdin);
                }
            }
        }
    }

    /// What a shell is given to read.
    fn fed(&mut self, base: &str, stdin: Option<&str>) {
        if let Some(script) = stdin
            && matches!(base, "bash" | "sh" | "zsh")
        {
            self.deeper(SCRIPT, |walk| walk.apart(|walk| walk.nested(script, Dialect::Bash)));
        }
    }

    fn eval(&mut self, args: &[Arg]) {
        let words: Option<Vec<&str>> = args.iter().map(Arg::known).collect();
        match words {
            Some(words) => self.deeper(SCRIPT, |walk| {
                match parse(&words.join(" "), Dialect::Bash, walk.depth) {
                    Ok(list) => walk.list(&list, false),
                    Err(fault) => walk.mutates(format!("it cannot be parsed: {fault}")),
                }
            }),
            None => self.mutates("`eval` runs what is only known when it runs"),
        }
    }

    fn trap(&mut self, args: &[Arg]) {
        match args.first().map(Arg::known) {
            None => {}
            Some(Some("-" | "" | "-l" | "-p")) => {}
            Some(Some(script)) => {
                let script = script.to_owned();
                self.deeper(SCRIPT, |walk| walk.apart(|walk| walk.nested(&script, Dialect::Bash)));
            }
            Some(None) => self.mutates("`trap` runs what is only known when it runs"),
        }
    }

    /// Where `cd` goes.
    fn destination(&self, args: &[Arg]) -> Option<PathBuf> {
        let operands: Vec<&Arg> = args.iter().filter(|arg| arg.known() != Some("--")).collect();
        match operands.as_slice() {
            [] => self.around.home.map(Path::to_owned),
            [arg] if arg.is_operand() && arg.known() != Some("-") => {
                outside::absolute(arg, self.directory.as_deref(), self.around.home)
            }
            _ => None,
        }
    }

    /// What a command that changes something names outside of the workspace.
    fn changes(&mut self, base: &str, args: &[Arg]) {
        let directory = self.directory.clone();
        for path in outside::named(base, args, directory.as_deref(), self.around) {
            self.add_outside(Some(path));
        }
    }
}

/// Whether a redirection writes a file.
fn writes(operator: Operator, target: &Arg) -> bool {
    let Arg::Known(target) = target else {
        return matches!(operator, Operator::Write | Operator::Duplicate);
    };
    match operator {
        Operator::Write => !outside::is_harmless_device(target),
        Operator::Duplicate => {
            let descriptor = target.strip_suffix('-').unwrap_or(target);
            let is_descriptor = descriptor.bytes().all(|byte| byte.is_ascii_digit());
            !is_descriptor && !outside::is_harmless_device(target)
        }
        // bash opens a connection for these.
        Operator::Read => target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/"),
        Operator::DuplicateInput | Operator::HereDocument | Operator::HereString => false,
    }
}

/// The text that a redirection gives to a program, if it is known.
fn given(redirect: &Redirect) -> Option<String> {
    match redirect.operator {
        Operator::HereDocument => redirect.body.get()?.arg().known().map(str::to_owned),
        Operator::HereString => redirect.target.arg().known().map(str::to_owned),
        _ => None,
    }
}

/// The start of a text, for a sentence.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
