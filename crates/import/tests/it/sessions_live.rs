//! Copying a database while it is written to.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use takeback_import::hermes::HermesError;

use crate::sessions::{Home, read_all};

/// Runs in a process of its own: SQLite's locks belong to processes, and whoever opens and closes
/// the file in the same one takes them away.
const WRITER: &str = "TAKEBACK_TEST_HERMES_WRITER";

/// Every transaction adds two messages and rewrites one that counts them, with a checkpoint every few
/// pages. So a copy of parts that do not belong together shows an odd number or is malformed.
#[test]
fn a_copy_of_a_busy_database_is_one_moment_of_it() {
    if let Ok(file) = std::env::var(WRITER) {
        return write(&file);
    }
    for mode in ["WAL", "DELETE"] {
        let home = Home::new();
        let connection = home.connect();
        connection.execute_batch(&format!("PRAGMA journal_mode = {mode}")).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE schema_version (version INTEGER NOT NULL);
                 CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL);
                 CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
                     content TEXT);
                 INSERT INTO messages VALUES (1, 'a', 'user', '0');
                 -- Free pages for the messages to come, then what takes time to copy.
                 CREATE TABLE free AS SELECT zeroblob(8000000);
                 CREATE TABLE padding AS SELECT zeroblob(24000000);
                 DROP TABLE free;",
            )
            .unwrap();
        drop(connection);
        let _writer = Writer::start(&home);
        let mut seen = Vec::new();
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            // In a rollback journal's mode there may be no quiet moment; that is said, not risked.
            let database = match home.open() {
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
        assert!(seen.last() > seen.first(), "{mode}: nothing was written meanwhile: {seen:?}");
    }
}

struct Writer(Child);

impl Writer {
    fn start(home: &Home) -> Writer {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sessions_live::a_copy_of_a_busy_database_is_one_moment_of_it"])
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

/// Until it is killed, or the database is gone because the test failed.
fn write(file: &str) {
    let connection = Connection::open(file).unwrap();
    connection.execute_batch("PRAGMA wal_autocheckpoint = 20; PRAGMA synchronous = OFF").unwrap();
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    // Time to copy between two checkpoints, or two transactions.
    let pause = Duration::from_millis(if mode == "wal" { 20 } else { 80 });
    while fs::metadata(file).is_ok() {
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
        thread::sleep(pause);
    }
}
