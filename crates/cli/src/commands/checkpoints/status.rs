//! `takeback checkpoints status`: the size of the store, its workspaces, and failures.

use std::process::ExitCode;

use takeback_undo::{DirectoryState, MirrorStatus, Opened, Status};

use super::prune::{PROTECTED, describe_jump};
use crate::commands::list::describe_failure;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table, paint};

pub(super) fn run(opened: &Opened, context: &Context) -> Result<ExitCode, Failure> {
    let status = takeback_undo::retention::read_status(opened)?;
    if context.globals.json {
        output::print_json(&status);
    } else {
        print_status(&status, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_status(status: &Status, context: &Context) {
    println!(
        "{} of checkpoints in {} (at most {})",
        output::bytes(status.store_bytes),
        output::tilde(&status.home.0, context),
        output::bytes(status.max_bytes)
    );
    if status.store_bytes > status.max_bytes {
        let text = match status.can_shrink {
            true => "`takeback checkpoints prune` deletes the oldest checkpoints".to_owned(),
            false => PROTECTED.to_owned(),
        };
        let text = format!("The store is over its limit: {text}.");
        println!("{}", paint(Style::Warning, &text));
    }
    if let Some(jump) = &status.clock_jump {
        println!("{}", describe_jump(jump));
    }
    if let Some(mirror) = &status.mirror {
        println!("{}", describe_mirror(mirror, context));
    }
    println!("{}", output::count(status.workspaces.len(), "workspace"));
    let path = Column::left().shrinks(1, 20).keeps_end();
    let columns = [path, Column::right().at_least(14), Column::left(), Column::free()];
    let mut table = Table::new(columns).indented(2);
    for workspace in &status.workspaces {
        let touched = workspace.last_touched.parse::<jiff::Timestamp>().map(output::short_local);
        let orphan = match workspace.state {
            DirectoryState::Live => "",
            DirectoryState::Orphan => "orphan: the directory no longer exists",
        };
        table.add([
            Cell::new(output::tilde(&workspace.path.0, context)),
            Cell::new(output::count(workspace.checkpoints, "checkpoint")),
            Cell::new(touched.unwrap_or_default()),
            Cell::new(orphan),
        ]);
    }
    table.print();
    let legacy = status.legacy.iter().map(|archive| {
        format!("{}  {}", output::disarm(&archive.name), output::bytes(archive.bytes))
    });
    output::print_section("Archives of older stores", legacy, context);
    let failures = status.failures.iter().map(|missed| {
        format!("{}: {}", output::tilde(&missed.workspace.0, context), describe_failure(missed))
    });
    output::print_section("Failures", failures, context);
}

/// Describes the mirror in one line.
pub(crate) fn describe_mirror(mirror: &MirrorStatus, context: &Context) -> String {
    let path = output::tilde(&mirror.path.0, context);
    match &mirror.updated {
        Some(time) => format!("Mirror in {path}, updated {}", output::local_time(time)),
        None => format!("Mirror in {path}, to be created at the end of the next turn"),
    }
}
