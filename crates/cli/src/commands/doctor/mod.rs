//! `takeback doctor`: checks the agents, the store, the ledger and the speed of hooks.

pub(crate) mod agents;
mod bundle;
pub(crate) mod checks;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_agents::MadeCopy;
#[cfg(not(fuzzing))]
use takeback_web::{CheckedAgent, Checkup, Finding};

use self::agents::AgentView;
use self::checks::{HookSpeed, LedgerView, StoreView};
use super::fleet;
use super::open_tasks::{OpenTask, list_open_tasks};
use crate::config::{self, Config};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Check that everything works: agents, hooks, store, ledger
///
/// Shows for each agent whether its hooks are installed and up to date, when they last ran, and
/// what they do not cover. Reads all checkpoints and the whole ledger. Exits with 1 if there are
/// problems; with `--bundle`, only if the report cannot be written.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback doctor
  takeback doctor claude codex            check only these agents
  takeback doctor --clear                 forget failures whose cause is fixed
  takeback doctor --bundle report.json    write a report to attach to an issue")]
pub(crate) struct Arguments {
    /// Check only these agents
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Forget all failures that were reported so far
    #[arg(long)]
    clear: bool,
    /// Write a report to share, with paths, names and secrets masked; `-` is standard output
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

#[derive(Serialize)]
struct DoctorView {
    version: &'static str,
    /// False if checkpoints are switched off.
    enabled: bool,
    agents: Vec<AgentView>,
    hook: Option<HookSpeed>,
    store: Option<StoreView>,
    ledger: Option<LedgerView>,
    /// The conversations and goals of takeback's own agent that were interrupted or are waiting.
    tasks: Vec<OpenTask>,
    /// The copies of agents' own conversations that takeback made. They stay after `uninstall`.
    copies: Vec<MadeCopy>,
    problems: Vec<Problem>,
}

/// A problem that needs the user's attention, and a hint about what to do.
#[derive(Serialize)]
pub(crate) struct Problem {
    message: String,
    hint: String,
}

impl Problem {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { message: message.into(), hint: hint.into() }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let what = Extent { agents: &arguments.agents, clears: arguments.clear, is_thorough: true };
    let view = check_everything(&what, context)?;
    let code = if view.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if let Some(file) = &arguments.bundle {
        // The exit code says only whether the report was written. Users write a report because they
        // have a problem, so problems are not a failure here.
        bundle::write_bundle(&view, file, context)?;
        return Ok(ExitCode::SUCCESS);
    }
    match context.globals.json {
        true => output::print_json(&view),
        false => report::print_report(&view, context),
    }
    Ok(code)
}

/// The checks to run.
struct Extent<'a> {
    /// The names of the agents to check. If empty, all agents are checked.
    agents: &'a [String],
    /// True if the failures that were reported so far are to be forgotten.
    clears: bool,
    /// True if all checkpoints and messages are to be read, and the speed of the hook is to be
    /// measured.
    is_thorough: bool,
}

/// Runs the checks for the health page of `takeback serve`.
#[cfg(not(fuzzing))]
pub(crate) fn check_up(context: &Context, is_thorough: bool) -> Result<Checkup, Failure> {
    let view = check_everything(&Extent { agents: &[], clears: false, is_thorough }, context)?;
    let agents = view.agents.iter().map(|agent| CheckedAgent {
        title: agent.title.to_owned(),
        state: agents::describe_state(agent),
        last_hook: agent.last_fired.clone(),
        not_covered: agent.not_covered.iter().map(|limit| (*limit).to_owned()).collect(),
    });
    let agents = agents.collect();
    let finding = |Problem { message, hint }| Finding { message, hint };
    let findings = view.problems.into_iter().map(finding).collect();
    Ok(Checkup { is_thorough, agents, findings })
}

fn check_everything(what: &Extent<'_>, context: &Context) -> Result<DoctorView, Failure> {
    let mut problems = Vec::new();
    let (config, problem) = Config::read_anyway(&context.home, context.profile());
    if let Some(problem) = problem {
        let hint = match context.profile() {
            Some(profile) if !config::has_profile(&context.home, profile) => {
                "choose another profile; until then, the settings outside of profiles apply"
            }
            _ => "fix the file; until then, only its valid settings apply",
        };
        problems.push(Problem::new(problem.to_string(), hint));
    }
    let enabled = config.checkpoints.enabled && !context.is_switched_off();
    if !enabled {
        let hint = match context.is_switched_off() {
            true => "unset TAKEBACK_CHECKPOINTS to switch them on".to_owned(),
            false => {
                let file = config::config_path(&context.home);
                format!("remove `enabled = false` from {} to switch them on", file.display())
            }
        };
        problems.push(Problem::new("checkpoints are switched off", hint));
    }
    let agents = agents::check_agents(what.agents, context, &mut problems)?;
    let opened = &context.open_with(config);
    if what.clears {
        opened
            .clear_failures()
            .map_err(|error| Failure::new("cannot clear the failures").because(&error))?;
    }
    let store = checks::check_store(opened, context, &mut problems);
    let ledger = checks::check_ledger(context, &mut problems);
    if let Some(problem) = fleet::find_problem(context) {
        problems.push(Problem::new(problem.to_string(), fleet::PROBLEM_HINT));
    }
    let mut hook = None;
    if what.is_thorough {
        checks::verify_store(opened, &mut problems);
        checks::verify_ledger(context, &mut problems);
        hook = checks::measure_hook(opened, context, &mut problems);
    }
    Ok(DoctorView {
        version: env!("CARGO_PKG_VERSION"),
        enabled,
        agents,
        hook,
        store,
        ledger,
        // If the ledger cannot be read, `problems` already says so.
        tasks: list_open_tasks(context).unwrap_or_default(),
        copies: takeback_agents::list_copies(opened),
        problems,
    })
}
