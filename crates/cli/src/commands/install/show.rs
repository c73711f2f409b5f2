//! What became of agents' files, in words.

use std::process::ExitCode;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use serde::Serialize;
use takeback_agents::{Agent, FileChange, InstallError, InstallPlan};

use super::past::Past;
use crate::commands::sessions::import;
use crate::context::Context;
use crate::failure;
use crate::output;

/// Whether takeback comes or goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// A plan and what became of it.
pub(super) struct Outcome {
    agent: &'static Agent,
    plan: Option<InstallPlan>,
    error: Option<String>,
    pub(super) past: Option<Past>,
}

impl Outcome {
    pub(super) fn planned(
        agent: &'static Agent,
        plan: Result<InstallPlan, InstallError>,
    ) -> Outcome {
        let (plan, error) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(error) => (None, Some(failure::chain(&error))),
        };
        Outcome { agent, plan, error, past: None }
    }

    pub(super) fn changes(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| !plan.changes.is_empty())
    }

    pub(super) fn apply(&mut self, apply: &dyn Fn(&InstallPlan) -> Result<(), InstallError>) {
        if let Some(plan) = &self.plan
            && let Err(error) = apply(plan)
        {
            self.error = Some(failure::chain(&error));
        }
    }

    /// The agent, if all went well.
    pub(super) fn wired(&self) -> Option<&'static Agent> {
        self.error.is_none().then_some(self.agent)
    }

    fn has_failed(&self) -> bool {
        self.error.is_some()
            || matches!(self.past, Some(Past::Failed(_)))
            || self.plan.as_ref().is_some_and(|plan| !plan.skipped.is_empty())
    }
}

#[derive(Serialize)]
struct View<'a> {
    agent: &'static str,
    files: Vec<FileView>,
    left: Vec<LeftView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    afterwards: Option<&'static str>,
    /// What came in of its past conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<&'a import::View>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct FileView {
    path: String,
    /// `made`, `changed` or `removed`.
    action: &'static str,
}

#[derive(Serialize)]
struct LeftView<'a> {
    path: String,
    why: &'a str,
}

/// What would be written.
pub(super) fn diffs(outcomes: &[Outcome], context: &Context) {
    if context.globals.json {
        return;
    }
    for change in
        outcomes.iter().filter_map(|outcome| outcome.plan.as_ref()).flat_map(|p| &p.changes)
    {
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let (before, after) = (text(&change.before), text(&change.after));
        let input = InternedInput::new(before.as_str(), after.as_str());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printer = BasicLineDiffPrinter(&input.interner);
        let diff = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input).to_string();
        println!("{} {}", sign(change), output::tilde(&change.path, context));
        println!("{}", output::disarm_lines(diff.trim_end()));
    }
}

fn sign(change: &FileChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "+++",
        (_, None) => "---",
        _ => "***",
    }
}

pub(super) fn show(
    outcomes: &[Outcome],
    direction: Direction,
    dry_run: bool,
    context: &Context,
) -> ExitCode {
    let failed = outcomes.iter().any(Outcome::has_failed);
    let code = if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if context.globals.json {
        let views: Vec<View<'_>> =
            outcomes.iter().map(|outcome| view(outcome, direction)).collect();
        output::print_json(&views);
        return code;
    }
    if outcomes.is_empty() {
        println!("Nothing is installed.");
    }
    for outcome in outcomes {
        if let Some(plan) = &outcome.plan {
            show_plan(plan, outcome.error.is_none(), direction, dry_run, context);
        }
        outcome.past.iter().for_each(|past| show_past(past, outcome.agent));
        let title = outcome.agent.title;
        outcome
            .error
            .iter()
            .for_each(|error| eprintln!("error: {title}: {}", output::disarm(error)));
    }
    code
}

fn show_plan(
    plan: &InstallPlan,
    succeeded: bool,
    direction: Direction,
    dry_run: bool,
    context: &Context,
) {
    let title = plan.agent.title;
    let is_install = direction == Direction::In;
    if plan.changes.is_empty() && plan.skipped.is_empty() {
        match is_install {
            true => println!("{title}: installed already."),
            false => println!("{title}: nothing of takeback is there."),
        }
    } else if dry_run {
        println!("{title}: {} would change.", output::count(plan.changes.len(), "file"));
    } else if succeeded && !plan.changes.is_empty() {
        println!("{title}: {}.", if is_install { "installed" } else { "uninstalled" });
        for change in &plan.changes {
            println!("  {:<7} {}", action(change), output::tilde(&change.path, context));
        }
    }
    for (path, why) in &plan.skipped {
        eprintln!("warning: {}: {}", output::tilde(path, context), output::disarm(why));
    }
    if is_install && succeeded && !dry_run && !plan.changes.is_empty() {
        plan.agent.next_step().iter().for_each(|text| println!("  Now: {text}"));
        plan.agent.limitations.iter().for_each(|text| println!("  Note: {text}."));
    }
}

fn show_past(past: &Past, agent: &Agent) {
    match past {
        Past::Offered(count) => println!(
            "  {} of past conversations: `takeback sessions import --from {}` brings them in.",
            output::count(*count, "log"),
            agent.name
        ),
        Past::In(view) => println!(
            "  Past conversations: {}, {}.",
            output::count(view.sessions, "session"),
            output::count(view.messages, "message")
        ),
        Past::Failed(error) => eprintln!("error: {}", output::disarm(error)),
    }
}

fn view(outcome: &Outcome, direction: Direction) -> View<'_> {
    let is_install = direction == Direction::In;
    let plan = outcome.plan.as_ref();
    let file = |change: &FileChange| FileView {
        path: change.path.display().to_string(),
        action: action(change),
    };
    View {
        agent: outcome.agent.name,
        files: plan.into_iter().flat_map(|plan| &plan.changes).map(file).collect(),
        left: plan
            .into_iter()
            .flat_map(|plan| &plan.skipped)
            .map(|(path, why)| LeftView { path: path.display().to_string(), why })
            .collect(),
        afterwards: plan.filter(|_| is_install).and_then(|plan| plan.agent.next_step()),
        imported: match &outcome.past {
            Some(Past::In(view)) => Some(view),
            _ => None,
        },
        error: match &outcome.past {
            Some(Past::Failed(error)) => Some(error),
            _ => outcome.error.as_deref(),
        },
    }
}

fn action(change: &FileChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "made",
        (_, None) => "removed",
        _ => "changed",
    }
}
