//! `takeback list`: the checkpoints of a workspace.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use takeback_tree::RelPath;
use takeback_undo::view::text::effect_kinds;
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
  takeback list                 list the checkpoints of this directory
  takeback list --steps         with every step of a turn
  takeback list --json")]
pub(crate) struct Arguments {
    /// Show every step of a turn; `takeback rollback 2.3` returns to the state before a step
    #[arg(long)]
    pub(super) steps: bool,
    /// Show ten rows, and the commands as they are typed inside an agent
    #[arg(long, hide = true)]
    in_agent: bool,
}

/// The number of rows that are shown inside an agent, where space is scarce.
const ROWS_IN_AGENT: usize = 10;

/// The maximum number of paths that the line about coverage names.
const UNCOVERED_NAMES: usize = 3;

/// The columns of the list. On a narrow terminal the prompt is shortened last, because it describes
/// a row best.
const COLUMNS: [Column; 13] = [
    // The mark, the number, the id, the time and the agent.
    Column::left(),
    Column::right(),
    Column::left().shrinks(2, 0),
    Column::right().at_least(3),
    Column::left().shrinks(7, 0),
    // The prompt or, in a row without a prompt, the reason.
    Column::left().at_most(52).shrinks(10, 12),
    // The counts of files and lines, and the number of steps.
    Column::left().shrinks(8, 0),
    Column::left().shrinks(3, 0),
    // The name, and the word "pinned".
    Column::free().shrinks(9, 8),
    Column::free().shrinks(4, 0),
    // The word "late", and the number of databases that were captured while being written.
    Column::free(),
    // The effects.
    Column::free().shrinks(6, 3),
    // The reason, in a row that has a prompt.
    Column::free().at_most(52).shrinks(1, 0),
];

/// The marks before rows, each with its meaning. A row is marked if the workspace is in its state
/// now, if its turn was taken back, or if the user took the checkpoint.
const MARKS: [(&str, &str); 3] = [(NOW, "now"), (TAKEN_BACK, "taken back"), (BY_HAND, "by hand")];
const NOW: &str = "●";
const TAKEN_BACK: &str = "×";
const BY_HAND: &str = "◆";

/// Lists the checkpoints of the workspace that the command works in.
pub(crate) fn make_list(context: &Context) -> Result<List, Failure> {
    Ok(history::list_checkpoints(context.opened_anyway()?, &context.directory)?)
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    print_list(arguments.steps, arguments.in_agent, context)
}

/// Prints the list.
pub(crate) fn print_list(
    with_steps: bool,
    in_agent: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let list = make_list(context)?;
    if output::answers_json(&list, context) {
        return Ok(ExitCode::SUCCESS);
    }
    let path = output::tilde(&list.workspace.0, context);
    if list.checkpoints.is_empty() {
        println!("No checkpoints for {path} yet. They appear before an agent's next change.");
        if !in_agent {
            println!(
                "`takeback install` adds takeback to your agents; `takeback checkpoint` takes one \
                 now."
            );
        }
        let elsewhere =
            history::find_other_workspaces(context.opened_anyway()?, &context.directory)?;
        let lines = elsewhere.iter().map(|known| output::tilde(&known.path.0, context));
        output::print_section("Other workspaces have checkpoints", lines, context);
    } else {
        println!("Checkpoints for {path}");
    }
    let limit = if in_agent { ROWS_IN_AGENT } else { usize::MAX };
    print_rows(&list, with_steps, limit);
    if let Some(inner) = &list.inner {
        let inner_path = output::tilde(&inner.workspace.0, context);
        println!(
            "\nOlder checkpoints for {inner_path} alone, from before it was part of {path} \
             (`takeback rollback ID` returns to one)"
        );
        print_rows(inner, with_steps, limit);
    }
    print_foot(&list, in_agent, limit);
    print_problems(&list, context);
    Ok(ExitCode::SUCCESS)
}

/// Explains the marks, names the paths that are not covered, and shows the commands for a row.
fn print_foot(list: &List, in_agent: bool, limit: usize) {
    let shown = &list.checkpoints[..list.checkpoints.len().min(limit)];
    let Some(example) = find_example(shown) else { return };
    println!();
    let now = find_now(list);
    let marks: Vec<&str> = shown.iter().map(|row| choose_mark(row, now)).collect();
    let legend = MARKS.iter().filter(|(mark, _)| marks.contains(mark));
    let legend: Vec<String> = legend.map(|(mark, means)| format!("{mark} {means}")).collect();
    print_faint(&legend.join("  "));
    print_faint(&describe_coverage(shown));
    let mut table = Table::new([Column::left(), Column::free().shrinks(1, 0)]);
    for (command, does) in list_usage(example, in_agent) {
        table.add([Cell::styled(Style::Faint, command), Cell::styled(Style::Faint, does)]);
    }
    table.print();
}

/// Prints a line that is less important than the rows, and cuts it off at the edge of the terminal.
fn print_faint(line: &str) {
    let mut table = Table::new([Column::free()]);
    table.add([Cell::styled(Style::Faint, line)]);
    if !line.is_empty() {
        table.print();
    }
}

/// Finds the number of a row that the usage lines can name: the newest row that was not taken back.
fn find_example(shown: &[RowView]) -> Option<usize> {
    let row = shown.iter().find(|row| !row.taken_back).or(shown.first())?;
    Some(row.number)
}

