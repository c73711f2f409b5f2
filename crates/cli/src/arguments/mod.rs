//! The command line: turns the words that the user typed into one command and its options.

mod subcommands;
mod usage_error;

use std::ffi::OsString;

use anstyle::Style as Ansi;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};

use self::subcommands::{Named, name_subcommands};
use self::usage_error::UsageError;
use crate::commands::Command;
use crate::context::{GLOBAL_OPTIONS, Globals};

/// Takes back what an AI agent did, in your files and in its conversation, together.
#[derive(Parser)]
#[command(
    name = "takeback",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true,
    override_usage = "takeback [OPTIONS] [COMMAND]",
    after_help = EXAMPLES
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// Print this help
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GLOBAL_OPTIONS)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL_OPTIONS)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// True if a default command or subcommand was added, because the user named none.
    #[arg(skip)]
    pub(crate) is_bare: bool,
}

const EXAMPLES: &str = "\
Examples:
  takeback install claude           protect what Claude Code does from now on
  takeback                          browse the history of this directory, and take things back
  takeback rollback 1               return to the newest checkpoint
  takeback rollback 1 src/main.rs   only this file
  takeback rollback undo            undo the rollback
  takeback undo                     take back only what the agent changed in its last turn
  takeback checkpoint --reason 'before the big refactoring'
  takeback fork 1 ../try            try something else from there, in another directory
  takeback search chat-send         search the sessions of all agents
  takeback demo                     see it work on a scratch project

Topics: `takeback help` explains turns, safety, conversations, effects, coverage, patterns, privacy, \
prices and exit-codes.";

/// The groups of commands in the help.
pub(crate) const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Everyday",
        &[
            "list",
            "show",
            "diff",
            "rollback",
            "undo",
            "redo",
            "checkpoint",
            "fork",
            "compare",
            "resume",
            "search",
            "status",
            "report",
            "serve",
            "export",
        ],
    ),
    (
        "Setup and maintenance",
        &[
            "install",
            "uninstall",
            "doctor",
            "sessions",
            "checkpoints",
            "config",
            "fleet",
            "completions",
            "explain",
            "demo",
        ],
    ),
    ("takeback's own agent", &["chat", "tasks", "goal"]),
    ("For agents", &["run", "acp", "hook", "rpc", "mcp"]),
];

impl Arguments {
    /// Parses the words of the command line.
    pub(crate) fn parse_words(words: Vec<OsString>) -> Result<Arguments, Box<UsageError>> {
        let mut command = Arguments::command();
        let typed = words.len();
        let words = match name_subcommands(words, &command) {
            Named::Words(words) => words,
            Named::Help(words) => {
                command = group_commands(command);
                words
            }
        };
        let parsed = command.try_get_matches_from_mut(&words);
        let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
        let is_bare = words.len() > typed;
        let parsed = parsed.map(|arguments| Arguments { is_bare, ..arguments });
        parsed.map_err(|error| Box::new(UsageError { error, command, words }))
    }
}

/// Groups the commands in the output of `takeback --help`.
fn group_commands(command: clap::Command) -> clap::Command {
    let heading = Ansi::new().bold().underline();
    let name = Ansi::new().bold();
    let width = command.get_subcommands().map(|known| known.get_name().len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups.push_str(&format!("{heading}{title}:{heading:#}\n"));
        for known in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = known.get_about().map(ToString::to_string).unwrap_or_default();
            let padded = format!("{:width$}", known.get_name());
            groups.push_str(&format!("  {name}{padded}{name:#}  {about}\n"));
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}"
    );
    command.mut_subcommands(|known| known.hide(true)).help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let mut visible: Vec<&str> = command
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }
}
