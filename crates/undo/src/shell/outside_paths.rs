//! Finds the paths that a command names.

use std::path::{Component, Path, PathBuf};

use super::ScriptContext;
use super::syntax::Arg;

/// Programs whose operands are all files.
const FILE_PROGRAMS: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "install", "ln", "mkdir", "mv", "rm", "rmdir", "shred", "tee",
    "touch", "truncate", "unlink",
];

/// Options whose value is text, not a path.
const TEXT_OPTIONS: &[&str] =
    &["-m", "--message", "-c", "-e", "--expression", "-H", "-d", "--data"];

/// True if writing to this path changes nothing.
pub(super) fn is_harmless_device(path: &str) -> bool {
    let is_descriptor = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero")
        || path.strip_prefix("/dev/fd/").is_some_and(is_descriptor)
}

/// Finds the paths that the arguments of a program name.
pub(super) fn find_paths(
    base: &str,
    args: &[Arg],
    directory: Option<&Path>,
    context: &ScriptContext<'_>,
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let takes_files = FILE_PROGRAMS.contains(&base);
    // The first operand of these is a script, which may look like a path.
    let mut skip_operand = matches!(base, "sed" | "awk" | "gawk" | "perl");
    let mut skip_value = false;
    for arg in args {
        if std::mem::take(&mut skip_value) {
            continue;
        }
        if !arg.is_operand() {
            skip_value =
                !takes_files && arg.known().is_some_and(|text| TEXT_OPTIONS.contains(&text));
            skip_operand &= !(skip_value && arg.known() == Some("-e"));
            continue;
        }
        if std::mem::take(&mut skip_operand) {
            continue;
        }
        let arg = match arg.known().and_then(|text| text.strip_prefix("of=")) {
            Some(file) if base == "dd" => &Arg::Known(file.to_owned()),
            _ => arg,
        };
        if takes_files || looks_like_path(arg) {
            paths.extend(resolve_path(arg, directory, context));
        }
    }
    // A program that names no path most likely changes the directory it runs in.
    if let Some(directory) = directory
        && !takes_files
        && paths.is_empty()
    {
        paths.extend(retain_outside(&[normalize(directory)], context));
    }
    paths
}

fn looks_like_path(arg: &Arg) -> bool {
    match arg {
        Arg::Home(_) => true,
        Arg::Known(text) => text.contains('/') || text == "..",
        Arg::Operand | Arg::Value | Arg::Unknown => false,
    }
}

/// Returns the paths that lie outside of the workspace.
pub(super) fn retain_outside(paths: &[PathBuf], context: &ScriptContext<'_>) -> Vec<PathBuf> {
    let workspace = normalize(context.workspace);
    paths.iter().filter(|path| !path.starts_with(&workspace)).cloned().collect()
}

/// True if a command deletes files that git does not track, without naming them.
pub(super) fn is_sweep(base: &str, args: &[Arg]) -> bool {
    let words: Vec<&str> = args.iter().filter_map(Arg::known).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    match base {
        "git" if has(&["clean"]) => true,
        "git" if has(&["stash"]) => has(&["-u", "-a", "--include-untracked", "--all"]),
        "git" if has(&["checkout", "switch"]) => has(&["-f", "--force", "--discard-changes"]),
        "git" if has(&["reset"]) => has(&["--hard"]),
        "find" => has(&["-delete"]),
        _ => words.iter().any(|word| word.contains("clean")),
    }
}

/// Resolves an argument to a path.
pub(super) fn resolve_path(
    arg: &Arg,
    directory: Option<&Path>,
    context: &ScriptContext<'_>,
) -> Option<PathBuf> {
    if arg.known().is_some_and(|text| text.contains(':') || text.contains('\n')) {
        // It is an address, a host or a mount.
        return None;
    }
    let path = absolute_path(arg, directory, context.home)?;
    (!path.starts_with("/dev")).then_some(path)
}

/// Returns the absolute path that an argument names, without `.` and `..`.
pub(super) fn absolute_path(
    arg: &Arg,
    directory: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    match arg {
        Arg::Home(below) => Some(normalize(&home?.join(below.trim_start_matches('/')))),
        Arg::Known(text) if text.is_empty() => None,
        Arg::Known(text) if text.starts_with('/') => Some(normalize(Path::new(text))),
        Arg::Known(text) => Some(normalize(&directory?.join(text))),
        Arg::Operand | Arg::Value | Arg::Unknown => None,
    }
}

fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
