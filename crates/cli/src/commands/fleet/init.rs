//! `takeback fleet init` and `takeback fleet leave`: join or leave a fleet.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_fleet::{JoinOptions, Joined};

use super::open_fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Style, paint};

/// Create the fleet in the database, or join it if it exists
///
/// Brings the schema up to date. The key of a new fleet is shown once; the other machines need it
/// to join. Running this again changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback fleet init                       create the fleet
  takeback fleet init --key-file fleet.key  join it with the fleet's key
  takeback fleet init --new-machine         after this home was copied from another machine")]
pub(super) struct Arguments {
    /// Read the fleet's key from FILE [default: $TAKEBACK_FLEET_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Join as another machine, because this home is a copy of a machine that already belongs to
    /// the fleet
    #[arg(long)]
    new_machine: bool,
    /// Ship everything again, because this ledger or the fleet's database was restored from
    /// an older copy
    #[arg(long, conflicts_with = "new_machine")]
    resend: bool,
}

/// Leave the fleet: stop recording changes for it
///
/// Use this after you have removed `fleet.postgres` from config.toml. What was shipped stays in the
/// fleet's database, and the ledger of this machine stays as it is.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback config unset fleet.postgres && takeback fleet leave")]
pub(super) struct LeaveArguments {}

/// The environment variable that holds the fleet's key.
const KEY: &str = "TAKEBACK_FLEET_KEY";

#[derive(Serialize)]
struct JoinedView {
    name: String,
    new_machine: bool,
    schema: i32,
    key: Option<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let fleet = open_fleet(context)?;
    let key = match &arguments.key_file {
        Some(file) => {
            let path = context.directory.join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Failure::new(format!("cannot read {}", path.display())).because(&error)
            })?;
            Some(text)
        }
        None => context.variable(KEY).map(|key| key.to_string_lossy().into_owned()),
    };
    let options =
        JoinOptions { key, as_new_machine: arguments.new_machine, resend: arguments.resend };
    let joined = fleet.join(&mut *context.ledger()?, &options)?;
    let view = JoinedView {
        name: joined.name.clone(),
        new_machine: joined.is_new_machine,
        schema: joined.schema.1,
        key: joined.new_key.clone(),
    };
    if !output::answers_json(&view, context) {
        print_joined(&joined, arguments);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_joined(joined: &Joined, arguments: &Arguments) {
    let name = output::disarm(&joined.name);
    match (&joined.new_key, joined.is_new_machine) {
        (Some(_), _) => println!("Created a fleet. This machine is called {name}."),
        (None, true) => println!("Joined the fleet as {name}."),
        (None, false) => println!("This machine belongs to the fleet, as {name}."),
    }
    if let (1.., true) = (joined.schema.0, joined.schema.0 < joined.schema.1) {
        println!("Brought the schema from version {} to {}.", joined.schema.0, joined.schema.1);
    }
    if arguments.resend {
        println!("Everything will be shipped again.");
    }
    if let Some(key) = &joined.new_key {
        println!("\nThe fleet's key, shown only this once:\n\n  {}\n", paint(Style::Id, key));
        println!(
            "Keep it somewhere other than the database. The other machines need it to join, and"
        );
        println!("without it, encrypted data cannot be read.");
    }
    println!(
        "`takeback fleet sync` ships the ledger as it is now; later changes are shipped at the end \
         of each turn."
    );
}

pub(super) fn run_leave(context: &Context) -> Result<ExitCode, Failure> {
    if super::read_settings(context)?.is_some() {
        return Err(Failure::new("the settings still name a fleet")
            .hint("run `takeback config unset fleet.postgres` first"));
    }
    if let Some(mut ledger) = context.opened()?.ledger()? {
        ledger.stop_outbox()?;
    }
    if !output::answers_json(&serde_json::json!({ "left": true }), context) {
        println!("Changes are no longer recorded for the fleet.");
    }
    Ok(ExitCode::SUCCESS)
}
