//! `takeback show`: shows one turn or checkpoint in full.

use std::process::ExitCode;

use clap::Args;
use takeback_undo::{CheckpointView, EffectView, StepView, TurnId, history};

use super::diff::describe_change;
use super::rollback::render::describe_head;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Progress, Style, Table, paint};

/// Show a turn or checkpoint in full
///
/// Shows the prompt, the steps, the files that the turn changed, the effects that no rollback
/// reverses, what the checkpoint does not cover, and the state of the workspace's own git
/// repository.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback show 1               the newest turn or checkpoint
  takeback show 2.3             the third step of that turn
  takeback show good --json     the checkpoint called good")]
pub(crate) struct Arguments {
    /// The number, name or id of a checkpoint
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let progress = Progress::new("reading");
    let opened = context.opened_anyway()?;
    let view = history::show_checkpoint(opened, &context.directory, &arguments.checkpoint)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_view(&view);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_view(view: &CheckpointView) {
    let number = view.number.as_deref().map(|number| format!(" {number}")).unwrap_or_default();
    let id = paint(Style::Id, &view.id.to_string()[..7]);
    println!("Checkpoint{number}  {id}  {}", output::local_time(&view.time));
    print_facts(view);
    if let Some(prompt) = &view.prompt {
        print_list("Prompt", prompt.trim_end().lines().map(output::disarm));
    }
    let step = |step: &StepView| {
        let late = if step.late { "  (late)" } else { "" };
        let (time, reason) = (output::local_time(&step.time), output::disarm(&step.reason));
        format!("{}  {time}  {reason}{late}", step.number)
    };
    print_list("Steps", view.steps.iter().map(step));
    let lines = view.changes.iter().filter_map(|change| change.lines);
    let (insertions, deletions) =
        lines.fold((0, 0), |sum, lines| (sum.0 + lines.insertions, sum.1 + lines.deletions));
    let files = output::count(view.changes.len(), "file");
    let title = match view.kind {
        "turn" => format!("Changed by the turn ({files}, +{insertions}/−{deletions})"),
        _ => format!("Changed until the next checkpoint ({files}, +{insertions}/−{deletions})"),
    };
    print_list(&title, view.changes.iter().map(describe_change));
    let effect =
        |effect: &EffectView| format!("{}: {}", effect.kind, output::disarm(&effect.command));
    print_list("Effects that no rollback reverses", view.effects.iter().map(effect));
    let unsettled = view.unsettled.iter().map(ToString::to_string);
    print_list("Captured while being written, possibly inconsistent", unsettled);
    print_list("Not covered", view.uncovered.iter().map(output::uncovered_line));
}

/// Prints the short facts, each after its title.
fn print_facts(view: &CheckpointView) {
    let mut table = Table::new([Column::left(), Column::free().shrinks(0, 20)]).indented(2);
    let session = view.session.as_ref().zip(view.turn.as_ref()).map(|(session, turn)| match turn {
        TurnId::Number(number) => format!("{session}, turn {number}"),
        TurnId::Name(name) => format!("{session}, turn {name}"),
    });
    let files = view.files.map(|files| output::count(files as usize, "file"));
    let facts = [
        ("reason", Some(view.reason.clone())),
        ("name", view.name.clone()),
        ("pinned", view.pinned.then(|| "yes: it is never pruned".to_owned())),
        (
            "late",
            view.late.then(|| "yes: the agent had moved on before it was complete".to_owned()),
        ),
        ("session", session),
        ("tool", view.tool.clone()),
        ("covers", files),
        ("repository", view.repository.as_ref().map(describe_head)),
    ];
    for (title, text) in facts.into_iter().filter_map(|(title, text)| Some((title, text?))) {
        table.add([Cell::styled(Style::Faint, title), Cell::new(text)]);
    }
    table.print();
}

/// Prints a title and all lines below it. Prints nothing if there are no lines.
fn print_list(title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        println!("{title}:");
        lines.for_each(|line| println!("  {line}"));
    }
}
