//! Lists the commands of a script that is nothing but a list of commands.
//!
//! A user who allows `git push` for the rest of a task allows this program with this verb. So the
//! words in a script must mean what they seem to mean. A script is not plain if it contains
//! anything that could change their meaning: assignments, functions, substitutions, or programs
//! that run other programs.

use takeback_base::paths::{canonicalize_existing, normalize};

use super::analyzer::is_write;
use super::nested_commands::{SHELLS, find_nested_commands};
use super::parser::{Dialect, parse_script};
use super::read_only::builtins;
use super::read_only::programs::{base_name, why_may_change};
use super::syntax::{Arg, Command, ListEntry, SimpleCommand, Word, WordPart};
use super::{PlainCommand, ScriptContext};

/// Builtins that change the meaning of later commands, in addition to those in
/// `read_only::builtins`.
#[rustfmt::skip]
const STATEFUL: &[&str] = &[
    ".", "bind", "builtin", "command", "complete", "enable", "eval", "exec", "fc", "hash", "let",
    "popd", "pushd", "source", "trap", "unalias",
];

/// Programs whose first argument is a verb, each with a list of the verbs that are followed by a
/// second verb.
#[rustfmt::skip]
const VERB_PROGRAMS: &[(&str, &[&str])] = &[
    ("alembic", &[]),
    ("bun", &["pm", "run"]),
    ("cargo", &[]),
    ("composer", &[]),
    ("deno", &["task"]),
    ("docker", &["builder", "compose", "container", "image", "manifest", "network", "service",
        "stack", "swarm", "system", "volume"]),
    ("docker-compose", &[]),
    ("dotnet", &["nuget", "tool"]),
    ("fly", &["apps", "machine", "secrets"]),
    ("gem", &[]),
    ("git", &["bisect", "notes", "reflog", "remote", "stash", "submodule", "subtree", "worktree"]),
    ("go", &["mod"]),
    ("helm", &[]),
    ("heroku", &[]),
    ("hg", &[]),
    ("jj", &["bookmark", "git", "op"]),
    ("kubectl", &["config", "create", "rollout", "set"]),
    ("make", &[]),
    ("mix", &[]),
    ("npm", &["access", "dist-tag", "run"]),
    ("pip", &[]),
    ("pip3", &[]),
    ("pnpm", &["run"]),
    ("podman", &["compose", "container", "image", "network", "system", "volume"]),
    ("poetry", &[]),
    ("prisma", &["db", "migrate"]),
    ("pulumi", &["stack"]),
    ("svn", &[]),
    ("terraform", &["state", "workspace"]),
    ("tofu", &["state", "workspace"]),
    ("twine", &[]),
    ("uv", &["pip", "tool"]),
    ("yarn", &["npm"]),
];

/// Programs whose first two arguments are an object and a verb.
const OBJECT_PROGRAMS: &[&str] = &["aws", "az", "diesel", "gh", "glab", "sqlx", "supabase"];

/// Lists the commands of a script. Returns `None` if the script is not plain.
pub(super) fn list_commands(
    script: &str,
    context: &ScriptContext<'_>,
) -> Option<Vec<PlainCommand>> {
    let list = parse_script(script, Dialect::Bash, 0).ok()?;
    let moves = list.iter().filter(|entry| is_move(entry)).count();
    if moves > 1 {
        return None;
    }
    list.iter().map(|entry| to_plain(entry, context)).collect()
}

fn is_move(entry: &ListEntry) -> bool {
    let Command::Simple(simple) = &entry.command else { return false };
    simple.words.first().is_some_and(|word| word.to_arg().known() == Some("cd"))
}

fn to_plain(entry: &ListEntry, context: &ScriptContext<'_>) -> Option<PlainCommand> {
    let Command::Simple(simple) = &entry.command else { return None };
    if entry.in_background || !is_plain(simple) {
        return None;
    }
    let args: Vec<Arg> = simple.words.iter().map(Word::to_arg).collect();
    let (name, args) = args.split_first()?;
    let name = name.known()?;
    if name == "cd" {
        return stays_inside(args, context).then(|| PlainCommand {
            text: simple.text.clone(),
            prefix: None,
            mutates: false,
        });
    }
    let is_test = matches!(name, "test" | "[");
    let harmless = builtins::is_harmless(name, args);
    if STATEFUL.contains(&name)
        || SHELLS.contains(&base_name(name))
        || (harmless.is_some() && !is_test)
        || find_nested_commands(name, args).is_some()
    {
        return None;
    }
    let writes = simple.redirects.iter().any(|to| is_write(to.operator, &to.target.to_arg()));
    let changes = match harmless {
        Some(is_harmless) => !is_harmless,
        None => why_may_change(name, args).is_some(),
    };
    Some(PlainCommand {
        text: simple.text.clone(),
        prefix: if writes { None } else { find_prefix(name, args) },
        mutates: writes || changes,
    })
}

/// Returns true if a command has no assignments, and if expanding its words runs nothing and adds
/// no options.
fn is_plain(simple: &SimpleCommand) -> bool {
    let redirected = simple
        .redirects
        .iter()
        .flat_map(|redirect| [Some(&redirect.target), redirect.body.get()].into_iter().flatten());
    let is_certain = |word: &Word| !matches!(word.to_arg(), Arg::Value | Arg::Unknown);
    simple.assignments.is_empty()
        && simple.words.iter().all(is_certain)
        && simple.words.iter().chain(redirected).all(runs_nothing)
}

fn runs_nothing(word: &Word) -> bool {
    word.parts.iter().all(|part| match part {
        WordPart::Text { .. } | WordPart::Home | WordPart::Expansion { .. } => true,
        WordPart::Substitution { .. }
        | WordPart::Modified { .. }
        | WordPart::Array(_)
        | WordPart::Hidden(_) => false,
    })
}

/// Returns true for a `cd` to a directory in the workspace.
fn stays_inside(args: &[Arg], context: &ScriptContext<'_>) -> bool {
    let [Arg::Known(to)] = args else { return false };
    let target = normalize(&canonicalize_existing(&context.directory.join(to)));
    !to.starts_with('-') && target.starts_with(context.workspace)
}

/// Returns the program and its verb. Returns `None` if the program has no verbs, or if an option
/// comes before the verb.
fn find_prefix(name: &str, args: &[Arg]) -> Option<String> {
    let word = |at: usize| {
        let word = args.get(at)?.known()?;
        let is_verb = word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c));
        is_verb.then_some(word)
    };
    let verb = word(0)?;
    if OBJECT_PROGRAMS.contains(&name) {
        return Some(format!("{name} {verb} {}", word(1)?));
    }
    let (_, nested) = VERB_PROGRAMS.iter().find(|(program, _)| *program == name)?;
    match nested.contains(&verb).then(|| word(1)).flatten() {
        Some(second) => Some(format!("{name} {verb} {second}")),
        None => Some(format!("{name} {verb}")),
    }
}
