//! The list of checkpoints.

use std::process::ExitCode;

use takeback_undo::{Failure as Missed, List, RowView, history};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Style, paint};

/// How much of a reason and of a prompt is shown.
const REASON: usize = 52;
const PROMPT: usize = 48;

/// The list.
pub(crate) fn view(context: &Context) -> Result<List, Failure> {
    Ok(history::list_checkpoints(context.opened()?, &context.directory)?)
}

pub(crate) fn run(steps: bool, context: &Context) -> Result<ExitCode, Failure> {
    let list = view(context)?;
    if context.globals.json {
        output::print_json(&list);
        return Ok(ExitCode::SUCCESS);
    }
    let path = output::tilde(&list.workspace.0, context);
    if list.checkpoints.is_empty() {
        println!("No checkpoints for {path} yet. `takeback checkpoint` takes one.");
        let elsewhere = history::find_other_workspaces(context.opened()?, &context.directory)?;
        let lines = elsewhere.iter().map(|known| output::tilde(&known.path.0, context));
        output::print_section("There are some for", lines, context);
    } else {
        println!("Checkpoints for {path}");
    }
    print_rows(&list, steps, context);
    list.failures.iter().for_each(|missed| eprintln!("warning: {}", describe(missed)));
    list.unreadable.iter().for_each(|reason| eprintln!("warning: {}", output::disarm(reason)));
    Ok(ExitCode::SUCCESS)
}

/// `3 checkpoints failed since 14:02: disk full`
pub(crate) fn describe(missed: &Missed) -> String {
    let since = jiff::Timestamp::from_millisecond(missed.since.0).map(output::short_local);
    let (since, message) = (since.unwrap_or_default(), output::disarm(&missed.message));
    let count = missed.count as usize;
    if missed.checkpoint {
        format!("{} failed since {since}: {message}", output::count(count, "checkpoint"))
    } else {
        format!("{} since {since}: {message}", output::count(count, "failure"))
    }
}

fn print_rows(list: &List, steps: bool, context: &Context) {
    let what: Vec<String> = list.checkpoints.iter().map(reason).collect();
    let counts: Vec<String> = list.checkpoints.iter().map(counts).collect();
    let width = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (what_width, counts_width) = (width(&what), width(&counts));
    for ((row, what), counts) in list.checkpoints.iter().zip(&what).zip(&counts) {
        let id = paint(context, Style::Id, &row.id.to_string()[..7]);
        let mut line = format!(
            "{:>4}  {id}  {}  {what:<what_width$}  {counts:<counts_width$}",
            row.number,
            time(&row.time)
        );
        for mark in marks(row, context) {
            line.push_str("  ");
            line.push_str(&mark);
        }
        println!("{}", line.trim_end());
        for step in row.steps.iter().filter(|_| steps) {
            let id = paint(context, Style::Faint, &step.id.to_string()[..7]);
            let reason = output::disarm(&output::shorten(&step.reason, REASON));
            let late = if step.late { "  late" } else { "" };
            println!("{:>8}  {id}  {}  {reason}{late}", step.number, time(&step.time));
        }
    }
}

fn reason(row: &RowView) -> String {
    let mut text = output::disarm(&output::shorten(&row.reason, REASON));
    if row.steps.len() > 1 {
        text.push_str(&format!("   {}", output::count(row.steps.len(), "step")));
    }
    text
}

/// `(3 files, +120/−4)`
fn counts(row: &RowView) -> String {
    match (row.files_changed, row.insertions, row.deletions) {
        (Some(files), Some(insertions), Some(deletions)) => {
            format!("({}, +{insertions}/−{deletions})", output::count(files as usize, "file"))
        }
        _ => String::new(),
    }
}

fn marks(row: &RowView, context: &Context) -> Vec<String> {
    let mut marks = Vec::new();
    if let Some(name) = &row.name {
        marks.push(format!("[{}]", output::disarm(name)));
    }
    if row.pinned {
        marks.push("pinned".into());
    }
    if let Some(prompt) = &row.prompt {
        let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        marks.push(format!("“{}”", output::disarm(&output::shorten(&line, PROMPT))));
    }
    if row.late {
        marks.push(paint(context, Style::Warning, "late"));
    }
    let mut kinds: Vec<&str> = Vec::new();
    for effect in &row.effects {
        if !kinds.contains(&effect.kind.as_str()) {
            kinds.push(&effect.kind);
        }
    }
    if !kinds.is_empty() {
        marks.push(paint(context, Style::Warning, &format!("⚠ {}", kinds.join(", "))));
    }
    if row.uncovered.count > 0 {
        let text = format!("{} not covered", output::count(row.uncovered.count, "path"));
        marks.push(paint(context, Style::Faint, &text));
    }
    marks
}

/// A time as people here read it.
fn time(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => output::short_local(time),
        Err(_) => output::disarm(time),
    }
}
