//! `takeback checkpoints`: the store as a whole.

mod care;
mod import;
mod movement;
mod prune;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;

/// Look after the store of all checkpoints
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoints                    how large, which workspaces, what went wrong
  takeback checkpoints prune --dry-run    what the limits would make go
  takeback checkpoints move ~/old ~/new   a workspace was moved: its history follows
  takeback checkpoints import             bring in the checkpoints of Hermes
  takeback checkpoints verify             is everything still what it was?")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(Subcommand)]
enum Sub {
    /// How large the store is, which workspaces it has, what went wrong
    #[command(alias = "list")]
    Status,
    /// Make what is beyond the limits go, and free its space
    Prune(prune::Arguments),
    /// Delete all checkpoints of all workspaces
    Clear(prune::Force),
    /// Delete the archives of older layouts
    ClearLegacy(prune::Force),
    /// Make the history of a workspace that was moved follow it
    Move {
        /// Where it was
        old: PathBuf,
        /// Where it is
        new: PathBuf,
    },
    /// Read every object of every checkpoint and check that it is what it was
    Verify,
    /// Set damaged packs aside, save what is intact in them, and say what is lost
    Repair,
    /// Free what no checkpoint needs, and pack the rest more tightly
    Gc,
    /// Bring in the checkpoints of Hermes
    Import {
        /// Its directory, or one repository [default: ~/.hermes/checkpoints and our own archives]
        path: Option<PathBuf>,
    },
    /// What runs in the background at the beginning of a session
    #[command(hide = true)]
    Warm {
        #[arg(long)]
        session: Option<String>,
        /// The agent's own log
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// What runs in the background at the end of a turn
    #[command(hide = true)]
    Tend {
        #[arg(long)]
        session: String,
        /// In milliseconds since 1970
        #[arg(long)]
        ended: i64,
        /// The agent's own log
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// What runs in the background now and then
    #[command(hide = true)]
    Upkeep,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let opened = context.opened()?;
    match arguments.command.as_ref().unwrap_or(&Sub::Status) {
        Sub::Status => status::run(opened, context),
        Sub::Prune(arguments) => prune::prune(opened, arguments, context),
        Sub::Clear(force) => prune::clear(opened, force, context),
        Sub::ClearLegacy(force) => prune::clear_legacy(opened, force, context),
        Sub::Move { old, new } => movement::run(opened, old, new, context),
        Sub::Verify => care::verify(opened.store()?, context),
        Sub::Repair => care::repair(opened.store()?, context),
        Sub::Gc => care::gc(opened.store()?, context),
        Sub::Import { path } => import::run(opened, path.as_deref(), context),
        Sub::Warm { session, log } => {
            background::detach();
            let warmed = takeback_undo::hook::warm_workspace(opened, &context.directory);
            if let Some(session) = session {
                logs::catch_up_session(session, log.as_deref(), context)?;
            }
            warmed?;
            Ok(ExitCode::SUCCESS)
        }
        Sub::Tend { session, ended, log } => {
            background::detach();
            let tended = takeback_undo::hook::tend_workspace(
                opened,
                &context.directory,
                session,
                takeback_ledger::Time(*ended),
            );
            // Whatever became of the files, what was said is worth keeping, and the store is looked
            // after whatever became of both.
            let caught_up = logs::catch_up_session(session, log.as_deref(), context);
            let kept_up = upkeep(opened);
            tended?;
            caught_up?;
            kept_up
        }
        Sub::Upkeep => {
            background::detach();
            upkeep(opened)
        }
    }
}

fn upkeep(opened: &takeback_undo::Opened) -> Result<ExitCode, Failure> {
    let store = opened.store()?;
    if store.needs_merge() {
        store.merge()?;
    }
    if takeback_undo::retention::is_prune_due(opened) {
        takeback_undo::retention::prune(opened, &takeback_undo::PruneOptions::default())?;
    }
    Ok(ExitCode::SUCCESS)
}
