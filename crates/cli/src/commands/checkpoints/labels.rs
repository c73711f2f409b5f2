//! `takeback checkpoints name`, `pin`, `unpin`, `delete`: change or delete one checkpoint.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::Oid;
use takeback_undo::history::{find_workspace, label_checkpoint};
use takeback_undo::retention::delete_checkpoint;
use takeback_undo::{Checkpoint, History, LabelChange, Opened};

use super::prune::{ForceArguments, confirm};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub(super) struct CheckpointArguments {
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
}

/// Give a checkpoint a name, or remove its name
///
/// `takeback rollback NAME` returns to it. A checkpoint with a name is never pruned.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoints name 3 good
  takeback checkpoints name good    removes the name")]
pub(super) struct NameArguments {
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// The new name; without it, the name is removed
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Delete a checkpoint, or a turn with its steps
///
/// This cannot be undone. Files of the workspace stay as they are. If the checkpoint is pinned or
/// has a name, unpin it or remove its name first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoints delete 3
  takeback checkpoints delete 4f2a91c --force    without a confirmation")]
pub(super) struct DeleteArguments {
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    #[command(flatten)]
    force: ForceArguments,
}

/// A checkpoint whose label was changed.
#[derive(Serialize)]
struct LabelView {
    id: Oid,
    name: Option<String>,
    pinned: bool,
}

pub(super) fn run_name(
    opened: &Opened,
    arguments: &NameArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let change = LabelChange { name: Some(arguments.name.clone()), pinned: None };
    let found = change_label(opened, &arguments.checkpoint, &change, context)?;
    let id = short_id(&found);
    print_label(&found, context, || match &found.record.name {
        Some(name) => format!("Checkpoint {id} is called {}.", output::disarm(name)),
        None => format!("Checkpoint {id} has no name."),
    });
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run_pin(
    opened: &Opened,
    arguments: &CheckpointArguments,
    pinned: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let change = LabelChange { name: None, pinned: Some(pinned) };
    let found = change_label(opened, &arguments.checkpoint, &change, context)?;
    let id = short_id(&found);
    print_label(&found, context, || match (pinned, &found.record.name) {
        (true, _) => format!("Checkpoint {id} is never pruned."),
        (false, None) => format!("Checkpoint {id} may be pruned."),
        (false, Some(_)) => format!("Checkpoint {id} is not pinned, but its name protects it."),
    });
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run_delete(
    opened: &Opened,
    arguments: &DeleteArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let workspace = find_workspace(opened, &context.directory)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let found = history.find(workspace.store(), &arguments.checkpoint)?.checkpoint;
    let (id, reason) = (short_id(found), output::disarm(&found.record.reason));
    confirm(&format!("checkpoint {id} ({reason})"), &arguments.force, context)?;
    let deleted = delete_checkpoint(opened, &workspace, &found.pin.id.to_string())?;
    if context.globals.json {
        output::print_json(&deleted);
    } else {
        println!("Deleted {}.", output::count(deleted.checkpoints, "checkpoint"));
    }
    Ok(ExitCode::SUCCESS)
}

fn change_label(
    opened: &Opened,
    checkpoint: &str,
    change: &LabelChange,
    context: &Context,
) -> Result<Checkpoint, Failure> {
    let workspace = find_workspace(opened, &context.directory)?;
    Ok(label_checkpoint(&workspace, checkpoint, change)?)
}

fn print_label(found: &Checkpoint, context: &Context, describe: impl FnOnce() -> String) {
    if context.globals.json {
        let Checkpoint { pin, record } = found;
        let (name, pinned) = (record.name.clone(), record.pinned);
        output::print_json(&LabelView { id: pin.id, name, pinned });
    } else {
        println!("{}", describe());
    }
}

fn short_id(found: &Checkpoint) -> String {
    found.pin.id.to_string()[..7].to_owned()
}
