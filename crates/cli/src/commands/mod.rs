//! The commands of takeback, each in a module of its own.

pub(crate) mod acp;
#[cfg(not(fuzzing))]
pub(crate) mod browse;
pub(crate) mod chat;
mod checkpoint;
mod checkpoints;
mod compare;
mod completions;
pub(crate) mod config;
mod demo;
pub(crate) mod diff;
mod doctor;
mod explain;
#[cfg(not(fuzzing))]
mod export;
#[cfg_attr(not(feature = "fleet"), path = "without_fleet.rs")]
pub(crate) mod fleet;
mod fleet_tasks;
pub(crate) mod fork;
pub(crate) mod goal;
pub(crate) mod hook;
mod install;
pub(crate) mod list;
mod man_pages;
mod mcp;
pub(crate) mod open_tasks;
mod report;
mod resume;
mod rollback;
pub(crate) mod rpc;
mod run;
#[cfg(not(fuzzing))]
mod serve;
mod sessions;
mod show;
mod slash;
mod status;
mod tasks;
mod undo;

use std::process::ExitCode;

use clap::Subcommand;
use takeback_undo::Opened;

use crate::context::{Caller, Context};
use crate::failure::Failure;

/// The commands, in the order of the help.
#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(alias = "ls")]
    List(list::Arguments),
    Show(show::Arguments),
    Diff(diff::Arguments),
    Rollback(rollback::Arguments),
    Undo(undo::Arguments),
    Redo(rollback::ReverseArguments),
    Checkpoint(checkpoint::Arguments),
    Fork(fork::Arguments),
    Compare(compare::Arguments),
    Resume(resume::Arguments),
    Search(sessions::search::Arguments),
    Status(status::Arguments),
    Report(report::Arguments),
    #[cfg(not(fuzzing))]
    Serve(serve::Arguments),
    #[cfg(not(fuzzing))]
    Export(export::Arguments),
    Install(install::Arguments),
    Uninstall(install::UninstallArguments),
    Doctor(doctor::Arguments),
    Sessions(sessions::Arguments),
    Checkpoints(checkpoints::Arguments),
    Config(config::Arguments),
    Fleet(fleet::Arguments),
    Completions(completions::Arguments),
    Explain(explain::Arguments),
    Demo(demo::Arguments),
    Run(run::Arguments),
    Chat(chat::Arguments),
    Tasks(tasks::Arguments),
    Goal(goal::Arguments),
    Acp(acp::Arguments),
    Hook(hook::Arguments),
    Rpc(rpc::Arguments),
    Mcp(mcp::Arguments),
    #[command(hide = true)]
    ManPages(man_pages::Arguments),
    #[command(hide = true)]
    Slash(slash::Arguments),
}

impl Command {
    /// Returns the kind of caller that runs the command.
    pub(crate) fn caller(&self) -> Caller {
        match self {
            Command::Acp(_) | Command::Hook(_) | Command::Rpc(_) | Command::Mcp(_) => Caller::Agent,
            Command::Checkpoints(arguments) if arguments.is_background() => Caller::Agent,
            Command::Fleet(arguments) if arguments.is_background() => Caller::Agent,
            _ => Caller::User,
        }
    }

    /// True if the command's output goes to a pager when it is long. The output of every other
    /// command is read by an agent or a program, or is printed while the command runs.
    pub(crate) fn is_paged(&self) -> bool {
        #[cfg(not(fuzzing))]
        if matches!(self, Command::Serve(_) | Command::Export(_)) {
            return false;
        }
        !matches!(
            self,
            Command::Acp(_)
                | Command::Hook(_)
                | Command::Rpc(_)
                | Command::Mcp(_)
                | Command::Run(_)
                | Command::Resume(_)
                | Command::Chat(_)
                | Command::Tasks(_)
                | Command::Goal(_)
                | Command::Slash(_)
                | Command::Demo(_)
                | Command::Completions(_)
                | Command::Config(_)
        )
    }

    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::List(arguments) => list::run(&arguments, context),
            Command::Show(arguments) => show::run(&arguments, context),
            Command::Diff(arguments) => diff::run(&arguments, context),
            Command::Rollback(arguments) => rollback::run(&arguments, context),
            Command::Undo(arguments) => undo::run(&arguments, context),
            Command::Redo(arguments) => rollback::redo(&arguments, context),
            Command::Checkpoint(arguments) => checkpoint::run(&arguments, context),
            Command::Fork(arguments) => fork::run(&arguments, context),
            Command::Compare(arguments) => compare::run(&arguments, context),
            Command::Resume(arguments) => resume::run(&arguments, context),
            Command::Search(arguments) => sessions::search::run(&arguments, context),
            Command::Status(arguments) => status::run(&arguments, context),
            Command::Report(arguments) => report::run(&arguments, context),
            #[cfg(not(fuzzing))]
            Command::Serve(arguments) => serve::run(&arguments, context),
            #[cfg(not(fuzzing))]
            Command::Export(arguments) => export::run(&arguments, context),
            Command::Install(arguments) => install::run(&arguments, context),
            Command::Uninstall(arguments) => install::run_uninstall(&arguments, context),
            Command::Doctor(arguments) => doctor::run(&arguments, context),
            Command::Sessions(arguments) => sessions::run(&arguments, context),
            Command::Checkpoints(arguments) => checkpoints::run(&arguments, context),
            Command::Config(arguments) => config::run(arguments, context),
            Command::Fleet(arguments) => fleet::run(&arguments, context),
            Command::Completions(arguments) => completions::run(&arguments, context),
            Command::Explain(arguments) => explain::run(&arguments, context),
            Command::Demo(arguments) => demo::run(&arguments, context),
            Command::Run(arguments) => run::run(&arguments, context),
            Command::Chat(arguments) => chat::run(arguments, context),
            Command::Tasks(arguments) => tasks::run(arguments, context),
            Command::Goal(arguments) => goal::run(arguments, context),
            Command::Acp(arguments) => acp::run(&arguments, context),
            Command::Hook(arguments) => Ok(hook::run(&arguments, context)),
            Command::Rpc(arguments) => rpc::run(&arguments, context),
            Command::Mcp(arguments) => mcp::run(&arguments, context),
            Command::ManPages(arguments) => man_pages::run(&arguments, context),
            Command::Slash(arguments) => slash::run(&arguments, context),
        }
    }
}

/// Fails if checkpoints are switched off.
fn refuse_if_off(opened: &Opened, context: &Context) -> Result<(), Failure> {
    if opened.settings().enabled {
        return Ok(());
    }
    let hint = if context.is_switched_off() {
        "unset TAKEBACK_CHECKPOINTS to switch them on"
    } else {
        "remove `enabled = false` from config.toml to switch them on"
    };
    Err(Failure::new("checkpoints are switched off").hint(hint))
}
