//! The command line: the words that were typed → one command with its options.

use std::ffi::OsString;
use std::process::ExitCode;

use anstyle::Style as Ansi;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::context::{GLOBAL_OPTIONS, Globals, find_pager};
use crate::failure::Failure;
use crate::output::{self, Style, paint};

/// Takes back what an AI agent did: its files and its conversation, together.
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
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GLOBAL_OPTIONS)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL_OPTIONS)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  takeback install claude           protect what Claude Code does from now on
  takeback                          list the checkpoints of this directory
  takeback rollback 1               return to the newest one
  takeback rollback 1 src/main.rs   only this file
  takeback rollback undo            undo the rollback
  takeback undo                     take back only what the agent changed in its last turn
  takeback checkpoint --reason 'before the big refactoring'
  takeback search chat-send         search the sessions of all agents
  takeback demo                     see it work on a scratch project";

/// The commands as the help groups them.
pub(crate) const GROUPS: [(&str, &[&str]); 3] = [
    (
        "Everyday",
        &["list", "show", "diff", "rollback", "undo", "redo", "checkpoint", "search", "status"],
    ),
    (
        "Looking after",
        &["install", "uninstall", "doctor", "sessions", "checkpoints", "config", "explain", "demo"],
    ),
    ("For agents", &["run", "hook", "rpc"]),
];

/// The commands that mean one of their subcommands if none is named. The first one is takeback
/// itself.
const DEFAULTS: [(&str, &str); 4] =
    [("takeback", "list"), ("rollback", "list"), ("sessions", "list"), ("checkpoints", "status")];

impl Arguments {
    /// Parses the words of the command line.
    pub(crate) fn parse_words(words: Vec<OsString>) -> Result<Arguments, Box<UsageError>> {
        let mut command = Arguments::command();
        let words = match name_subcommands(words, &command) {
            Named::Words(words) => words,
            Named::Help(words) => {
                command = group_commands(command);
                words
            }
        };
        let parsed = command.try_get_matches_from_mut(&words);
        let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
        parsed.map_err(|error| Box::new(UsageError { error, command, words }))
    }
}

/// Words in an order that clap understands.
enum Named {
    Words(Vec<OsString>),
    /// They ask for the help of takeback itself.
    Help(Vec<OsString>),
}

/// Puts the names of subcommands before all options, and adds those that are not named.
///
/// Clap has no default subcommands. Where a command has both subcommands and arguments of its own, it
/// looks for subcommands only before all options: `rollback --yes undo` would return to a checkpoint
/// called `undo`.
fn name_subcommands(mut words: Vec<OsString>, root: &clap::Command) -> Named {
    let (mut command, mut at) = (root, 1);
    loop {
        match find_name(&words[at.min(words.len())..], root, command) {
            Found::Help if command.get_name() == root.get_name() => return Named::Help(words),
            Found::Help | Found::Other => return Named::Words(words),
            Found::Nothing => {
                let default = default_of(command);
                // Options of the command itself ask for the command itself, without a name.
                let default = default.filter(|_| !has_own_option(&words[at..], command));
                words.splice(at..at, default.map(OsString::from));
                return Named::Words(words);
            }
            Found::Subcommand(subcommand, distance) => {
                // Takeback itself has no arguments, so its options may stay where they are.
                if command.get_name() == root.get_name() {
                    at += distance;
                } else {
                    words[at..=at + distance].rotate_right(1);
                }
                (command, at) = (subcommand, at + 1);
                if !command.has_subcommands() {
                    return Named::Words(words);
                }
            }
        }
    }
}

/// The first word that is no option.
enum Found<'c> {
    /// The name of a subcommand, so many words away.
    Subcommand(&'c clap::Command, usize),
    /// Something else, or the end of options.
    Other,
    /// There are only options, and one of them asks for help or the version.
    Help,
    /// There are only options.
    Nothing,
}

fn find_name<'c>(
    words: &[OsString],
    root: &clap::Command,
    command: &'c clap::Command,
) -> Found<'c> {
    let mut asks_for_help = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let Some(word) = word.to_str() else { return Found::Other };
        match word.strip_prefix('-') {
            Some("-") => return Found::Other,
            Some(option) if !option.is_empty() => {
                asks_for_help |= matches!(word, "-h" | "--help" | "-V" | "--version");
                at += usize::from(takes_next_word(option, root, command));
            }
            _ if word == "help"
                && command.get_name() == root.get_name()
                && at + 1 == words.len() =>
            {
                return Found::Help;
            }
            _ => {
                let subcommand = command.find_subcommand(word);
                return subcommand.map_or(Found::Other, |found| Found::Subcommand(found, at));
            }
        }
        at += 1;
    }
    if asks_for_help { Found::Help } else { Found::Nothing }
}

