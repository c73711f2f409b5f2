//! The choices that the shell offers when the user presses Tab.
//!
//! The script that a shell loads calls takeback with the words typed so far, and sets [`VARIABLE`].
//! The name of an argument's placeholder decides what is offered for the argument, so a new command
//! needs no code here.

mod bash;
mod values;

use std::ffi::OsString;
use std::io::Write;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};
use clap_complete::env::{CompleteEnv, EnvCompleter, Fish, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompletionCandidate};

use self::bash::Bash;
use self::values::Values;
use crate::arguments::Arguments;
use crate::context::variable;

/// The environment variable that holds the name of the shell that asks for completions.
const VARIABLE: &str = "TAKEBACK_COMPLETE";

/// The end of the script for zsh. If zsh loads the script automatically, it runs the script at the
/// first Tab, as the body of the function `_takeback`. That Tab has to be answered as well.
const ZSH_AUTOLOAD: &str =
    "[[ ${funcstack[1]} == _takeback ]] && _clap_dynamic_completer_takeback \"$@\"\n";

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
        }
    }

    /// Returns the script that makes the shell ask takeback for completions.
    pub(crate) fn script(self) -> String {
        let mut script = Vec::new();
        let (name, program) = ("takeback", "takeback");
        let written =
            self.completer().write_registration(VARIABLE, name, name, program, &mut script);
        written.expect("writing to memory succeeds");
        let mut script = String::from_utf8(script).expect("the script is text");
        if self == Shell::Zsh {
            script.push_str(ZSH_AUTOLOAD);
        }
        script
    }
}

/// Answers a shell that asks for completions. Returns false if no shell asks.
pub(crate) fn answer_shell(words: &[OsString]) -> bool {
    if variable(VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    // Discard error messages, because they would appear in the middle of the line that the user is
    // typing.
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let words = words.to_vec();
    let values = Values::from_words(&words);
    let shells = Shells(&[&Bash, &Zsh, &Fish]);
    let directory = std::env::current_dir().ok();
    let factory = || offer_values(Arguments::command(), &values);
    let environment = CompleteEnv::with_factory(factory).var(VARIABLE).shells(shells);
    let answered = environment.completer("takeback").try_complete(words, directory.as_deref());
    let _ = std::io::stdout().flush();
    answered.unwrap_or(true)
}

/// Offers values for the arguments of a command and of its subcommands.
fn offer_values(command: Command, values: &Values) -> Command {
    let command = command.mut_args(|argument| {
        let Some([name, ..]) = argument.get_value_names() else { return argument };
        let find: fn(&Values) -> Vec<(String, String)> = match name.as_str() {
            "CHECKPOINT" | "CHECKPOINT|PATH" | "CHECKPOINT|SESSION" => Values::list_checkpoints,
            "SESSION" => Values::list_sessions,
            "SETTING" => Values::list_settings,
            "AGENT" => Values::list_agents,
            "PATH" => Values::list_paths,
            "NAME" if argument.get_long() == Some("profile") => Values::list_profiles,
            _ => return argument,
        };
        let values = values.clone();
        let complete = move |typed: &std::ffi::OsStr| {
            let typed = typed.to_string_lossy();
            let found = find(&values).into_iter().enumerate();
            let fitting = found.filter(|(_, (value, _))| value.starts_with(typed.as_ref()));
            let candidate = |(order, (value, help)): (usize, (String, String))| {
                let help = (!help.is_empty()).then(|| StyledStr::from(help));
                CompletionCandidate::new(value).help(help).display_order(Some(order))
            };
            fitting.map(candidate).collect()
        };
        argument.add(ArgValueCompleter::new(complete))
    });
    command.mut_subcommands(|subcommand| offer_values(subcommand, values))
}
