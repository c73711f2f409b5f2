//! `takeback checkpoint`: captures the workspace now.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::{Oid, Uncovered};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};
use crate::record::{Kind, Record};

/// Save the state of this directory
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback checkpoint
  takeback checkpoint --reason 'tests are green'
  takeback -C ~/code/shop checkpoint --json")]
pub(crate) struct Arguments {
    /// Why, for the list
    #[arg(long, value_name = "TEXT", default_value = "taken by hand")]
    pub(crate) reason: String,
}

/// What was saved.
#[derive(Serialize)]
pub(crate) struct View {
    pub(crate) id: Oid,
    /// Its number in the list: the newest is 1.
    pub(crate) number: usize,
    /// When, in RFC 3339.
    created: String,
    files: u64,
    uncovered: Vec<Uncovered>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = take(&arguments.reason, context)?;
    if context.globals.json {
        output::print_json(&view);
    } else {
        let files = output::count(view.files as usize, "file");
        println!("Checkpoint {} of {files}.", &view.id.to_string()[..7]);
        show_uncovered(&view.uncovered);
    }
    Ok(ExitCode::SUCCESS)
}

/// How many uncovered paths are shown.
const SHOWN: usize = 10;

fn show_uncovered(uncovered: &[Uncovered]) {
    if uncovered.is_empty() {
        return;
    }
    println!("Not covered:");
    for path in uncovered.iter().take(SHOWN) {
        println!("  {}  ({})", path.path, output::disarm(&output::reason(path)));
    }
    if uncovered.len() > SHOWN {
        println!("  … and {} more (--json lists all)", uncovered.len() - SHOWN);
    }
}

pub(crate) fn take(reason: &str, context: &Context) -> Result<View, Failure> {
    let store = context.store()?;
    let workspace = context.workspace(&store)?;
    let _progress = Progress::new("saving the state of the workspace");
    let options = context.capture_options();
    let mut lock = workspace.lock()?;
    super::rollback::report_recovery(&lock);
    let capture = lock.capture(&options)?;
    let now = jiff::Timestamp::now();
    let record = Record {
        reason: reason.trim().to_owned(),
        files: Some(capture.files),
        filter: capture.filter,
        uncovered: capture.uncovered,
        ..Record::new(&workspace, lock.next_seq()?, now, Kind::Manual)
    };
    let pin = lock.pin(capture.tree, options.now, &record.message())?;
    super::rollback::finish(lock, context);
    super::checkpoints::merge_later(&store, context);
    Ok(View {
        id: pin.id,
        number: 1,
        created: record.time,
        files: capture.files,
        uncovered: record.uncovered,
    })
}