/// Returns the subcommand that a command means if none is named.
fn default_of(command: &clap::Command) -> Option<&'static str> {
    let default = DEFAULTS.iter().find(|(name, _)| *name == command.get_name());
    default.map(|(_, default)| *default)
}

/// True if one of the options is one of the command itself, and not of every command.
fn has_own_option(words: &[OsString], command: &clap::Command) -> bool {
    let own = command.get_arguments().filter(|option| !option.is_global_set());
    let own: Vec<&str> = own.filter_map(clap::Arg::get_long).collect();
    let long = |word: &OsString| Some(word.to_str()?.strip_prefix("--")?.to_owned());
    words.iter().filter_map(long).any(|word| own.contains(&word.as_str()))
}

/// True if the value of an option, given without its first dash, is the next word.
fn takes_next_word(option: &str, root: &clap::Command, command: &clap::Command) -> bool {
    // The option may be one of a subcommand that is not known yet.
    let commands = [root, command].into_iter().chain(command.get_subcommands());
    let options = commands.flat_map(clap::Command::get_arguments);
    let mut options = options.filter(|option| option.get_action().takes_values());
    match option.strip_prefix('-') {
        Some(long) => options.any(|known| known.get_long() == Some(long)),
        // Flags of one letter may stand together: `-vC DIR`.
        None => {
            let shorts: Vec<char> = options.filter_map(clap::Arg::get_short).collect();
            option.find(|letter| shorts.contains(&letter)).is_some_and(|at| at + 1 == option.len())
        }
    }
}

/// Changes the help of takeback itself such that its commands stand in groups.
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

