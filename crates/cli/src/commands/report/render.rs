//! Renders a report as text or as Markdown.

use super::collect::{ProjectReport, Report, ReportedTurn, Work};
use crate::commands::sessions::text::{format_dollars, group_digits};
use crate::context::Context;
use crate::output::{self, Style, paint};

/// The maximum number of prompts that are shown for a project without `-v`.
const PROMPTS: usize = 10;

/// The maximum width of a prompt, in columns.
const PROMPT_WIDTH: usize = 72;

pub(super) fn print_text(report: &Report, context: &Context) {
    println!("{}", paint(Style::Label, &describe_days(report)));
    for project in &report.projects {
        println!("\n{}", paint(Style::Label, &name_project(project, context)));
        describe_work(&project.work).iter().for_each(|line| println!("  {line}"));
        for turn in shown_prompts(project, context) {
            println!("    {}", describe_turn(turn));
        }
        hidden_prompts(project, context).iter().for_each(|line| println!("    {line}"));
    }
    if report.projects.is_empty() {
        println!("No agent did anything that takeback knows of.");
    } else if report.projects.len() > 1 {
        println!("\n{}", paint(Style::Label, "All projects"));
        describe_work(&report.totals).iter().for_each(|line| println!("  {line}"));
    }
}

pub(super) fn print_markdown(report: &Report, context: &Context) {
    println!("# {}", describe_days(report));
    for project in &report.projects {
        println!("\n## {}\n", name_project(project, context));
        describe_work(&project.work).iter().for_each(|line| println!("- {line}"));
        for turn in shown_prompts(project, context) {
            let text = describe_turn(turn).replace(['<', '>', '`'], "'");
            println!("  - {}", if turn.taken_back { format!("~~{text}~~") } else { text });
        }
        hidden_prompts(project, context).iter().for_each(|line| println!("  - {line}"));
    }
    if report.projects.len() > 1 {
        println!("\n## All projects\n");
        describe_work(&report.totals).iter().for_each(|line| println!("- {line}"));
    }
}

fn describe_days(report: &Report) -> String {
    match report.first_day == report.last_day {
        true => format!("What agents did on {}", report.last_day),
        false => format!("What agents did from {} to {}", report.first_day, report.last_day),
    }
}

fn name_project(project: &ProjectReport, context: &Context) -> String {
    let agents = project.agents.iter().map(|agent| output::disarm(agent)).collect::<Vec<_>>();
    let path = match project.workspace.0.as_os_str().is_empty() {
        true => "(no directory)".to_owned(),
        false => output::tilde(&project.workspace.0, context),
    };
    format!("{path}  ({})", agents.join(", "))
}

/// Summarizes the work in one workspace, or in all of them, in a few short lines.
fn describe_work(work: &Work) -> Vec<String> {
    let mut lines = Vec::new();
    if work.turns > 0 {
        let taken_back = match work.taken_back {
            0 => String::new(),
            count => format!(", {count} taken back"),
        };
        let files = output::count(work.files_changed as usize, "file");
        let turns = output::count(work.turns, "turn");
        let Work { insertions, deletions, .. } = work;
        lines.push(format!("{turns}{taken_back}: {files}, +{insertions}/−{deletions}"));
    }
    if !work.effects.is_empty() {
        let kinds: Vec<String> =
            work.effects.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        lines.push(format!("⚠ effects that no rollback reverses: {}", kinds.join(", ")));
    }
    if work.sessions > 0 {
        let sessions = output::count(work.sessions, "session");
        let (input, output) = (group_digits(work.input_tokens), group_digits(work.output_tokens));
        let cost = match (work.cost_usd > 0.0, work.unpriced_sessions) {
            (true, 0) => format!(", {}", format_dollars(work.cost_usd)),
            (true, unknown) => {
                let cost = format_dollars(work.cost_usd);
                format!(", at least {cost} (no price for {})", output::count(unknown, "session"))
            }
            (false, 0) => String::new(),
            (false, _) => ", price unknown".to_owned(),
        };
        lines.push(format!("{sessions}: {input} tokens in, {output} tokens out{cost}"));
    }
    lines
}

fn shown_prompts<'p>(
    project: &'p ProjectReport,
    context: &Context,
) -> impl Iterator<Item = &'p ReportedTurn> {
    let shown = if context.globals.verbose { usize::MAX } else { PROMPTS };
    project.prompts.iter().take(shown)
}

fn hidden_prompts(project: &ProjectReport, context: &Context) -> Option<String> {
    let hidden = project.prompts.len() - shown_prompts(project, context).count();
    (hidden > 0).then(|| format!("… {hidden} more (-v lists them)"))
}

fn describe_turn(turn: &ReportedTurn) -> String {
    let prompt = turn.prompt.as_deref().map_or("(no prompt)".to_owned(), output::join_lines);
    let prompt = output::shorten(&output::disarm(&prompt), PROMPT_WIDTH);
    let agent = output::disarm(turn.agent.as_deref().unwrap_or_default());
    let taken_back = if turn.taken_back { "  (taken back)" } else { "" };
    format!("{}  {agent}  {prompt}{taken_back}", output::local_time(&turn.time))
}
