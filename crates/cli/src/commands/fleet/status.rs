//! `takeback fleet status`: shows how many changes have not been shipped, and the state of the
//! fleet's database.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_fleet::{FleetStatus, LastSync, ServerStatus};

use super::objects::{CheckpointsView, find_checkpoints};
use super::open_fleet;
use crate::commands::sessions::text::local_time;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Show what is not shipped yet, and the state of the fleet's database
///
/// Exits with 1 if the database cannot be used.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet status
  takeback fleet status --json")]
pub(super) struct Arguments {}

#[derive(Serialize)]
struct StatusView {
    name: String,
    /// The number of changes that are not shipped; null if this machine has never joined.
    waiting: Option<u64>,
    #[serde(flatten)]
    last: LastSync,
    server: Option<ServerStatus>,
    problem: Option<Failure>,
    /// The checkpoints in the object storage; null if no object storage is configured.
    checkpoints: Option<CheckpointsView>,
}

pub(super) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let fleet = open_fleet(context)?;
    let FleetStatus { name, waiting, last, server } = {
        let ledger = context.opened()?.ledger()?;
        fleet.status(ledger.as_deref())?
    };
    let (server, problem) = match server {
        Ok(server) => (Some(server), None),
        Err(error) => (None, Some(Failure::from(error))),
    };
    let checkpoints = find_checkpoints(context)?;
    let view = StatusView { name, waiting, last, server, problem, checkpoints };
    let has_problem = view.checkpoints.as_ref().is_some_and(|it| it.problem.is_some());
    let code =
        if view.problem.is_none() && !has_problem { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if !output::answers_json(&view, context) {
        print_status(&view);
    }
    Ok(code)
}

fn print_status(view: &StatusView) {
    let mut table = Table::new([Column::left(), Column::free().shrinks(0, 20)]);
    let mut add = |title: &str, cell: Cell| table.add([Cell::new(title), cell]);
    add("Machine", Cell::new(&view.name));
    if let Some(server) = &view.server {
        let machines =
            output::count(usize::try_from(server.machines).unwrap_or_default(), "machine");
        let sessions =
            output::count(usize::try_from(server.sessions).unwrap_or_default(), "session");
        let target = &server.target;
        add("Database", Cell::new(format!("{target} (schema {})", server.schema)));
        add("Fleet", Cell::new(format!("{machines}, {sessions}")));
    }
    add(
        "Not shipped",
        match view.waiting {
            None => Cell::styled(
                Style::Warning,
                "this machine has not joined: run `takeback fleet init`",
            ),
            Some(0) => Cell::new("nothing"),
            Some(waiting) => {
                Cell::new(output::count(usize::try_from(waiting).unwrap_or(usize::MAX), "change"))
            }
        },
    );
    let shipped = view.last.succeeded_at.map_or_else(|| "never".to_owned(), local_time);
    add("Last shipped", Cell::new(shipped));
    if let (Some(time), Some(error)) = (view.last.failed_at, &view.last.error) {
        let failed = format!("failed {}: {error}", local_time(time));
        add("Last attempt", Cell::styled(Style::Warning, failed));
    }
    if let Some(checkpoints) = &view.checkpoints {
        add_checkpoints(&mut table, checkpoints);
    }
    table.print();
    let failed = view.checkpoints.as_ref().and_then(|it| it.problem.as_ref());
    if let Some(problem) = failed {
        problem.report(false);
    }
    if let Some(problem) = &view.problem {
        problem.report(false);
    }
}

fn add_checkpoints(table: &mut Table, view: &CheckpointsView) {
    let count = |number: u64, noun: &str| {
        output::count(usize::try_from(number).unwrap_or(usize::MAX), noun)
    };
    let mut add = |title: &str, cell: Cell| table.add([Cell::new(title), cell]);
    let Some(target) = &view.target else { return };
    add("Checkpoints", Cell::new(format!("in {target}")));
    let uploaded = view.last.succeeded_at.map_or_else(
        || "never".to_owned(),
        |time| {
            let (checkpoints, bytes) = (view.last.checkpoints, output::bytes(view.last.bytes));
            format!("{} ({bytes}), {}", count(checkpoints, "checkpoint"), local_time(time))
        },
    );
    add("Uploaded", Cell::new(uploaded));
    add(
        "Not uploaded",
        Cell::new(match view.waiting {
            0 => "nothing".to_owned(),
            waiting => count(waiting, "checkpoint"),
        }),
    );
    if let Some((bytes, total)) = view.last.progress {
        let text = format!("{} of {}", output::bytes(bytes), output::bytes(total));
        add("Uploading", Cell::new(text));
    }
    if let (Some(time), Some(error)) = (view.last.failed_at, &view.last.error) {
        let failed = format!("failed {}: {error}", local_time(time));
        add("Last upload", Cell::styled(Style::Warning, failed));
    }
    if view.last.damaged > 0 {
        let damaged = format!("{} damaged here", count(view.last.damaged, "checkpoint"));
        add("Left out", Cell::styled(Style::Warning, damaged));
    }
}
