//! The files that git changes or deletes: those that the command names, and those that it sweeps.

use std::path::PathBuf;

use super::arguments::{split_operands, split_operands_until};
use super::value::Value;
use super::{Change, Finder};

/// The option that names a file that contains pathspecs.
const PATHSPEC_FILE: &str = "--pathspec-from-file";

/// Git commands that change no files in the work tree. Commands with a rule of their own are not
/// listed.
#[rustfmt::skip]
const KEEPING: &[&str] = &[
    "add", "annotate", "blame", "branch", "bugreport", "cat-file", "check-attr", "check-ignore",
    "check-mailmap", "check-ref-format", "cherry", "column", "commit", "commit-graph",
    "commit-tree", "count-objects", "credential", "describe", "diagnose", "diff-files",
    "diff-index", "diff-tree", "difftool", "fast-export", "fast-import", "fetch", "fetch-pack",
    "fmt-merge-msg", "for-each-ref", "fsck", "gc", "get-tar-commit-id", "grep", "gui",
    "hash-object", "help", "imap-send", "index-pack", "instaweb", "interpret-trailers", "lfs",
    "ls-files", "ls-remote", "ls-tree", "mailinfo", "maintenance", "merge-base", "merge-tree",
    "mktag", "mktree", "multi-pack-index", "name-rev", "notes", "pack-objects", "pack-refs",
    "patch-id", "prune", "prune-packed", "push", "range-diff", "reflog", "remote", "repack",
    "replace", "request-pull", "rerere", "rev-list", "rev-parse", "send-email",
    "send-pack", "shortlog", "show-branch", "show-index", "show-ref", "stage", "status",
    "stripspace", "symbolic-ref", "tag", "unpack-objects", "update-index", "update-ref",
    "update-server-info", "var", "verify-commit", "verify-pack", "verify-tag", "version",
    "whatchanged", "worktree", "write-tree",
];

/// A pathspec that may match more than one path.
enum Pathspec<'v> {
    /// A pattern. The value is the directory that contains all its matches.
    Below(&'v str),
    /// A pathspec with magic, such as `:/` or `:!src`.
    Magic,
}

/// Parses a pathspec. Returns `None` if it can only be a path.
fn find_pattern(value: &Value) -> Option<Pathspec<'_>> {
    let text = value.text()?;
    if text.starts_with(':') {
        return Some(Pathspec::Magic);
    }
    let start = &text[..text.find(['*', '?', '['])?];
    Some(Pathspec::Below(start.rfind('/').map_or("", |at| &start[..=at])))
}

