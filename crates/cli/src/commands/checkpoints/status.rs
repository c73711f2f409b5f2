//! `takeback checkpoints status`.

use std::process::ExitCode;

use takeback_undo::{DirectoryState, Opened, Status};

use crate::commands::rollback::describe;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Style, paint};

pub(super) fn run(opened: &Opened, context: &Context) -> Result<ExitCode, Failure> {
    let status = takeback_undo::retention::read_status(opened)?;
    if context.globals.json {
        output::print_json(&status);
    } else {
        print(&status, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(status: &Status, context: &Context) {
    println!(
        "{} of checkpoints in {} (at most {})",
        output::bytes(status.store_bytes),
        output::tilde(&status.home.0, context),
        output::bytes(status.max_bytes)
    );
    if status.store_bytes > status.max_bytes {
        let text = "The store is larger than it may be: `takeback checkpoints prune` makes the \
                    oldest go. What is pinned, and the newest of all, stays.";
        println!("{}", paint(context, Style::Warning, text));
    }
    let paths: Vec<String> =
        status.workspaces.iter().map(|known| output::tilde(&known.path.0, context)).collect();
    let width = paths.iter().map(|path| path.chars().count()).max().unwrap_or(0);
    println!("{}", output::count(paths.len(), "workspace"));
    for (workspace, path) in status.workspaces.iter().zip(&paths) {
        let touched = workspace.last_touched.parse::<jiff::Timestamp>().map(output::short_local);
        let orphan = match workspace.state {
            DirectoryState::Live => "",
            DirectoryState::Orphan => "  orphan: the directory is gone",
        };
        println!(
            "  {path:<width$}  {:>14}  {}{orphan}",
            output::count(workspace.checkpoints, "checkpoint"),
            touched.unwrap_or_default(),
        );
    }
    let legacy = status.legacy.iter().map(|archive| {
        format!("{}  {}", output::disarm(&archive.name), output::bytes(archive.bytes))
    });
    output::print_section("Archives of older layouts", legacy, context);
    let failures = status.failures.iter().map(|missed| {
        format!("{}: {}", output::tilde(&missed.workspace.0, context), describe(missed))
    });
    output::print_section("Failures", failures, context);
}
