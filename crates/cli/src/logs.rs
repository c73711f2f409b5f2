//! Imports new entries from agents' logs into the ledger.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use takeback_agents::{LogFormat, LogRef, log_format};
use takeback_ledger::{Bookmark, Ledger, LedgerOptions};
use takeback_undo::LedgerGuard;

use crate::context::Context;
use crate::failure::Failure;

/// The time to wait for an agent to log the end of a turn. Some agents log it only after their
/// hooks have run.
const LAST_WORDS: Duration = Duration::from_millis(1_000);

/// The time that a command waits for other processes before it continues without new entries.
const PATIENCE: Duration = Duration::from_millis(200);

/// The maximum number of recently read logs that a command checks for new entries.
const RECENT: usize = 64;

/// The maximum number of logs in databases that a command checks for new entries. To check such a
/// log, the command has to open the database.
const RECENT_IN_DATABASES: usize = 4;

/// Imports the logs of a session, then imports them again after the agent has had time to log the
/// end of the turn.
pub(crate) fn catch_up_session(
    session: &str,
    log: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let Some((agent, session)) = session.split_once(':') else { return Ok(()) };
    let Some(format) = log_format(agent) else { return Ok(()) };
    let Some(directory) = context.logs_of(format) else { return Ok(()) };
    let find_logs = || format.logs_of_session(session, log, &directory);
    let logs = find_logs();
    if logs.is_empty() {
        return Ok(());
    }
    let mut ledger = context.ledger()?;
    import_logs(format, &logs, &mut ledger, context)?;
    // Do not wait for logs that do not exist yet: they now have bookmarks, so a later command will
    // read them.
    if logs.iter().any(|log| log.path.exists()) {
        thread::sleep(LAST_WORDS);
        import_logs(format, &find_logs(), &mut ledger, context)?;
    }
    Ok(())
}

fn import_logs(
    format: &LogFormat,
    logs: &[LogRef],
    ledger: &mut Ledger,
    context: &Context,
) -> Result<(), Failure> {
    // Import the spool first, because a prompt that is waiting there belongs before the log's
    // entries.
    if !ledger.catch_up()? {
        return Ok(());
    }
    // All logs are read even if one of them fails.
    let mut result = Ok(());
    for log in logs {
        let root = |directory: &Path| context.root(directory);
        let caught_up = format.catch_up(ledger, log, &root, context.now());
        result = result.and(caught_up.map(drop));
    }
    Ok(result?)
}

/// Opens the ledger and imports new entries from recently read logs. Entries that cannot be read
/// now are left for a later command.
pub(crate) fn current_ledger(context: &Context) -> Result<LedgerGuard<'_>, Failure> {
    // A fork that was interrupted may still lack its session.
    takeback_undo::finish_forks(context.opened()?);
    // If a process was killed while it made a copy of a conversation, the copy must be recorded
    // before the log of the copy is read.
    takeback_agents::finish_copies(context.opened()?);
    let mut ledger = context.ledger()?;
    ledger.set_wait(PATIENCE);
    if ledger.catch_up().unwrap_or(false) {
        catch_up_recent_logs(&mut ledger, context);
    }
    ledger.set_wait(LedgerOptions::default().wait);
    Ok(ledger)
}

/// Imports new entries from recently read logs, for a command that does not use the ledger itself.
pub(crate) fn catch_up_ledger(context: &Context) {
    if context.ledger_path().exists() {
        let _ = current_ledger(context);
    }
}

fn catch_up_recent_logs(ledger: &mut Ledger, context: &Context) {
    let mut databases = 0;
    for bookmark in ledger.bookmarks(RECENT).unwrap_or_default() {
        let Some(format) = log_format(&bookmark.agent) else { continue };
        let log = LogRef::from_name(format, &bookmark.log);
        databases += usize::from(log.session.is_some());
        if has_new_entries(&log, &bookmark) && databases <= RECENT_IN_DATABASES {
            let _ =
                format.catch_up(ledger, &log, &|directory| context.root(directory), context.now());
        }
    }
}

/// True if a log may have entries after its bookmark. For an existing database this is always true,
/// because takeback could find out only by reading the database.
fn has_new_entries(log: &LogRef, bookmark: &Bookmark) -> bool {
    let length = fs::metadata(&log.path).map(|metadata| metadata.len());
    length.is_ok_and(|length| log.session.is_some() || length != bookmark.offset)
}
