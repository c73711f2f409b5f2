//! Finds the files that a script changes or deletes, before the script runs.
//!
//! Commands are visited in the order in which a shell would run them, but each word has all the
//! values that it may have at run time: the matches of a pattern, the values of a loop variable,
//! the output of `find`. If part of a path is unknown, the directory before that part is named
//! instead. If that directory is also unknown, the command is reported.
//!
//! The result may name too many paths. It must not miss any: the files at a missed path could be
//! lost.
//!
//! - `walk` visits the commands and tracks the `state` of the shell, with the help of `compounds`,
//!   `simple` and `builtins`.
//! - `words` expands words, with the help of `braces` and `glob`. `file_system` is a bounded view
//!   of the file system.
//! - `calls` determines which operands a program changes. It uses `copies`, `containers`, `git`,
//!   `awk`, `find`, `fd`, `xargs`, `patches`, `make` and `nested`.
//! - `own_commands` recognizes takeback's own commands that delete its history.
//! - `outputs` predicts the output of programs, for `$(…)` and pipes. `written_scripts` keeps the
//!   output that the script writes into files, because it may run them.
//! - `literals` finds paths in code in other languages, and in shell scripts that cannot be parsed.

mod arguments;
mod awk;
mod braces;
mod builtins;
mod calls;
mod compounds;
mod containers;
mod copies;
mod diffs;
mod fd;
mod file_system;
mod find;
mod git;
mod git_aliases;
mod glob;
mod literals;
mod make;
mod nested;
mod outputs;
mod own_commands;
mod patches;
mod simple;
mod state;
mod value;
mod walk;
mod words;
mod written_scripts;
mod xargs;

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use takeback_base::paths::{canonicalize_or_keep, normalize};

use self::file_system::FileSystem;
use self::state::{SavedVariable, State};
use self::value::Value;
use self::written_scripts::WrittenScripts;
use super::analyzer::shorten;
use super::parser::Dialect;
use super::{HistoryCommand, ScriptContext};

/// The maximum number of commands that are visited. A command counts each time it is visited.
const MAX_COMMANDS: usize = 10_000;

/// The maximum length of a script that is parsed, in bytes. A longer script is only searched for
/// paths.
const MAX_SCRIPT: usize = 256 * 1024;

/// The maximum effort for one script, in bytes of expanded text.
const MAX_EFFORT: usize = 4 << 20;

/// The maximum number of paths. Further paths are replaced by their parent directories.
const MAX_PATHS: usize = 1000;

/// The maximum number of links that are followed for one path.
const MAX_LINKS: usize = 16;

/// The maximum number of commands that are reported as unknown.
const MAX_UNKNOWN: usize = 20;

/// The files that a script changes or deletes.
#[derive(Default)]
pub(super) struct Targets {
    pub(super) paths: Vec<PathBuf>,
    pub(super) outside: Vec<PathBuf>,
    pub(super) deleted: Vec<PathBuf>,
    pub(super) sweeps: Vec<PathBuf>,
    pub(super) sweeps_repositories: bool,
    pub(super) unknown: Vec<String>,
    pub(super) history: Vec<HistoryCommand>,
    /// True if the script is known to change nothing but `paths`.
    pub(super) is_bounded: bool,
}

/// Finds the files that a script changes or deletes.
pub(super) fn find_targets(script: &str, context: &ScriptContext<'_>) -> Targets {
    let mut finder = Finder::new(script, context);
    if script.len() > MAX_SCRIPT {
        finder.is_bounded = false;
        literals::visit_words(&mut finder, script, true);
    } else {
        finder.visit_script(script, Dialect::Bash, true);
        finder.visit_traps();
    }
    if finder.is_cut_off || finder.is_exhausted() || finder.file_system.is_exhausted() {
        finder.note_unknown(script);
    }
    let deleted = finder.paths.iter().filter(|path| finder.removed.contains(*path));
    let outside = finder.paths.iter().filter(|path| !path.starts_with(&finder.workspace));
    Targets {
        is_bounded: finder.is_bounded
            && !finder.file_system.has_skipped
            && finder.sweeps.is_empty()
            && finder.unknown.is_empty(),
        outside: outside.cloned().collect(),
        deleted: deleted.cloned().collect(),
        paths: finder.paths,
        sweeps: finder.sweeps,
        sweeps_repositories: finder.sweeps_repositories,
        unknown: finder.unknown,
        history: finder.history,
    }
}

