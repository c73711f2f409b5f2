//! `takeback sessions end`, `reopen`, `archive`, `unarchive`: change the state of one session.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, LedgerError, Time};

use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

/// The default reason for ending a session.
pub(crate) const ENDED: &str = "ended";

/// Mark a session as ended
///
/// A session that has already ended keeps its first reason.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions end 4f2a
  takeback sessions end 4f2a --reason 'merged'")]
pub(super) struct EndArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
    /// The reason to record for ending the session
    #[arg(long, value_name = "TEXT", default_value = ENDED)]
    reason: String,
}

/// Reopen a session that has ended
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions reopen 4f2a")]
pub(super) struct ReopenArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

/// Hide a session from the list
///
/// `takeback sessions list --archived` still shows it, and `takeback search` still finds its
/// messages.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions archive 4f2a
  takeback sessions unarchive 4f2a    show it again")]
pub(super) struct ArchiveArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

/// Show an archived session in the list again
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions unarchive 4f2a")]
pub(super) struct UnarchiveArguments {
    /// The session: its id, the beginning of its id, or its title
    #[arg(value_name = "SESSION")]
    session: String,
}

/// The state of a session.
#[derive(Serialize)]
pub(crate) struct StateView {
    session: String,
    ended_at: Option<Time>,
    end_reason: Option<String>,
    archived: bool,
}

/// Changes the state of the session that the user names, and returns the new state.
pub(crate) fn change_state(
    ledger: &mut Ledger,
    session: &str,
    change: impl FnOnce(&mut Ledger, &str) -> Result<(), LedgerError>,
) -> Result<StateView, Failure> {
    let id = ledger.resolve(session)?;
    change(ledger, &id)?;
    let record = ledger.session(&id)?;
    let (ended_at, end_reason) = (record.ended_at, record.end_reason);
    Ok(StateView { session: id, ended_at, end_reason, archived: record.archived })
}

pub(super) fn run_end(arguments: &EndArguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut is_first = false;
    let view =
        change_state(&mut *logs::current_ledger(context)?, &arguments.session, |ledger, id| {
            is_first = ledger.end_session(id, &arguments.reason, context.now())?;
            Ok(())
        })?;
    let done = match (is_first, &view.end_reason) {
        (false, Some(reason)) => format!("had already ended ({})", output::disarm(reason)),
        _ => "has ended".to_owned(),
    };
    Ok(print_state(&view, &done, context))
}

pub(super) fn run_reopen(
    arguments: &ReopenArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let view = change_state(&mut ledger, &arguments.session, Ledger::reopen_session)?;
    Ok(print_state(&view, "is open", context))
}

pub(super) fn run_archive(
    arguments: &ArchiveArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let view = change_state(&mut ledger, &arguments.session, |ledger, id| {
        ledger.archive_session(id, true)
    })?;
    Ok(print_state(&view, "is archived", context))
}

pub(super) fn run_unarchive(
    arguments: &UnarchiveArguments,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let view = change_state(&mut ledger, &arguments.session, |ledger, id| {
        ledger.archive_session(id, false)
    })?;
    Ok(print_state(&view, "is no longer archived", context))
}

fn print_state(view: &StateView, done: &str, context: &Context) -> ExitCode {
    if context.globals.json {
        output::print_json(view);
    } else {
        println!("Session {} {done}.", output::disarm(&view.session));
    }
    ExitCode::SUCCESS
}
