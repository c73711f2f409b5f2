//! What was found, in words.

use super::agents::AgentView;
use super::{Problem, View};
use crate::output::{self, Style, paint};

pub(super) fn print(view: &View) {
    println!("takeback {}", view.version);
    if view.agents.is_empty() {
        println!("No agent was found on this machine.");
    }
    view.agents.iter().for_each(print_agent);
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
    }
    match &view.ledger {
        Some(ledger) => println!(
            "Ledger: {}, {}.",
            output::bytes(ledger.bytes),
            output::count(ledger.sessions, "session")
        ),
        None => println!("Ledger: none yet."),
    }
    if view.problems.is_empty() {
        println!("{}", paint(Style::Good, "Everything is as it should be."));
    }
    for Problem { message, hint } in &view.problems {
        println!("{} {}", paint(Style::Warning, "⚠"), output::disarm(message));
        println!("  {}", output::disarm(hint));
    }
}

fn print_agent(view: &AgentView) {
    let state = match (view.user, view.project) {
        ("absent", "absent") if view.found => {
            paint(Style::Warning, &format!("not installed: `takeback install {}`", view.agent))
        }
        ("absent", "absent") => "not found here".to_owned(),
        ("absent", project) => format!("{project} in this project"),
        (user, "absent") => user.to_owned(),
        (user, project) => format!("{user}; {project} in this project"),
    };
    let fired = match &view.last_fired {
        Some(time) => {
            let time = time.parse::<jiff::Timestamp>().map(output::short_local).unwrap_or_default();
            format!(", last hook {time}")
        }
        None if view.user == "absent" && view.project == "absent" => String::new(),
        None => ", no hook yet".to_owned(),
    };
    let proven = if view.proven { "" } else { " (unproven)" };
    println!("{}{proven}: {state}{fired}", view.title);
    if let Some([reviewed, all]) = view.reviewed {
        println!("  {reviewed} of {all} hooks reviewed");
    }
    view.not_covered.iter().for_each(|text| println!("  not covered: {text}"));
}
