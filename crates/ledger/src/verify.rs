//! Verifying a ledger: pages, counts, tasks and the search index.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use rusqlite::{Connection, Error};

use crate::messages::read_searchable;
use crate::search::{fold_fields, index_entry, indexed_up_to};
use crate::tasks::check_tasks;
use crate::threads::check_threads;
use crate::{Ledger, LedgerError};

/// The result of verifying a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct VerifyReport {
    /// True if there are no problems.
    pub whole: bool,
    pub sessions: u64,
    pub messages: u64,
    pub problems: Vec<String>,
    /// True if pages are damaged and the database therefore has to be rebuilt.
    pub is_damaged: bool,
}

/// The maximum number of problems of one kind that a report lists.
const MAX_PROBLEMS: usize = 20;

impl Ledger {
    /// Reads and checks everything: whether the pages of the database are intact, whether every row
    /// belongs to a session or a task, whether the journals of tasks are complete, and whether the
    /// counts and the search index are right. `progress` is called with the number of messages
    /// checked so far, and with the total.
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
    /// let report = ledger.verify(&|done, total| eprintln!("{done} of {total}"))?;
    /// assert!(report.whole, "{:?}", report.problems);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<VerifyReport, LedgerError> {
        let mut report = VerifyReport::default();
        let checked = self.database.snapshot(|connection| {
            check_pages(connection, &mut report)?;
            if !report.is_damaged {
                report.sessions = query_count(connection, "SELECT count(*) FROM sessions")?;
                report.messages = query_count(connection, "SELECT count(*) FROM messages")?;
                check_sessions(connection, &mut report)?;
                check_counts(connection, &mut report)?;
                report.problems.extend(check_tasks(connection)?);
                report.problems.extend(check_threads(connection)?);
                check_index(connection, &mut report, progress)?;
            }
            Ok(())
        });
        match checked {
            Err(LedgerError::Damaged(error)) => {
                report.is_damaged = true;
                report.problems.push(error.to_string());
            }
            other => other?,
        }
        for path in self.spool.list_set_aside() {
            report.problems.push(format!("unreadable events: {}", path.display()));
        }
        report.whole = report.problems.is_empty();
        Ok(report)
    }
}

fn query_count(connection: &Connection, sql: &str) -> Result<u64, Error> {
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn check_pages(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_PROBLEMS})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            // A damaged search index can be rebuilt in place. Other damage requires a new database.
            report.is_damaged |= !line.contains("inverted index for FTS5 table");
            report.problems.extend(line.lines().map(str::to_owned));
        }
    }
    Ok(())
}

fn check_sessions(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    for table in SESSION_TABLES {
        let lost = query_count(
            connection,
            &format!(
                "SELECT count(*) FROM {table} WHERE session NOT IN (SELECT key FROM sessions)"
            ),
        )?;
        if lost > 0 {
            report.problems.push(format!("rows in {table} without a session: {lost}"));
        }
    }
    Ok(())
}

/// The tables whose rows belong to a session.
pub(crate) const SESSION_TABLES: &[&str] = &[
    "messages",
    "session_texts",
    "usage",
    "turns",
    "calls",
    "effects",
    "notices",
    "undos",
    "origins",
    "tasks",
];

fn check_counts(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    let mut statement = connection.prepare(
        "SELECT id, message_count, messages, tool_call_count, calls FROM (
             SELECT s.id, s.message_count, s.tool_call_count, s.last_seq,
                    count(m.id) FILTER (WHERE NOT m.undone) AS messages,
                    ifnull(sum(m.call_count) FILTER (WHERE NOT m.undone), 0) AS calls,
                    ifnull(max(m.seq), 0) AS last
             FROM sessions s LEFT JOIN messages m ON m.session = s.key GROUP BY s.key)
         WHERE message_count <> messages OR tool_call_count <> calls OR last_seq < last LIMIT ?1",
    )?;
    let mut rows = statement.query([MAX_PROBLEMS as i64])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let number = |column| row.get::<_, i64>(column);
        report.problems.push(format!(
            "session {id} claims {} messages and {} tool calls, but has {} and {}",
            number(1)?,
            number(3)?,
            number(2)?,
            number(4)?
        ));
    }
    Ok(())
}

/// Checks that the index and the messages have the same tokens. Compares sums of hashes, which do
/// not depend on the order of the tokens.
fn check_index(
    connection: &Connection,
    report: &mut VerifyReport,
    progress: &dyn Fn(u64, u64),
) -> Result<(), LedgerError> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let indexed = indexed_up_to(connection)?;
    let mut wanted = 0_u64;
    let mut statement = connection.prepare(
        "SELECT id, structured, content, tool_name, tool_calls FROM messages WHERE id <= ?1",
    )?;
    let mut rows = statement.query([indexed])?;
    let mut done = 0;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        for token in index_entry(&fold_fields(&read_searchable(row)?)).split_whitespace() {
            wanted = wanted.wrapping_add(hasher.hash_one((token, id)));
        }
        done += 1;
        progress(done, report.messages);
    }
    connection.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.entries USING fts5vocab (main, words, instance)",
    )?;
    let mut found = 0_u64;
    let mut statement = connection.prepare("SELECT term, doc FROM temp.entries")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (token, id) = (row.get_ref(0)?.as_str().unwrap_or_default(), row.get::<_, i64>(1)?);
        found = found.wrapping_add(hasher.hash_one((token, id)));
    }
    if wanted != found {
        report.problems.push("the search index does not match the messages".to_owned());
    }
    Ok(())
}
