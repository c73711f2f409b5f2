//! Replaces `commands/fleet` if the program is built without the feature `fleet`: a machine with
//! settings for a fleet keeps working, and takeback says that it ships nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use takeback_ledger::{
    ListOptions, PriceFn, SearchOptions, SearchResults, SessionSummary, TaskLog, Time, UsageBy,
    UsageTotal,
};

use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;

/// The settings in the table `[fleet]`, none of which has an effect.
pub(crate) type FleetSettings = BTreeMap<String, serde_json::Value>;

/// Share one ledger and all checkpoints between many machines (not in this build)
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn is_background(&self) -> bool {
        false
    }
}

pub(crate) fn run(_: &Arguments, _: &Context) -> Result<ExitCode, Failure> {
    Err(without_fleet())
}

/// The hint for everything that needs the fleet.
pub(crate) const PROBLEM_HINT: &str =
    "install a release, or build takeback with its default features";

fn without_fleet() -> Failure {
    Failure::new("this takeback was built without the feature `fleet`").hint(PROBLEM_HINT)
}

/// Returns a problem for `takeback doctor` if this machine has settings for a fleet.
pub(crate) fn find_problem(context: &Context) -> Option<Failure> {
    let (config, _) = Config::read_anyway(&context.home, context.profile());
    (!config.fleet.is_empty()).then(without_fleet)
}

pub(crate) struct ResidentShipper;

impl ResidentShipper {
    pub(crate) fn start(_: &Context) -> Option<ResidentShipper> {
        None
    }
}

pub(crate) fn sync_quietly(_: &Context) {}

pub(crate) fn ship_deletion(_: &Context) {}

pub(crate) fn open_journal(_: &Context) -> Result<Arc<dyn TaskLog>, Failure> {
    Err(without_fleet())
}

pub(crate) fn list_sessions(
    _: &ListOptions,
    _: &Context,
) -> Result<Vec<(String, SessionSummary)>, Failure> {
    Err(without_fleet())
}

pub(crate) fn search_messages(
    _query: &str,
    _: &SearchOptions,
    _is_over: &dyn Fn() -> bool,
    _: &Context,
) -> Result<(SearchResults, Vec<String>), Failure> {
    Err(without_fleet())
}

pub(crate) fn add_up_usage(
    _: UsageBy,
    _day: &dyn Fn(Time) -> String,
    _: &PriceFn<'_>,
    _: &Context,
) -> Result<Vec<UsageTotal>, Failure> {
    Err(without_fleet())
}
