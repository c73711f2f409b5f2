//! Logs that are designed to exhaust memory or time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use takeback_agents::{LogError, LogRef, ReadPage, log_format};
use takeback_ledger::LogFact;
use tempfile::TempDir;

/// The tables of opencode's database, with only the columns that takeback reads.
const TABLES: [&str; 3] = [
    "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, parent_id TEXT,
        time_created INTEGER);",
    "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);",
    "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT);",
];

fn write_database(directory: &Path, statements: &[&str]) -> PathBuf {
    let path = directory.join("opencode.db");
    Connection::open(&path).unwrap().execute_batch(&statements.concat()).unwrap();
    path
}

/// Returns the reason why takeback refuses to read the log.
fn refusal<T>(read: Result<T, LogError>) -> String {
    match read.err().unwrap() {
        LogError::Malformed { reason, .. } => reason,
        error => panic!("{error:?}"),
    }
}

#[test]
fn views_in_place_of_opencode_tables_are_not_read() {
    let columns = [
        "id, directory, title, parent_id, time_created",
        "id, session_id, time_created, data",
        "id, message_id, data",
    ];
    for (number, table) in ["session", "message", "part"].into_iter().enumerate() {
        let directory = TempDir::new().unwrap();
        let columns = columns[number];
        let values = columns.split(", ").map(|_| "x").collect::<Vec<_>>().join(", ");
        let view = format!(
            "CREATE VIEW {table} ({columns}) AS WITH RECURSIVE c(x) AS
                (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {values} FROM c;"
        );
        let mut statements = TABLES;
        statements[number] = &view;
        let path = write_database(directory.path(), &statements);
        let opencode = log_format("opencode").unwrap();
        let expected = format!("`{table}` is a view, not a table");
        assert_eq!(refusal(opencode.find_logs(&path)), expected);
        let log = LogRef { path, session: Some("1".to_owned()) };
        assert_eq!(refusal(opencode.read_page(&log, None)), expected);
    }
}

#[test]
fn pipes_and_generated_columns_in_place_of_opencode_data_are_not_read() {
    let opencode = log_format("opencode").unwrap();
    let directory = TempDir::new().unwrap();
    let path = write_database(directory.path(), &TABLES);
    let pipe = directory.path().join("opencode.db-wal");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reason = refusal(opencode.find_logs(&path));
    assert!(reason.ends_with("opencode.db-wal: it is not a regular file"), "{reason}");
    fs::remove_file(&path).unwrap();
    fs::rename(&pipe, &path).unwrap();
    assert_eq!(refusal(opencode.find_logs(&path)), "it is not a regular file");

    let directory = TempDir::new().unwrap();
    let mut statements = TABLES;
    statements[0] = "CREATE TABLE session (directory TEXT, title TEXT, parent_id TEXT,
        time_created INTEGER, id TEXT GENERATED ALWAYS AS (hex(zeroblob(490000000))));";
    let path = write_database(directory.path(), &statements);
    let reason = refusal(opencode.find_logs(&path));
    assert_eq!(reason, "the table `session` has no column `id`");
}

/// Writes messages from a user, each with one part of this size.
fn write_messages(connection: &Connection, count: usize, size: usize) {
    for number in 0..count {
        let id = format!("msg_{number:03}");
        let text = serde_json::json!({ "type": "text", "text": "x".repeat(size) }).to_string();
        let message = "INSERT INTO message VALUES (?1, 's', 1, '{\"role\":\"user\"}')";
        connection.execute(message, [&id]).unwrap();
        connection.execute("INSERT INTO part VALUES (?1, ?1, ?2)", [&id, &text]).unwrap();
    }
}

fn count_messages(read: &ReadPage) -> usize {
    let entries = read.page.entries.iter();
    entries.filter(|entry| matches!(entry.fact, LogFact::Message(_))).count()
}

#[test]
fn large_opencode_messages_are_read_in_small_pages() {
    let directory = TempDir::new().unwrap();
    let path = write_database(directory.path(), &TABLES);
    write_messages(&Connection::open(&path).unwrap(), 6, 3 << 20);
    let log = LogRef { path, session: Some("s".to_owned()) };
    let opencode = log_format("opencode").unwrap();
    let (mut from, mut sizes) = (None, Vec::new());
    loop {
        let read = opencode.read_page(&log, from).unwrap();
        sizes.push(count_messages(&read));
        from = Some(read.page.to);
        if !read.has_more {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 2]);
}

#[test]
fn an_opencode_message_with_a_huge_id_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = write_database(directory.path(), &TABLES);
    let message = "INSERT INTO message VALUES (?1, 's', 1, '{\"role\":\"user\"}')";
    Connection::open(&path).unwrap().execute(message, ["x".repeat(2_000)]).unwrap();
    let log = LogRef { path, session: Some("s".to_owned()) };
    let reason = refusal(log_format("opencode").unwrap().read_page(&log, None));
    assert_eq!(reason, "a message id is too long");
}

#[test]
fn a_line_or_document_that_takes_too_much_memory_is_refused() {
    let directory = TempDir::new().unwrap();
    // This text is only ten megabytes long, but would take up gigabytes once it is parsed.
    let wide = format!("{{\"x\":[{}0]}}\n", "{},".repeat(3_500_000));
    let path = directory.path().join("x.jsonl");
    fs::write(&path, format!("{wide}{{}}\n")).unwrap();
    let log = LogRef { path, session: None };
    let read = log_format("claude").unwrap().read_page(&log, None).unwrap();
    assert_eq!(read.bad_lines, [1]);

    let path = directory.path().join("x.messages.json");
    fs::write(&path, wide).unwrap();
    let log = LogRef { path, session: None };
    let reason = refusal(log_format("cline").unwrap().read_page(&log, None));
    assert_eq!(reason, "it has more than 2000000 JSON values");
}

#[test]
fn a_line_of_50_mb_is_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    let line = serde_json::json!({
        "type": "user", "sessionId": "s", "uuid": "u", "timestamp": "2026-01-01T00:00:00Z",
        "message": { "role": "user", "content": "x".repeat(50 << 20) },
    });
    fs::write(&path, format!("{line}\n")).unwrap();
    let log = LogRef { path, session: None };
    let read = log_format("claude").unwrap().read_page(&log, None).unwrap();
    assert_eq!((read.bad_lines.len(), count_messages(&read)), (0, 1));
}

#[test]
fn a_line_that_never_ends_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    // This is a sparse file, which takes up no space.
    fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let log = LogRef { path, session: None };
    let reason = refusal(log_format("claude").unwrap().read_page(&log, None));
    assert_eq!(reason, "it has a line of more than 1 GB");
}

#[test]
fn huge_ids_do_not_make_the_bookmark_grow() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    let line = serde_json::json!({
        "type": "user", "sessionId": "s".repeat(1 << 20), "uuid": "u",
        "timestamp": "2026-01-01T00:00:00Z", "message": { "role": "user", "content": "hi" },
    });
    fs::write(&path, format!("{line}\n")).unwrap();
    let log = LogRef { path, session: None };
    let read = log_format("claude").unwrap().read_page(&log, None).unwrap();
    assert!(read.page.to.state.to_string().len() <= 64 << 10);
}