/// A command line that cannot be understood, or that asks for help.
pub(crate) struct UsageError {
    error: clap::Error,
    command: clap::Command,
    words: Vec<OsString>,
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl UsageError {
    /// True if the user asked for help or the version and gets it.
    pub(crate) fn is_help(&self) -> bool {
        !self.error.use_stderr()
    }

    /// Prints the help, or says what is wrong with the command line.
    pub(crate) fn report(&self) -> ExitCode {
        let has_option = |option: &str| self.words.iter().any(|word| word == option);
        let json = has_option("--json");
        if self.is_help() {
            find_pager(json || has_option("--no-pager")).into_iter().for_each(output::use_pager);
            println!("{}", self.error.render().ansi().to_string().trim_end());
            return ExitCode::SUCCESS;
        }
        let text = self.error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
        let first = paragraphs.next().unwrap_or("wrong usage");
        let message = match self.error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(typed)) => format!("unknown command '{typed}'"),
            _ => output::join_lines(first.strip_prefix("error: ").unwrap_or(first)),
        };
        let mut hint = self.hint();
        let mut usage = None;
        for paragraph in paragraphs {
            match paragraph.strip_prefix("tip: ") {
                Some(tip) if hint.is_none() => hint = Some(output::join_lines(tip)),
                None if paragraph.starts_with("Usage:") => usage = Some(paragraph),
                _ => {}
            }
        }
        let hint = hint.or(json.then(|| "`takeback --help` lists the commands".to_owned()));
        Failure { message, causes: Vec::new(), hint }.report(json);
        if let Some(usage) = usage.filter(|_| !json) {
            let usage = output::disarm_lines(usage);
            eprintln!("{}", usage.replacen("Usage:", &paint(Style::Label, "Usage:"), 1));
        }
        ExitCode::from(u8::try_from(self.error.exit_code()).unwrap_or(2))
    }

    /// Says what to type instead, where more is known than clap knows.
    fn hint(&self) -> Option<String> {
        let (invalid, suggested) = (ContextKind::InvalidArg, ContextKind::SuggestedSubcommand);
        match (self.error.kind(), self.error.get(invalid), self.error.get(suggested)) {
            (ErrorKind::InvalidSubcommand, _, Some(ContextValue::String(name))) => {
                self.suggest(std::slice::from_ref(name))
            }
            (ErrorKind::InvalidSubcommand, _, Some(ContextValue::Strings(names))) => {
                self.suggest(names)
            }
            (ErrorKind::UnknownArgument, Some(ContextValue::String(typed)), _) => {
                self.find_owner(typed)
            }
            (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing)), _) => {
                let is_checkpoint = missing.iter().any(|name| name == "<CHECKPOINT>");
                is_checkpoint.then(|| "`takeback list` lists the checkpoints".to_owned())
            }
            _ => None,
        }
    }

    /// Finds the commands that the words name, from takeback itself down to the last one.
    fn named_commands(&self) -> Vec<&clap::Command> {
        let mut named = vec![&self.command];
        for word in &self.words {
            named.extend(named[named.len() - 1].find_subcommand(word));
        }
        named
    }

    /// Names the command that was probably meant, given similar names, the best last.
    fn suggest(&self, names: &[String]) -> Option<String> {
        let named = self.named_commands();
        let command = named[named.len() - 1];
        // A name may be another name of a command.
        let commands = names.iter().rev().filter_map(|name| command.find_subcommand(name));
        let meant = commands.into_iter().find(|command| !command.is_hide_set())?;
        Some(format!("did you mean `{} {}`?", join_names(&named), meant.get_name()))
    }

    /// Says which commands have an option that this one does not have: its neighbours if one of them
    /// has it, otherwise any.
    fn find_owner(&self, typed: &str) -> Option<String> {
        let option = typed.strip_prefix("--")?;
        let has_option = |command: &clap::Command| {
            let mut all = command.get_arguments().filter(|known| !known.is_global_set());
            !command.is_hide_set() && all.any(|known| known.get_long() == Some(option))
        };
        let below = |path: &[&clap::Command]| {
            let command = path[path.len() - 1];
            let children = command.get_subcommands().filter(|child| has_option(child));
            let children =
                children.map(|child| format!("{} {}", join_names(path), child.get_name()));
            let own = has_option(command).then(|| join_names(path));
            own.into_iter().chain(children).collect::<Vec<_>>()
        };
        let named = self.named_commands();
        let mut owners = if named.len() > 2 { below(&named[..2]) } else { Vec::new() };
        if owners.is_empty() {
            owners = below(&named[..1]);
        }
        owners.truncate(3);
        let owners: Vec<String> = owners.iter().map(|owner| format!("`{owner}`")).collect();
        let (last, others) = owners.split_last()?;
        Some(match others {
            [] => format!("{typed} is an option of {last}"),
            others => format!("{typed} is an option of {} and {last}", others.join(", ")),
        })
    }
}

fn join_names(commands: &[&clap::Command]) -> String {
    commands.iter().map(|command| command.get_name()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: &str) {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let (Named::Words(seen) | Named::Help(seen)) =
            name_subcommands(words(typed), &Arguments::command());
        assert_eq!(seen, words(expected), "{typed}");
    }

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

    #[test]
    fn what_is_not_named_is_the_default() {
        check("takeback", "takeback list");
        check("takeback --json", "takeback list --json");
        check("takeback -C dir --steps", "takeback list -C dir --steps");
        check("takeback rollback", "takeback rollback list");
        check("takeback -v rollback --steps", "takeback -v rollback list --steps");
        check("takeback sessions --limit 5", "takeback sessions list --limit 5");
        check("takeback checkpoints --json", "takeback checkpoints status --json");
        // Which checkpoint is missing.
        check("takeback rollback --dry-run", "takeback rollback --dry-run");
    }

    #[test]
    fn options_may_stand_before_subcommands() {
        check("takeback rollback --yes undo", "takeback rollback undo --yes");
        check("takeback rollback -vC dir diff 1", "takeback rollback diff -vC dir 1");
        check(
            "takeback --color never rollback --dry-run redo",
            "takeback --color never rollback redo --dry-run",
        );
        check("takeback sessions --json show x", "takeback sessions show --json x");
    }

    #[test]
    fn checkpoints_and_paths_are_no_subcommands() {
        for typed in [
            "takeback rollback 1 list",
            "takeback rollback --yes 1 undo",
            "takeback rollback -- list",
            "takeback diff 1 list",
            "takeback run -- list undo",
            "takeback run rollback",
            "takeback hook claude rollback",
            "takeback lst",
            "takeback --help",
            "takeback rollback --help",
            "takeback help rollback",
            "takeback help",
        ] {
            check(typed, typed);
        }
    }
}
