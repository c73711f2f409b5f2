//! `takeback install` without arguments: lists the agents on this machine, and the state of their
//! hooks.

use std::process::ExitCode;

use serde::Serialize;
use takeback_agents::{AGENTS, InstallScope, Installer, WiringState};

use crate::context::Context;
use crate::failure::{self, Failure};
use crate::output::{self, Cell, Column, Style, Table};

#[derive(Serialize)]
struct AgentRow {
    agent: &'static str,
    title: &'static str,
    /// True if the agent seems to be on this machine.
    found: bool,
    /// `installed`, `partly`, `outdated`, `absent`, or `unreadable`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(
    installer: &Installer<'_>,
    scope: &InstallScope,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let agents = AGENTS.iter().filter(|agent| agent.has_wiring());
    let rows: Vec<AgentRow> = agents
        .map(|agent| {
            let (state, error) = match installer.wiring_state(agent, scope) {
                Ok(state) => (super::state_name(state), None),
                Err(error) => ("unreadable", Some(failure::chain(&error))),
            };
            let found = installer.is_agent_present(agent);
            AgentRow { agent: agent.name, title: agent.title, found, state, error }
        })
        .collect();
    if context.globals.json {
        output::print_json(&rows);
    } else {
        print_agents(&rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_agents(rows: &[AgentRow]) {
    let absent = super::state_name(WiringState::Absent);
    let (here, missing): (Vec<&AgentRow>, Vec<&AgentRow>) =
        rows.iter().partition(|row| row.found || row.state != absent);
    match here.is_empty() {
        true => println!("No agent was found on this machine."),
        false => println!("Agents on this machine:"),
    }
    let columns = [Column::left(), Column::left().shrinks(1, 0), Column::free()];
    let mut table = Table::new(columns).indented(2);
    for row in &here {
        table.add([Cell::new(row.agent), Cell::new(row.title), state_cell(row)]);
    }
    table.print();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|row| row.agent).collect();
        println!("Not found: {}", names.join(", "));
    }
}

fn state_cell(row: &AgentRow) -> Cell {
    let install = format!("`takeback install {}`", row.agent);
    match row.state {
        "installed" => Cell::styled(Style::Good, "installed"),
        "outdated" => Cell::styled(Style::Warning, format!("outdated: run {install} to update")),
        "partly" => Cell::styled(Style::Warning, format!("incomplete: {install} says why")),
        "absent" => Cell::new(format!("not installed: run {install}")),
        _ => Cell::styled(Style::Bad, row.error.as_deref().unwrap_or_default()),
    }
}
