//! docs/cli.md, the reference for the command line. It is generated from the definitions of the
//! commands, so it is complete. A test here fails if the file is out of date; `UPDATE=1`
//! regenerates the file.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::arguments::{Arguments, GROUPS};

const INTRODUCTION: &str = "\
# The command line

<!-- Generated from the definitions of the commands. `UPDATE=1 cargo test -p takeback reference` regenerates it. -->

`takeback COMMAND --help` also shows these texts. Without a command, `takeback` shows the \
history of the current workspace as a screen, as [terminal.md](terminal.md) describes, or lists its \
checkpoints if there is no terminal. [protocol.md](protocol.md#json-output) describes the JSON that each command \
prints, and the exit codes.
";

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let reference = write_reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &reference).expect("docs/cli.md can be written");
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == reference,
        "docs/cli.md is out of date: `UPDATE=1 cargo test -p takeback reference` regenerates it"
    );
}

/// Describes all commands that are not hidden, in the groups that the help uses.
fn write_reference() -> String {
    let mut root = Arguments::command();
    // This gives every command its full name.
    root.build();
    let mut text = INTRODUCTION.to_owned();
    push_arguments(&mut text, "Global options", global_options(&root));
    for (title, names) in GROUPS {
        write!(text, "\n## {title}\n").expect(WRITES);
        for name in names {
            let command = root.find_subcommand(name).expect("every name in a group is a command");
            push_command(&mut text, &root, command, 3);
        }
    }
    text
}

const WRITES: &str = "writing to a string succeeds";

fn global_options(root: &Command) -> impl Iterator<Item = &Arg> {
    root.get_arguments().filter(|option| !option.is_hide_set())
}

/// Describes a command and its subcommands.
fn push_command(text: &mut String, root: &Command, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    write!(text, "\n{} {name}\n\n", "#".repeat(level)).expect(WRITES);
    let described = describe(command);
    // For example, `takeback rollback list` is the same as `takeback list`.
    let top = root.find_subcommand(command.get_name()).filter(|top| describe(top) == described);
    if let Some(top) = top.filter(|_| level > 3) {
        let name = top.get_name();
        writeln!(text, "The same as [takeback {name}](#takeback-{name}).").expect(WRITES);
        return;
    }
    text.push_str(&described);
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage
        .trim_start_matches("Usage:")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    write!(text, "\n```\n{}\n```\n", usage.join("\n")).expect(WRITES);
    let own = || command.get_arguments().filter(|argument| !is_left_out(argument));
    push_arguments(text, "Arguments", own().filter(|argument| argument.is_positional()));
    push_arguments(text, "Options", own().filter(|argument| !argument.is_positional()));
    if let Some(examples) = command.get_after_help() {
        write!(text, "\n```\n{}\n```\n", examples.to_string().trim_end()).expect(WRITES);
    }
    for subcommand in command.get_subcommands() {
        if !subcommand.is_hide_set() && subcommand.get_name() != "help" {
            push_command(text, root, subcommand, level + 1);
        }
    }
}

/// True for arguments that are hidden, or described once for all commands.
fn is_left_out(argument: &Arg) -> bool {
    argument.is_hide_set() || argument.is_global_set()
}

/// Returns the description of a command, as paragraphs.
fn describe(command: &Command) -> String {
    let description = command.get_long_about().or(command.get_about());
    let description = description.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = description.split("\n\n").map(end_sentence).collect();
    // In Markdown, a star would begin emphasis.
    paragraphs.join("\n\n").replace('*', "\\*") + "\n"
}

/// Adds the period that one-line help texts lack.
fn end_sentence(paragraph: &str) -> String {
    let paragraph = paragraph.trim();
    let is_ended = paragraph.ends_with(['.', ':', '?']);
    format!("{paragraph}{}", if is_ended { "" } else { "." })
}

/// Lists arguments under a title.
fn push_arguments<'a>(text: &mut String, title: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let mut arguments = arguments.peekable();
    if arguments.peek().is_none() {
        return;
    }
    write!(text, "\n{title}:\n\n").expect(WRITES);
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        write!(text, "- {}: {help}", name_argument(argument)).expect(WRITES);
        push_values(text, argument);
        text.push('\n');
    }
}

/// Names an argument as it is typed: `-o, --output <FILE>`.
fn name_argument(argument: &Arg) -> String {
    let value = argument.get_value_names().unwrap_or_default().join("> <");
    if argument.is_positional() {
        return format!("`<{value}>`");
    }
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    match argument.get_action().takes_values() {
        true => format!("`{names} <{value}>`"),
        false => format!("`{names}`"),
    }
}

/// Adds the possible values and the default value of an argument.
fn push_values(text: &mut String, argument: &Arg) {
    if !argument.get_action().takes_values() {
        return;
    }
    let values = argument.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        write!(text, "; one of {}", values.join(", ")).expect(WRITES);
    }
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<String> =
        defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() {
        write!(text, "; {} by default", defaults.join(", ")).expect(WRITES);
    }
}
