//! `takeback checkpoints prune`, `clear`, `clear-legacy`: delete checkpoints for good.

use std::process::ExitCode;

use clap::Args;
use takeback_undo::{ClockJump, Opened, PruneOptions, PruneReport};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Delete checkpoints that exceed the limits, and free their space
///
/// Checkpoints that are pinned or have a name are never deleted. The size limit also spares the
/// newest checkpoint of each workspace and the newest one that was taken before a rollback. Ages
/// count only days on which takeback ran. The limits are in config.toml: `takeback config` shows
/// them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoints prune --dry-run
  takeback checkpoints prune --orphans
  takeback checkpoints prune --retention-days 7 --max-size-mb 500")]
pub(super) struct PruneArguments {
    /// Delete the history of workspaces that have not been used for this many days
    #[arg(long, value_name = "N")]
    retention_days: Option<u64>,
    /// Limit the size of the store to this many MB
    #[arg(long, value_name = "N")]
    max_size_mb: Option<u64>,
    /// Keep the history of workspaces whose directory no longer exists
    #[arg(long)]
    keep_orphans: bool,
    /// Delete the history of workspaces whose directory no longer exists, regardless of age
    #[arg(long, conflicts_with = "keep_orphans")]
    orphans: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct ForceArguments {
    /// Skip the confirmation
    #[arg(short, long)]
    force: bool,
}

pub(super) fn run_prune(
    opened: &Opened,
    arguments: &PruneArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new("pruning");
    let pruned = takeback_undo::retention::prune(
        opened,
        &PruneOptions {
            retention_days: arguments.retention_days,
            max_size_mb: arguments.max_size_mb,
            keep_orphans: arguments.keep_orphans,
            delete_orphans: arguments.orphans,
            headroom: false,
            dry_run: arguments.dry_run,
        },
    )?;
    drop(progress);
    if context.globals.json {
        output::print_json(&pruned);
    } else {
        print_pruned(&pruned, context);
    }
    Ok(ExitCode::SUCCESS)
}

/// The reason why takeback cannot evict more checkpoints to get below the size cap.
pub(crate) const PROTECTED: &str = "everything left is pinned, has a name, or is the newest \
                                    checkpoint of its workspace or the newest one taken before \
                                    a rollback";

/// Describes a jump of the clock, and what it means for the ages of checkpoints.
pub(crate) fn describe_jump(jump: &ClockJump) -> String {
    let ClockJump { from, to } = jump;
    if jump.is_back() {
        format!(
            "The clock was set back: takeback already ran on {from}. Nothing was deleted because of that."
        )
    } else {
        format!(
            "The days between {from} and {to} do not count as age: takeback was not running, or the \
             clock jumped."
        )
    }
}

fn print_pruned(pruned: &PruneReport, context: &Context) {
    let title = if pruned.dry_run { "Would delete" } else { "Deleted" };
    let lines = pruned.workspaces.iter().map(|workspace| {
        format!(
            "{}: {} and {} ({})",
            output::tilde(&workspace.path.0, context),
            output::count(workspace.checkpoints, "checkpoint"),
            output::count(workspace.steps, "step"),
            workspace.because
        )
    });
    let legacy = pruned.legacy.iter().map(|name| output::disarm(name));
    output::print_section(title, lines.chain(legacy), context);
    let busy = pruned.busy.iter().map(|path| output::tilde(&path.0, context));
    output::print_section("Skipped because another process is using them", busy, context);
    if pruned.workspaces.is_empty() && pruned.legacy.is_empty() && !pruned.over_limit {
        println!("Nothing exceeds the limits.");
    }
    let (before, after) = (output::bytes(pruned.bytes_before), output::bytes(pruned.bytes_after));
    if !pruned.dry_run {
        println!("{before} → {after}");
    }
    if pruned.over_limit {
        println!("Still over the limit: {PROTECTED}.");
    }
    if let Some(jump) = &pruned.clock_jump {
        println!("{}", describe_jump(jump));
    }
}

pub(super) fn run_clear(
    opened: &Opened,
    force: &ForceArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let status = takeback_undo::retention::read_status(opened)?;
    let checkpoints = status.workspaces.iter().map(|workspace| workspace.checkpoints).sum();
    let what = describe_store(checkpoints, status.workspaces.len(), status.store_bytes);
    confirm(&what, force, context)?;
    let progress = Progress::new("deleting");
    let cleared = takeback_undo::retention::clear_checkpoints(opened)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&cleared);
    } else {
        println!(
            "Deleted {}.",
            describe_store(cleared.checkpoints, cleared.workspaces, cleared.bytes)
        );
    }
    if let Some(mirror) = &opened.protection().mirror {
        let mirror = output::tilde(mirror, context);
        output::warn(&format!("the mirror in {mirror} still has its copies"));
    }
    for path in &cleared.busy {
        let path = output::tilde(&path.0, context);
        output::warn(&format!("kept the checkpoints of {path}: another process is using it"));
    }
    Ok(if cleared.busy.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe_store(checkpoints: usize, workspaces: usize, bytes: u64) -> String {
    format!(
        "{} of {} ({})",
        output::count(checkpoints, "checkpoint"),
        output::count(workspaces, "workspace"),
        output::bytes(bytes)
    )
}

pub(super) fn run_clear_legacy(
    opened: &Opened,
    force: &ForceArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let legacy = takeback_undo::retention::read_status(opened)?.legacy;
    if legacy.is_empty() {
        match context.globals.json {
            true => output::print_json(&serde_json::json!({ "archives": 0, "bytes": 0 })),
            false => println!("There are no archives of older stores."),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bytes: u64 = legacy.iter().map(|archive| archive.bytes).sum();
    let count = output::count(legacy.len(), "archive");
    let what = format!("{count} of older stores ({})", output::bytes(bytes));
    confirm(&what, force, context)?;
    takeback_undo::retention::clear_legacy_archives(opened)
        .map_err(takeback_undo::PruneError::from)?;
    if context.globals.json {
        output::print_json(&serde_json::json!({ "archives": legacy.len(), "bytes": bytes }));
    } else {
        println!("Deleted {what}.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the user to confirm a deletion, because it cannot be undone. Fails if the user declines or
/// cannot be asked.
pub(super) fn confirm(
    what: &str,
    force: &ForceArguments,
    context: &Context,
) -> Result<(), Failure> {
    if force.force || context.globals.yes {
        return Ok(());
    }
    if !context.asks() {
        return Err(Failure::new(format!("this would delete {what}"))
            .hint("nothing was deleted; pass --force to delete it"));
    }
    println!("This deletes {what}. This cannot be undone.");
    output::confirm()
}
