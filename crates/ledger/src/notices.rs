//! Notices: messages that a session's agent must receive before its next turn.

use rusqlite::{Row, Transaction, params};
use serde_json::Value;

use crate::sessions::{head, parse_json};
use crate::{Ledger, LedgerError, Redactor, Time};

/// A notice for the agent of a session.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Notice {
    pub id: i64,
    pub created_at: Time,
    pub body: Value,
}

impl Ledger {
    /// Leaves a notice for the agent of a session.
    pub fn add_notice(
        &mut self,
        session: &str,
        body: &Value,
        now: Time,
    ) -> Result<i64, LedgerError> {
        let mut body = body.clone();
        if self.redact {
            Redactor::shared().mask_json(&mut body);
        }
        self.database.write(|transaction| {
            let key = head(transaction, session)?.key;
            transaction.execute(
                "INSERT INTO notices (session, created_at, body) VALUES (?1, ?2, ?3)",
                params![key, now, body.to_string()],
            )?;
            Ok(transaction.last_insert_rowid())
        })
    }

    /// True if a notice is waiting for the agent of a session. Does not write to the ledger.
    pub fn has_notices(&self, session: &str) -> Result<bool, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM notices n JOIN sessions s ON s.key = n.session
             WHERE s.id = ?1 AND n.delivered_at IS NULL)",
        )?;
        Ok(statement.query_row([session], |row| row.get(0))?)
    }

    /// Returns the notices that are waiting for the agent of a session. They remain until
    /// [`Event::NoticesDelivered`](crate::Event::NoticesDelivered) is recorded.
    pub fn waiting_notices(&self, session: &str) -> Result<Vec<Notice>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT n.id, n.created_at, n.body FROM notices n JOIN sessions s ON s.key = n.session
             WHERE s.id = ?1 AND n.delivered_at IS NULL ORDER BY n.id",
        )?;
        let rows = statement.query_map([session], read_notice)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Takes the notices that are waiting for the agent of a session. Each notice is taken only
    /// once.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// ledger.add_notice("mine:1", &"cart.rs was restored".into(), now)?;
    /// assert_eq!(ledger.take_notices("mine:1", now)?[0].body, "cart.rs was restored");
    /// assert!(ledger.take_notices("mine:1", now)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_notices(&mut self, session: &str, now: Time) -> Result<Vec<Notice>, LedgerError> {
        self.database.write(|transaction| {
            let key = head(transaction, session)?.key;
            let mut statement = transaction.prepare_cached(
                "UPDATE notices SET delivered_at = ?2 WHERE session = ?1 AND delivered_at IS NULL
                 RETURNING id, created_at, body",
            )?;
            let rows = statement.query_map(params![key, now], read_notice)?;
            let mut notices = rows.collect::<Result<Vec<_>, _>>()?;
            notices.sort_by_key(|notice| notice.id);
            Ok(notices)
        })
    }
}

/// Marks notices of a session as delivered.
pub(crate) fn deliver_notices(
    transaction: &Transaction<'_>,
    session: &str,
    ids: &[i64],
    now: Time,
) -> Result<(), LedgerError> {
    let key = head(transaction, session)?.key;
    let mut statement = transaction.prepare_cached(
        "UPDATE notices SET delivered_at = ?3
         WHERE session = ?1 AND id = ?2 AND delivered_at IS NULL",
    )?;
    for id in ids {
        statement.execute(params![key, id, now])?;
    }
    Ok(())
}

fn read_notice(row: &Row<'_>) -> rusqlite::Result<Notice> {
    let body: String = row.get(2)?;
    Ok(Notice { id: row.get(0)?, created_at: row.get(1)?, body: parse_json(&body) })
}
