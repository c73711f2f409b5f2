//! `takeback sessions`: the ledger of all agents' conversations.

mod care;
pub(crate) mod edit;
mod export;
pub(crate) mod import;
pub(crate) mod list;
mod prune;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod stats;
mod text;
pub(crate) mod tree;
pub(crate) mod when;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// List, read, search and look after the sessions of all agents
///
/// Wherever a session is named, its id, its title or the beginning of its id will do.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions                             the latest ones
  takeback sessions --workspace .               those of this directory
  takeback sessions show 'Fix Docker Build'     read one
  takeback sessions search chat-send --since 7d
  takeback sessions rewind 4f2a                 take back its last turn
  takeback sessions export --all -o all.jsonl
  takeback sessions import all.jsonl")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    list: list::ListArguments,
}

#[derive(Subcommand)]
enum Sub {
    /// List the latest sessions
    #[command(after_help = "\
Examples:
  takeback sessions list --source claude-code --source codex
  takeback sessions list --workspace . --limit 100 --archived")]
    List(list::ListArguments),
    Show(show::Arguments),
    Search(search::Arguments),
    Tree(tree::Arguments),
    Title(edit::TitleArguments),
    Fork(edit::ForkArguments),
    // "undo" means taking back files as well, so these have words of their own.
    #[command(alias = "undo")]
    Rewind(edit::RewindArguments),
    #[command(alias = "redo")]
    Unrewind(edit::UnrewindArguments),
    Stats(stats::Arguments),
    Export(export::Arguments),
    Import(import::Arguments),
    Prune(prune::Arguments),
    Delete(prune::DeleteArguments),
    /// Read everything and check that it fits together
    Verify,
    /// Save what can be saved of a damaged ledger, and put counts and search index right
    Repair,
    /// Index everything, pack the index tightly, free unused space
    Optimize,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    // Clap could refuse these itself, but only together with `--json` and the like.
    if arguments.command.is_some() && arguments.list != list::ListArguments::default() {
        return Err(Failure::new("options of the list do not go before another command")
            .hint("put them behind the command"));
    }
    match &arguments.command {
        None => list::run(&arguments.list, context),
        Some(Sub::List(arguments)) => list::run(arguments, context),
        Some(Sub::Show(arguments)) => show::run(arguments, context),
        Some(Sub::Search(arguments)) => search::run(arguments, context),
        Some(Sub::Tree(arguments)) => tree::run(arguments, context),
        Some(Sub::Title(arguments)) => edit::run_title(arguments, context),
        Some(Sub::Fork(arguments)) => edit::run_fork(arguments, context),
        Some(Sub::Rewind(arguments)) => edit::run_rewind(arguments, context),
        Some(Sub::Unrewind(arguments)) => edit::run_unrewind(arguments, context),
        Some(Sub::Stats(arguments)) => stats::run(arguments, context),
        Some(Sub::Export(arguments)) => export::run(arguments, context),
        Some(Sub::Import(arguments)) => import::run(arguments, context),
        Some(Sub::Prune(arguments)) => prune::run(arguments, context),
        Some(Sub::Delete(arguments)) => prune::delete(arguments, context),
        Some(Sub::Verify) => care::verify(context),
        Some(Sub::Repair) => care::repair(context),
        Some(Sub::Optimize) => care::optimize(context),
    }
}
