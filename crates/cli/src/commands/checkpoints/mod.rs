//! `takeback checkpoints`: maintains the store that holds all checkpoints.

mod import;
mod labels;
mod maintenance;
mod mirror;
mod move_history;
pub(crate) mod prune;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use takeback_undo::retention;

use crate::background;
use crate::commands::fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;

/// Maintain the store of all checkpoints
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoints                    size, workspaces and failures
  takeback checkpoints prune --dry-run    show what exceeds the limits
  takeback checkpoints name 3 good        `takeback rollback good` returns to it
  takeback checkpoints move ~/old ~/new   after a workspace was moved
  takeback checkpoints import             import Hermes checkpoints
  takeback checkpoints verify             check every checkpoint")]
pub(crate) struct Arguments {
    // Defaults to `status`: see `arguments/subcommands.rs`.
    #[command(subcommand)]
    command: CheckpointsCommand,
}

#[derive(Subcommand)]
enum CheckpointsCommand {
    /// Show the size of the store, its workspaces, and failures
    #[command(
        alias = "list",
        after_help = "\
Examples:
  takeback checkpoints status
  takeback checkpoints status --json"
    )]
    Status,
    Name(labels::NameArguments),
    /// Never prune a checkpoint
    #[command(after_help = "\
Examples:
  takeback checkpoints pin 3
  takeback checkpoints pin 4f2a91c")]
    Pin(labels::CheckpointArguments),
    /// Allow a checkpoint to be pruned again
    ///
    /// A checkpoint with a name is never pruned: `takeback checkpoints name CHECKPOINT` removes the
    /// name.
    #[command(after_help = "\
Examples:
  takeback checkpoints unpin 3")]
    Unpin(labels::CheckpointArguments),
    Delete(labels::DeleteArguments),
    Prune(prune::PruneArguments),
    /// Delete all checkpoints of all workspaces
    ///
    /// This cannot be undone.
    #[command(after_help = "\
Examples:
  takeback checkpoints clear
  takeback checkpoints clear --force    without a confirmation")]
    Clear(prune::ForceArguments),
    /// Delete the archives of older stores
    ///
    /// This cannot be undone. To keep their checkpoints, run `takeback checkpoints import` first.
    #[command(after_help = "\
Examples:
  takeback checkpoints clear-legacy")]
    ClearLegacy(prune::ForceArguments),
    /// Move the history of a workspace to its new directory
    ///
    /// Use this after you have moved or renamed the directory of a workspace.
    #[command(after_help = "\
Examples:
  mv ~/old ~/new && takeback checkpoints move ~/old ~/new")]
    Move {
        /// The old directory of the workspace
        old: PathBuf,
        /// The new directory
        new: PathBuf,
    },
    /// Read every object of every checkpoint and check that it is intact
    ///
    /// Changes nothing. Exits with 1 if something is damaged.
    #[command(after_help = "\
Examples:
  takeback checkpoints verify")]
    Verify,
    /// Set damaged packs aside, save their intact objects, and report the losses
    #[command(after_help = "\
Examples:
  takeback checkpoints verify    is there anything to repair?
  takeback checkpoints repair")]
    Repair,
    /// Delete objects that no checkpoint needs, and pack the others more tightly
    #[command(after_help = "\
Examples:
  takeback checkpoints gc")]
    Gc,
    /// Bring the mirror, a second copy of all checkpoints, up to date
    ///
    /// The setting `protection.mirror` in config.toml names the mirror's directory. The mirror is
    /// also updated at the end of every turn. If the store is lost, `takeback --home DIR` reads the
    /// mirror.
    #[command(after_help = "\
Examples:
  takeback checkpoints mirror
  takeback --home /mnt/backup/takeback list")]
    Mirror,
    /// Import Hermes checkpoints
    ///
    /// Importing twice adds nothing.
    #[command(after_help = "\
