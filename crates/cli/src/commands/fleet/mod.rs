//! `takeback fleet`: shares one ledger and all checkpoints between many machines.

mod gc;
mod init;
mod machines;
mod objects;
mod pull;
mod queries;
mod resident;
mod status;
mod sync;
mod verify;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use takeback_fleet::{Fleet, FleetJournal, FleetOptions};
use takeback_ledger::TaskLog;

use crate::config::Config;
use crate::context::{Context, LOCK_WAIT};
use crate::failure::Failure;

pub(crate) use takeback_fleet::FleetSettings;

pub(crate) use self::queries::{add_up_usage, list_sessions, search_messages};
pub(crate) use self::resident::ResidentShipper;
pub(crate) use self::sync::{PROBLEM_HINT, find_problem, ship_deletion, sync_quietly};

/// Share one ledger and all checkpoints between many machines
///
/// Each machine keeps writing to its own ledger and store. At the end of a turn, it ships what has
/// changed in the ledger to PostgreSQL, and uploads new checkpoints to object storage. The setting
/// `fleet.postgres` in config.toml, or the variable TAKEBACK_FLEET_POSTGRES, is the address of the
/// database; `fleet.objects` is that of the object storage, if checkpoints are to be shared.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback config set fleet.postgres postgres://takeback@db.example/fleet
  takeback fleet init         create the fleet, or join it
  takeback fleet status       how far behind is it?
  takeback fleet sync         ship and upload the changes now
  takeback fleet machines     the machines of the fleet
  takeback fleet pull shop    the files of the workspace `shop` on another machine
  takeback fleet verify       check everything in the object storage
  takeback fleet gc           delete what this machine no longer needs there")]
pub(crate) struct Arguments {
    // Defaults to `status`: see `arguments/subcommands.rs`.
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Subcommand)]
enum FleetCommand {
    Gc(gc::Arguments),
    Init(init::Arguments),
    Leave(init::LeaveArguments),
    Machines(machines::Arguments),
    Pull(pull::Arguments),
    Status(status::Arguments),
    Sync(sync::Arguments),
    Verify(verify::Arguments),
}

impl Arguments {
    /// True for the command that takeback itself starts in the background.
    pub(crate) fn is_background(&self) -> bool {
        matches!(&self.command, FleetCommand::Sync(arguments) if arguments.is_background())
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match &arguments.command {
        FleetCommand::Gc(arguments) => gc::run(arguments, context),
        FleetCommand::Init(arguments) => init::run(arguments, context),
        FleetCommand::Leave(_) => init::run_leave(context),
        FleetCommand::Machines(_) => machines::run(context),
        FleetCommand::Pull(arguments) => pull::run(arguments, context),
        FleetCommand::Status(_) => status::run(context),
        FleetCommand::Sync(arguments) => sync::run(arguments, context),
        FleetCommand::Verify(_) => verify::run(context),
    }
}

/// The environment variable that holds the address of the fleet's database. It takes precedence
/// over the setting.
const ADDRESS: &str = "TAKEBACK_FLEET_POSTGRES";

/// Reads the settings of the fleet. Returns `None` if they name no database.
fn read_settings(context: &Context) -> Result<Option<FleetSettings>, Failure> {
    let mut settings = Config::read(&context.home, context.profile())?.fleet;
    if let Some(address) = context.variable(ADDRESS) {
        settings.postgres = Some(address.to_string_lossy().into_owned());
    }
    Ok(settings.postgres.is_some().then_some(settings))
}

/// Returns the fleet whose database the settings name. Does not connect to the database.
fn open_fleet(context: &Context) -> Result<Fleet, Failure> {
    let settings = read_settings(context)?.unwrap_or_default();
    make_fleet(&settings, context)
}

/// Opens the journal of tasks that the machines of the fleet share.
pub(crate) fn open_journal(context: &Context) -> Result<Arc<dyn TaskLog>, Failure> {
    Ok(Arc::new(FleetJournal::new(open_fleet(context)?)?))
}

fn make_fleet(settings: &FleetSettings, context: &Context) -> Result<Fleet, Failure> {
    Ok(Fleet::new(FleetOptions {
        home: &context.home,
        settings,
        host_name: host_name(),
        version: env!("CARGO_PKG_VERSION"),
        lock_wait: LOCK_WAIT,
    })?)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
