//! Sessions databases with uncommitted changes, unexpected values, or damage.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rusqlite::Connection;
use serde_json::{Value, json};
use takeback_import::hermes::{HermesDatabase, HermesError};
use takeback_ledger::{
    Ledger, LedgerOptions, MessageRecord, ParentKind, SearchOptions, Time, Transcript,
};

use crate::support::{HermesHome, read_all};

/// Creates a database with these statements, and reads all its sessions.
fn read_database(sql: &str) -> Vec<Transcript> {
    let home = HermesHome::new();
    home.connect().execute_batch(sql).unwrap();
    read_all(&home.open().unwrap())
}

fn contents(messages: &[MessageRecord]) -> Vec<Value> {
    messages.iter().map(|message| message.content.clone().unwrap_or_default()).collect()
}

/// The relevant documented columns of version 11. They have no constraints, so they accept any
/// value.
const TABLES: &str = "
    CREATE TABLE schema_version (version INTEGER NOT NULL);
    INSERT INTO schema_version VALUES (11);
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, source TEXT, model_config TEXT, parent_session_id TEXT,
        started_at REAL, ended_at REAL, end_reason TEXT, message_count INTEGER, title TEXT,
        estimated_cost_usd REAL, archived INTEGER
    );
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
        tool_calls TEXT, timestamp REAL, token_count INTEGER, active INTEGER, compacted INTEGER
    );
    CREATE INDEX idx_messages_session ON messages(session_id, timestamp);";

#[test]
fn changes_in_the_log_are_read_and_the_original_stays_unchanged() {
    let home = HermesHome::new();
    let writer = home.connect();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
    writer.execute_batch(TABLES).unwrap();
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    writer
        .execute_batch(
            "INSERT INTO sessions (id, source, started_at) VALUES ('a', 'cli', 1);
             INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'in the log');
             BEGIN;
             INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'not yet');",
        )
        .unwrap();
    assert!(fs::metadata(home.path().join("state.db-wal")).unwrap().len() > 0);
    // The copy must not need any file other than the database and its log.
    fs::remove_file(home.path().join("state.db-shm")).unwrap();
    let before = home.list_files();

    let database = home.open().unwrap();
    assert_eq!(contents(&read_all(&database)[0].messages), [json!("in the log")]);
    drop(database);
    assert!(home.list_files() == before, "the original has changed");
    drop(writer);
}

#[test]
fn a_transaction_that_was_cut_off_is_rolled_back_in_the_copy_only() {
    let home = HermesHome::new();
    let mut sql = String::from(TABLES);
    sql += "INSERT INTO sessions (id, source, started_at) VALUES ('a', 'cli', 1);";
    for number in 0..200 {
        let text = format!("{number} {}", "x".repeat(3_000));
        sql += &format!(
            "INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', '{text}');"
        );
    }
    let writer = home.connect();
    writer.execute_batch(&sql).unwrap();
    // The cache is so small that pages are written before the transaction ends.
    writer
        .execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE messages SET content = 'torn'")
        .unwrap();
    // Copy the files in the state in which a crash would leave them.
    let crashed = HermesHome::new();
    for name in ["state.db", "state.db-journal"] {
        let from = home.path().join(name);
        fs::copy(from, crashed.path().join(name)).unwrap();
    }
    let torn = fs::read(crashed.file()).unwrap();
    assert!(torn.windows(4).any(|bytes| bytes == b"torn"), "nothing was written early");
    let before = crashed.list_files();

    let messages = read_all(&crashed.open().unwrap()).remove(0).messages;
    assert_eq!(messages.len(), 200);
    assert!(messages.iter().all(|message| message.content != Some(json!("torn"))));
    assert!(crashed.list_files() == before, "the original has changed");
}

#[test]
fn the_copy_is_private_and_is_removed() {
    let home = HermesHome::new();
    home.connect().execute_batch(TABLES).unwrap();
    // The copy has its own mode, even if the original is readable by all users or read-only.
    for mode in [0o644, 0o444] {
        fs::set_permissions(home.file(), fs::Permissions::from_mode(mode)).unwrap();
        let database = home.open().unwrap();
        let copies: Vec<_> = fs::read_dir(home.scratch()).unwrap().collect();
        assert_eq!(copies.len(), 1);
        let copy = copies[0].as_ref().unwrap();
        assert_eq!(copy.metadata().unwrap().mode() & 0o7777, 0o700);
        let file = copy.path().join("state.db").metadata().unwrap();
        assert_eq!(file.mode() & 0o7777, 0o600);
        drop(database);
        assert_eq!(fs::read_dir(home.scratch()).unwrap().count(), 0);
    }
}

