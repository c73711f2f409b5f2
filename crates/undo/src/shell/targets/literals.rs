//! Finds paths in code that is not parsed: programs in other languages, and shell scripts that the
//! parser does not accept.

use super::value::Value;
use super::{Change, Finder};

/// The maximum number of words that are checked.
const MAX_WORDS: usize = 500;

/// The maximum length of the code, in bytes. The rest of longer code is ignored.
const MAX_LENGTH: usize = 64 * 1024;

/// Names of functions that delete or overwrite files, in several languages.
#[rustfmt::skip]
const DELETING: &[&str] = &[
    "rmtree", "unlink", "os.remove", "rmdir", "rmSync", "fs.rm", "removeSync", "emptyDir", "rimraf",
    "rm_rf", "rm_r", "FileUtils.rm", "remove_dir", "remove_tree", "truncate",
];

/// Names of functions that move files, in several languages.
const MOVING: &[&str] = &[
    "shutil.move",
    "os.rename",
    "os.replace",
    ".rename(",
    "renameSync",
    "moveSync",
    "FileUtils.mv",
];

/// Programs that delete or overwrite files.
#[rustfmt::skip]
const DELETING_PROGRAMS: &[&str] = &[
    "bzip2", "cp", "dd", "gzip", "install", "ln", "mv", "rm", "rmdir", "rsync", "shred", "tee",
    "truncate", "unlink", "xz", "zstd",
];

/// The greatest harm that code may do to the paths that it contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    Writes,
    Moves,
    Deletes,
}

/// Adds the paths among the string literals of a program.
pub(super) fn visit_code(finder: &mut Finder<'_>, code: &str, command: &str) {
    let code = cut(code);
    let harm = find_harm(code);
    let deletes = harm == Harm::Deletes;
    let mut found = false;
    for literal in find_literals(code).into_iter().take(MAX_WORDS) {
        let is_path = add_literal(finder, literal, harm);
        found |= is_path || (literal.contains(['/', '.']) && !literal.contains(['{', '%', '*']));
    }
    let writes = finder.state.directories.is_none() && code.contains("open(");
    if writes || (deletes && !found) {
        finder.note_unknown(command);
    }
}

/// Adds the paths among the string literals of a program file, if the program deletes or moves
/// files. Deletions of paths that are not literals are not reported, because programs often receive
/// such paths as arguments.
pub(super) fn visit_program(finder: &mut Finder<'_>, program: &str) {
    let program = cut(program);
    let harm = find_harm(program);
    if harm == Harm::Writes {
        return;
    }
    for literal in find_literals(program).into_iter().take(MAX_WORDS) {
        add_literal(finder, literal, harm);
    }
}

fn find_harm(code: &str) -> Harm {
    let has_any = |names: &[&str]| names.iter().any(|name| code.contains(name));
    if has_any(DELETING) {
        Harm::Deletes
    } else if has_any(MOVING) {
        Harm::Moves
    } else {
        Harm::Writes
    }
}

/// Adds the paths among the words of a script.
pub(super) fn visit_words(finder: &mut Finder<'_>, script: &str, reports: bool) {
    let words: Vec<&str> = split_words(script).collect();
    let deletes = names_deleting_program(script);
    let cleans = words.windows(2).any(|pair| pair == ["git", "clean"]);
    let harm = if deletes { Harm::Deletes } else { Harm::Writes };
    for word in words {
        add_literal(finder, word, harm);
    }
    // A redirection may write a file that is known only at run time.
    let writes = cut(script)
        .split('>')
        .skip(1)
        .any(|rest| rest.trim_start_matches([' ', '"', '|']).starts_with(['$', '`']));
    if reports && (deletes || cleans || writes) {
        finder.note_unknown(script);
    }
}

/// Returns true if a program that deletes or overwrites files is among the words of a script.
pub(super) fn names_deleting_program(script: &str) -> bool {
    split_words(script).any(|word| DELETING_PROGRAMS.contains(&word))
}

fn split_words(script: &str) -> impl Iterator<Item = &str> {
    let is_break = |c: char| c.is_whitespace() || "'\"`;|&<>(){}$=".contains(c);
    cut(script).split(is_break).filter(|word| !word.is_empty()).take(MAX_WORDS)
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_LENGTH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Adds a literal if it is a path that exists. Returns true if it was added.
fn add_literal(finder: &mut Finder<'_>, literal: &str, harm: Harm) -> bool {
    let deletes = harm == Harm::Deletes;
    if literal.is_empty() || literal.len() > 4096 || literal.contains('\n') {
        return false;
    }
    let value = match (literal.strip_prefix("~/"), finder.home().pop()) {
        (Some(below), Some(Value::Text(home))) => Value::Text(format!("{home}/{below}")),
        _ => Value::Text(literal.to_owned()),
    };
    // The rest of a pattern or a format is known only at run time.
    let value = match value.start().find(['*', '?', '{', '%', '$']) {
        Some(at) if at > 0 && deletes => Value::Prefix(value.start()[..at].to_owned()),
        Some(_) => return false,
        None => value,
    };
    let Some(paths) = finder.resolve_value(&value) else { return false };
    let mut found = false;
    for path in paths {
        let is_outside = !path.starts_with(&finder.workspace);
        let is_large = finder.workspace.starts_with(&path)
            || (is_outside && finder.file_system.is_directory(&path));
        if finder.file_system.exists(&path) && (deletes || !is_large) {
            finder.add_resolved(&path, Change::Overwrites, true);
            if harm != Harm::Writes {
                finder.removed.insert(path);
            }
            found = true;
        }
    }
    found
}

/// Returns the strings between quotes or backticks.
fn find_literals(code: &str) -> Vec<&str> {
    let mut literals = Vec::new();
    let mut open: Option<(u8, usize)> = None;
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open) {
            (b'\\', Some(_)) => at += 1,
            (quote @ (b'\'' | b'"' | b'`'), None) => open = Some((quote, at + 1)),
            (quote, Some((opened, start))) if quote == opened => {
                literals.extend(code.get(start..at));
                open = None;
            }
            _ => {}
        }
        at += 1;
    }
    literals
}
