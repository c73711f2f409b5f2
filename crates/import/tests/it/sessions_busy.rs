//! Sessions databases that another process is writing to while they are being copied.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use takeback_import::hermes::HermesError;

use crate::support::{HermesHome, read_all};

/// The environment variable that turns the test into a writer. Its value is the path of the
/// database. The writer is a separate process because SQLite's locks belong to processes: a reader
/// that closes the file in the same process would release the writer's locks.
const WRITER: &str = "TAKEBACK_TEST_HERMES_WRITER";

/// The minimum time that the test spends on making copies of one database, one after another.
const MINIMUM: Duration = Duration::from_secs(2);

/// The time within which two copies must differ.
const MAXIMUM: Duration = Duration::from_secs(120);

/// Every transaction adds two messages and updates a message that counts the transactions. SQLite
/// often moves its log into the database. So a copy whose parts are inconsistent has the wrong
/// number of messages or is malformed.
#[test]
fn a_copy_of_a_busy_database_is_consistent() {
    if let Ok(file) = std::env::var(WRITER) {
        return write_until_gone(&file);
    }
    for mode in ["WAL", "DELETE"] {
        let home = HermesHome::new();
        let connection = home.connect();
        connection.execute_batch(&format!("PRAGMA journal_mode = {mode}")).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE schema_version (version INTEGER NOT NULL);
                 CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL);
                 CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
                     content TEXT);
                 INSERT INTO messages VALUES (1, 'a', 'user', '0');
                 -- Free pages for the messages to come, then content that takes time to copy.
                 CREATE TABLE free AS SELECT zeroblob(8000000);
                 CREATE TABLE padding AS SELECT zeroblob(24000000);
                 DROP TABLE free;",
            )
            .unwrap();
        drop(connection);
        let _writer = Writer::spawn(&home);
        let mut seen: Vec<usize> = Vec::new();
        let begun = Instant::now();
        // On a busy machine one copy may take longer than the minimum.
        while begun.elapsed() < MINIMUM || seen.first() == seen.last() {
            assert!(begun.elapsed() < MAXIMUM, "{mode}: the database never changed: {seen:?}");
            let database = match home.open() {
                // Copying may give up: with a rollback journal, there may be no quiet moment.
                Err(HermesError::Changing { .. }) => continue,
                opened => opened.unwrap(),
            };
            let messages = read_all(&database).remove(0).messages;
            let written: usize =
                messages[0].content.as_ref().unwrap().as_str().unwrap().parse().unwrap();
            assert_eq!(messages.len(), 1 + 2 * written, "{mode}");
            seen.push(written);
        }
        assert!(seen.is_sorted());
    }
}

/// A process that writes to a database until it is dropped.
struct Writer(Child);

impl Writer {
    fn spawn(home: &HermesHome) -> Writer {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sessions_busy::a_copy_of_a_busy_database_is_consistent"])
            .env(WRITER, home.file())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Writer(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Writes until this process is killed, or until the database no longer exists because the test
/// failed.
fn write_until_gone(file: &str) {
    let connection = Connection::open(file).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 20; PRAGMA synchronous = OFF").unwrap();
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    // Most pauses are so short that the database changes while it is being copied. Some are long
    // enough for a copy, even on a busy machine.
    let pause = Duration::from_millis(if mode == "wal" { 5 } else { 20 });
    for round in 0.. {
        if fs::metadata(file).is_err() {
            break;
        }
        connection
            .execute_batch(
                "BEGIN;
                 INSERT INTO messages (session_id, role, content)
                     VALUES ('a', 'user', printf('%.1500c', 'x'));
                 UPDATE messages SET content = content + 1 WHERE id = 1;
                 INSERT INTO messages (session_id, role, content)
                     VALUES ('a', 'user', printf('%.1500c', 'x'));
                 COMMIT;",
            )
            .unwrap();
        thread::sleep(if round % 10 == 9 { pause * 40 } else { pause });
    }
}
