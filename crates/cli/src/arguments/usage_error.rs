//! Reports an invalid command line, and suggests what to type instead.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use takeback_base::text::find_similar;

use crate::context::{Color, find_pager};
use crate::failure::Failure;
use crate::output::{self, Style, paint};
use crate::topics;

/// A command line that cannot be understood, or that asks for help.
pub(crate) struct UsageError {
    pub(super) error: clap::Error,
    pub(super) command: clap::Command,
    pub(super) words: Vec<OsString>,
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

/// Names that other programs use for takeback's commands, each with takeback's own name.
const SYNONYMS: &[(&str, &str)] = &[
    ("back", "rollback"),
    ("browse", "serve"),
    ("commit", "checkpoint"),
    ("continue", "resume"),
    ("cost", "sessions stats"),
    ("history", "list"),
    ("log", "list"),
    ("reset", "rollback"),
    ("restore", "rollback"),
    ("revert", "rollback"),
    ("rewind", "rollback"),
    ("save", "checkpoint"),
    ("snapshot", "checkpoint"),
    ("stats", "sessions stats"),
    ("ui", "serve"),
    ("usage", "sessions stats"),
    ("web", "serve"),
];

impl UsageError {
    /// True if the user asked for help or for the version.
    pub(crate) fn is_help(&self) -> bool {
        !self.error.use_stderr()
    }

    /// Prints the help, or reports the error in the command line.
    pub(crate) fn report(&self) -> ExitCode {
        self.color().into_iter().for_each(output::set_colors);
        let has_option = |option: &str| self.words.iter().any(|word| word == option);
        let json = has_option("--json");
        if let Some(topic) = self.typed_topic() {
            find_pager(json || has_option("--no-pager")).into_iter().for_each(output::use_pager);
            if let Some(code) = topics::print(topic, json) {
                return code;
            }
        }
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
            _ => clarify(&output::join_lines(first.strip_prefix("error: ").unwrap_or(first))),
        };
        let mut hint = self.hint();
        let mut usage = None;
        for paragraph in paragraphs {
            match paragraph.strip_prefix("tip: ") {
                // Skip clap's tip on how to pass an option as a value: that is rarely what the user
                // meant.
                Some(tip) if hint.is_none() && !tip.starts_with("to pass ") => {
                    hint = Some(output::join_lines(tip));
                }
                None if paragraph.starts_with("Usage:") => usage = Some(paragraph),
                _ => {}
            }
        }
        let hint = hint.or_else(|| self.suggest_help());
        Failure { hint, ..Failure::new(message) }.report(json);
        if let Some(usage) = usage.filter(|_| !json) {
            let usage = output::disarm_lines(usage);
            eprintln!("{}", usage.replacen("Usage:", &paint(Style::Label, "Usage:"), 1));
        }
        ExitCode::from(u8::try_from(self.error.exit_code()).unwrap_or(2))
    }

    /// Suggests the help of the command that was typed.
    fn suggest_help(&self) -> Option<String> {
        let named = self.named_commands();
        match (self.error.kind(), named.len()) {
            (_, 1) => Some("`takeback --help` lists the commands".to_owned()),
            (ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument, _) => {
                Some(format!("`{} --help` shows examples", join_names(&named)))
            }
            _ => None,
        }
    }

    /// Finds the value of `--color`, even if the rest of the command line is invalid.
    fn color(&self) -> Option<Color> {
        let values = self.words.iter().enumerate().filter_map(|(index, word)| {
            let value = word.to_str()?.strip_prefix("--color")?;
            match value.strip_prefix('=') {
                Some(value) => Some(value),
                None if value.is_empty() => self.words.get(index + 1)?.to_str(),
                None => None,
            }
        });
        values.rev().find_map(|value| Color::from_str(value, false).ok())
    }

