//! `takeback checkpoint`: takes a checkpoint now.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::{Oid, Uncovered};
use takeback_undo::CheckpointOptions;

use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Take a checkpoint of this workspace now
///
/// Saves every file of the workspace, so that `takeback rollback` can return to it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoint
  takeback checkpoint --reason 'before the big refactoring'
  takeback checkpoint --name good --pin      `takeback rollback good` returns to it; never pruned")]
pub(crate) struct Arguments {
    /// The reason, for the list
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The name, for `takeback rollback NAME`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Never prune it
    #[arg(long)]
    pin: bool,
}

/// A checkpoint that was just taken.
#[derive(Serialize)]
pub(crate) struct CheckpointView {
    id: Oid,
    number: usize,
    created: String,
    name: Option<String>,
    pinned: bool,
    files: u64,
    uncovered: Vec<Uncovered>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let wish = CheckpointOptions {
        reason: arguments.reason.clone(),
        name: arguments.name.clone(),
        pinned: arguments.pin,
    };
    let progress = Progress::new("taking a checkpoint");
    let view = take_checkpoint(&wish, context)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    let id = &view.id.to_string()[..7];
    println!("Checkpoint {id} of {}.", output::count(view.files as usize, "file"));
    let lines = view.uncovered.iter().map(output::uncovered_line);
    output::print_section("Not covered", lines, context);
    Ok(ExitCode::SUCCESS)
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
    background::spawn_upkeep(context, opened);
    Ok(CheckpointView {
        id: taken.pin.id,
        number: 1,
        created: taken.record.time,
        name: taken.record.name,
        pinned: taken.record.pinned,
        files: taken.record.files.unwrap_or(0),
        uncovered: taken.record.uncovered,
    })
}