/// The text that a command reads or prints.
#[derive(Clone, Default)]
struct Stream {
    /// The lines of the text, and their words.
    values: Vec<Value>,
    /// The whole text, if it is known.
    text: Option<String>,
}

impl Stream {
    fn unknown() -> Stream {
        Stream { values: vec![Value::unknown()], text: None }
    }

    fn of(values: Vec<Value>) -> Stream {
        Stream { values, text: None }
    }

    /// Appends the text that another command prints.
    fn append(&mut self, more: Stream) {
        self.values.extend(more.values);
        match (&mut self.text, more.text) {
            (None, text) => self.text = text,
            (Some(_), None) => {}
            (Some(text), Some(more)) if text.len() + more.len() <= MAX_SCRIPT => {
                // The text of an `echo` lacks its final line break.
                text.push('\n');
                text.push_str(&more);
            }
            (Some(_), Some(_)) => self.values.push(Value::unknown()),
        }
    }

    /// Splits text into lines, and each line into words.
    fn of_text(text: String) -> Stream {
        let mut values = Vec::new();
        let lines = || text.split(['\n', '\0']).filter(|line| !line.is_empty());
        if lines().nth(MAX_PATHS).is_some() {
            values.push(Value::unknown());
        }
        for line in lines().take(MAX_PATHS) {
            values.push(Value::Text(line.to_owned()));
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.as_slice() != [line] {
                values.extend(words.into_iter().map(|word| Value::Text(word.to_owned())));
            }
        }
        Stream { values, text: Some(text) }
    }
}

/// The ways in which a command can change a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The command deletes or renames the path itself, and does not follow a link.
    Removes,
    /// The command overwrites the file, and follows a link.
    Overwrites,
    /// The command may change the path, or create it.
    Touches,
    /// The command creates the path. If the path is an existing directory, the command changes
    /// nothing there.
    Creates,
}

struct Finder<'a> {
    context: &'a ScriptContext<'a>,
    /// The path of the workspace, with links resolved.
    workspace: PathBuf,
    state: State,
    file_system: FileSystem,
    paths: Vec<PathBuf>,
    known_paths: HashSet<PathBuf>,
    /// The paths that the script deletes or renames.
    removed: HashSet<PathBuf>,
    /// True if a limit was reached. Some paths are then missing.
    is_cut_off: bool,
    /// The files that the script writes, and may run.
    written: WrittenScripts,
    /// The git aliases that the script defines.
    git_aliases: Vec<(String, String)>,
    /// The links that the script creates, each with its target if that is known.
    links: Vec<(PathBuf, Option<PathBuf>)>,
    sweeps: Vec<PathBuf>,
    /// True if the script also deletes the repositories in `sweeps`.
    sweeps_repositories: bool,
    unknown: Vec<String>,
    history: Vec<HistoryCommand>,
    /// True if the script mentions a method of `takeback rpc` that deletes conversations.
    names_deleting_method: bool,
    /// False once a command may change more than the paths that were added for it.
    is_bounded: bool,
    /// True if patterns match hidden directories.
    matches_hidden: bool,
    /// True if patterns ignore case.
    ignores_case: bool,
    /// The directories that the shell stays in if the last `cd` fails.
    failed_cd: Option<Vec<PathBuf>>,
    /// The state of the shell if `break`, `continue` or `return` has ended the current loop or
    /// function early.
    escaped: Option<State>,
    /// The variables that the current function declares, with their values outside the function.
    locals: Option<Vec<SavedVariable>>,
    /// True if another command reads the output of the current one.
    wants_output: bool,
    depth: usize,
    commands: usize,
    effort: usize,
}