    /// Suggests what to type instead. Returns `None` if takeback has no better hint than clap.
    fn hint(&self) -> Option<String> {
        let (invalid, suggested) = (ContextKind::InvalidArg, ContextKind::SuggestedSubcommand);
        if let Some(topic) = self.typed_topic() {
            let names = topics::names();
            let similar = find_similar(topic, names.iter().map(String::as_str));
            return Some(match similar {
                Some(similar) => format!("did you mean `takeback help {similar}`?"),
                None => format!("the topics are: {}", names.join(", ")),
            });
        }
        if let Some(meant) = self.find_synonym() {
            return Some(format!("did you mean `takeback {meant}`?"));
        }
        match (self.error.kind(), self.error.get(invalid), self.error.get(suggested)) {
            (ErrorKind::UnknownArgument, ..) if self.is_in("explain") => {
                Some("give the command as one argument: `takeback explain 'rm -rf build'`".into())
            }
            (ErrorKind::UnknownArgument, Some(ContextValue::String(typed)), _)
                if self.is_in("checkpoint") && !typed.starts_with('-') =>
            {
                let words = self.words.iter().map(|word| word.to_string_lossy());
                let words: Vec<_> = words.skip_while(|word| word != typed).collect();
                let words = words.iter().take_while(|word| !word.starts_with('-'));
                let reason = words.map(AsRef::as_ref).collect::<Vec<&str>>().join(" ");
                Some(format!("give the reason as an option: --reason '{reason}'"))
            }
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
                let is_missing = |wanted: &str| missing.iter().any(|name| name == wanted);
                let known = [
                    ("<CHECKPOINT>", "`takeback list` lists the checkpoints"),
                    ("<SESSION>", "`takeback sessions list` lists the sessions"),
                    ("<SETTING>", "`takeback config` lists the settings"),
                    ("<AGENT>", "`takeback install` lists the agents"),
                ];
                known.iter().find(|(name, _)| is_missing(name)).map(|(_, hint)| (*hint).to_owned())
            }
            _ => None,
        }
    }

    /// If the user typed another program's name for a command, returns takeback's name for it.
    fn find_synonym(&self) -> Option<&'static str> {
        let typed = match (self.error.kind(), self.error.get(ContextKind::InvalidSubcommand)) {
            (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => typed,
            _ => return None,
        };
        let synonym = SYNONYMS.iter().find(|(other, _)| other == typed);
        synonym.filter(|_| self.named_commands().len() == 1).map(|(_, name)| *name)
    }

    /// Returns the word after `takeback help`, if it is not a command.
    fn typed_topic(&self) -> Option<&str> {
        if self.error.kind() != ErrorKind::InvalidSubcommand {
            return None;
        }
        let at = self.words.iter().skip(1).position(|word| word == "help")? + 2;
        let is_first = self.named_commands().len() == 1
            || self.named_commands().get(1).is_some_and(|command| command.get_name() == "help");
        self.words.get(at)?.to_str().filter(|_| is_first)
    }

    /// Returns true if `name` is the innermost command that the words name.
    fn is_in(&self, name: &str) -> bool {
        self.named_commands().last().is_some_and(|command| command.get_name() == name)
    }

    /// Returns the commands that the words name, from takeback itself down to the innermost one.
    fn named_commands(&self) -> Vec<&clap::Command> {
        let mut named = vec![&self.command];
        for word in &self.words {
            named.extend(named[named.len() - 1].find_subcommand(word));
        }
        named
    }

    /// Suggests a similar command. `names` are the similar names, the best match last.
    fn suggest(&self, names: &[String]) -> Option<String> {
        let named = self.named_commands();
        let command = named[named.len() - 1];
        // A similar name can be an alias. The hint gives the command's main name.
        let commands = names.iter().rev().filter_map(|name| command.find_subcommand(name));
        let meant = commands.into_iter().find(|command| !command.is_hide_set())?;
        Some(format!("did you mean `{} {}`?", join_names(&named), meant.get_name()))
    }

    /// Names the commands that accept the option that was typed. Looks first at the parent command
    /// and its subcommands and, if none of them accepts it, at the top-level commands.
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

/// Puts clap's error messages about numbers in plainer words.
fn clarify(message: &str) -> String {
    let message = message.replace(": invalid digit found in string", ": not a whole number");
    let Some((begin, range)) = message.split_once(" is not in ") else { return message };
    match range.split_once("..=") {
        Some((least, "4294967295" | "18446744073709551615")) => {
            format!("{begin} is less than {least}")
        }
        Some((least, most)) => format!("{begin} is not between {least} and {most}"),
        None => message,
    }
}

fn join_names(commands: &[&clap::Command]) -> String {
    commands.iter().map(|command| command.get_name()).collect::<Vec<_>>().join(" ")
}
