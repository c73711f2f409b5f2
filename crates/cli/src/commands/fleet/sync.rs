//! `takeback fleet sync`: ships what has changed.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{make_fleet, open_fleet, read_settings};
use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Ship what has changed to the fleet's database
///
/// Rows that were not shipped stay in the ledger, and the next attempt ships them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet sync
  takeback fleet sync --json")]
pub(super) struct Arguments {
    /// Work in the background, and let `takeback fleet status` show a failure
    #[arg(long, hide = true)]
    background: bool,
}

impl Arguments {
    pub(super) fn is_background(&self) -> bool {
        self.background
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if arguments.background {
        background::detach_from_terminal();
        sync_quietly(context);
        return Ok(ExitCode::SUCCESS);
    }
    let fleet = open_fleet(context)?;
    let progress = Progress::counting("shipping", "rows");
    let mut ledger = context.ledger()?;
    let report = fleet.sync(&mut ledger, context.now(), &|rows| progress.step(rows, None))?;
    drop(progress);
    let view = json!({ "rows": report.rows, "batches": report.batches });
    if !output::answers_json(&view, context) {
        match usize::try_from(report.rows).unwrap_or(usize::MAX) {
            0 => println!("Nothing had changed."),
            rows => println!("Shipped {}.", output::count(rows, "row")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ships what has changed if this machine belongs to a fleet. Records a failure for `takeback fleet
/// status`; the end of the next turn tries again.
pub(crate) fn sync_quietly(context: &Context) {
    let Ok(Some(settings)) = read_settings(context) else { return };
    let Ok(fleet) = make_fleet(&settings, context) else { return };
    if let Ok(Some(mut ledger)) = context.opened().map(|opened| opened.ledger().ok().flatten()) {
        let _ = fleet.sync(&mut ledger, context.now(), &|_| {});
    }
}

/// If this machine belongs to a fleet, ships a deletion in the background, and tells the user.
pub(crate) fn ship_deletion(context: &Context) {
    if !matches!(read_settings(context), Ok(Some(_))) {
        return;
    }
    let words = ["fleet", "sync", "--background"];
    let _ = background::spawn_takeback(context, Path::new("/"), words, None);
    if !context.globals.json {
        println!(
            "The fleet deletes it, too: `takeback fleet status` shows whether it has done so."
        );
    }
}

/// Returns a problem for `takeback doctor` if the last attempt to ship has failed. `doctor` itself
/// reports settings that cannot be read.
pub(crate) fn find_problem(context: &Context) -> Option<Failure> {
    let Ok(Some(settings)) = read_settings(context) else { return None };
    let behind = || -> Result<Option<Failure>, Failure> {
        let fleet = make_fleet(&settings, context)?;
        let ledger = context.opened()?.ledger()?;
        let Some((waiting, error)) = fleet.last_failure(ledger.as_deref())? else {
            return Ok(None);
        };
        let waiting = output::count(usize::try_from(waiting).unwrap_or(usize::MAX), "change");
        let problem = format!("the fleet's database is {waiting} behind");
        Ok(Some(Failure::new(problem).because_of(&error)))
    };
    behind().unwrap_or_else(Some)
}
