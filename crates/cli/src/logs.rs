//! Agents' own logs, brought into the ledger.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use takeback_agents::{LogFormat, LogRef, log_format};
use takeback_ledger::{Bookmark, Ledger, Options};
use takeback_undo::LedgerGuard;

use crate::context::Context;
use crate::failure::Failure;

/// Agents write the end of a turn into their logs while they run their hooks.
const LAST_WORDS: Duration = Duration::from_millis(1_000);

/// How long somebody who asks waits for others to let what is new in.
const PATIENCE: Duration = Duration::from_millis(200);

/// So many of the logs that were read last are looked at again before somebody asks.
const RECENT: usize = 64;

/// So many sessions of databases among them: looking there means opening them.
const RECENT_IN_DATABASES: usize = 4;

/// Reads the logs of a session, and once more when the agent has written its last words.
pub(crate) fn catch_up_session(
    session: &str,
    log: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let Some((agent, session)) = session.split_once(':') else { return Ok(()) };
    let Some(format) = log_format(agent) else { return Ok(()) };
    let Some(place) = context.logs_of(format) else { return Ok(()) };
    let found = || format.logs_of_session(session, log, &place);
    let logs = found();
    if logs.is_empty() {
        return Ok(());
    }
    let mut ledger = context.ledger()?;
    read(format, &logs, &mut ledger, context)?;
    // One that is only named so far is known from now on, and read when somebody asks.
    if logs.iter().any(|found| found.path.exists()) {
        thread::sleep(LAST_WORDS);
        read(format, &found(), &mut ledger, context)?;
    }
    Ok(())
}

fn read(
    format: &LogFormat,
    logs: &[LogRef],
    ledger: &mut Ledger,
    context: &Context,
) -> Result<(), Failure> {
    // A prompt that waits in the spool comes before what the log says about it.
    if !ledger.catch_up()? {
        return Ok(());
    }
    // One that cannot be read keeps nobody from the others.
    let mut failed = Ok(());
    for found in logs {
        let root = |directory: &Path| context.root(directory);
        let caught_up = format.catch_up(ledger, found, &root, context.now());
        failed = failed.and(caught_up.map(drop));
    }
    Ok(failed?)
}

/// The ledger, up to date: what was written since into the logs that were read last is in it. What
/// cannot be read now is read another time.
pub(crate) fn current_ledger(context: &Context) -> Result<LedgerGuard<'_>, Failure> {
    let mut ledger = context.ledger()?;
    ledger.set_wait(PATIENCE);
    if ledger.catch_up().unwrap_or(false) {
        catch_up_recent(&mut ledger, context);
    }
    ledger.set_wait(Options::default().wait);
    Ok(ledger)
}

/// The same for a command that does not need the ledger itself.
pub(crate) fn catch_up(context: &Context) {
    if context.ledger_path().exists() {
        let _ = current_ledger(context);
    }
}

fn catch_up_recent(ledger: &mut Ledger, context: &Context) {
    let mut databases = 0;
    for bookmark in ledger.bookmarks(RECENT).unwrap_or_default() {
        let Some(format) = log_format(&bookmark.agent) else { continue };
        let found = LogRef::from_name(format, &bookmark.log);
        databases += usize::from(found.session.is_some());
        if has_more(&found, &bookmark) && databases <= RECENT_IN_DATABASES {
            let _ = format.catch_up(
                ledger,
                &found,
                &|directory| context.root(directory),
                context.now(),
            );
        }
    }
}

fn has_more(found: &LogRef, bookmark: &Bookmark) -> bool {
    let length = fs::metadata(&found.path).map(|metadata| metadata.len());
    length.is_ok_and(|length| found.session.is_some() || length != bookmark.offset)
}
