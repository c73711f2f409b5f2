//! `takeback doctor`: is everything as it should be?

mod agents;
mod bundle;
mod parts;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use self::agents::AgentView;
use self::parts::{LedgerView, SpeedView, StoreView};
use crate::config::{self, Config};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Check that everything works: agents, hooks, store, ledger
///
/// For each agent: is it here, are its hooks present and current, when did they last fire, what is
/// not covered there. Exits with 1 if something needs attention.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback doctor                         everything
  takeback doctor claude codex            of agents, only these
  takeback doctor --bundle report.json    for a bug report: paths and secrets are masked")]
pub(crate) struct Arguments {
    /// Only these agents
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Write a report that can be shown to others; `-` is standard output
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

/// All that was found.
#[derive(Serialize)]
struct View {
    version: &'static str,
    /// Whether agents' calls are protected at all.
    enabled: bool,
    agents: Vec<AgentView>,
    hook: Option<SpeedView>,
    store: Option<StoreView>,
    ledger: Option<LedgerView>,
    problems: Vec<Problem>,
}

/// Something that needs attention.
#[derive(Serialize)]
struct Problem {
    message: String,
    hint: String,
}

impl Problem {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { message: message.into(), hint: hint.into() }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = look(arguments, context)?;
    let code = if view.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if let Some(file) = &arguments.bundle {
        bundle::write(&view, file, context)?;
        return Ok(ExitCode::SUCCESS);
    }
    match context.globals.json {
        true => output::print_json(&view),
        false => show::print(&view),
    }
    Ok(code)
}

fn look(arguments: &Arguments, context: &Context) -> Result<View, Failure> {
    let mut problems = Vec::new();
    let config = Config::read(&context.home).unwrap_or_else(|failure| {
        let hint = "until then, everything is done as by default";
        problems.push(Problem::new(failure.to_string(), hint));
        Config::default()
    });
    let enabled = config.checkpoints.enabled && !context.is_switched_off();
    if !enabled {
        let hint = match context.is_switched_off() {
            true => "TAKEBACK_CHECKPOINTS=0 in the environment says so".to_owned(),
            false => {
                format!("`enabled = false` in {} says so", config::path(&context.home).display())
            }
        };
        problems.push(Problem::new("checkpoints are switched off", hint));
    }
    let agents = agents::look(&arguments.agents, context, &mut problems)?;
    let opened = &context.open_with(config);
    let store = parts::store(opened, context, &mut problems);
    let ledger = parts::ledger(context, &mut problems);
    let hook = parts::speed(opened, context, &mut problems);
    Ok(View { version: env!("CARGO_PKG_VERSION"), enabled, agents, hook, store, ledger, problems })
}
