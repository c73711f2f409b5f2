//! The outbox: the changes that a fleet's database does not have yet.
//!
//! It exists only on machines that belong to a fleet. Each change marks the changed row in the same
//! transaction (see `triggers`). A shipper takes the oldest marks, reads the rows as they are now,
//! and deletes the marks once the rows have arrived. If the shipper is killed in between, the rows
//! are shipped again. Each row has an identity, so the fleet's database does not store it twice.
//!
//! Each batch has a receipt, a random number that arrives with it. If this ledger does not know the
//! receipt of the last batch in the fleet's database, then another home with the same identity has
//! shipped a batch, or this ledger is an older copy.

mod batch;
mod triggers;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub use self::batch::{
    CallChange, Change, EffectsChange, MessageChange, MessageRow, OutboxBatch, SessionChange,
    TurnChange, UsageChange,
};
use crate::{Ledger, LedgerError};

/// The kind of a mark. The database stores its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A deleted session.
    Deleted = 0,
    Session = 1,
    Message = 2,
    Turn = 3,
    Call = 4,
    /// All effects of a turn.
    Effects = 5,
    /// The usage of all models in a session.
    Usage = 6,
    /// A deleted task.
    DeletedTask = 7,
}

impl Kind {
    fn from_number(number: i64) -> Option<Kind> {
        use Kind::{Call, Deleted, DeletedTask, Effects, Message, Session, Turn, Usage};
        [Deleted, Session, Message, Turn, Call, Effects, Usage, DeletedTask]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

/// The number of rows older than the outbox that [`Ledger::read_batch`] marks at a time. Other
/// writers have to wait while these rows are being marked.
const MARKED_AT_ONCE: usize = 4096;

/// The result of announcing a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The batch may be shipped.
    Accepted,
    /// The last batch in the fleet was not shipped from this ledger, or this ledger has lost its
    /// record of that batch.
    Foreign,
}

impl Ledger {
    /// Creates the outbox unless it exists. From then on, each change is marked; rows that already
    /// exist are marked gradually.
    pub fn start_outbox(&mut self) -> Result<(), LedgerError> {
        if read_version(self.database.reader()?)? == Some(triggers::VERSION) {
            return Ok(());
        }
        self.database.write(|transaction| match read_version(transaction)? {
            Some(triggers::VERSION) => Ok(()),
            _ => Ok(triggers::create(transaction)?),
        })
    }

    /// Creates the outbox again, so that everything is shipped again.
    pub fn restart_outbox(&mut self) -> Result<(), LedgerError> {
        self.database.write(|transaction| Ok(triggers::create(transaction)?))
    }

    /// Deletes the outbox. From then on, changes are not marked.
    pub fn stop_outbox(&mut self) -> Result<(), LedgerError> {
        match read_version(self.database.reader()?)? {
            None => Ok(()),
            Some(_) => self.database.write(|transaction| Ok(triggers::drop_all(transaction)?)),
        }
    }