Examples:
  takeback checkpoints import
  takeback checkpoints import /mnt/old/.hermes/checkpoints")]
    Import {
        /// The Hermes checkpoint directory, or one repository [default: checkpoints in $HERMES_HOME
        /// or ~/.hermes, and takeback's archives]
        path: Option<PathBuf>,
    },
    /// Capture a workspace in the background at the beginning of a session
    #[command(hide = true)]
    Warm {
        #[arg(long)]
        session: Option<String>,
        /// The log of the agent
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// Capture a workspace and count changes in the background at the end of a turn
    #[command(hide = true)]
    Tend {
        #[arg(long)]
        session: String,
        /// The end of the turn, in milliseconds since 1970
        #[arg(long)]
        ended: i64,
        /// The log of the agent
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// Take back the conversation in which the user typed a rollback, in the background
    #[command(hide = true)]
    TakeBack {
        #[arg(long)]
        session: String,
    },
    /// Merge packs and enforce limits in the background
    #[command(hide = true)]
    Upkeep,
}

impl Arguments {
    /// True for the commands that takeback itself starts in the background.
    pub(crate) fn is_background(&self) -> bool {
        matches!(
            self.command,
            CheckpointsCommand::Warm { .. }
                | CheckpointsCommand::Tend { .. }
                | CheckpointsCommand::TakeBack { .. }
                | CheckpointsCommand::Upkeep
        )
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let opened = context.opened()?;
    match &arguments.command {
        CheckpointsCommand::Status => status::run(opened, context),
        CheckpointsCommand::Name(arguments) => labels::run_name(opened, arguments, context),
        CheckpointsCommand::Pin(arguments) => labels::run_pin(opened, arguments, true, context),
        CheckpointsCommand::Unpin(arguments) => labels::run_pin(opened, arguments, false, context),
        CheckpointsCommand::Delete(arguments) => labels::run_delete(opened, arguments, context),
        CheckpointsCommand::Prune(arguments) => prune::run_prune(opened, arguments, context),
        CheckpointsCommand::Clear(force) => prune::run_clear(opened, force, context),
        CheckpointsCommand::ClearLegacy(force) => prune::run_clear_legacy(opened, force, context),
        CheckpointsCommand::Move { old, new } => move_history::run(opened, old, new, context),
        CheckpointsCommand::Verify => maintenance::verify_store(opened.store()?, context),
        CheckpointsCommand::Repair => maintenance::repair_store(opened.store()?, context),
        CheckpointsCommand::Gc => maintenance::collect_garbage(opened.store()?, context),
        CheckpointsCommand::Mirror => mirror::run(opened, context),
        CheckpointsCommand::Import { path } => import::run(opened, path.as_deref(), context),
        CheckpointsCommand::Warm { session, log } => {
            background::detach_from_terminal();
            let warmed = takeback_undo::hook::warm_workspace(opened, &context.directory);
            if let Some(session) = session {
                logs::catch_up_session(session, log.as_deref(), context)?;
            }
            warmed?;
            Ok(ExitCode::SUCCESS)
        }
        CheckpointsCommand::Tend { session, ended, log } => {
            background::detach_from_terminal();
            let tended = takeback_undo::hook::tend_workspace(
                opened,
                &context.directory,
                session,
                takeback_ledger::Time(*ended),
            );
            // Each of these steps is carried out even if an earlier step failed.
            let caught_up = logs::catch_up_session(session, log.as_deref(), context);
            let maintained = maintain_store(opened);
            fleet::sync_quietly(context);
            tended?;
            caught_up?;
            maintained
        }
        CheckpointsCommand::TakeBack { session } => {
            background::detach_from_terminal();
            take_back(opened, session, context)
        }
        CheckpointsCommand::Upkeep => {
            background::detach_from_terminal();
            maintain_store(opened)
        }
    }
}

/// Takes back an open conversation. If that fails, a notice still tells the model what was rolled
/// back, and the user is told which command continues the conversation from the right point.
fn take_back(
    opened: &takeback_undo::Opened,
    session: &str,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let reason = match takeback_agents::take_back_when_idle(opened, session) {
        Ok(true) => return Ok(ExitCode::SUCCESS),
        Ok(false) => String::new(),
        Err(error) => format!(": {}", takeback_base::errors::error_chain(&error)),
    };
    let message = format!(
        "the agent's own conversation was not taken back{reason}. `takeback resume {session}` \
         continues it from that point"
    );
    opened.note_failure(&context.root(&context.directory), &message);
    Ok(ExitCode::FAILURE)
}

fn maintain_store(opened: &takeback_undo::Opened) -> Result<ExitCode, Failure> {
    let store = opened.store()?;
    if store.needs_merge() {
        store.merge()?;
    }
    // Update the mirror before the prune deletes checkpoints: the mirror keeps them, as far as its
    // own limits allow.
    let mirrored = retention::update_mirror(opened);
    retention::prune_if_due(opened)?;
    mirrored?;
    Ok(ExitCode::SUCCESS)
}