impl<'a> Finder<'a> {
    fn new(script: &str, context: &'a ScriptContext<'a>) -> Finder<'a> {
        let words = ["dotglob", "globdots", "glob_dots", "GLOB_DOTS", "GLOBIGNORE"];
        Finder {
            context,
            workspace: normalize(&canonicalize_or_keep(context.workspace)),
            state: State::new(context.directory.to_owned()),
            file_system: FileSystem::new(),
            paths: Vec::new(),
            known_paths: HashSet::new(),
            removed: HashSet::new(),
            is_cut_off: false,
            written: WrittenScripts::default(),
            git_aliases: Vec::new(),
            links: Vec::new(),
            sweeps: Vec::new(),
            sweeps_repositories: false,
            unknown: Vec::new(),
            history: Vec::new(),
            names_deleting_method: own_commands::names_deleting_method(script),
            is_bounded: true,
            matches_hidden: words.iter().any(|word| script.contains(word)),
            ignores_case: script.contains("nocaseglob") || script.contains("nocasematch"),
            failed_cd: None,
            escaped: None,
            locals: None,
            wants_output: false,
            depth: 0,
            commands: 0,
            effort: 0,
        }
    }

    /// Adds to the effort that has been spent. Returns false once the maximum is exceeded.
    fn spend(&mut self, effort: usize) -> bool {
        self.effort = self.effort.saturating_add(effort);
        self.effort <= MAX_EFFORT
    }

    fn is_exhausted(&self) -> bool {
        self.effort > MAX_EFFORT || self.commands > MAX_COMMANDS
    }

    /// Records a command that deletes or overwrites unknown files.
    fn note_unknown(&mut self, command: &str) {
        let command = shorten(command.trim());
        if self.unknown.len() < MAX_UNKNOWN && !self.unknown.contains(&command) {
            self.unknown.push(command);
        }
    }

    /// Adds the paths that a value may name. If the paths are unknown and the command certainly
    /// changes them, records the command as unknown.
    fn add_value(&mut self, value: &Value, change: Change, command: &str) {
        // If only a prefix is known, the value may name a file that does not exist yet.
        self.is_bounded &= matches!(value, Value::Text(_) | Value::Below(_));
        match self.resolve_value(value) {
            Some(paths) => {
                let leads_on = value.start().ends_with('/') || matches!(value, Value::Below(_));
                // The script may have replaced a link in the path with another link.
                let named = self.absolute_paths(value.start()).unwrap_or_default();
                let normal = named.iter().map(|path| normalize(path));
                let places: HashSet<PathBuf> =
                    normal.chain(named.iter().cloned()).chain(paths.iter().cloned()).collect();
                for path in places {
                    if !self.add_linked(&path, change, leads_on) {
                        self.note_unknown(command);
                    }
                }
                for path in paths {
                    self.add_resolved(&path, change, leads_on);
                }
            }
            None if matches!(change, Change::Touches | Change::Creates) => self.is_bounded = false,
            None => self.note_unknown(command),
        }
    }

    /// Follows the links that the script creates, and adds the paths that `path` then refers to.
    /// Returns false if the target of such a link is unknown.
    fn add_linked(&mut self, path: &Path, change: Change, leads_on: bool) -> bool {
        let mut open = vec![path.to_owned()];
        for _ in 0..MAX_LINKS {
            let Some(path) = open.pop() else { return true };
            if !self.spend(8 * self.links.len()) {
                return false;
            }
            for at in 0..self.links.len() {
                let (link, target) = &self.links[at];
                let Ok(rest) = path.strip_prefix(link) else { continue };
                if rest.as_os_str().is_empty() && change == Change::Removes && !leads_on {
                    continue;
                }
                let Some(target) = target else { return false };
                let path = self.file_system.resolve(&target.join(rest));
                self.add_resolved(&path, change, leads_on);
                open.push(path);
            }
        }
        open.is_empty()
    }

    fn add_values(&mut self, values: &[Value], change: Change, command: &str) {
        values.iter().for_each(|value| self.add_value(value, change, command));
    }

    /// Returns the absolute paths that a value may name, or `None` if they are unknown.
    fn resolve_value(&mut self, value: &Value) -> Option<Vec<PathBuf>> {
        match value {
            Value::Fresh => Some(Vec::new()),
            Value::Text(text) | Value::Below(text) if text.is_empty() => Some(Vec::new()),
            Value::Text(text) | Value::Below(text) => {
                let paths = self.absolute_paths(text)?;
                Some(paths.iter().map(|path| self.file_system.resolve(path)).collect())
            }
            Value::Prefix(prefix) => {
                let (directory, start) = match prefix.rsplit_once('/') {
                    Some(("", start)) => ("/", start),
                    Some((directory, start)) => (directory, start),
                    None => (".", prefix.as_str()),
                };
                if prefix.is_empty() || (directory == "/" && start.is_empty()) {
                    return None;
                }
                let mut paths = Vec::new();
                for directory in self.absolute_paths(directory)? {
                    let directory = self.file_system.resolve(&directory);
                    match self.file_system.find_prefixed(&directory, start) {
                        Some(found) if !matches!(start, "" | "." | "..") => paths.extend(found),
                        _ => paths.push(directory),
                    }
                }
                Some(paths)
            }
        }
    }

    /// Joins a path with the directories that the shell may be in.
    fn absolute_paths(&self, path: &str) -> Option<Vec<PathBuf>> {
        // A path that is this long or contains a NUL character cannot exist.
        if path.len() > 4096 || path.contains('\0') {
            return Some(Vec::new());
        }
        if path.starts_with('/') {
            return Some(vec![PathBuf::from(path)]);
        }
        let directories = self.state.directories.as_ref()?;
        Some(directories.iter().map(|directory| directory.join(path)).collect())
    }

    /// Adds a path. If the path is a link that the command follows, also adds the target.
    fn add_resolved(&mut self, path: &Path, change: Change, leads_on: bool) {
        if change == Change::Creates && self.file_system.is_directory(path) {
            return;
        }
        if (change != Change::Removes || leads_on)
            && let Some(target) = self.file_system.follow(path)
        {
            self.add_path(target);
        }
        match change {
            Change::Removes => {
                self.written.doubt(path);
                self.removed.insert(path.to_owned());
            }
            Change::Overwrites => {
                self.written.doubt(path);
                self.file_system.note_written(path);
            }
            Change::Touches | Change::Creates => self.file_system.note_created(path),
        }
        self.add_path(path.to_owned());
    }

    fn add_path(&mut self, path: PathBuf) {
        let is_system = ["/dev", "/proc", "/sys"].iter().any(|system| path.starts_with(system));
        // `/dev/shm` contains ordinary files.
        if is_system && !path.starts_with("/dev/shm") {
            return;
        }
        let path = match path.parent() {
            Some(parent) if self.paths.len() >= MAX_PATHS => parent.to_owned(),
            _ => path,
        };
        if self.paths.len() >= 2 * MAX_PATHS {
            self.is_cut_off = true;
            return;
        }
        if self.workspace.starts_with(&path) {
            let workspace = self.workspace.clone();
            self.add_sweep(workspace);
        }
        // A name with line breaks is most likely several lines of output.
        if path.as_os_str().as_bytes().contains(&b'\n') && !self.file_system.exists(&path) {
            self.is_bounded = false;
            return;
        }
        if self.known_paths.insert(path.clone()) {
            self.paths.push(path);
        }
    }

    /// Adds a directory in which a command deletes files without naming them.
    fn add_sweep(&mut self, directory: PathBuf) {
        if self.sweeps.contains(&directory) || !self.file_system.is_directory(&directory) {
            return;
        }
        self.sweeps.push(directory.clone());
        if !directory.starts_with(&self.workspace) {
            self.add_path(directory);
        }
    }

    /// Sweeps the directories that the shell may be in.
    fn sweep_directories(&mut self, command: &str) {
        match self.state.directories.clone() {
            Some(directories) => {
                for directory in directories {
                    let directory = self.file_system.resolve(&directory);
                    self.add_sweep(directory);
                }
            }
            None => self.note_unknown(command),
        }
    }

    /// Marks the directories among the values as places where any file may change, and adds the
    /// other values as paths.
    fn sweep_values(&mut self, values: &[Value], command: &str) {
        for value in values {
            let Some(paths) = self.resolve_value(value) else {
                self.note_unknown(command);
                continue;
            };
            for path in paths {
                let path = canonicalize_or_keep(&path);
                if self.file_system.is_directory(&path) {
                    self.add_sweep(path);
                } else {
                    self.add_path(path);
                }
            }
        }
    }

    /// Calls `inner` as if the shell were in another directory.
    fn in_directory(&mut self, directory: &[Value], inner: impl FnOnce(&mut Self)) {
        let before = self.state.directories.clone();
        self.state.directories = self.find_directories(directory);
        inner(self);
        self.state.directories = before;
    }

    /// Returns the directories that the values name. As with `cd`, `..` removes the name before it,
    /// even if that name is a link.
    fn find_directories(&mut self, values: &[Value]) -> Option<Vec<PathBuf>> {
        let mut directories = Vec::new();
        for value in values {
            let path = match value {
                Value::Text(text) => text,
                Value::Below(_) | Value::Prefix(_) | Value::Fresh => return None,
            };
            for path in self.absolute_paths(path)? {
                let found = self.file_system.find_logical(&path).unwrap_or(path);
                if !directories.contains(&found) {
                    directories.push(found);
                }
            }
        }
        (1..=32).contains(&directories.len()).then_some(directories)
    }
}
