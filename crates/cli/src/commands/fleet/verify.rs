//! `takeback fleet verify`: downloads and checks everything in the object storage.

use std::process::ExitCode;

use clap::Args;
use takeback_fleet::{Affected, VerifiedObjects};

use super::objects::open_objects;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Check everything in the fleet's object storage
///
/// Downloads all objects of all machines, compares them with their names, and reads every
/// checkpoint. Deletes nothing. The next `takeback fleet sync` uploads damaged objects of this
/// machine's own checkpoints again, unless they were deleted here. Exits with 1 if anything is
/// damaged.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet verify
  takeback fleet verify --json")]
pub(super) struct Arguments {}

pub(super) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let objects = open_objects(context)?;
    let progress = Progress::counting("reading", "bytes");
    let verified = objects.verify(&|bytes| progress.step(bytes, None))?;
    drop(progress);
    let code = if verified.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if !output::answers_json(&verified, context) {
        print_verified(&verified);
    }
    Ok(code)
}

fn print_verified(verified: &VerifiedObjects) {
    let count = |number: u64, noun: &str| {
        output::count(usize::try_from(number).unwrap_or(usize::MAX), noun)
    };
    println!(
        "Read {} of {}, with {}.",
        count(verified.objects, "object"),
        count(verified.machines, "machine"),
        count(verified.checkpoints, "checkpoint")
    );
    for damaged in &verified.damaged {
        output::warn(&output::disarm(damaged));
    }
    for Affected { machine, workspace, seq, lost } in &verified.affected {
        let workspace =
            workspace.as_ref().map_or_else(String::new, |path| format!(" of {}", path.0.display()));
        let lost = match lost {
            Some(lost) => format!("lacks {}", count(*lost, "path")),
            None => "is lost".to_owned(),
        };
        let text = format!("checkpoint #{seq}{workspace} on {machine} {lost}");
        output::warn(&output::disarm(&text));
    }
    for stranger in &verified.strangers {
        println!("Not written by takeback: {}", output::disarm(stranger));
    }
    match verified.is_whole() {
        true => println!("Everything is intact."),
        false => println!(
            "If a machine still has the damaged objects, `takeback fleet sync` uploads them again \
             from there."
        ),
    }
}
