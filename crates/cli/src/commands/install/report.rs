//! The results of installing and uninstalling, as text and JSON.

use std::process::ExitCode;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use serde::Serialize;
use takeback_agents::{Agent, FileChange, InstallError, InstallPlan, Rewind};

use super::past_conversations::PastConversations;
use crate::commands::sessions::import::ImportView;
use crate::context::Context;
use crate::failure;
use crate::output;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Install,
    Uninstall,
}

/// The plan for an agent, and what happened when it was applied.
pub(super) struct AgentResult {
    agent: &'static Agent,
    plan: Option<InstallPlan>,
    error: Option<String>,
    pub(super) past: Option<PastConversations>,
}

impl AgentResult {
    pub(super) fn planned(
        agent: &'static Agent,
        plan: Result<InstallPlan, InstallError>,
    ) -> AgentResult {
        let (plan, error) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(error) => (None, Some(failure::chain(&error))),
        };
        AgentResult { agent, plan, error, past: None }
    }

    pub(super) fn has_changes(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| !plan.changes.is_empty())
    }

    pub(super) fn apply(&mut self, apply: &dyn Fn(&InstallPlan) -> Result<(), InstallError>) {
        if let Some(plan) = &self.plan
            && let Err(error) = apply(plan)
        {
            self.error = Some(failure::chain(&error));
        }
    }

    /// Returns the agent if there was no error.
    pub(super) fn succeeded(&self) -> Option<&'static Agent> {
        self.error.is_none().then_some(self.agent)
    }

    fn has_failed(&self) -> bool {
        self.error.is_some()
            || matches!(self.past, Some(PastConversations::Failed(_)))
            || self.plan.as_ref().is_some_and(|plan| !plan.skipped.is_empty())
    }
}

#[derive(Serialize)]
struct AgentResultView<'a> {
    agent: &'static str,
    files: Vec<FileView>,
    left: Vec<SkippedFileView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    afterwards: Option<&'static str>,
    /// The counts for the past conversations, if they were imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<&'a ImportView>,
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
struct SkippedFileView<'a> {
    path: String,
    why: &'a str,
}

/// Prints the planned changes to all files as diffs.
pub(super) fn print_diffs(results: &[AgentResult], context: &Context) {
    if context.globals.json {
        return;
    }
    let plans = results.iter().filter_map(|result| result.plan.as_ref());
    for change in plans.flat_map(|plan| &plan.changes) {
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let (before, after) = (text(&change.before), text(&change.after));
        let input = InternedInput::new(before.as_str(), after.as_str());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printer = BasicLineDiffPrinter(&input.interner);
        let diff = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input).to_string();
        println!("{} {}", diff_sign(change), output::tilde(&change.path, context));
        println!("{}", output::disarm_lines(diff.trim_end()));
    }
}

fn diff_sign(change: &FileChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "+++",
        (_, None) => "---",
        _ => "***",
    }
}

pub(super) fn print_results(
    results: &[AgentResult],
    operation: Operation,
    dry_run: bool,
    context: &Context,
) -> ExitCode {
    let failed = results.iter().any(AgentResult::has_failed);
    let code = if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if context.globals.json {
        let views: Vec<AgentResultView<'_>> =
            results.iter().map(|result| AgentResultView::new(result, operation)).collect();
        output::print_json(&views);
        return code;
    }
    if results.is_empty() {
        println!("Nothing is installed.");
    }
    for result in results {
        if let Some(plan) = &result.plan {
            print_plan(plan, result.error.is_none(), operation, dry_run, context);
        }
        result.past.iter().for_each(|past| print_past_conversations(past, result.agent));
        let title = result.agent.title;
        result
            .error
            .iter()
            .for_each(|error| eprintln!("error: {title}: {}", output::disarm(error)));
    }
    code
}

fn print_plan(
    plan: &InstallPlan,
    succeeded: bool,
    operation: Operation,
    dry_run: bool,
    context: &Context,
) {
    let title = plan.agent.title;
    let is_install = operation == Operation::Install;
    if plan.changes.is_empty() && plan.skipped.is_empty() {
        match is_install {
            true => println!("{title}: already installed."),
            false => println!("{title}: not installed."),
        }
    } else if dry_run {
        println!("{title}: {} would change.", output::count(plan.changes.len(), "file"));
    } else if succeeded && !plan.changes.is_empty() {
        println!("{title}: {}.", if is_install { "installed" } else { "uninstalled" });
        for change in &plan.changes {
            let done = match action_name(change) {
                "made" => "created",
                action => action,
            };
            println!("  {done:<7} {}", output::tilde(&change.path, context));
        }
    }
    for (path, why) in &plan.skipped {
        output::warn(&format!("{}: {why}", output::tilde(path, context)));
    }
    if is_install && succeeded && !dry_run && !plan.changes.is_empty() {
        plan.agent.next_step().iter().for_each(|text| println!("  Next: {text}"));
        plan.agent.limitations.iter().for_each(|text| println!("  Note: {text}."));
    }
    if !is_install && succeeded && !dry_run && !plan.changes.is_empty() {
        print_hidden(plan.agent, context);
    }
}

/// Warns that the agent's model can again see the messages that the plugin had left out
/// of conversations.
fn print_hidden(agent: &Agent, context: &Context) {
    let hidden = takeback_agents::count_hidden(&context.home);
    let needs_plugin = takeback_agents::find_rewind(agent.name).is_some_and(Rewind::needs_plugin);
    if needs_plugin && hidden > 0 {
        println!(
            "  Note: in {}, the model can again see messages that /rollback took back. `takeback \
             resume` continues a copy without them.",
            output::count(hidden, "conversation")
        );
    }
}

fn print_past_conversations(past: &PastConversations, agent: &Agent) {
    match past {
        PastConversations::Offered(count) => println!(
            "  Found {} of past conversations. Run `takeback sessions import --from {}` to import \
             them.",
            output::count(*count, "log"),
            agent.name
        ),
        PastConversations::Imported(view) => println!(
            "  Past conversations: {}, {}.",
            output::count(view.sessions, "session"),
            output::count(view.messages, "message")
        ),
        PastConversations::Failed(error) => eprintln!("error: {}", output::disarm(error)),
    }
}

impl<'a> AgentResultView<'a> {
    fn new(result: &'a AgentResult, operation: Operation) -> AgentResultView<'a> {
        let plan = result.plan.as_ref();
        let next_step = plan.filter(|_| operation == Operation::Install);
        let file = |change: &FileChange| FileView {
            path: change.path.display().to_string(),
            action: action_name(change),
        };
        AgentResultView {
            agent: result.agent.name,
            files: plan.into_iter().flat_map(|plan| &plan.changes).map(file).collect(),
            left: plan
                .into_iter()
                .flat_map(|plan| &plan.skipped)
                .map(|(path, why)| SkippedFileView { path: path.display().to_string(), why })
                .collect(),
            afterwards: next_step.and_then(|plan| plan.agent.next_step()),
            imported: match &result.past {
                Some(PastConversations::Imported(view)) => Some(view),
                _ => None,
            },
            error: match &result.past {
                Some(PastConversations::Failed(error)) => Some(error),
                _ => result.error.as_deref(),
            },
        }
    }
}

/// Returns the name of this kind of change, as it appears in JSON.
fn action_name(change: &FileChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "made",
        (_, None) => "removed",
        _ => "changed",
    }
}
