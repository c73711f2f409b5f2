//! The report of `takeback doctor` as text.

use super::agents::{self, AgentView};
use super::{DoctorView, Problem};
use crate::commands::checkpoints::prune::describe_jump;
use crate::commands::open_tasks::OpenTask;
use crate::context::Context;
use crate::output::{self, Cell, Column, Style, Table, paint};

pub(super) fn print_report(view: &DoctorView, context: &Context) {
    println!("takeback {}", view.version);
    print_agents(&view.agents, context);
    if let Some(hook) = &view.hook {
        let capture =
            hook.capture_ms.map(|ms| format!(", and {ms:.1} ms to capture this workspace"));
        println!("Hook: {:.1} ms{}.", hook.hook_ms, capture.unwrap_or_default());
    }
    if let Some(store) = &view.store {
        println!(
            "Store: {} of at most {}; {} in {}.",
            output::bytes(store.bytes),
            output::bytes(store.max_bytes),
            output::count(store.checkpoints, "checkpoint"),
            output::count(store.workspaces, "workspace"),
        );
        if let Some(jump) = &store.clock_jump {
            println!("{}", describe_jump(jump));
        }
    }
    match &view.ledger {
        Some(ledger) => println!(
            "Ledger: {}, {}.",
            output::bytes(ledger.bytes),
            output::count(ledger.sessions, "session")
        ),
        None => println!("Ledger: none yet."),
    }
    let copies = view.copies.iter().map(|copy| {
        let log = output::tilde(&copy.log, context);
        output::disarm(&format!("{} of {}: {log}", copy.session, copy.parent))
    });
    output::print_section("Copies of conversations", copies, context);
    output::print_section("Left open", view.tasks.iter().map(OpenTask::describe), context);
    if view.problems.is_empty() {
        println!("{}", paint(Style::Good, "No problems found."));
    }
    for Problem { message, hint } in &view.problems {
        println!("{} {}", paint(Style::Warning, "⚠"), output::disarm(message));
        println!("  hint: {}", output::disarm(hint));
    }
}

fn print_agents(agents: &[AgentView], context: &Context) {
    if agents.is_empty() {
        println!("No agent was found on this machine.");
        return;
    }
    println!("Agents:");
    let columns = [Column::left(), Column::left(), Column::free(), Column::free()];
    let mut table = Table::new(columns).indented(2);
    for agent in agents {
        let unproven = if agent.proven { "" } else { " (unproven)" };
        let reviewed =
            agent.reviewed.map(|[reviewed, all]| format!("{reviewed} of {all} reviewed"));
        table.add([
            Cell::new(format!("{}{unproven}", agent.title)),
            state_cell(agent),
            Cell::new(last_hook(agent)),
            Cell::new(reviewed.unwrap_or_default()),
        ]);
    }
    table.print();
    let limits = agents.iter().flat_map(|agent| {
        agent.not_covered.iter().map(move |limit| format!("{}: {limit}", agent.title))
    });
    output::print_section("Not covered", limits, context);
}

fn state_cell(agent: &AgentView) -> Cell {
    let state = agents::describe_state(agent);
    match (agent.user, agent.project, agent.found) {
        ("absent", "absent", true) => Cell::styled(Style::Warning, state),
        _ => Cell::new(state),
    }
}

fn last_hook(agent: &AgentView) -> String {
    match &agent.last_fired {
        Some(time) => {
            let time = time.parse::<jiff::Timestamp>().map(output::short_local).unwrap_or_default();
            format!("last hook {time}")
        }
        None if agent.user == "absent" && agent.project == "absent" => String::new(),
        None => "no hook yet".to_owned(),
    }
}
