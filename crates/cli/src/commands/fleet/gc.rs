//! `takeback fleet gc`: deletes objects in the object storage that this machine's checkpoints no
//! longer need.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use takeback_fleet::{CollectOptions, Collected};

use super::objects::open_objects;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The number of seconds in a day.
const DAY: u64 = 86_400;

/// Delete objects that this machine's checkpoints no longer need
///
/// Marks objects in the object storage that are no longer needed. A later run deletes them, once
/// the grace period has passed according to the storage's clock. Each machine deletes only what it
/// uploaded itself.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet gc --dry-run
  takeback fleet gc
  takeback fleet gc --grace-days 30")]
pub(super) struct Arguments {
    /// The days between the mark and the deletion
    #[arg(long, value_name = "N", default_value_t = 7)]
    grace_days: u32,
    /// Show what would be marked and deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also delete the checkpoints of a store that this home had earlier
    #[arg(long)]
    earlier_stores: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let objects = open_objects(context)?;
    let options = CollectOptions {
        grace: Duration::from_secs(u64::from(arguments.grace_days) * DAY),
        dry_run: arguments.dry_run,
        earlier_stores: arguments.earlier_stores,
    };
    let collected = objects.collect(context.opened()?.store()?, &options)?;
    if !output::answers_json(&collected, context) {
        print_collected(&collected, arguments);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_collected(collected: &Collected, arguments: &Arguments) {
    let count = |number: u64, noun: &str| {
        output::count(usize::try_from(number).unwrap_or(usize::MAX), noun)
    };
    let done = if arguments.dry_run { "Would delete" } else { "Deleted" };
    println!(
        "{done} {} and {} ({}).",
        count(collected.checkpoints, "checkpoint"),
        count(collected.packs, "pack"),
        output::bytes(collected.bytes)
    );
    if collected.waiting_checkpoints + collected.waiting_packs > 0 {
        println!(
            "{} and {} ({}) are no longer needed; a later run deletes them after the grace period.",
            count(collected.waiting_checkpoints, "checkpoint"),
            count(collected.waiting_packs, "pack"),
            output::bytes(collected.waiting_bytes)
        );
    }
    if collected.earlier > 0 {
        output::warn(&format!(
            "{} of a store that this home had earlier are kept, and so are all packs; \
             --earlier-stores deletes them",
            count(collected.earlier, "checkpoint")
        ));
    }
    if collected.is_store_damaged {
        output::warn(
            "no packs were deleted: the local store is damaged, and the object storage may have \
             objects that the store has lost; run `takeback doctor`",
        );
    }
}
