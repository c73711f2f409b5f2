//! Agents' own logs: a byte for the format, a byte for how much of the log exists when it is first
//! read, and the log.

#![no_main]

mod support;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use rusqlite::{Connection, params};
use takeback_agents::{LOG_FORMATS, LogFormat, LogRef};
use takeback_ledger::{Ledger, LedgerOptions, Time};

/// The number of inputs after which a new ledger is created, so that no ledger becomes large.
const MAX_INPUTS: u32 = 2_000;

/// Statements that create opencode's tables if they are missing, and empty them.
const OPENCODE: &str = "
    CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT,
        title TEXT, time_created INTEGER);
    CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY, session_id TEXT,
        time_created INTEGER, data TEXT);
    CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT);
    DELETE FROM session; DELETE FROM message; DELETE FROM part;";

static LEDGER: Mutex<Option<(Ledger, u32)>> = Mutex::new(None);

fuzz_target!(|bytes: &[u8]| {
    let [format, first, log @ ..] = bytes else { return };
    let format = &LOG_FORMATS[usize::from(*format) % LOG_FORMATS.len()];
    let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let (ledger, inputs) = next_ledger(&mut ledger);
    let first = &log[..log.len() * usize::from(*first) / 256];
    for log in [first, log] {
        let log = write_log(format, log, *inputs);
        let _ = format.catch_up(ledger, &log, &|directory: &Path| directory.into(), Time(0));
    }
});

/// Returns the ledger for the next input.
fn next_ledger(ledger: &mut Option<(Ledger, u32)>) -> &mut (Ledger, u32) {
    if ledger.as_ref().is_some_and(|(_, inputs)| *inputs >= MAX_INPUTS) {
        *ledger = None;
    }
    let ledger = ledger.get_or_insert_with(|| {
        let home = support::SCRATCH.join("home");
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).expect("the scratch directory is writable");
        let options = LedgerOptions::default();
        (Ledger::open(&home.join("state.db"), &options).expect("it is new"), 0)
    });
    ledger.1 += 1;
    ledger
}

fn write_log(format: &LogFormat, log: &[u8], number: u32) -> LogRef {
    let (name, session) = match format.agent {
        // A session that has been read is not read again, so each input gets a session of its own.
        "opencode" => ("opencode.db", Some(number.to_string())),
        "cline" => ("a.messages.json", None),
        // Older versions of Gemini CLI write a single document.
        "gemini" if log.first() == Some(&b' ') => ("session.json", None),
        _ => ("a.jsonl", None),
    };
    let path = support::SCRATCH.join(name);
    match &session {
        Some(session) => write_database(&path, session, log).expect("it is writable"),
        None => std::fs::write(&path, log).expect("the scratch directory is writable"),
    }
    LogRef { path, session }
}

/// Writes a session. The first line is a message, and the other lines are the parts of the message.
fn write_database(path: &Path, session: &str, log: &[u8]) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    connection.execute_batch(OPENCODE)?;
    connection.execute("INSERT INTO session VALUES (?1, NULL, '/w', 't', 1)", [session])?;
    let log = String::from_utf8_lossy(log);
    let (message, parts) = log.split_once('\n').unwrap_or((&log, ""));
    let sql = "INSERT INTO message VALUES ('m', ?1, 1, ?2)";
    connection.execute(sql, [session, message])?;
    for (number, part) in parts.lines().enumerate() {
        let sql = "INSERT INTO part VALUES (?1, 'm', ?2)";
        connection.execute(sql, params![format!("p{number:04}"), part])?;
    }
    connection.execute_batch("COMMIT")
}
