//! `takeback sessions verify`, `repair`, `optimize`: check and repair the ledger as a whole.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use takeback_ledger::{RepairReport, VerifyReport};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

#[derive(Serialize)]
struct VerifyView {
    whole: bool,
    sessions: u64,
    messages: u64,
    problems: Vec<String>,
}

impl From<VerifyReport> for VerifyView {
    fn from(report: VerifyReport) -> VerifyView {
        VerifyView {
            whole: report.whole,
            sessions: report.sessions,
            messages: report.messages,
            problems: report.problems,
        }
    }
}

pub(super) fn verify_ledger(context: &Context) -> Result<ExitCode, Failure> {
    let bar = Progress::counting("verifying", "messages");
    let view: VerifyView =
        context.ledger()?.verify(&|done, total| bar.step(done, Some(total)))?.into();
    drop(bar);
    let code = if view.whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if context.globals.json {
        output::print_json(&view);
        return Ok(code);
    }
    for problem in &view.problems {
        println!("Problem: {}", output::disarm(problem));
    }
    if view.whole {
        println!("No problems found: {}.", count_all(view.sessions, view.messages));
    } else {
        println!("Run `takeback sessions repair` to fix what can be fixed.");
    }
    Ok(code)
}

#[derive(Serialize)]
struct RepairView {
    /// The path that the damaged database was moved to; null if it was repaired in place.
    backup: Option<String>,
    sessions: u64,
    messages: u64,
    other_rows: u64,
    unreadable_pages: u64,
    orphans: u64,
    notes: Vec<String>,
}

impl From<RepairReport> for RepairView {
    fn from(report: RepairReport) -> RepairView {
        RepairView {
            backup: report.backup.map(|path| path.to_string_lossy().into_owned()),
            sessions: report.sessions,
            messages: report.messages,
            other_rows: report.other_rows,
            unreadable_pages: report.unreadable_pages,
            orphans: report.orphans,
            notes: report.notes,
        }
    }
}

pub(super) fn repair_ledger(context: &Context) -> Result<ExitCode, Failure> {
    let bar = Progress::counting("repairing", "rows");
    let progress = |done: u64, total: u64| bar.step(done, (total > done).then_some(total));
    let report = takeback_ledger::repair_ledger(&context.ledger_path(), context.now(), &progress)?;
    drop(bar);
    let view = RepairView::from(report);
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    for note in &view.notes {
        println!("Note: {}", output::disarm(note));
    }
    let counted = count_all(view.sessions, view.messages);
    let Some(backup) = &view.backup else {
        if view.notes.is_empty() {
            println!("Nothing to repair: {counted}.");
        } else {
            println!("Rebuilt the counts and the search index of {counted}.");
        }
        return Ok(ExitCode::SUCCESS);
    };
    println!("Recovered {counted} and {}.", output::count(view.other_rows as usize, "other row"));
    if view.unreadable_pages > 0 {
        let pages = output::count(view.unreadable_pages as usize, "unreadable page");
        println!("The content of {pages} is lost.");
    }
    if view.orphans > 0 {
        let rows = output::count(view.orphans as usize, "row");
        println!("{rows} came from pages that the database no longer refers to.");
    }
    println!("Kept the damaged ledger as {}.", output::disarm(backup));
    Ok(ExitCode::SUCCESS)
}

fn count_all(sessions: u64, messages: u64) -> String {
    let sessions = output::count(sessions as usize, "session");
    format!("{sessions}, {}", output::count(messages as usize, "message"))
}

#[derive(Serialize)]
struct OptimizeView {
    bytes_before: u64,
    bytes_after: u64,
}

pub(super) fn optimize_ledger(context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let bytes_before = ledger_size(&context.ledger_path());
    let bar = Progress::counting("indexing", "messages");
    ledger.optimize(&|indexed| bar.step(indexed as u64, None))?;
    drop(bar);
    let view = OptimizeView { bytes_before, bytes_after: ledger_size(&context.ledger_path()) };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let (before, after) = (output::bytes(view.bytes_before), output::bytes(view.bytes_after));
        println!("Indexed all messages: {before} → {after}.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the size of the database with its write-ahead log.
fn ledger_size(path: &Path) -> u64 {
    let log = path.with_file_name("state.db-wal");
    [path, &log].iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}
