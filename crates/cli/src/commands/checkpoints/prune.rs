//! `takeback checkpoints prune | clear | clear-legacy`: what goes.

use std::process::ExitCode;

use clap::Args;
use takeback_undo::{Opened, PruneOptions, PruneReport};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

#[derive(Args)]
pub(super) struct Arguments {
    /// Workspaces that nobody touched for so long lose their history
    #[arg(long, value_name = "N")]
    retention_days: Option<u64>,
    /// How large the store may be
    #[arg(long, value_name = "N")]
    max_size_mb: Option<u64>,
    /// Keep the history of workspaces that are gone
    #[arg(long)]
    keep_orphans: bool,
    /// Show what would go
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct Force {
    /// Do not ask
    #[arg(short, long)]
    force: bool,
}

pub(super) fn prune(
    opened: &Opened,
    arguments: &Arguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new("pruning");
    let pruned = takeback_undo::retention::prune(
        opened,
        &PruneOptions {
            retention_days: arguments.retention_days,
            max_size_mb: arguments.max_size_mb,
            keep_orphans: arguments.keep_orphans,
            dry_run: arguments.dry_run,
        },
    )?;
    drop(progress);
    if context.globals.json {
        output::print_json(&pruned);
    } else {
        print(&pruned, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(pruned: &PruneReport, context: &Context) {
    let title = if pruned.dry_run { "Would go" } else { "Gone" };
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
    output::print_section("Busy, left for the next time", busy, context);
    if pruned.workspaces.is_empty() && pruned.legacy.is_empty() {
        println!("Nothing is beyond the limits.");
    }
    let (before, after) = (output::bytes(pruned.bytes_before), output::bytes(pruned.bytes_after));
    if !pruned.dry_run {
        println!("{before} → {after}");
    }
    if pruned.over_limit {
        println!(
            "What is left is pinned or the newest there is, so it stays although it is too much."
        );
    }
}

pub(super) fn clear(
    opened: &Opened,
    force: &Force,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let status = takeback_undo::retention::read_status(opened)?;
    let checkpoints = status.workspaces.iter().map(|workspace| workspace.checkpoints).sum();
    let what = describe(checkpoints, status.workspaces.len(), status.store_bytes);
    confirm(&format!("all {what}"), force, context)?;
    let progress = Progress::new("deleting");
    let cleared = takeback_undo::retention::clear_checkpoints(opened)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&cleared);
    } else {
        println!("Deleted {}.", describe(cleared.checkpoints, cleared.workspaces, cleared.bytes));
    }
    for path in &cleared.busy {
        let path = output::tilde(&path.0, context);
        eprintln!("warning: {path} is being used and keeps its checkpoints");
    }
    Ok(if cleared.busy.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(checkpoints: usize, workspaces: usize, bytes: u64) -> String {
    format!(
        "{} of {} ({})",
        output::count(checkpoints, "checkpoint"),
        output::count(workspaces, "workspace"),
        output::bytes(bytes)
    )
}

pub(super) fn clear_legacy(
    opened: &Opened,
    force: &Force,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let legacy = takeback_undo::retention::read_status(opened)?.legacy;
    if legacy.is_empty() && !context.globals.json {
        println!("There are no archives of older layouts.");
        return Ok(ExitCode::SUCCESS);
    }
    let bytes = legacy.iter().map(|archive| archive.bytes).sum();
    let count = output::count(legacy.len(), "archive");
    let what = format!("{count} of older layouts ({})", output::bytes(bytes));
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

/// This cannot be taken back, so silence is no consent.
fn confirm(what: &str, force: &Force, context: &Context) -> Result<(), Failure> {
    if force.force || context.globals.yes {
        return Ok(());
    }
    if !context.asks() {
        return Err(Failure::new(format!("this would delete {what}"))
            .hint("nothing was deleted; repeat with -f if that is what you want"));
    }
    println!("This deletes {what}. It cannot be taken back.");
    output::go_on()
}
