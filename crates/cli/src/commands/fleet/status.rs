//! `takeback fleet status`: how far behind the fleet's database is.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_fleet::{FleetStatus, LastSync, ServerStatus};

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
    let view = StatusView { name, waiting, last, server, problem };
    let code = if view.problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
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
    table.print();
    if let Some(problem) = &view.problem {
        problem.report(false);
    }
}
