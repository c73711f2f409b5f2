//! `takeback show`: shows one turn or checkpoint in full.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::{Head, Oid, RelPath, TreeChange, Uncovered};
use takeback_undo::{Checkpoint, EffectView, History, Kind, RowView, StepView, TurnId, history};

use super::diff::describe_change;
use super::list;
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

/// A turn or checkpoint in full.
#[derive(Serialize)]
struct ShowView {
    id: Oid,
    /// The number in the list: `2`, or `2.3` for a step.
    number: Option<String>,
    time: String,
    /// `turn`, `step`, `manual`, or `safety` for a checkpoint that was taken before a rollback.
    kind: &'static str,
    name: Option<String>,
    pinned: bool,
    late: bool,
    reason: String,
    agent: Option<String>,
    session: Option<String>,
    turn: Option<TurnId>,
    tool: Option<String>,
    prompt: Option<String>,
    /// The number of files and symlinks in the checkpoint.
    files: Option<u64>,
    repository: Option<Head>,
    steps: Vec<StepView>,
    /// The files that the turn changed. For a manual checkpoint, the files that changed between it
    /// and the next row.
    changes: Vec<TreeChange>,
    effects: Vec<EffectView>,
    uncovered: Vec<Uncovered>,
    /// The databases that other processes wrote to during the capture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<RelPath>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let progress = Progress::new("reading");
    let view = find_view(&arguments.checkpoint, context)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_view(&view);
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds a checkpoint and everything that is known about it.
fn find_view(checkpoint: &str, context: &Context) -> Result<ShowView, Failure> {
    let opened = context.opened_anyway()?;
    let workspace = history::find_workspace_with(opened, &context.directory, checkpoint)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let found = history.find(workspace.store(), checkpoint)?;
    let list = list::make_list(context)?;
    let inner = list.inner.into_iter().flat_map(|inner| inner.checkpoints);
    let mut rows = list.checkpoints.into_iter().chain(inner);
    let row = rows.find(|row| is_part(row, found.checkpoint));
    let view = ShowView::new(found.checkpoint);
    match row {
        Some(row) if found.is_step => Ok(view.with_turn(row)),
        Some(row) => {
            let changes = history::list_changes(opened, &workspace, &history.row(row.number)?)?;
            Ok(view.with_row(row, changes))
        }
        None => Ok(view),
    }
}

/// True if a checkpoint is the given row of the list, or one of its steps.
fn is_part(row: &RowView, checkpoint: &Checkpoint) -> bool {
    let id = checkpoint.pin.id;
    row.id == id || row.steps.iter().any(|step| step.id == id)
}

impl ShowView {
    /// Builds a view from the record.
    fn new(checkpoint: &Checkpoint) -> ShowView {
        let record = &checkpoint.record;
        let call = record.call.as_ref();
        ShowView {
            id: checkpoint.pin.id,
            number: None,
            time: record.time.clone(),
            kind: match record.kind {
                Kind::Manual => "manual",
                Kind::Call | Kind::After | Kind::State => "step",
                Kind::Safety => "safety",
            },
            name: record.name.clone(),
            pinned: record.pinned,
            late: record.late,
            reason: record.reason.clone(),
            agent: call.map(|call| call.agent.clone()),
            session: call.map(|call| call.session.clone()),
            turn: call.map(|call| call.turn.clone()),
            tool: call.map(|call| call.tool.clone()).filter(|tool| !tool.is_empty()),
            prompt: None,
            files: record.files,
            repository: record.repository.clone(),
            steps: Vec::new(),
            changes: Vec::new(),
            effects: Vec::new(),
            uncovered: record.uncovered.clone(),
            unsettled: record.unsettled.clone(),
        }
    }

    /// Adds the details of the turn that a step belongs to.
    fn with_turn(self, row: RowView) -> ShowView {
        let step = row.steps.into_iter().find(|step| step.id == self.id);
        ShowView { number: step.map(|step| step.number), prompt: row.prompt, ..self }
    }

    /// Adds the details of a row of the list.
    fn with_row(self, row: RowView, changes: Vec<TreeChange>) -> ShowView {
        ShowView {
            number: Some(row.number.to_string()),
            kind: row.kind,
            prompt: row.prompt,
            steps: row.steps,
            changes,
            effects: row.effects,
            ..self
        }
    }
}

fn print_view(view: &ShowView) {
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
fn print_facts(view: &ShowView) {
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
