//! `takeback sessions prune` and `delete`: what is gone for good.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, ParentKind, PruneOptions, Time};

use super::when;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

/// Delete sessions in which nothing happened for long
///
/// Subagents' sessions go along with the ones they worked for; forks stay.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions prune --older-than 90d --dry-run
  takeback sessions prune --older-than 2026-01-31 --source telegram")]
pub(super) struct Arguments {
    /// Without activity since then: 30m, 12h, 7d, 3w, 6mo, 1y, or a date
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    older_than: Time,
    /// Only of this agent or platform; may be repeated
    #[arg(long = "source", value_name = "SOURCE")]
    sources: Vec<String>,
    /// Show what would be deleted and delete nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct PruneView {
    sessions: Vec<String>,
    dry_run: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let options = PruneOptions {
        inactive_since: arguments.older_than,
        sources: arguments.sources.clone(),
        state: None,
    };
    let doomed = with_subagents(&ledger, &ledger.prunable(&options)?)?;
    if arguments.dry_run || doomed.is_empty() {
        let labels = labels(&ledger, &doomed);
        let view = PruneView { sessions: doomed, dry_run: arguments.dry_run };
        return Ok(show(&view, &labels, context));
    }
    if context.asks() {
        print_sessions(&labels(&ledger, &doomed), "Will delete");
        output::go_on()?;
    }
    let progress = Progress::new("deleting old sessions");
    let sessions = ledger.prune(&options)?;
    drop(progress);
    let labels = sessions.clone();
    Ok(show(&PruneView { sessions, dry_run: false }, &labels, context))
}

fn show(view: &PruneView, labels: &[String], context: &Context) -> ExitCode {
    if context.globals.json {
        output::print_json(view);
    } else if view.sessions.is_empty() {
        println!("No session is that old.");
    } else {
        print_sessions(labels, if view.dry_run { "Would delete" } else { "Deleted" });
    }
    ExitCode::SUCCESS
}

/// Delete a session with all its messages
///
/// Subagents' sessions go along with the one they worked for; forks stay.
#[derive(Args)]
pub(super) struct DeleteArguments {
    /// Its id, its title, or the beginning of its id
    #[arg(value_name = "SESSION")]
    session: String,
}

#[derive(Serialize)]
struct DeleteView {
    deleted: Vec<String>,
}

pub(super) fn delete(arguments: &DeleteArguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = context.ledger()?;
    let id = ledger.resolve(&arguments.session)?;
    if context.asks() {
        let doomed = with_subagents(&ledger, std::slice::from_ref(&id))?;
        print_sessions(&labels(&ledger, &doomed), "Will delete");
        output::go_on()?;
    }
    let view = DeleteView { deleted: ledger.delete_session(&id)? };
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_sessions(&view.deleted, "Deleted");
    }
    Ok(ExitCode::SUCCESS)
}

/// These sessions and those that go along with them.
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
        // Each parent comes before its children.
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

/// How many sessions are shown.
const SHOWN: usize = 20;

/// Ids with titles, as long as there are some: nobody knows ids by heart.
fn labels(ledger: &Ledger, ids: &[String]) -> Vec<String> {
    let label = |(at, id): (usize, &String)| {
        let session = if at < SHOWN { ledger.session(id).ok() } else { None };
        match session.and_then(|session| session.title) {
            Some(title) => format!("{id}  {title}"),
            None => id.clone(),
        }
    };
    ids.iter().enumerate().map(label).collect()
}

fn print_sessions(labels: &[String], what: &str) {
    println!("{what} {}:", output::count(labels.len(), "session"));
    labels.iter().take(SHOWN).for_each(|label| println!("  {}", output::disarm(label)));
    if labels.len() > SHOWN {
        println!("  … and {} more", labels.len() - SHOWN);
    }
}
