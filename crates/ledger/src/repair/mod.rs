//! Repairing a ledger. Wrong counts and a wrong search index are corrected in place. A damaged
//! database is kept under another name and rebuilt from the rows that can still be read.

mod files;
mod rows;

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use takeback_base::{durable, paths};
use takeback_salvage::DamagedDatabase;

pub(crate) use self::files::is_unfinished;
use self::files::{
    DatabaseLock, back_up, lock_file, mark_ready, path_beside, put_in_place, remove_database,
};
use self::rows::{complete_rows, copy_rows};
use crate::tasks::fence_leases;
use crate::{Ledger, LedgerError, LedgerOptions, OpenError, Time};

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RepairReport {
    /// The path at which the damaged database is kept; `None` if it could be repaired in place.
    pub backup: Option<PathBuf>,
    /// The number of sessions in the repaired ledger.
    pub sessions: u64,
    /// The number of messages in the repaired ledger.
    pub messages: u64,
    /// The number of rows of other kinds that were recovered.
    pub other_rows: u64,
    pub unreadable_pages: u64,
    /// The number of rows that were recovered from unreachable pages.
    pub orphans: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The reason why a ledger was not repaired. Nothing in the ledger is lost.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RepairError {
    /// The ledger cannot be opened for a reason other than damage.
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("other processes have the ledger open")]
    InUse,
    #[error("cannot repair the ledger {path}")]
    Io { path: PathBuf, source: io::Error },
    /// Reading the ledger, correcting it or writing the new database failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Repairs a ledger. `progress` is called with the number of rows recovered so far, and with 0
/// instead of the total, because the total is not known.
///
/// This process must not have the ledger open, because the locks work only between processes.
pub fn repair_ledger(
    path: &Path,
    now: Time,
    progress: &dyn Fn(u64, u64),
) -> Result<RepairReport, RepairError> {
    let canonical = durable::if_exists(paths::canonicalize(path))
        .map_err(|source| RepairError::Io { path: path.to_owned(), source })?;
    let Some(path) = &canonical else { return Ok(RepairReport::default()) };
    loop {
        finish_interrupted(path)?;
        // Until the ledger is repaired, events are safer in the spool.
        match Ledger::open_alone(path, &LedgerOptions::default()) {
            Ok(mut ledger) => {
                let found = ledger.verify(&|_, _| {})?;
                if !found.is_damaged {
                    return Ok(correct_in_place(&mut ledger, found.problems)?);
                }
            }
            Err(OpenError::Damaged { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(report) = rebuild_database(path, now, progress)? {
            return Ok(report);
        }
    }
}

/// Finishes a repair that was interrupted.
fn finish_interrupted(path: &Path) -> Result<(), RepairError> {
    if !is_unfinished(path) {
        return Ok(());
    }
    let failed = |source| RepairError::Io { path: path.to_owned(), source };
    match lock_file(path).map_err(failed)? {
        DatabaseLock::Locked(_lock) if is_unfinished(path) => put_in_place(path).map_err(failed),
        DatabaseLock::Locked(_) | DatabaseLock::Replaced => Ok(()),
        DatabaseLock::InUse => Err(RepairError::InUse),
    }
}

/// Rebuilds the counts and the search index from the messages.
fn correct_in_place(
    ledger: &mut Ledger,
    problems: Vec<String>,
) -> Result<RepairReport, LedgerError> {
    let mut notes = Vec::new();
    if !problems.is_empty() {
        notes = ledger.database.write(complete_rows)?;
        ledger.rebuild_index(&|_| {})?;
    }
    let now = ledger.verify(&|_, _| {})?;
    let describe = |problem: String| match now.problems.contains(&problem) {
        true => format!("not repaired: {problem}"),
        false => format!("repaired: {problem}"),
    };
    Ok(RepairReport {
        sessions: now.sessions,
        messages: now.messages,
        notes: problems.into_iter().map(describe).chain(notes).collect(),
        ..RepairReport::default()
    })
}

/// Builds a new database from the rows that can still be read, and puts it in place. Returns `None`
/// if another repair has done so in the meantime.
fn rebuild_database(
    path: &Path,
    now: Time,
    progress: &dyn Fn(u64, u64),
) -> Result<Option<RepairReport>, RepairError> {
    let failed = |source| RepairError::Io { path: path.to_owned(), source };
    // In WAL mode, every connection holds a lock on the file. So this lock is granted only if there
    // is no connection, and while it is held, no new connection can be opened. With a rollback
    // journal, a connection holds a lock only during an operation, and notices before its next
    // operation that the file was replaced. If this process opened and closed the file again, it
    // would lose the lock, so from here on it reads only the backup.
    let mut lock = match lock_file(path).map_err(failed)? {
        DatabaseLock::Locked(lock) => lock,
        DatabaseLock::Replaced => return Ok(None),
        DatabaseLock::InUse => return Err(RepairError::InUse),
    };
    let backup = back_up(path, &mut lock, now).map_err(failed)?;
    let fresh = path_beside(path, "repaired");
    remove_database(&fresh).map_err(failed)?;

    let damaged = DamagedDatabase::open(&backup).map_err(failed)?;
    let mut ledger = Ledger::open_alone(&fresh, &LedgerOptions::default())?;
    let mut report = ledger.database.write(|transaction| {
        let mut report = copy_rows(transaction, &damaged, progress)?;
        report.notes.extend(complete_rows(transaction)?);
        fence_leases(transaction)?;
        Ok::<_, LedgerError>(report)
    })?;
    ledger.optimize(&|_| {})?;
    report.sessions = query_number(ledger.database.reader()?, "SELECT count(*) FROM sessions")?;
    report.messages = query_number(ledger.database.reader()?, "SELECT count(*) FROM messages")?;
    drop(ledger);

    mark_ready(path, &fresh).map_err(failed)?;
    put_in_place(path).map_err(failed)?;
    report.backup = Some(backup);
    Ok(Some(report))
}

fn query_number(connection: &Connection, sql: &str) -> Result<u64, LedgerError> {
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}