#[test]
fn a_linked_database_is_read_with_its_log() {
    let home = HermesHome::new();
    let writer = home.connect();
    writer.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    writer.execute_batch(TABLES).unwrap();
    writer.execute_batch("INSERT INTO messages (session_id, role) VALUES ('a', 'user')").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("linked.db");
    symlink(home.file(), &link).unwrap();
    let database = HermesDatabase::open(&link, home.scratch()).unwrap();
    assert_eq!(read_all(&database).len(), 1);
}

#[test]
fn sessions_come_oldest_first() {
    let transcripts = read_database(&format!(
        "{TABLES}
         INSERT INTO sessions (id, started_at) VALUES ('c', 30), ('a', 10);
         INSERT INTO messages (session_id, role, timestamp) VALUES ('b', 'user', 20);"
    ));
    let ids: Vec<_> = transcripts.iter().map(|transcript| &*transcript.session.id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[test]
fn messages_without_a_session_get_one() {
    let transcripts = read_database(&format!(
        "{TABLES}
         INSERT INTO messages (session_id, role, content, timestamp) VALUES
             ('lost', 'user', '1', 5), (NULL, 'user', '2', 6), ('lost', 'user', '3', 7),
             (X'ff00', 'user', '4', 8);
         INSERT INTO sessions (id, started_at, title) VALUES (NULL, 1, 'x'), (NULL, 2, 'y');"
    ));
    let seen: Vec<_> = transcripts
        .iter()
        .map(|transcript| (&*transcript.session.id, contents(&transcript.messages)))
        .collect();
    assert_eq!(
        seen,
        [
            ("hermes-row-1", vec![]),
            ("hermes-row-2", vec![]),
            ("lost", vec![json!("1"), json!("3")]),
            ("hermes-no-session", vec![json!("2")]),
            ("bytes:/wA=", vec![json!("4")]),
        ]
    );
    assert_eq!(transcripts[2].session.source, "hermes");
    assert_eq!(transcripts[2].session.started_at, Some(Time(5_000)));
    assert_eq!(transcripts[1].session.title.as_deref(), Some("y"));
}

#[test]
fn values_of_the_wrong_type_are_kept() {
    let transcripts = read_database(&format!(
        "{TABLES}
         INSERT INTO sessions VALUES ('a', 7, 'not json', NULL, 'soon', '2024-11-16T00:00:00Z',
             CAST(X'61ff62' AS TEXT), 'many', X'c3a4', 9e999, 'TRUE');
         INSERT INTO messages VALUES
             (1, 'a', NULL, 12, '5', 'never', 1.5, NULL, NULL),
             (2, 'a', X'75736572', X'00ff', '{{\"a\":1', 1e300, '12', 'false', 'x'),
             (3, 'a', 'user', CAST(X'61ff' AS TEXT), '[\"\\ud83d\"]', NULL, X'01', 'x', 0),
             (4, 'a', 'user', char(0) || 'json:[broken', NULL, 3, NULL, 0.0, 1),
             (5, 'a', 'user', 'back again', NULL, 3, NULL, 1, 1);"
    ));
    let Transcript { session, messages, .. } = &transcripts[0];
    assert_eq!(session.source, "7");
    assert_eq!(session.model_config, Some(json!("not json")));
    assert_eq!(session.ended_at, Some(Time(1_731_715_200_000)));
    assert_eq!(session.end_reason.as_deref(), Some("a\u{fffd}b"));
    assert_eq!(session.title.as_deref(), Some("ä"));
    assert!(session.archived);
    assert_eq!(
        Value::Object(session.extra.clone()),
        json!({
            "hermes:started_at": "soon", "hermes:end_reason": {"bytes": "Yf9i"},
            "hermes:message_count": "many", "hermes:title": {"bytes": "w6Q="},
            "hermes:estimated_cost_usd": "inf",
        })
    );

    let shown: Vec<_> = messages
        .iter()
        .map(|m| json!([m.role, m.content, m.tool_calls, m.token_count, m.undone, m.compacted]))
        .collect();
    assert_eq!(
        shown,
        [
            json!(["unknown", "12", "5", 1, false, false]),
            json!(["user", {"bytes": "AP8="}, "{\"a\":1", 12, true, false]),
            json!(["user", "a\u{fffd}", ["\u{fffd}"], null, false, false]),
            json!(["user", "\0json:[broken", null, null, false, true]),
            json!(["user", "back again", null, null, false, false]),
        ]
    );
    let extras: Vec<_> = messages.iter().map(|m| Value::Object(m.extra.clone())).collect();
    assert_eq!(
        extras,
        [
            json!({"hermes:timestamp": "never", "hermes:token_count": 1.5}),
            json!({"hermes:role": {"bytes": "dXNlcg=="}, "hermes:timestamp": 1e300,
                "hermes:compacted": "x"}),
            json!({"hermes:content": {"bytes": "Yf8="}, "hermes:tool_calls": "[\"\\ud83d\"]",
                "hermes:token_count": {"bytes": "AQ=="}, "hermes:active": "x"}),
            json!({}),
            json!({}),
        ]
    );
}

#[test]
fn the_kind_of_a_parent_is_determined() {
    let transcripts = read_database(&format!(
        "{TABLES}
         INSERT INTO sessions (id, started_at, ended_at, end_reason) VALUES
             ('open', 1, NULL, NULL), ('compressed', 1, 50, 'compression'),
             ('branched', 1, 50, 'branched');
         INSERT INTO sessions (id, source, started_at, parent_session_id, model_config) VALUES
             ('01', 'cli', 60, 'open', NULL),
             ('02', 'cli', 60, 'open', '{{\"_branched_from\": \"open\"}}'),
             ('03', 'cli', 60, 'open', '{{\"_delegate_from\": \"open\"}}'),
             ('04', 'cli', 60, 'compressed', NULL),
             ('05', 'cli', 40, 'compressed', '{{\"_delegate_from\": \"compressed\"}}'),
             ('06', 'cli', 60, 'compressed', '{{\"_delegate_from\": \"open\"}}'),
             ('07', 'cli', 60, 'compressed', '{{\"_branched_from\": \"compressed\"}}'),
             ('08', 'tool', 60, 'compressed', NULL),
             ('09', 'cli', 60, 'branched', NULL),
             ('10', 'cli', 40, 'branched', '{{\"_branched_from\": null}}'),
             ('11', 'cli', 60, 'gone', NULL),
             ('12', 'cli', 60, 'gone', '{{\"_delegate_from\": \"other\"}}'),
             ('13', 'cli', 60, NULL, '{{\"_delegate_from\": \"__orphaned__\"}}');"
    ));
    let kind =
        |id: &str| transcripts.iter().find(|t| t.session.id == id).unwrap().session.parent_kind;
    use ParentKind::{Compaction, Fork, Subagent};
    assert_eq!(kind("open"), None);
    assert_eq!(kind("01"), Some(Subagent), "as Hermes treats it");
    assert_eq!(kind("02"), Some(Fork));
    assert_eq!(kind("03"), Some(Subagent));
    assert_eq!(kind("04"), Some(Compaction));
    assert_eq!(kind("05"), Some(Subagent));
    assert_eq!(kind("06"), Some(Compaction), "the mark was copied from delegated work");
    assert_eq!(kind("07"), Some(Fork));
    assert_eq!(kind("08"), Some(Subagent));
    assert_eq!(kind("09"), Some(Fork));
    assert_eq!(kind("10"), Some(Subagent), "begun before the branch");
    assert_eq!(kind("11"), None);
    assert_eq!(kind("12"), Some(Subagent));
    assert_eq!(kind("13"), None);
}

#[test]
fn a_broken_search_table_hides_no_message() {
    let home = HermesHome::new();
    let connection = home.connect();
    connection.execute_batch(TABLES).unwrap();
    connection
        .execute_batch(
            "CREATE VIRTUAL TABLE messages_fts USING fts5(content);
             INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'here');
             PRAGMA writable_schema = ON;
             INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name = 'messages_fts';",
        )
        .unwrap();
    drop(connection);
    let error = home.connect().execute_batch("SELECT * FROM messages").unwrap_err();
    assert!(error.to_string().contains("malformed database schema"), "{error}");
    assert_eq!(contents(&read_all(&home.open().unwrap())[0].messages), [json!("here")]);
}

#[test]
fn a_broken_index_hides_no_message() {
    let home = HermesHome::new();
    let connection = home.connect();
    connection.execute_batch(TABLES).unwrap();
    // From here on, the index is not updated when a message is inserted.
    connection
        .execute_batch(
            "PRAGMA writable_schema = ON;
             CREATE TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'idx_messages_session';
             DELETE FROM sqlite_master WHERE name = 'idx_messages_session';",
        )
        .unwrap();
    drop(connection);
    home.connect()
        .execute_batch(
            "INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'here');
             PRAGMA writable_schema = ON;
             INSERT INTO sqlite_master SELECT * FROM kept;",
        )
        .unwrap();
    let count = "SELECT count(*) FROM messages WHERE session_id = 'a'";
    let by_index: i64 = home.connect().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(by_index, 0, "the index is not broken yet");
    assert_eq!(contents(&read_all(&home.open().unwrap())[0].messages), [json!("here")]);
}

#[test]
fn a_missing_sessions_or_version_table_is_not_an_error() {
    let transcripts = read_database(&format!(
        "{TABLES} DROP TABLE sessions;
         INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'here');"
    ));
    assert_eq!(contents(&transcripts[0].messages), [json!("here")]);

    let home = HermesHome::new();
    home.connect().execute_batch(&format!("{TABLES} DROP TABLE schema_version")).unwrap();
    assert_eq!(home.open().unwrap().version(), 0);
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let refused = |content: &[u8]| {
        let home = HermesHome::new();
        fs::write(home.file(), content).unwrap();
        home.open().unwrap_err().to_string().replace(home.file().to_str().unwrap(), "F")
    };
    let made = |sql: &str| {
        let home = HermesHome::new();
        home.connect().execute_batch(sql).unwrap();
        fs::read(home.file()).unwrap()
    };
    assert_eq!(refused(&b"{\"sessions\": []}".repeat(100)), "F is not an SQLite database");
    assert_eq!(refused(b""), "F is not a Hermes database: it has no table `messages`");
    let other = made("CREATE TABLE messages (id, body)");
    assert_eq!(
        refused(&other),
        "F is not a Hermes database: it has no columns `session_id` and `role` in the table `messages`"
    );
    let other = made("CREATE TABLE messages (session_id, role)");
    assert_eq!(refused(&other), "F is not a Hermes database: it has no table `sessions`");

    let home = HermesHome::new();
    let error = home.open().unwrap_err();
    assert!(matches!(&error, HermesError::Missing { path } if *path == home.file()), "{error}");
    assert_eq!(fs::read_dir(home.scratch()).unwrap().count(), 0);
    fs::create_dir(home.file()).unwrap();
    assert!(matches!(home.open(), Err(HermesError::NotAFile { .. })));
}

