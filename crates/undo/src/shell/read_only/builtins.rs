//! The shell builtins, and the arguments that keep them harmless.

use super::variables::{is_harmless_for_programs, is_harmless_in_shell};
use crate::shell::parser::is_name;
use crate::shell::syntax::{Arg, Word};

/// Returns true if a shell builtin is harmless with these arguments. Returns `None` for other
/// commands.
pub(in crate::shell) fn is_harmless(name: &str, args: &[Arg]) -> Option<bool> {
    Some(match name {
        "test" | "[" => is_harmless_single_test(args),
        "printf" => match args.first() {
            None => true,
            Some(Arg::Known(first)) if first == "-v" => {
                args.get(1).and_then(Arg::known).is_some_and(is_harmless_in_shell)
            }
            // The format may be unknown, but it must not be an option.
            Some(first) => first.is_operand() || first.known() == Some("--"),
        },
        "read" | "mapfile" | "readarray" => is_harmless_read(args),
        "export" | "readonly" | "declare" | "typeset" | "local" => {
            is_harmless_declaration(name, args)
        }
        "unset" => args.iter().all(|arg| arg.known().is_some_and(is_harmless_in_shell)),
        "set" => is_harmless_set(args),
        "shopt" => is_harmless_shopt(args),
        "getopts" => args.get(1).and_then(Arg::known).is_some_and(is_harmless_in_shell),
        // Defining an alias changes the meaning of later words.
        "alias" => args.is_empty(),
        "umask" | "ulimit" | "history" => args.is_empty(),
        _ => return None,
    })
}

/// Returns true for a harmless `[ … ]`. The operators must be known: `-v` and `-R` evaluate a
/// subscript, which may run a command.
fn is_harmless_single_test(args: &[Arg]) -> bool {
    let unknown_operator =
        |pair: &[Arg]| pair[0] == Arg::Value && !matches!(pair[1], Arg::Known(_) | Arg::Home(_));
    args.iter().all(|arg| *arg != Arg::Unknown && !matches!(arg.known(), Some("-v" | "-R")))
        && !args.windows(2).any(unknown_operator)
}

/// Returns true if `[[ … ]]` with these words is harmless. Numbers are compared by arithmetic,
/// which may run a command.
pub(in crate::shell) fn is_harmless_test(words: &[Word]) -> bool {
    let args: Vec<Arg> = words.iter().map(Word::to_arg).collect();
    let is_number = |arg: Option<&Arg>| {
        let text = arg.and_then(Arg::known);
        text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    args.iter().enumerate().all(|(at, arg)| match arg.known() {
        Some("-v" | "-R" | "-o") => false,
        Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
            at > 0 && is_number(args.get(at - 1)) && is_number(args.get(at + 1))
        }
        _ => true,
    })
}

fn is_harmless_read(args: &[Arg]) -> bool {
    args.iter().all(|arg| match arg.known() {
        Some("-C" | "-c") => false,
        Some(option) if option.starts_with('-') => {
            option[1..].bytes().all(|byte| b"rsaptndeuN0123456789".contains(&byte))
        }
        // The word is a prompt, a delimiter or the name of a variable. If it is a name, setting
        // that variable must be harmless.
        Some(text) => !is_name(text) || is_harmless_in_shell(text),
        None => false,
    }) && args.iter().filter_map(Arg::known).all(|text| !text.contains('['))
}

fn is_harmless_declaration(name: &str, args: &[Arg]) -> bool {
    let mut exported = name == "export";
    args.iter().all(|arg| {
        let Some(text) = arg.known() else { return false };
        if let Some(letters) = text.strip_prefix('-') {
            exported |= letters.contains('x');
            // `-n` makes a name refer to another variable, and `-i` evaluates arithmetic, so
            // neither is allowed.
            return letters.bytes().all(|byte| b"raAglupx".contains(&byte));
        }
        let (variable, value) = match text.split_once('=') {
            Some((variable, value)) => (variable.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        if exported {
            is_name(variable) && is_harmless_for_programs(variable, value)
        } else {
            is_harmless_in_shell(variable)
        }
    })
}

/// Returns true for `set -euo pipefail`, `set -- a b` and similar commands.
fn is_harmless_set(args: &[Arg]) -> bool {
    const NAMES: &[&str] = &["errexit", "nounset", "pipefail", "xtrace", "verbose", "noglob"];
    for arg in args {
        match arg.known() {
            Some("--") => return true,
            Some(text) if NAMES.contains(&text) => {}
            Some(text) if text.starts_with(['-', '+']) => {
                if !text[1..].bytes().all(|byte| b"euxvfoE".contains(&byte)) {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

fn is_harmless_shopt(args: &[Arg]) -> bool {
    const NAMES: &[&str] =
        &["-s", "-u", "-q", "-p", "globstar", "nullglob", "dotglob", "failglob", "nocaseglob"];
    args.iter().all(|arg| arg.known().is_some_and(|text| NAMES.contains(&text)))
}
