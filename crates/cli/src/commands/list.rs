//! `takeback list`: the checkpoints of a workspace.

use std::process::ExitCode;

use clap::Args;
use takeback_undo::{Failure as Missed, List, RowView, StepView, history};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// List the checkpoints of this workspace, newest first
///
/// Each row is a turn of an agent or a checkpoint that you took. Its number, id or name refers to
/// the state before it, so `takeback rollback 2` returns to the state before row 2.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback                      list the checkpoints of this directory
  takeback list --steps         with every step of a turn
  takeback list --json")]
pub(crate) struct Arguments {
    /// Show every step of a turn; `takeback rollback 2.3` returns to the state before a step
    #[arg(long)]
    steps: bool,
}

/// The columns of the list. On a narrow terminal the prompt is shortened last, because it describes
/// a row best.
const COLUMNS: [Column; 12] = [
    // The number, the id, the time.
    Column::right().at_least(4),
    Column::left().shrinks(5, 0),
    Column::left(),
    // The reason, and the number of steps.
    Column::left().at_most(52).shrinks(4, 16),
    Column::left().shrinks(2, 0),
    // The counts of files and lines.
    Column::left().shrinks(7, 0),
    // The name, and the words "pinned" and "taken back".
    Column::free().shrinks(8, 8),
    Column::free().shrinks(3, 0),
    // The prompt.
    Column::free().at_most(52).shrinks(9, 12),
    // The word "late", and the number of databases that were captured while being written.
    Column::free(),
    // The effects.
    Column::free().shrinks(6, 3),
    // The number of paths that are not covered.
    Column::free().shrinks(1, 0),
];

/// Lists the checkpoints of the workspace that the command works in.
pub(crate) fn make_list(context: &Context) -> Result<List, Failure> {
    Ok(history::list_checkpoints(context.opened_anyway()?, &context.directory)?)
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    print_list(arguments.steps, context)
}

/// Prints the list.
pub(crate) fn print_list(with_steps: bool, context: &Context) -> Result<ExitCode, Failure> {
    let list = make_list(context)?;
    if output::answers_json(&list, context) {
        return Ok(ExitCode::SUCCESS);
    }
    let path = output::tilde(&list.workspace.0, context);
    if list.checkpoints.is_empty() {
        println!("No checkpoints for {path} yet. `takeback checkpoint` takes one.");
        let elsewhere =
            history::find_other_workspaces(context.opened_anyway()?, &context.directory)?;
        let lines = elsewhere.iter().map(|known| output::tilde(&known.path.0, context));
        output::print_section("Other workspaces have checkpoints", lines, context);
    } else {
        println!("Checkpoints for {path}");
    }
    print_rows(&list, with_steps);
    if let Some(inner) = &list.inner {
        let inner_path = output::tilde(&inner.workspace.0, context);
        println!(
            "\nOlder checkpoints for {inner_path} alone, from before it was part of {path} \
             (`takeback rollback ID` returns to one)"
        );
        print_rows(inner, with_steps);
    }
    list.failures.iter().for_each(|missed| output::warn(&describe_failure(missed)));
    list.unreadable.iter().for_each(|reason| output::warn(reason));
    let lines = list.repositories.iter().map(ToString::to_string);
    let title = "Nested repositories, whose history is captured only if a command deletes them";
    output::print_section(title, lines, context);
    if let Some(error) = &list.ledger_error {
        output::warn(&format!("prompts and effects are missing: {error}"));
        output::warn("the checkpoints are safe; run `takeback sessions verify` for details");
    }
    Ok(ExitCode::SUCCESS)
}

/// Says how often checkpoints failed, since when, and why: `3 checkpoints failed since 14:02: disk
/// full`.
pub(crate) fn describe_failure(missed: &Missed) -> String {
    let since = jiff::Timestamp::from_millisecond(missed.since.0).map(output::short_local);
    let (since, message) = (since.unwrap_or_default(), output::disarm(&missed.message));
    let count = missed.count as usize;
    if missed.checkpoint {
        format!("{} failed since {since}: {message}", output::count(count, "checkpoint"))
    } else {
        format!("{} since {since}: {message}", output::count(count, "failure"))
    }
}

fn print_rows(list: &List, with_steps: bool) {
    let mut table = Table::new(COLUMNS);
    for row in &list.checkpoints {
        table.add(row_cells(row));
        for step in row.steps.iter().filter(|_| with_steps) {
            table.add(step_cells(step));
        }
    }
    table.print();
}

fn row_cells(row: &RowView) -> [Cell; 12] {
    let steps = match row.steps.len() {
        0 | 1 => String::new(),
        steps => output::count(steps, "step"),
    };
    let if_any = |is_any: bool, cell: Cell| if is_any { cell } else { Cell::default() };
    let not_covered = format!("{} not covered", output::count(row.uncovered.count, "path"));
    let effects = effect_kinds(row);
    let unsettled = output::count(row.unsettled.len(), "database");
    let doubts = [
        row.late.then(|| "late".to_owned()),
        (!row.unsettled.is_empty()).then(|| format!("{unsettled} captured while being written")),
    ];
    let doubts = doubts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    [
        Cell::new(row.number.to_string()),
        Cell::styled(Style::Id, &row.id.to_string()[..7]),
        Cell::new(output::local_time(&row.time)),
        Cell::new(&row.reason),
        Cell::new(steps),
        Cell::new(format_counts(row)),
        row.name.as_deref().map_or(Cell::default(), |name| Cell::new(name).between("[", "]")),
        Cell::new(describe_state(row)),
        row.prompt.as_deref().map_or(Cell::default(), prompt_cell),
        if_any(!doubts.is_empty(), Cell::styled(Style::Warning, doubts)),
        if_any(!effects.is_empty(), Cell::styled(Style::Warning, &effects).between("⚠ ", "")),
        if_any(row.uncovered.count > 0, Cell::styled(Style::Faint, not_covered)),
    ]
}

fn step_cells(step: &StepView) -> [Cell; 12] {
    let mut cells: [Cell; 12] = Default::default();
    cells[0] = Cell::new(&step.number);
    cells[1] = Cell::styled(Style::Faint, &step.id.to_string()[..7]);
    cells[2] = Cell::new(output::local_time(&step.time));
    cells[3] = Cell::new(&step.reason).between("  ", "");
    if step.late {
        cells[9] = Cell::styled(Style::Warning, "late");
    }
    cells
}

fn prompt_cell(prompt: &str) -> Cell {
    Cell::new(output::join_lines(prompt)).between("“", "”")
}

/// Formats the counts of a row: `(3 files, +120/−4)`.
fn format_counts(row: &RowView) -> String {
    match (row.files_changed, row.insertions, row.deletions) {
        (Some(files), Some(insertions), Some(deletions)) => {
            format!("({}, +{insertions}/−{deletions})", output::count(files as usize, "file"))
        }
        _ => String::new(),
    }
}

/// Says whether a row is pinned, and whether its turn has been taken back.
fn describe_state(row: &RowView) -> &'static str {
    match (row.pinned, row.taken_back) {
        (true, true) => "pinned, taken back",
        (true, false) => "pinned",
        (false, true) => "taken back",
        (false, false) => "",
    }
}

/// Lists the kinds of effects in a row, without duplicates.
fn effect_kinds(row: &RowView) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for effect in &row.effects {
        if !kinds.contains(&effect.kind.as_str()) {
            kinds.push(&effect.kind);
        }
    }
    kinds.join(", ")
}
