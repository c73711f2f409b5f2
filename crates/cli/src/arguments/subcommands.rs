//! Moves the names of subcommands in front of all options, and adds the default subcommand if the
//! user named none.
//!
//! Clap has no default subcommands. If a command has both subcommands and arguments, clap
//! recognizes a subcommand only in front of all options: `rollback --yes undo` would return to a
//! checkpoint called `undo`.

use std::ffi::OsString;

/// The commands that have a default subcommand, each with its default. The first is takeback
/// itself.
const DEFAULTS: [(&str, &str); 6] = [
    ("takeback", "list"),
    ("rollback", "list"),
    ("sessions", "list"),
    ("checkpoints", "status"),
    ("config", "show"),
    ("fleet", "status"),
];

/// The words of the command line, in an order that clap understands.
pub(super) enum Named {
    Words(Vec<OsString>),
    /// A request for takeback's own help or version.
    Help(Vec<OsString>),
}

/// Moves subcommand names in front of all options, and adds default subcommands.
pub(super) fn name_subcommands(mut words: Vec<OsString>, root: &clap::Command) -> Named {
    let (mut command, mut at) = (root, 1);
    loop {
        match find_name(&words[at.min(words.len())..], root, command) {
            Found::Help if command.get_name() == root.get_name() => return Named::Help(words),
            Found::Help | Found::Other => return Named::Words(words),
            Found::Nothing => {
                let default = default_of(command);
                // An option of the command itself rules out the default subcommand.
                let default = default.filter(|_| !has_own_option(&words[at..], command));
                words.splice(at..at, default.map(OsString::from));
                return Named::Words(words);
            }
            Found::Subcommand(subcommand, distance) => {
                // Takeback itself has no positional arguments, so its options can stay in place.
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

/// The result of a search for the first word that is not an option.
enum Found<'c> {
    /// The name of a subcommand, and the number of words before it.
    Subcommand(&'c clap::Command, usize),
    /// Another word, or `--`.
    Other,
    /// Either there are only options and one of them asks for help or the version, or the last word
    /// is `help`.
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

/// Returns the default subcommand of a command.
fn default_of(command: &clap::Command) -> Option<&'static str> {
    let default = DEFAULTS.iter().find(|(name, _)| *name == command.get_name());
    default.map(|(_, default)| *default)
}

/// True if one of the words is an option that belongs to the command itself and is not global.
fn has_own_option(words: &[OsString], command: &clap::Command) -> bool {
    let own = command.get_arguments().filter(|option| !option.is_global_set());
    let own: Vec<&str> = own.filter_map(clap::Arg::get_long).collect();
    let long = |word: &OsString| Some(word.to_str()?.strip_prefix("--")?.to_owned());
    words.iter().filter_map(long).any(|word| own.contains(&word.as_str()))
}

/// True if the next word is the value of `option`, which is passed without its first dash.
fn takes_next_word(option: &str, root: &clap::Command, command: &clap::Command) -> bool {
    // The option could belong to a subcommand that is not known yet.
    let commands = [root, command].into_iter().chain(command.get_subcommands());
    let options = commands.flat_map(clap::Command::get_arguments);
    let mut options = options.filter(|option| option.get_action().takes_values());
    match option.strip_prefix('-') {
        Some(long) => options.any(|known| known.get_long() == Some(long)),
        // Short flags can be combined: `-vC DIR`.
        None => {
            let shorts: Vec<char> = options.filter_map(clap::Arg::get_short).collect();
            option.find(|letter| shorts.contains(&letter)).is_some_and(|at| at + 1 == option.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Arguments;
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: &str) {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let (Named::Words(seen) | Named::Help(seen)) =
            name_subcommands(words(typed), &Arguments::command());
        assert_eq!(seen, words(expected), "{typed}");
    }

    #[test]
    fn a_missing_subcommand_becomes_the_default() {
        check("takeback", "takeback list");
        check("takeback --json", "takeback list --json");
        check("takeback -C dir --steps", "takeback list -C dir --steps");
        check("takeback rollback", "takeback rollback list");
        check("takeback -v rollback --steps", "takeback -v rollback list --steps");
        check("takeback sessions --limit 5", "takeback sessions list --limit 5");
        check("takeback checkpoints --json", "takeback checkpoints status --json");
        // `--dry-run` belongs to `rollback` itself, so no default subcommand is added.
        check("takeback rollback --dry-run", "takeback rollback --dry-run");
    }

    #[test]
    fn options_can_precede_subcommands() {
        check("takeback rollback --yes undo", "takeback rollback undo --yes");
        check("takeback rollback -vC dir diff 1", "takeback rollback diff -vC dir 1");
        check(
            "takeback --color never rollback --dry-run redo",
            "takeback --color never rollback redo --dry-run",
        );
        check("takeback sessions --json show x", "takeback sessions show --json x");
    }

    #[test]
    fn checkpoints_and_paths_are_not_subcommands() {
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
