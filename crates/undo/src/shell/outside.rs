//! Paths outside of the workspace that a command names.

use std::path::{Component, Path, PathBuf};

use super::Surroundings;
use super::syntax::Arg;

/// Programs whose operands are files.
const FILES: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "install", "ln", "mkdir", "mv", "rm", "rmdir", "shred", "tee",
    "touch", "truncate", "unlink",
];

/// Options whose value is text, not a path.
const TEXT: &[&str] = &["-m", "--message", "-c", "-e", "--expression", "-H", "-d", "--data"];

/// Whether writing to it changes nothing.
pub(super) fn is_harmless_device(path: &str) -> bool {
    let descriptor = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero")
        || path.strip_prefix("/dev/fd/").is_some_and(descriptor)
}

/// The paths outside that the arguments of a program name.
pub(super) fn named(
    base: &str,
    args: &[Arg],
    directory: Option<&Path>,
    around: &Surroundings<'_>,
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let files = FILES.contains(&base);
    // The first operand of these is a program, which may look like a path.
    let mut skip_operand = matches!(base, "sed" | "awk" | "gawk" | "perl");
    let mut skip_value = false;
    for arg in args {
        if std::mem::take(&mut skip_value) {
            continue;
        }
        if !arg.is_operand() {
            skip_value = !files && arg.known().is_some_and(|text| TEXT.contains(&text));
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
        if files || looks_like_path(arg) {
            paths.extend(resolve(arg, directory, around));
        }
    }
    // What it changes without naming it is most likely where it runs.
    if let Some(directory) = directory
        && !files
        && paths.is_empty()
    {
        paths.extend(resolve(&Arg::Known(".".to_owned()), Some(directory), around));
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

/// The path that a word names, if it lies outside of the workspace.
pub(super) fn resolve(
    arg: &Arg,
    directory: Option<&Path>,
    around: &Surroundings<'_>,
) -> Option<PathBuf> {
    if arg.known().is_some_and(|text| text.contains(':') || text.contains('\n')) {
        // An address, a host, a mount.
        return None;
    }
    let path = absolute(arg, directory, around.home)?;
    let inside = path.starts_with(normal(around.workspace)) || path.starts_with("/dev");
    (!inside).then_some(path)
}

/// The path that a word names, without `.` and `..`.
pub(super) fn absolute(
    arg: &Arg,
    directory: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    match arg {
        Arg::Home(below) => Some(normal(&home?.join(below.trim_start_matches('/')))),
        Arg::Known(text) if text.is_empty() => None,
        Arg::Known(text) if text.starts_with('/') => Some(normal(Path::new(text))),
        Arg::Known(text) => Some(normal(&directory?.join(text))),
        Arg::Operand | Arg::Value | Arg::Unknown => None,
    }
}

fn normal(path: &Path) -> PathBuf {
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
