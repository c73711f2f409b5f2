//! `takeback checkpoint`: takes a checkpoint now.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::{Oid, Uncovered};
use takeback_undo::{CheckpointOptions, retention};

use super::rollback::handled_files;
use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Take a checkpoint of this workspace now
///
/// Saves every file of the workspace, so that `takeback rollback` can return to this state. If
/// nothing has changed since the newest checkpoint, a new one is taken only with --reason, --name
/// or --pin.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoint
  takeback checkpoint --reason 'before the big refactoring'
  takeback checkpoint --name good    `takeback rollback good` returns to it; never pruned")]
pub(crate) struct Arguments {
    /// The reason to show in the list
    #[arg(short = 'm', long, value_name = "TEXT")]
    reason: Option<String>,
    /// A name for `takeback rollback NAME`; a checkpoint with a name is never pruned
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Never prune this checkpoint
    #[arg(long)]
    pin: bool,
}

/// A new checkpoint, or the newest existing one if nothing has changed since it was taken.
#[derive(Serialize)]
pub(crate) struct CheckpointView {
    id: Oid,
    number: usize,
    created: String,
    name: Option<String>,
    pinned: bool,
    files: u64,
    /// False if no new checkpoint was taken, because nothing had changed since this one.
    new: bool,
    uncovered: Vec<Uncovered>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let wish = CheckpointOptions {
        reason: arguments.reason.clone(),
        name: arguments.name.clone(),
        pinned: arguments.pin,
    };
    let progress = Progress::of_files("taking a checkpoint", handled_files(context.opened()?));
    let view = take_checkpoint(&wish, context)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", view.describe());
    if !view.new {
        println!("hint: `takeback checkpoint --reason TEXT` takes one anyway");
        return Ok(ExitCode::SUCCESS);
    }
    let lines = view.uncovered.iter().map(output::uncovered_line);
    output::print_section("Not covered", lines, context);
    Ok(ExitCode::SUCCESS)
}

impl CheckpointView {
    /// Says in one line what was done.
    pub(crate) fn describe(&self) -> String {
        let id = &self.id.to_string()[..7];
        match self.new {
            true => format!("Checkpoint {id} of {}.", output::count(self.files as usize, "file")),
            false => format!("Nothing has changed since checkpoint {id}: no new one was taken."),
        }
    }
}

/// Takes a checkpoint, and starts maintenance of the store in the background if it is due.
pub(crate) fn take_checkpoint(
    wish: &CheckpointOptions,
    context: &Context,
) -> Result<CheckpointView, Failure> {
    let opened = context.opened()?;
    super::refuse_if_off(opened, context)?;
    let workspace = takeback_undo::history::open_workspace(opened, &context.directory)?;
    let taken = takeback_undo::history::take_checkpoint(opened, &workspace, wish)?;
    // Taking a checkpoint clears the workspace's older failures, so any that are left belong to the
    // new checkpoint.
    let failures = opened.failures().into_iter();
    for failure in failures.filter(|failure| failure.workspace.0 == workspace.subject()) {
        output::warn(&failure.message);
    }
    if taken.is_new {
        // A failure is harmless: the limit is enforced again after the next checkpoint.
        let _ = retention::limit_rows(opened, workspace.id());
        background::spawn_upkeep(context, opened);
    }
    let (taken, new) = (taken.checkpoint, taken.is_new);
    Ok(CheckpointView {
        new,
        id: taken.pin.id,
        number: 1,
        created: taken.record.time,
        name: taken.record.name,
        pinned: taken.record.pinned,
        files: taken.record.files.unwrap_or(0),
        uncovered: taken.record.uncovered,
    })
}
