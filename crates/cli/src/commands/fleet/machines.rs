//! `takeback fleet machines`: the machines of the fleet.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::open_fleet;
use crate::commands::sessions::text::local_time;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// List the machines of the fleet
///
/// The times come from the database's clock.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet machines
  takeback fleet machines --json")]
pub(super) struct Arguments {}

pub(super) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let machines = open_fleet(context)?.machines()?;
    if output::answers_json(&json!({ "machines": machines }), context) {
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        Column::left().shrinks(1, 12),
        Column::right(),
        Column::left(),
        Column::left(),
        Column::free(),
    ]);
    for machine in &machines {
        let sessions = usize::try_from(machine.sessions).unwrap_or_default();
        table.add([
            Cell::styled(Style::Id, &machine.name),
            Cell::new(output::count(sessions, "session")),
            Cell::new(format!("seen {}", local_time(machine.seen_at))),
            Cell::new(machine.version.as_deref().unwrap_or_default()),
            Cell::new(if machine.is_this { "(this machine)" } else { "" }),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}
