//! `takeback sessions verify`, `repair`, `optimize`: the ledger as a whole.

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

pub(super) fn verify(context: &Context) -> Result<ExitCode, Failure> {
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
        println!("Wrong: {}", output::disarm(problem));
    }
    if view.whole {
        println!("All well: {} read and checked.", counted(view.sessions, view.messages));
    } else {
        println!("`takeback sessions repair` puts right what can be put right.");
    }
    Ok(code)
}

#[derive(Serialize)]
struct RepairView {
    /// Where the damaged database is now; null if there was no need to set it aside.
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

pub(super) fn repair(context: &Context) -> Result<ExitCode, Failure> {
    let bar = Progress::counting("repairing", "rows");
    let progress = |done: u64, total: u64| bar.step(done, (total > done).then_some(total));
    let report = takeback_ledger::repair(&context.ledger_path(), context.now(), &progress)?;
    drop(bar);
    let view = RepairView::from(report);
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    for note in &view.notes {
        println!("Note: {}", output::disarm(note));
    }
    let counted = counted(view.sessions, view.messages);
    let Some(backup) = &view.backup else {
        if view.notes.is_empty() {
            println!("Nothing to repair: {counted}.");
        } else {
            println!("Counts and the search index are new: {counted}.");
        }
        return Ok(ExitCode::SUCCESS);
    };
    println!("Saved: {counted}, {} of other kinds.", rows(view.other_rows));
    if view.unreadable_pages > 0 {
        let pages = output::count(view.unreadable_pages as usize, "page");
        println!("{pages} could not be read: what was there is lost.");
    }
    if view.orphans > 0 {
        println!("{} came from pages that nothing led to any more.", rows(view.orphans));
    }
    println!("The damaged ledger is kept as {}.", output::disarm(backup));
    Ok(ExitCode::SUCCESS)
}

fn rows(number: u64) -> String {
    output::count(number as usize, "row")
}

fn counted(sessions: u64, messages: u64) -> String {
    let sessions = output::count(sessions as usize, "session");
    format!("{sessions}, {}", output::count(messages as usize, "message"))
}

#[derive(Serialize)]
struct OptimizeView {
    bytes_before: u64,
    bytes_after: u64,
}

pub(super) fn optimize(context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let bytes_before = size(&context.ledger_path());
    let bar = Progress::counting("indexing", "messages");
    ledger.optimize(&|indexed| bar.step(indexed as u64, None))?;
    drop(bar);
    let view = OptimizeView { bytes_before, bytes_after: size(&context.ledger_path()) };
    if context.globals.json {
        output::print_json(&view);
    } else {
        let (before, after) = (output::bytes(view.bytes_before), output::bytes(view.bytes_after));
        println!("{before} → {after}, everything is indexed.");
    }
    Ok(ExitCode::SUCCESS)
}

/// The database with its log.
fn size(path: &Path) -> u64 {
    let log = path.with_file_name("state.db-wal");
    [path, &log].iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}