    /// Counts the rows that are not shipped yet. Returns `None` if there is no outbox.
    pub fn outbox_length(&self) -> Result<Option<u64>, LedgerError> {
        self.database.snapshot(|connection| {
            match read_version(connection)? {
                None => return Ok(None),
                Some(triggers::VERSION) => {}
                // An outbox of another version will be created again, and everything shipped again.
                Some(_) => {
                    let sql =
                        "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM messages)";
                    let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
                    return Ok(Some(count.unsigned_abs().max(1)));
                }
            }
            let count: i64 = connection.query_row(
                "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM messages
                     WHERE session > (SELECT marked FROM outbox_state)
                       AND session <= (SELECT until FROM outbox_state)
                       AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.session = messages.session
                                       AND o.kind = ?1 AND o.item = messages.seq))",
                [Kind::Message as i64],
                |row| row.get(0),
            )?;
            Ok(Some(count.unsigned_abs()))
        })
    }

    /// Records the receipt of the next batch, before the batch is read. `last` is the receipt of
    /// the last batch in the fleet.
    pub fn announce_batch(
        &mut self,
        last: Option<&str>,
        receipt: &str,
    ) -> Result<Announced, LedgerError> {
        self.database.write_synced(|transaction| {
            let (shipped, sending): (Option<String>, Option<String>) =
                transaction.query_row("SELECT shipped, sending FROM outbox_state", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
            let is_new = shipped.is_none() && sending.is_none();
            let is_known =
                last == shipped.as_deref() || (last.is_some() && last == sending.as_deref());
            if !is_new && !is_known {
                return Ok(Announced::Foreign);
            }
            transaction.execute(
                "UPDATE outbox_state SET shipped = ?1, sending = ?2",
                [last, Some(receipt)],
            )?;
            Ok(Announced::Accepted)
        })
    }

    /// Reads the oldest changes: about `rows` rows and `bytes` bytes of text, at least one row.
    /// Secrets are masked. An empty batch means that everything is shipped.
    pub fn read_batch(&mut self, rows: usize, bytes: usize) -> Result<OutboxBatch, LedgerError> {
        self.mark_older_rows(rows)?;
        self.database.snapshot(|connection| batch::read(connection, rows, bytes))
    }

    /// Deletes the marks of a batch that has arrived, except the marks of rows that have changed
    /// since.
    pub fn confirm_batch(&mut self, batch: &OutboxBatch, receipt: &str) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM outbox WHERE number = ?1")?;
            for number in &batch.numbers {
                delete.execute([number])?;
            }
            transaction.execute(
                "UPDATE outbox_state SET shipped = ?1, sending = NULL WHERE sending = ?1",
                [receipt],
            )?;
            Ok(())
        })
    }

    /// Marks rows that are older than the outbox, if fewer than `rows` rows are marked.
    fn mark_older_rows(&mut self, rows: usize) -> Result<(), LedgerError> {
        let has_enough = |connection: &Connection| -> rusqlite::Result<bool> {
            let mut statement = connection.prepare_cached(
                "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT ?1)) >= ?1
                     OR (SELECT marked >= until FROM outbox_state)",
            )?;
            statement.query_row([rows as i64], |row| row.get(0))
        };
        while !has_enough(self.database.reader()?)? {
            self.database.write(mark_slice)?;
        }
        Ok(())
    }
}

/// Marks everything in a session whose id has changed, because the fleet's database has its rows
/// under the old id.
pub(crate) fn mark_renamed(
    transaction: &Transaction<'_>,
    session: i64,
    old_id: &str,
) -> Result<(), LedgerError> {
    if read_version(transaction)?.is_none() {
        return Ok(());
    }
    transaction.execute("DELETE FROM outbox WHERE session = ?1", [session])?;
    transaction.execute(
        "INSERT OR IGNORE INTO outbox (kind, session, item) VALUES (?1, 0, ?2)",
        params![Kind::Deleted as i64, old_id],
    )?;
    transaction.execute(
        "INSERT INTO outbox (kind, session, item) VALUES (?1, ?2, 0)",
        params![Kind::Session as i64, session],
    )?;
    Ok(triggers::mark_session(transaction, session).map(drop)?)
}

fn mark_slice(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    let marked: i64 =
        transaction.query_row("SELECT marked FROM outbox_state", [], |row| row.get(0))?;
    let last = triggers::mark_sessions(transaction, marked, MARKED_AT_ONCE)?;
    transaction.execute("UPDATE outbox_state SET marked = ifnull(?1, until)", params![last])?;
    Ok(())
}

/// Reads the version of the outbox. Returns `None` if there is no outbox.
fn read_version(connection: &Connection) -> Result<Option<i64>, LedgerError> {
    if !connection.table_exists(None, "outbox_state")? {
        return Ok(None);
    }
    let version = connection
        .query_row("SELECT version FROM outbox_state", [], |row| row.get(0))
        .optional()?;
    Ok(version)
}
