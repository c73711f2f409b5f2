//! `takeback fleet sync`: ships what has changed, and uploads new checkpoints.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use takeback_fleet::{SyncReport, UploadReport};

use super::{make_fleet, objects, open_fleet, read_settings};
use crate::background;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Ship what has changed to the fleet's database, and upload new checkpoints
///
/// Rows that were not shipped stay in the ledger, and the next attempt ships them. An upload that
/// was cut off continues where it stopped. Checkpoints are uploaded if `fleet.objects` is set.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet sync
  takeback fleet sync --json")]
pub(super) struct Arguments {
    /// Work in the background; `takeback fleet status` shows whether it failed
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
    // Both steps are carried out, even if one of them fails.
    let shipped = ship(context);
    let uploaded = objects::upload(context, false);
    let (shipped, uploaded) = match (shipped, uploaded) {
        (Ok(shipped), uploaded) => (shipped, uploaded?),
        (Err(failure), Err(second)) => return Err(failure.because_of(&second.message)),
        (Err(failure), Ok(uploaded)) => {
            if let Some(uploaded) = uploaded.filter(|_| !context.globals.json) {
                print_uploaded(&uploaded);
            }
            return Err(failure);
        }
    };
    let mut view = json!({ "rows": shipped.rows, "batches": shipped.batches });
    if let Some(uploaded) = &uploaded {
        view["uploaded"] = json!(uploaded);
    }
    if !output::answers_json(&view, context) {
        match usize::try_from(shipped.rows).unwrap_or(usize::MAX) {
            0 => println!("Nothing had changed in the ledger."),
            rows => println!("Shipped {}.", output::count(rows, "row")),
        }
        if let Some(uploaded) = &uploaded {
            print_uploaded(uploaded);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn ship(context: &Context) -> Result<SyncReport, Failure> {
    let fleet = open_fleet(context)?;
    let progress = Progress::counting("shipping", "rows");
    let mut ledger = context.ledger()?;
    Ok(fleet.sync(&mut ledger, context.now(), &|rows| progress.step(rows, None))?)
}

fn print_uploaded(uploaded: &UploadReport) {
    let count = |number: u64, noun: &str| {
        output::count(usize::try_from(number).unwrap_or(usize::MAX), noun)
    };
    match uploaded.checkpoints {
        0 => println!("No new checkpoints to upload."),
        checkpoints => println!(
            "Uploaded {} ({}).",
            count(checkpoints, "checkpoint"),
            output::bytes(uploaded.bytes)
        ),
    }
    if uploaded.damaged > 0 {
        let damaged = count(uploaded.damaged, "checkpoint");
        output::warn(&format!(
            "{damaged} could not be uploaded, because the local store is damaged; run `takeback \
             doctor`"
        ));
    }
}

/// Ships what has changed, and uploads new checkpoints, if this machine belongs to a fleet. Records
/// a failure for `takeback fleet status`; the next attempt is at the end of the next turn.
pub(crate) fn sync_quietly(context: &Context) {
    let Ok(Some(settings)) = read_settings(context) else { return };
    let Ok(fleet) = make_fleet(&settings, context) else { return };
    if let Ok(Some(mut ledger)) = context.opened().map(|opened| opened.ledger().ok().flatten()) {
        let _ = fleet.sync(&mut ledger, context.now(), &|_| {});
    }
    let _ = objects::upload(context, true);
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

/// The hint for the problems that [`find_problem`] returns.
pub(crate) const PROBLEM_HINT: &str =
    "`takeback fleet sync` tries again; `takeback fleet status` shows more";

/// Returns a problem for `takeback doctor` if the last attempt to ship has failed. `doctor` itself
/// reports settings that cannot be read.
pub(crate) fn find_problem(context: &Context) -> Option<Failure> {
    let Ok(Some(settings)) = read_settings(context) else { return None };
    let behind = || -> Result<Option<Failure>, Failure> {
        let fleet = make_fleet(&settings, context)?;
        let ledger = context.opened()?.ledger()?;
        let Some((waiting, error)) = fleet.last_failure(ledger.as_deref())? else {
            return find_upload_problem(context);
        };
        let waiting = output::count(usize::try_from(waiting).unwrap_or(usize::MAX), "change");
        let problem = format!("the fleet's database is {waiting} behind");
        Ok(Some(Failure::new(problem).because_of(&error)))
    };
    behind().unwrap_or_else(Some)
}

/// Returns a problem for `takeback doctor` if the last attempt to upload checkpoints has failed.
fn find_upload_problem(context: &Context) -> Result<Option<Failure>, Failure> {
    let Some(view) = objects::find_checkpoints(context)? else { return Ok(None) };
    if let Some(problem) = view.problem {
        return Ok(Some(problem));
    }
    let Some(error) = view.last.error else { return Ok(None) };
    let waiting = output::count(usize::try_from(view.waiting).unwrap_or(usize::MAX), "checkpoint");
    let problem = format!("the fleet's object storage is {waiting} behind");
    Ok(Some(Failure::new(problem).because_of(&error)))
}
