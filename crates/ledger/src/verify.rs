//! Is everything in the ledger what it should be?

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use rusqlite::{Connection, Error};

use crate::search::{folded, index_entry, indexed_up_to};
use crate::{Ledger, LedgerError, messages};

/// What a look at everything found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Nothing is wrong.
    pub whole: bool,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many messages.
    pub messages: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
    /// Whether pages of the database are damaged, so that it has to be made anew.
    pub is_damaged: bool,
}

/// More of a kind tell nobody anything.
const SHOWN: usize = 20;

impl Ledger {
    /// Reads everything and checks it: the database's pages, that all parts of a session belong to
    /// one, the counts, the index. Tells how many of all messages it has read.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<VerifyReport, LedgerError> {
        let mut report = VerifyReport::default();
        let checked = self.database.snapshot(|connection| {
            pages(connection, &mut report)?;
            if !report.is_damaged {
                report.sessions = count(connection, "SELECT count(*) FROM sessions")?;
                report.messages = count(connection, "SELECT count(*) FROM messages")?;
                belonging(connection, &mut report)?;
                counts(connection, &mut report)?;
                index(connection, &mut report, progress)?;
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
        for path in self.spool.set_aside() {
            report.problems.push(format!("events that cannot be read: {}", path.display()));
        }
        report.whole = report.problems.is_empty();
        Ok(report)
    }
}

fn count(connection: &Connection, sql: &str) -> Result<u64, Error> {
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn pages(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({SHOWN})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            // The index can be made anew; the rest of the database is not the worse for it.
            report.is_damaged |= !line.contains("inverted index for FTS5 table");
            report.problems.extend(line.lines().map(str::to_owned));
        }
    }
    Ok(())
}

fn belonging(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    for table in PARTS {
        let lost = count(
            connection,
            &format!(
                "SELECT count(*) FROM {table} WHERE session NOT IN (SELECT key FROM sessions)"
            ),
        )?;
        if lost > 0 {
            report.problems.push(format!("{lost} rows in {table} belong to no session"));
        }
    }
    Ok(())
}

/// The tables whose rows belong to a session.
pub(crate) const PARTS: &[&str] = &[
    "messages",
    "session_texts",
    "usage",
    "turns",
    "calls",
    "effects",
    "notices",
    "undos",
    "origins",
];

fn counts(connection: &Connection, report: &mut VerifyReport) -> Result<(), LedgerError> {
    let mut statement = connection.prepare(
        "SELECT id, message_count, messages, tool_call_count, calls FROM (
             SELECT s.id, s.message_count, s.tool_call_count, s.last_seq,
                    count(m.id) FILTER (WHERE NOT m.undone) AS messages,
                    ifnull(sum(m.call_count) FILTER (WHERE NOT m.undone), 0) AS calls,
                    ifnull(max(m.seq), 0) AS last
             FROM sessions s LEFT JOIN messages m ON m.session = s.key GROUP BY s.key)
         WHERE message_count <> messages OR tool_call_count <> calls OR last_seq < last LIMIT ?1",
    )?;
    let mut rows = statement.query([SHOWN as i64])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let number = |column| row.get::<_, i64>(column);
        report.problems.push(format!(
            "session {id} counts {} messages and {} tool calls, and has {} and {}",
            number(1)?,
            number(3)?,
            number(2)?,
            number(4)?
        ));
    }
    Ok(())
}

/// The index and the messages have the same tokens: compared by a sum over all of them, which
/// does not depend on the order.
fn index(
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
        for token in index_entry(&folded(&messages::searchable(row)?)).split_whitespace() {
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
        report.problems.push("the search index does not agree with the messages".to_owned());
    }
    Ok(())
}
