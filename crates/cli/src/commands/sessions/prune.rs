//! `takeback sessions prune`, `delete`, `clear`: delete sessions or their messages for good.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, ParentKind, PruneOptions, Time};

use super::when;
use crate::commands::fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Progress, Table};

/// Delete old sessions
///
/// Sessions of subagents are deleted with their parents; forks are kept. A session that has not
/// ended may still be active, so it is kept until it has been inactive for 7 days. This cannot be
/// undone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions prune --older-than 90d --dry-run
  takeback sessions prune --older-than 2026-01-31 --source telegram")]
pub(super) struct PruneArguments {
    /// Delete sessions without activity since this time: 30m, 12h, 7d, 3w, 6mo, 1y ago, or a date
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    older_than: Time,
    /// Delete only sessions of this agent or platform (repeatable)
    #[arg(long = "source", value_name = "SOURCE")]
    sources: Vec<String>,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
}

/// The period of inactivity after which a session counts as ended.
const OPEN_FOR: Duration = Duration::from_secs(7 * 86_400);

#[derive(Serialize)]
struct PruneView {
    sessions: Vec<String>,
    /// The old sessions that are kept because they have not ended and were active recently.
    open: Vec<String>,
    dry_run: bool,
}

pub(super) fn run_prune(
    arguments: &PruneArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let options = PruneOptions {
        inactive_since: arguments.older_than,
        sources: arguments.sources.clone(),
        state: None,
        open_since: Some(context.now().minus(OPEN_FOR)),
    };
    let doomed = with_subagents(&ledger, &ledger.prunable(&options)?)?;
    let mut open = ledger.prunable(&PruneOptions { open_since: None, ..options.clone() })?;
    open.retain(|id| !doomed.contains(id));
    if arguments.dry_run || doomed.is_empty() {
        let titles = read_titles(&ledger, &doomed);
        let view = PruneView { sessions: doomed, open, dry_run: arguments.dry_run };
        return Ok(print_pruned(&view, &titles, context));
    }
    if context.asks() {
        print_sessions("Will delete", &doomed, &read_titles(&ledger, &doomed));
        output::confirm()?;
    }
    let progress = Progress::new("deleting old sessions");
    let sessions = ledger.prune(&options)?;
    drop(progress);
    let has_deleted = !sessions.is_empty();
    let code = print_pruned(&PruneView { sessions, open, dry_run: false }, &[], context);
    if has_deleted {
        fleet::ship_deletion(context);
    }
    Ok(code)
}

fn print_pruned(view: &PruneView, titles: &[String], context: &Context) -> ExitCode {
    if context.globals.json {
        output::print_json(view);
    } else if view.sessions.is_empty() {
        println!("No session is that old.");
    } else {
        let what = if view.dry_run { "Would delete" } else { "Deleted" };
        print_sessions(what, &view.sessions, titles);
    }
    if !view.open.is_empty() && !context.globals.json {
        let count = output::count(view.open.len(), "old session");
        println!("Kept {count}: not ended, and active in the last 7 days.");
        println!("hint: `takeback sessions end SESSION` marks one as ended");
    }
    ExitCode::SUCCESS
}

/// Delete a session with all its messages
///
/// Sessions of its subagents are deleted with it; forks are kept. This cannot be undone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions delete 4f2a")]
pub(super) struct DeleteArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

#[derive(Serialize)]
struct DeleteView {
    deleted: Vec<String>,
}

pub(super) fn run_delete(
    arguments: &DeleteArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let id = ledger.resolve(&arguments.session)?;
    if context.asks() {
        let doomed = with_subagents(&ledger, std::slice::from_ref(&id))?;
        print_sessions("Will delete", &doomed, &read_titles(&ledger, &doomed));
        output::confirm()?;
    }
    let view = DeleteView { deleted: ledger.delete_session(&id)? };
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_sessions("Deleted", &view.deleted, &[]);
    }
    fleet::ship_deletion(context);
    Ok(ExitCode::SUCCESS)
}

/// Delete all messages of a session, but keep the session
///
/// Its title, settings and usage are kept. This cannot be undone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions clear 4f2a")]
pub(super) struct ClearArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

#[derive(Serialize)]
pub(crate) struct ClearView {
    session: String,
    messages: usize,
}

/// Deletes the messages of the session that the user names.
pub(crate) fn clear_session(ledger: &mut Ledger, session: &str) -> Result<ClearView, Failure> {
    let session = ledger.resolve(session)?;
    let messages = ledger.clear_messages(&session)?;
    Ok(ClearView { session, messages })
}

pub(super) fn run_clear(
    arguments: &ClearArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let id = ledger.resolve(&arguments.session)?;
    if context.asks() {
        let messages = ledger.session(&id)?.message_count.unsigned_abs() as usize;
        let count = output::count(messages, "message");
        println!("This deletes {count} of {}. This cannot be undone.", output::disarm(&id));
        output::confirm()?;
    }
    let view = clear_session(&mut ledger, &id)?;
    if context.globals.json {
        output::print_json(&view);
    } else {
        let count = output::count(view.messages, "message");
        println!("Deleted {count} of {}.", output::disarm(&view.session));
    }
    fleet::ship_deletion(context);
    Ok(ExitCode::SUCCESS)
}

/// Returns these sessions and their subagents' sessions, without duplicates.
fn with_subagents(ledger: &Ledger, ids: &[String]) -> Result<Vec<String>, Failure> {
    let mut doomed: Vec<String> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for id in ids {
        let mut add = |id: &str| {
            if known.insert(id.to_owned()) {
                doomed.push(id.to_owned());
            }
        };
        add(id);
        // In the list of descendants, each parent comes before its children.
        let mut line = BTreeSet::from([id.clone()]);
        for descendant in ledger.descendants(id)? {
            let session = descendant.session;
            let is_below = session.parent_session_id.is_some_and(|parent| line.contains(&parent));
            if is_below && session.parent_kind == Some(ParentKind::Subagent) {
                add(&session.id);
                line.insert(session.id);
            }
        }
    }
    Ok(doomed)
}

/// The maximum number of sessions that are shown.
const SHOWN: usize = 20;

/// Reads the titles of the sessions that will be shown. For a session without a title, the title is
/// empty.
fn read_titles(ledger: &Ledger, ids: &[String]) -> Vec<String> {
    let title = |id: &String| ledger.session(id).ok()?.title;
    ids.iter().take(SHOWN).map(|id| title(id).unwrap_or_default()).collect()
}

/// Prints session ids, with titles where there are any.
fn print_sessions(what: &str, ids: &[String], titles: &[String]) {
    println!("{what} {}:", output::count(ids.len(), "session"));
    let mut table = Table::new([Column::left(), Column::free().shrinks(1, 12)]).indented(2);
    let titles = titles.iter().map(String::as_str).chain(std::iter::repeat(""));
    ids.iter().zip(titles).take(SHOWN).for_each(|(id, title)| {
        table.add([Cell::new(id), Cell::new(title)]);
    });
    table.print();
    if ids.len() > SHOWN {
        println!("  … and {} more", ids.len() - SHOWN);
    }
}