impl Finder<'_> {
    pub(super) fn visit_git(&mut self, args: &[Vec<Value>], text: &str) {
        let (split, at) =
            split_operands_until(args, "C c git-dir work-tree namespace exec-path config-env");
        let Some((verb, rest)) = args[at..].split_first() else { return };
        let verb = verb.first().and_then(Value::text).unwrap_or_default().to_owned();
        let mut directories: Vec<Vec<Value>> =
            split.options_named(&["-C", "--work-tree"]).into_iter().cloned().collect();
        if !split.has(&["--work-tree"]) {
            // In a new shell, the variable may be unset: its value is then empty.
            let is_set = |value: &&Value| value.text() != Some("");
            let tree = self.state.variable("GIT_WORK_TREE").into_iter().flatten().filter(is_set);
            let tree: Vec<Value> = tree.cloned().collect();
            directories.extend((!tree.is_empty()).then_some(tree));
        }
        let before = self.state.directories.clone();
        for directory in &directories {
            self.state.directories = self.find_directories(directory);
        }
        let aliases = split.options_named(&["-c"]).into_iter().flatten().filter_map(Value::text);
        match self.find_git_alias(&verb, aliases) {
            Some(alias) => self.visit_git_alias(&alias, rest),
            None => self.visit_git_verb(&verb, rest, text),
        }
        self.state.directories = before;
    }

    fn visit_git_verb(&mut self, verb: &str, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "b B c C s e m o source orphan exclude output message");
        let verb_of = split.operands.first().and_then(|group| group.first()).and_then(Value::text);
        match verb {
            "clean" if split.has(&["-n", "--dry-run"]) => {}
            "clean" => {
                self.sweeps_repositories |= split.count(&["-f", "--force"]) > 1;
                match split.operands.is_empty() {
                    true => self.sweep_directories(text),
                    false => self.sweep_pathspecs(&split.operands, text),
                }
            }
            "checkout" => self.visit_checkout(args, text),
            "restore" => {
                let is_staged = split.has(&["-S", "--staged"]) && !split.has(&["-W", "--worktree"]);
                if !is_staged && split.has(&[PATHSPEC_FILE]) {
                    self.sweep_repository(text);
                } else if !is_staged {
                    self.sweep_pathspecs(&split.operands, text);
                }
            }
            "switch" => {
                let creates = split.has(&["-c", "-C", "--create", "--force-create"]);
                if !creates || !split.operands.is_empty() {
                    self.sweep_repository(text);
                }
            }
            "reset" if !split.has(&["--hard", "--merge", "--keep"]) => {}
            "stash" => {
                let flags = ["-u", "-a", "--include-untracked", "--all"];
                if split.has(&flags) || matches!(verb_of, Some("pop" | "apply" | "branch")) {
                    self.sweep_repository(text);
                }
            }
            "rm" if split.has(&["--cached"]) => {}
            "rm" | "mv" => {
                for group in &split.operands {
                    self.add_values(group, Change::Removes, text);
                }
            }
            "clone" if split.operands.len() < 2 => {}
            "clone" | "init" => {
                if let Some(target) = split.operands.last() {
                    self.add_values(target, Change::Touches, text);
                }
            }
            "submodule" if verb_of == Some("deinit") && split.operands.len() == 1 => {
                self.sweep_repository(text);
            }
            "worktree" if verb_of == Some("remove") => {
                for group in &split.operands[1..] {
                    self.add_values(group, Change::Removes, text);
                    // git also deletes the repository's data about the work tree.
                    for data in self.find_work_tree_data(group) {
                        self.add_value(&data, Change::Removes, text);
                    }
                }
            }
            "worktree" | "submodule"
                if matches!(verb_of, Some("remove" | "deinit" | "add" | "move")) =>
            {
                for group in &split.operands[1..] {
                    self.add_values(group, Change::Removes, text);
                }
            }
            "am" | "apply" | "bisect" | "cherry-pick" | "filter-branch" | "filter-repo"
            | "merge" | "pull" | "read-tree" | "rebase" | "reset" | "revert"
            | "sparse-checkout" | "submodule" => self.sweep_repository(text),
            "archive" | "diff" | "format-patch" | "log" | "show" => {
                for output in split.options_named(&["-o", "--output"]) {
                    self.add_values(output, Change::Overwrites, text);
                }
            }
            "config" => self.define_git_aliases(&split.operands),
            "bundle" => {
                for group in split.operands.iter().skip(1).take(1) {
                    self.add_values(group, Change::Overwrites, text);
                }
            }
            _ if KEEPING.contains(&verb) => {}
            // The verb may be unknown, an alias in a file that is not read, or a separate program.
            _ => self.sweep_repository(text),
        }
    }

    /// Finds the directories in which a repository keeps the data of linked work trees.
    fn find_work_tree_data(&mut self, trees: &[Value]) -> Vec<Value> {
        let paths: Vec<PathBuf> =
            trees.iter().filter_map(|tree| self.resolve_value(tree)).flatten().collect();
        let read = |path: PathBuf| {
            let link = self.file_system.read_text(&path.join(".git"))?;
            let data = link.trim().strip_prefix("gitdir: ")?;
            Some(Value::Text(path.join(data).into_os_string().into_string().ok()?))
        };
        paths.into_iter().filter_map(read).collect()
    }

    /// Visits `git checkout`, which restores paths or switches to another commit.
    fn visit_checkout(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "b B orphan conflict");
        let is_end =
            |group: &Vec<Value>| matches!(group.as_slice(), [Value::Text(text)] if text == "--");
        if let Some(at) = args.iter().position(is_end) {
            return self.sweep_pathspecs(&args[at + 1..], text);
        }
        if split.operands.is_empty() && split.has(&["-b", "-B", "--orphan"]) {
            return;
        }
        let is_path = |group: &&Vec<Value>| {
            self.is_existing(group) || group.iter().any(|value| find_pattern(value).is_some())
        };
        let paths: Vec<Vec<Value>> = split.operands.iter().filter(is_path).cloned().collect();
        match paths.is_empty() || split.has(&[PATHSPEC_FILE]) {
            true => self.sweep_repository(text),
            false => self.sweep_pathspecs(&paths, text),
        }
    }

    /// Sweeps the paths that match git's pathspecs. A pattern matches paths at any depth.
    fn sweep_pathspecs(&mut self, groups: &[Vec<Value>], text: &str) {
        for group in groups {
            match group.as_slice() {
                [value] if find_pattern(value).is_some() && !self.is_existing(group) => {
                    match find_pattern(value) {
                        Some(Pathspec::Below(start)) => {
                            let directory = if start.is_empty() { "." } else { start };
                            self.sweep_values(&[Value::Text(directory.to_owned())], text);
                        }
                        _ => self.sweep_repository(text),
                    }
                }
                _ => self.sweep_values(group, text),
            }
        }
    }

    /// Returns true if one of the values is a path that exists.
    pub(super) fn is_existing(&mut self, values: &[Value]) -> bool {
        values.iter().any(|value| match value {
            Value::Text(text) if !text.is_empty() => {
                let paths = self.absolute_paths(text).unwrap_or_default();
                paths.iter().any(|path| self.file_system.exists(path))
            }
            _ => false,
        })
    }

    /// Sweeps the working trees that the shell may be in.
    fn sweep_repository(&mut self, text: &str) {
        match self.find_repositories() {
            Some(roots) => roots.into_iter().for_each(|root| self.add_sweep(root)),
            None => self.note_unknown(text),
        }
    }

    /// Finds the roots of the working trees that the shell may be in. A directory outside any
    /// working tree counts as a root.
    pub(super) fn find_repositories(&mut self) -> Option<Vec<PathBuf>> {
        let mut roots = Vec::new();
        for directory in self.state.directories.clone()? {
            let directory = self.file_system.resolve(&directory.join("x"));
            let directory = directory.parent().unwrap_or(&directory);
            let root =
                directory.ancestors().find(|root| self.file_system.exists(&root.join(".git")));
            roots.push(root.unwrap_or(directory).to_owned());
        }
        Some(roots)
    }
}