#[test]
fn a_database_imported_twice_adds_nothing() {
    let scratch = tempfile::TempDir::new().unwrap();
    let path = scratch.path().join("state.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE schema_version (version INTEGER);
             INSERT INTO schema_version VALUES (1);
             CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL, mood TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
                 content TEXT, timestamp REAL, color TEXT);
             INSERT INTO sessions VALUES ('20250101_x', 'cli', 1700000000.5, 'good');
             INSERT INTO messages VALUES (1, '20250101_x', 'user', 'hello 世界', 1700000001.0, 'red');
             INSERT INTO messages VALUES (2, '20250101_x', 'assistant', 'hi', 1700000002.0, NULL);",
        )
        .unwrap();
    let mut ledger =
        Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default()).unwrap();
    for round in 0..2 {
        let hermes = HermesDatabase::open(&path, scratch.path()).unwrap();
        for transcript in hermes.transcripts().unwrap() {
            let imported = ledger.import(&transcript.unwrap(), Time(1_700_000_009_000)).unwrap();
            assert_eq!(imported.messages, if round == 0 { 2 } else { 0 });
        }
    }
    let stored = ledger.transcript("20250101_x").unwrap();
    assert_eq!(stored.session.extra["mood"], "good");
    assert_eq!(stored.messages[0].extra["color"], "red");
    let found = ledger.search("世界", &SearchOptions::default()).unwrap();
    assert_eq!(found.results[0].snippet, "hello >>>世界<<<");
}
