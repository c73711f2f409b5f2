//! The agents, and whether they are wired.

use std::process::ExitCode;

use serde::Serialize;
use takeback_agents::{AGENTS, InstallScope, Installer, WiringState};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Style, paint};

#[derive(Serialize)]
struct View {
    agent: &'static str,
    title: &'static str,
    /// Whether it seems to be on this machine.
    found: bool,
    /// `installed`, `partly`, `outdated`, `absent`, or `unreadable`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(
    installer: &Installer<'_>,
    whom: &InstallScope,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let wirable = AGENTS.iter().filter(|agent| agent.has_wiring());
    let views: Vec<View> = wirable
        .map(|agent| {
            let (state, error) = match installer.wiring_state(agent, whom) {
                Ok(wired) => (super::word(wired), None),
                Err(error) => ("unreadable", Some(failure::chain(&error))),
            };
            let found = installer.is_agent_present(agent);
            View { agent: agent.name, title: agent.title, found, state, error }
        })
        .collect();
    if context.globals.json {
        output::print_json(&views);
        return Ok(ExitCode::SUCCESS);
    }
    let is_here = |view: &&View| view.found || view.state != super::word(WiringState::Absent);
    let here: Vec<&View> = views.iter().filter(is_here).collect();
    match here.is_empty() {
        true => println!("No agent was found on this machine."),
        false => println!("Agents on this machine:"),
    }
    for view in &here {
        let state = match view.state {
            "installed" => paint(Style::Good, "installed"),
            "outdated" => {
                let again =
                    format!("outdated: `takeback install {}` brings it up to date", view.agent);
                paint(Style::Warning, &again)
            }
            "partly" => {
                let why =
                    format!("installed, but for files of yours: `takeback install {}`", view.agent);
                paint(Style::Warning, &why)
            }
            "absent" => format!("not installed: `takeback install {}`", view.agent),
            _ => {
                let why = output::disarm(view.error.as_deref().unwrap_or_default());
                paint(Style::Bad, &why)
            }
        };
        println!("  {:<9} {:<12} {state}", view.agent, view.title);
    }
    let others: Vec<&str> =
        views.iter().filter(|view| !is_here(view)).map(|view| view.agent).collect();
    if !others.is_empty() {
        println!("Not found: {}", others.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
