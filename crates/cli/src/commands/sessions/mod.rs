//! `takeback sessions`: lists, shows and edits the conversations of all agents.

pub(crate) mod edit;
pub(super) mod export;
pub(crate) mod import;
pub(crate) mod list;
mod maintenance;
mod message_view;
pub(crate) mod prune;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod when;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// List, show, search and edit the sessions of all agents
///
/// A session is named by its id, by the beginning of its id, or by its title. Without a command,
/// opens a screen in which you can search and read the sessions of all agents; without a terminal,
/// lists the latest.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions                             the latest sessions
  takeback sessions --workspace .               those of this directory
  takeback sessions show 'Fix Docker Build'
  takeback search chat-send --since 7d
  takeback sessions rewind 4f2a                 take back the last turn
  takeback sessions export --all -o all.jsonl
  takeback sessions import all.jsonl")]
pub(crate) struct Arguments {
    // Defaults to `list`: see `arguments/subcommands.rs`.
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Subcommand)]
enum SessionsCommand {
    /// List the latest sessions
    #[command(after_help = "\
Examples:
  takeback sessions list --source claude --source codex
  takeback sessions list --workspace . --limit 100 --archived")]
    List(list::ListArguments),
    Show(show::Arguments),
    Search(search::Arguments),
    Tree(tree::Arguments),
    Title(edit::TitleArguments),
    Fork(edit::ForkArguments),
    // "undo" takes back files as well, so taking back only messages has a different name.
    #[command(alias = "undo")]
    Rewind(edit::RewindArguments),
    #[command(alias = "redo")]
    Unrewind(edit::UnrewindArguments),
    Stats(stats::Arguments),
    Export(export::Arguments),
    Import(import::Arguments),
    Prune(prune::PruneArguments),
    Delete(prune::DeleteArguments),
    Clear(prune::ClearArguments),
    End(state::EndArguments),
    Reopen(state::ReopenArguments),
    Archive(state::ArchiveArguments),
    Unarchive(state::UnarchiveArguments),
    /// Read the whole ledger and check that it is consistent
    ///
    /// Changes nothing. Exits with 1 if there are problems.
    #[command(after_help = "\
Examples:
  takeback sessions verify")]
    Verify,
    /// Recover what is left of a damaged ledger, and rebuild its counts and search index
    ///
    /// The damaged file is kept beside the new one.
    #[command(after_help = "\
Examples:
  takeback sessions verify      is there anything to repair?
  takeback sessions repair")]
    Repair,
    /// Index all messages, compact the search index, and free unused space
    #[command(after_help = "\
Examples:
  takeback sessions optimize")]
    Optimize,
}

impl Arguments {
    /// True if the user asks for the list of sessions, without any option.
    pub(crate) fn is_plain_list(&self) -> bool {
        matches!(&self.command, SessionsCommand::List(arguments) if arguments.is_empty())
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match &arguments.command {
        SessionsCommand::List(arguments) => list::run(arguments, context),
        SessionsCommand::Show(arguments) => show::run(arguments, context),
        SessionsCommand::Search(arguments) => search::run(arguments, context),
        SessionsCommand::Tree(arguments) => tree::run(arguments, context),
        SessionsCommand::Title(arguments) => edit::run_title(arguments, context),
        SessionsCommand::Fork(arguments) => edit::run_fork(arguments, context),
        SessionsCommand::Rewind(arguments) => edit::run_rewind(arguments, context),
        SessionsCommand::Unrewind(arguments) => edit::run_unrewind(arguments, context),
        SessionsCommand::Stats(arguments) => stats::run(arguments, context),
        SessionsCommand::Export(arguments) => export::run(arguments, context),
        SessionsCommand::Import(arguments) => import::run(arguments, context),
        SessionsCommand::Prune(arguments) => prune::run_prune(arguments, context),
        SessionsCommand::Delete(arguments) => prune::run_delete(arguments, context),
        SessionsCommand::Clear(arguments) => prune::run_clear(arguments, context),
        SessionsCommand::End(arguments) => state::run_end(arguments, context),
        SessionsCommand::Reopen(arguments) => state::run_reopen(arguments, context),
        SessionsCommand::Archive(arguments) => state::run_archive(arguments, context),
        SessionsCommand::Unarchive(arguments) => state::run_unarchive(arguments, context),
        SessionsCommand::Verify => maintenance::verify_ledger(context),
        SessionsCommand::Repair => maintenance::repair_ledger(context),
        SessionsCommand::Optimize => maintenance::optimize_ledger(context),
    }
}
