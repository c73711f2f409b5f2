//! SQLite databases and the files beside them are captured as of the same moment.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use takeback_tree::{Capture, UncoveredReason};

use crate::support::{Scratch, child_variable, read_directory, rel};

const HOUR: Duration = Duration::from_secs(3600);

/// Opens a database in which every transaction leaves the sum of the values unchanged.
fn open(path: &Path, mode: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", mode).unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, value INTEGER, filler TEXT);
             CREATE INDEX IF NOT EXISTS by_value ON t (value);",
        )
        .unwrap();
    connection
}

/// Subtracts an amount from some rows and adds it to others, on all pages of the table, so that the
/// sum stays the same.
fn write(connection: &Connection, round: u64) {
    let statements = format!(
        "BEGIN IMMEDIATE;
         UPDATE t SET value = value - 1, filler = hex(randomblob(200)) WHERE id % 7 = {};
         UPDATE t SET value = value + 1 WHERE id % 7 = {};
         COMMIT;",
        round % 7,
        (round + 3) % 7
    );
    connection.execute_batch(&statements).unwrap();
}

fn fill(connection: &Connection) {
    connection
        .execute_batch(
            "BEGIN;
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
             INSERT INTO t (value, filler) SELECT 100, hex(randomblob(200)) FROM n;
             COMMIT;",
        )
        .unwrap();
}

/// Opens the copy of a database in a tree, and checks that this copy is intact. Returns the sum of
/// its values.
fn check(scratch: &Scratch, capture: &Capture, path: &str) -> i64 {
    let directory = tempfile::tempdir().unwrap();
    for (name, (_, oid)) in scratch.ls_tree(capture.tree) {
        let name = String::from_utf8(name).unwrap();
        if let Some(suffix) = name.strip_prefix(path) {
            let content = scratch.git(&["cat-file", "blob", &oid]);
            fs::write(directory.path().join(format!("db{suffix}")), content).unwrap();
        }
    }
    let connection = Connection::open(directory.path().join("db")).unwrap();
    let result: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(result, "ok");
    connection.query_row("SELECT sum(value) FROM t", [], |row| row.get(0)).unwrap()
}

/// Starts a process that writes to a database without a pause, and waits until that process has
/// begun to write.
fn start_writer(test: &str, database: &Path, mode: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("CHILD", test);
    command.env("DATABASE", database).env("MODE", mode).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("writing")));
    child
}

#[test]
fn a_database_that_is_being_written_to_is_intact_or_marked() {
    const TEST: &str = "databases::a_database_that_is_being_written_to_is_intact_or_marked";
    if let Some(database) = child_variable("DATABASE") {
        let connection = open(Path::new(&database), &child_variable("MODE").unwrap());
        connection.busy_timeout(HOUR).unwrap();
        for round in 0.. {
            write(&connection, round);
            if round == 10 {
                writeln!(std::io::stdout(), "writing").unwrap();
            }
        }
    }
    for mode in ["WAL", "DELETE", "TRUNCATE"] {
        let scratch = Scratch::in_memory();
        fill(&open(&scratch.path("app.db"), mode));
        let mut writer = start_writer(TEST, &scratch.path("app.db"), mode);
        let mut marked = 0;
        for number in 0..10 {
            scratch.write("other", number.to_string());
            let capture = scratch.capture();
            if capture.unsettled.is_empty() {
                assert_eq!(check(&scratch, &capture, "app.db"), 70_000, "{mode}");
            } else {
                assert_eq!(capture.unsettled, [rel("app.db")]);
                marked += 1;
            }
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(mode != "WAL" || marked < 10, "a log that only grows does no harm");
        // Once no process writes to the database, the captured copy is intact.
        let capture = scratch.capture();
        assert_eq!(capture.unsettled, []);
        assert_eq!(check(&scratch, &capture, "app.db"), 70_000, "{mode}");
    }
}

#[test]
fn a_log_is_never_mixed_with_another_state_of_its_database() {
    let mut scratch = Scratch::in_memory();
    scratch.ahead = HOUR;
    let connection = open(&scratch.path("app.db"), "WAL");
    connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    fill(&connection);
    for round in 0..10 {
        write(&connection, round);
        if round % 3 == 2 {
            connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        }
        let capture = scratch.capture();
        assert_eq!(capture.unsettled, []);
        assert!(scratch.files(capture.tree).contains(&"app.db-wal".to_owned()));
        assert_eq!(check(&scratch, &capture, "app.db"), 70_000);
    }
}

#[test]
fn the_files_beside_a_database_are_left_out_with_it() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 8192;
    let connection = open(&scratch.path("app.db"), "WAL");
    fill(&connection);
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), [] as [&str; 0]);
        let reasons: Vec<(String, bool)> = capture
            .uncovered
            .iter()
            .map(|found| {
                let is_large = matches!(found.reason, UncoveredReason::TooLarge { .. });
                (found.path.to_string(), is_large)
            })
            .collect();
        let expected = ["app.db", "app.db-shm", "app.db-wal"].map(|name| (name.to_owned(), true));
        assert_eq!(reasons, expected);
    }
    // Once the database is captured, so are the files beside it.
    scratch.rules.max_file_size = 10 << 20;
    let capture = scratch.capture();
    assert_eq!(check(&scratch, &capture, "app.db"), 70_000);
}

#[test]
fn a_log_is_not_restored_if_its_database_is_guarded() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", "*.db\n");
    let connection = open(&scratch.path("app.db"), "WAL");
    fill(&connection);
    let capture = scratch.capture();
    assert!(scratch.files(capture.tree).contains(&"app.db-wal".to_owned()));
    for round in 0..5 {
        write(&connection, round);
    }
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    write(&connection, 5);
    let before = read_directory(&scratch.root);
    scratch.restore(&capture, &[]);
    assert!(read_directory(&scratch.root) == before);
    drop(connection);
    let connection = Connection::open(scratch.path("app.db")).unwrap();
    let result: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(result, "ok");
}

#[test]
fn a_database_comes_back_with_its_log() {
    let scratch = Scratch::new();
    let connection = open(&scratch.path("app.db"), "WAL");
    fill(&connection);
    let capture = scratch.capture();
    let sum = "UPDATE t SET value = 0";
    connection.execute_batch(sum).unwrap();
    drop(connection);
    assert!(!scratch.exists("app.db-wal"));
    scratch.restore(&capture, &[]);
    let connection = Connection::open(scratch.path("app.db")).unwrap();
    let sum: i64 = connection.query_row("SELECT sum(value) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 70_000);
}