/// Lists the commands that a user needs next, each with a description.
fn list_usage(row: usize, in_agent: bool) -> [(String, &'static str); 3] {
    let (rollback, diff, undo) = match in_agent {
        true => ("/rollback", "/rollback diff", "/undo"),
        false => ("takeback rollback", "takeback diff", "takeback undo"),
    };
    [
        (format!("{rollback} {row}"), "return files and conversation to the state before a row"),
        (format!("{diff} {row}"), "show what changed since then"),
        (undo.to_owned(), "take back only the last turn, and keep your edits"),
    ]
}

/// Names the paths that the shown checkpoints do not cover.
fn describe_coverage(shown: &[RowView]) -> String {
    let paths: BTreeSet<&RelPath> = shown.iter().flat_map(|row| &row.uncovered.paths).collect();
    let Some(row) = shown.iter().find(|row| row.uncovered.count > 0) else {
        return String::new();
    };
    let names: Vec<String> = paths.iter().take(UNCOVERED_NAMES).map(ToString::to_string).collect();
    let more = match paths.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let number = row.number;
    format!("Not covered: {}{more} (`takeback show {number}` says why)", names.join(", "))
}

fn print_problems(list: &List, context: &Context) {
    list.failures.iter().for_each(|missed| output::warn(&describe_failure(missed)));
    list.unreadable.iter().for_each(|reason| output::warn(reason));
    let lines = list.repositories.iter().map(ToString::to_string);
    let title = "Nested repositories, whose history is captured only if a command deletes them";
    output::print_section(title, lines, context);
    if let Some(error) = &list.ledger_error {
        output::warn(&format!("prompts and effects are missing: {error}"));
        output::warn("the checkpoints are safe; run `takeback sessions verify` for details");
    }
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

/// Prints the newest rows, up to a limit.
fn print_rows(list: &List, with_steps: bool, limit: usize) {
    let mut table = Table::new(COLUMNS).indented(2);
    let now = find_now(list);
    for row in list.checkpoints.iter().take(limit) {
        table.add(row_cells(row, now, list));
        for step in row.steps.iter().filter(|_| with_steps) {
            table.add(step_cells(step, list));
        }
    }
    table.print();
    if let Some(more) = list.checkpoints.len().checked_sub(limit).filter(|more| *more > 0) {
        println!("  … and {more} more (`takeback list` in a terminal shows all)");
    }
}

/// Finds the row that matches the workspace's current state: the newest row that was not taken
/// back.
fn find_now(list: &List) -> Option<usize> {
    list.checkpoints.iter().find(|row| !row.taken_back).map(|row| row.number)
}

fn choose_mark(row: &RowView, now: Option<usize>) -> &'static str {
    match () {
        () if now == Some(row.number) => NOW,
        () if row.taken_back => TAKEN_BACK,
        () if row.kind == "manual" => BY_HAND,
        () => "",
    }
}

fn row_cells(row: &RowView, now: Option<usize>, list: &List) -> [Cell; 13] {
    let steps = match row.steps.len() {
        0 | 1 => String::new(),
        steps => output::count(steps, "step"),
    };
    let effects = effect_kinds(&row.effects).join(", ");
    let reason = relative_reason(&row.reason, list);
    let (subject, reason) = match &row.prompt {
        Some(prompt) => (prompt_cell(prompt), Cell::styled(Style::Faint, reason)),
        None => (Cell::new(reason), Cell::default()),
    };
    let pinned = if row.pinned { "pinned" } else { "" };
    // If a turn was taken back, the text of its row is struck through. Without colors, only the
    // mark shows this.
    let strike = |cell: Cell| if row.taken_back { cell.with_style(Style::TakenBack) } else { cell };
    [
        Cell::new(choose_mark(row, now)),
        strike(Cell::new(row.number.to_string())),
        Cell::styled(Style::Id, &row.id.to_string()[..7]),
        Cell::new(output::relative_time(&row.time)),
        strike(Cell::new(row.agent.as_deref().unwrap_or_default())),
        strike(subject),
        strike(Cell::new(format_counts(row))),
        strike(Cell::new(steps)),
        row.name.as_deref().map_or(Cell::default(), |name| Cell::new(name).between("[", "]")),
        Cell::new(pinned),
        Cell::styled(Style::Warning, describe_doubts(row)),
        match effects.is_empty() {
            true => Cell::default(),
            false => Cell::styled(Style::Warning, effects).between("⚠ ", ""),
        },
        reason,
    ]
}

fn step_cells(step: &StepView, list: &List) -> [Cell; 13] {
    let mut cells: [Cell; 13] = Default::default();
    cells[1] = Cell::new(&step.number);
    cells[2] = Cell::styled(Style::Faint, &step.id.to_string()[..7]);
    cells[3] = Cell::new(output::relative_time(&step.time));
    cells[5] = Cell::new(relative_reason(&step.reason, list)).between("  ", "");
    if step.late {
        cells[10] = Cell::styled(Style::Warning, "late");
    }
    cells
}

/// Writes the paths in a reason relative to the workspace.
fn relative_reason(reason: &str, list: &List) -> String {
    reason.replace(&format!("{}/", list.workspace.0.display()), "")
}

/// Says whether the capture was late, and how many databases in it may be inconsistent.
fn describe_doubts(row: &RowView) -> String {
    let unsettled = output::count(row.unsettled.len(), "database");
    let doubts = [
        row.late.then(|| "late".to_owned()),
        (!row.unsettled.is_empty()).then(|| format!("{unsettled} captured while being written")),
    ];
    doubts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn prompt_cell(prompt: &str) -> Cell {
    Cell::new(output::join_lines(prompt)).between("“", "”")
}

/// Formats the counts of a row: `3 files +120 −4`.
fn format_counts(row: &RowView) -> String {
    match (row.files_changed, row.insertions, row.deletions) {
        (Some(files), Some(insertions), Some(deletions)) => {
            format!("{} +{insertions} −{deletions}", output::count(files as usize, "file"))
        }
        _ => String::new(),
    }
}
