//! Sessions databases of every Hermes schema version. Each column and each message must be read.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{HermesHome, read_all};

/// A column: the version that added it, its table, its definition, a value as SQL, the field into
/// which the value is converted, and the JSON that results.
type Column = (i64, &'static str, &'static str, &'static str, &'static str, &'static str);

/// The columns of all versions.
///
/// The columns of versions 1 to 8 are known from Hermes's migrations. The remaining documented
/// columns are listed under version 9. Later releases also added columns without a new version.
/// Those columns are known from comparing releases: release 0.13 has version 11, 0.15 has 13, 0.16
/// has 14, 0.17 has 16, 0.18.0 has 17, 0.18.2 has 19 and 0.19 has 22. Such a column is listed under
/// the version of the first release that has it, or of the migration that fills it (18, 20),
/// although the column may be slightly older. As far as is known, versions without an entry changed
/// only indexes, rows or other tables.
const COLUMNS: &[Column] = &[
    (1, "sessions", "id TEXT PRIMARY KEY", "'20261116_ab'", "id", r#""20261116_ab""#),
    (1, "sessions", "source TEXT NOT NULL", "'telegram'", "source", r#""telegram""#),
    (1, "sessions", "user_id TEXT", "'u-1'", "user_id", r#""u-1""#),
    (1, "sessions", "model TEXT", "'m/large'", "model", r#""m/large""#),
    (
        1,
        "sessions",
        "model_config TEXT",
        r#"'{"top": [1, 2.5]}'"#,
        "model_config",
        r#"{"top":[1,2.5]}"#,
    ),
    (1, "sessions", "system_prompt TEXT", "'Be good.'", "system_prompt", r#""Be good.""#),
    (1, "sessions", "parent_session_id TEXT", "'gone'", "parent_session_id", r#""gone""#),
    (1, "sessions", "started_at REAL NOT NULL", "1731715200.25", "started_at", "1731715200.25"),
    (1, "sessions", "ended_at REAL", "1731715300", "ended_at", "1731715300"),
    (1, "sessions", "end_reason TEXT", "'cli_close'", "end_reason", r#""cli_close""#),
    (1, "sessions", "message_count INTEGER DEFAULT 0", "6", "message_count", "6"),
    (1, "sessions", "tool_call_count INTEGER DEFAULT 0", "2", "tool_call_count", "2"),
    (1, "sessions", "input_tokens INTEGER DEFAULT 0", "3", "input_tokens", "3"),
    (1, "sessions", "output_tokens INTEGER DEFAULT 0", "4", "output_tokens", "4"),
    (3, "sessions", "title TEXT", "'Größe ändern'", "title", r#""Größe ändern""#),
    (5, "sessions", "cache_read_tokens INTEGER DEFAULT 0", "5", "cache_read_tokens", "5"),
    (5, "sessions", "cache_write_tokens INTEGER DEFAULT 0", "6", "cache_write_tokens", "6"),
    (5, "sessions", "reasoning_tokens INTEGER DEFAULT 0", "7", "reasoning_tokens", "7"),
    (5, "sessions", "billing_provider TEXT", "'openrouter'", "billing_provider", r#""openrouter""#),
    (5, "sessions", "billing_base_url TEXT", "'https://o'", "billing_base_url", r#""https://o""#),
    (5, "sessions", "billing_mode TEXT", "'key'", "billing_mode", r#""key""#),
    (5, "sessions", "estimated_cost_usd REAL", "0.125", "estimated_cost_usd", "0.125"),
    (5, "sessions", "actual_cost_usd REAL", "0.25", "actual_cost_usd", "0.25"),
    (5, "sessions", "cost_status TEXT", "'estimated'", "cost_status", r#""estimated""#),
    (5, "sessions", "cost_source TEXT", "'table'", "cost_source", r#""table""#),
    (5, "sessions", "pricing_version TEXT", "'p1'", "pricing_version", r#""p1""#),
    (8, "sessions", "api_call_count INTEGER DEFAULT 0", "8", "api_call_count", "8"),
    (11, "sessions", "handoff_state TEXT", "'done'", "handoff_state", r#""done""#),
    (11, "sessions", "handoff_platform TEXT", "'slack'", "handoff_platform", r#""slack""#),
    (11, "sessions", "handoff_error TEXT", "'none'", "handoff_error", r#""none""#),
    (14, "sessions", "cwd TEXT", "'/home/me/x'", "workspace", r#""/home/me/x""#),
    (14, "sessions", "rewind_count INTEGER NOT NULL DEFAULT 0", "1", "rewind_count", "1"),
    (14, "sessions", "archived INTEGER NOT NULL DEFAULT 0", "1", "archived", "true"),
    (17, "sessions", "session_key TEXT", "'telegram:1:2'", "session_key", r#""telegram:1:2""#),
    (17, "sessions", "chat_id TEXT", "'-100'", "chat_id", r#""-100""#),
    (17, "sessions", "chat_type TEXT", "'group'", "chat_type", r#""group""#),
    (17, "sessions", "thread_id TEXT", "'7'", "thread_id", r#""7""#),
    (17, "sessions", "git_branch TEXT", "'main'", "git_branch", r#""main""#),
    (17, "sessions", "git_repo_root TEXT", "'/home/me'", "git_repo_root", r#""/home/me""#),
    (
        17,
        "sessions",
        "compression_failure_cooldown_until REAL",
        "1731715999.5",
        "compression_failure_cooldown_until",
        "1731715999.5",
    ),
    (
        17,
        "sessions",
        "compression_failure_error TEXT",
        "'late'",
        "compression_failure_error",
        r#""late""#,
    ),
    (18, "sessions", "display_name TEXT", "'Zoë'", "display_name", r#""Zoë""#),
    (18, "sessions", "origin_json TEXT", r#"'{"a":1}'"#, "origin_json", r#""{\"a\":1}""#),
    (18, "sessions", "expiry_finalized INTEGER DEFAULT 0", "1", "expiry_finalized", "1"),
    (
        22,
        "sessions",
        "compression_fallback_streak INTEGER NOT NULL DEFAULT 0",
        "2",
        "compression_fallback_streak",
        "2",
    ),
    (22, "sessions", "profile_name TEXT", "'work'", "profile_name", r#""work""#),
    (23, "sessions", "mood BLOB", "X'00ff'", "mood", r#"{"bytes":"AP8="}"#),
    (23, "sessions", "workspace TEXT", "'ours'", "hermes:workspace", r#""ours""#),
    (1, "messages", "id INTEGER PRIMARY KEY AUTOINCREMENT", "17", "seq", "1"),
    (1, "messages", "session_id TEXT NOT NULL REFERENCES sessions(id)", "'20261116_ab'", "", ""),
    (1, "messages", "role TEXT NOT NULL", "'assistant'", "role", r#""assistant""#),
    (1, "messages", "content TEXT", "'Schön 👍 你好'", "content", r#""Schön 👍 你好""#),
    (1, "messages", "tool_call_id TEXT", "'c-0'", "tool_call_id", r#""c-0""#),
    (
        1,
        "messages",
        "tool_calls TEXT",
        r#"'[{"id":"c1","function":{"name":"sh","arguments":"{\"x\":\"\\u00e9\"}"}}]'"#,
        "tool_calls",
        r#"[{"id":"c1","function":{"name":"sh","arguments":"{\"x\":\"\\u00e9\"}"}}]"#,
    ),
    (1, "messages", "tool_name TEXT", "'sh'", "tool_name", r#""sh""#),
    (1, "messages", "timestamp REAL NOT NULL", "1731715201.125", "timestamp", "1731715201.125"),
    (1, "messages", "token_count INTEGER", "11", "token_count", "11"),
    (2, "messages", "finish_reason TEXT", "'tool_calls'", "finish_reason", r#""tool_calls""#),
    (6, "messages", "reasoning TEXT", "'Hm.'", "reasoning", r#""Hm.""#),
    (
        6,
        "messages",
        "reasoning_details TEXT",
        r#"'[{"k":1}]'"#,
        "reasoning_details",
        r#"[{"k":1}]"#,
    ),
    (
        6,
        "messages",
        "codex_reasoning_items TEXT",
        r#"'[{"id":"r"}]'"#,
        "codex_reasoning_items",
        r#"[{"id":"r"}]"#,
    ),
    (7, "messages", "reasoning_content TEXT", "'So.'", "reasoning_content", r#""So.""#),
    (
        9,
        "messages",
        "codex_message_items TEXT",
        r#"'[{"id":"m"}]'"#,
        "codex_message_items",
        r#"[{"id":"m"}]"#,
    ),
    (13, "messages", "platform_message_id TEXT", "'p9'", "platform_message_id", r#""p9""#),
    (13, "messages", "observed INTEGER DEFAULT 0", "1", "observed", "1"),
    (14, "messages", "active INTEGER NOT NULL DEFAULT 1", "1", "undone", "false"),
    (17, "messages", "compacted INTEGER NOT NULL DEFAULT 0", "0", "compacted", "false"),
    (22, "messages", "effect_disposition TEXT", "'none'", "effect_disposition", r#""none""#),
    (22, "messages", "api_content TEXT", "'as sent'", "api_content", r#""as sent""#),
    (23, "messages", "seq INTEGER", "99", "hermes:seq", "99"),
    (20, "session_model_usage", "session_id TEXT NOT NULL", "'20261116_ab'", "", ""),
    (20, "session_model_usage", "model TEXT NOT NULL", "'m/small'", "model", r#""m/small""#),
    (
        20,
        "session_model_usage",
        "billing_provider TEXT NOT NULL DEFAULT ''",
        "'nous'",
        "billing_provider",
        r#""nous""#,
    ),
    (
        20,
        "session_model_usage",
        "billing_base_url TEXT NOT NULL DEFAULT ''",
        "''",
        "billing_base_url",
        "null",
    ),
    (
        20,
        "session_model_usage",
        "billing_mode TEXT NOT NULL DEFAULT ''",
        "'flat'",
        "billing_mode",
        r#""flat""#,
    ),
    (
        20,
        "session_model_usage",
        "api_call_count INTEGER NOT NULL DEFAULT 0",
        "1",
        "api_call_count",
        "1",
    ),
    (
        20,
        "session_model_usage",
        "input_tokens INTEGER NOT NULL DEFAULT 0",
        "2",
        "input_tokens",
        "2",
    ),
    (
        20,
        "session_model_usage",
        "output_tokens INTEGER NOT NULL DEFAULT 0",
        "3",
        "output_tokens",
        "3",
    ),
    (
        20,
        "session_model_usage",
        "cache_read_tokens INTEGER NOT NULL DEFAULT 0",
        "4",
        "cache_read_tokens",
        "4",
    ),
    (
        20,
        "session_model_usage",
        "cache_write_tokens INTEGER NOT NULL DEFAULT 0",
        "5",
        "cache_write_tokens",
        "5",
    ),
    (
        20,
        "session_model_usage",
        "reasoning_tokens INTEGER NOT NULL DEFAULT 0",
        "6",
        "reasoning_tokens",
        "6",
    ),
    (
        20,
        "session_model_usage",
        "estimated_cost_usd REAL NOT NULL DEFAULT 0",
        "0.5",
        "estimated_cost_usd",
        "0.5",
    ),
    (
        20,
        "session_model_usage",
        "actual_cost_usd REAL NOT NULL DEFAULT 0",
        "0.75",
        "actual_cost_usd",
        "0.75",
    ),
    (20, "session_model_usage", "cost_status TEXT", "'actual'", "cost_status", r#""actual""#),
    (20, "session_model_usage", "cost_source TEXT", "'bill'", "cost_source", r#""bill""#),
    (20, "session_model_usage", "first_seen REAL", "1731715202", "first_seen", "1731715202"),
    (20, "session_model_usage", "last_seen REAL", "1731715203.5", "last_seen", "1731715203.5"),
    (22, "session_model_usage", "task TEXT NOT NULL DEFAULT ''", "'vision'", "task", r#""vision""#),
];

/// Full-text search with triggers, as in the newest version.
const SEARCH: &str = "
    CREATE VIRTUAL TABLE messages_fts USING fts5(content);
    CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
    END;";

fn columns_of(version: i64, table: &str) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |column| column.0 <= version && column.1 == table)
}

fn column_name(column: &Column) -> &'static str {
    column.2.split(' ').next().unwrap()
}

/// Creates the tables as version `born` did, and then adds the columns of all versions up to
/// `version`.
fn create_tables(connection: &Connection, born: i64, version: i64) {
    connection.execute_batch("CREATE TABLE schema_version (version INTEGER NOT NULL)").unwrap();
    connection.execute("INSERT INTO schema_version VALUES (?1)", [version]).unwrap();
    for table in ["sessions", "messages", "session_model_usage"] {
        let Some(since) = columns_of(version, table).map(|column| column.0).min() else { continue };
        let born = born.max(since);
        let first: Vec<_> = columns_of(born, table).map(|column| column.2).collect();
        let sql = format!("CREATE TABLE {table} ({})", first.join(", "));
        connection.execute_batch(&sql).unwrap();
        for column in columns_of(version, table).filter(|column| column.0 > born) {
            let sql = format!("ALTER TABLE {table} ADD COLUMN {}", column.2);
            connection.execute_batch(&sql).unwrap();
        }
    }
    connection.execute_batch(SEARCH).unwrap();
}

/// Inserts one row with a value in every column.
fn insert_row(connection: &Connection, version: i64, table: &str) {
    let names: Vec<_> = columns_of(version, table).map(column_name).collect();
    let values: Vec<_> = columns_of(version, table).map(|column| column.3).collect();
    if !names.is_empty() {
        let (names, values) = (names.join(", "), values.join(", "));
        let sql = format!("INSERT INTO {table} ({names}) VALUES ({values})");
        connection.execute_batch(&sql).unwrap();
    }
}

/// The role, the content and the time of further messages.
const MORE: &[(&str, &str, f64)] = &[
    ("tool", "exit 0\n\0 ende", 1731715202.0),
    // The clock had been set back, but this message was written third.
    ("user", "\0json:[{\"type\": \"text\", \"text\": \"sieh \\ud83d\\ude00\"}]", 1731715100.0),
    ("user", "taken back", 1731715204.0),
    ("user", "summed up", 1731715205.0),
];

fn add_messages(connection: &Connection, version: i64) {
    for (role, content, time) in MORE {
        connection
            .execute(
                "INSERT INTO messages (session_id, role, content, timestamp)
                 VALUES ('20261116_ab', ?1, ?2, ?3)",
                (role, content, time),
            )
            .unwrap();
    }
    if version >= 14 {
        connection
            .execute("UPDATE messages SET active = 0 WHERE content = 'taken back'", [])
            .unwrap();
    }
    if version >= 17 {
        connection
            .execute(
                "UPDATE messages SET active = 0, compacted = 1 WHERE content = 'summed up'",
                [],
            )
            .unwrap();
    }
}

fn check_columns(version: i64, table: &str, record: &Value) {
    for column in columns_of(version, table).filter(|column| !column.4.is_empty()) {
        let expected: Value = serde_json::from_str(column.5).unwrap();
        assert_eq!(
            record[column.4],
            expected,
            "{table}.{} in version {version}",
            column_name(column)
        );
    }
}

/// Creates a database with all columns, and checks that each of them is read.
fn check_version(born: i64, version: i64) {
    let home = HermesHome::new();
    let connection = home.connect();
    create_tables(&connection, born, version);
    for table in ["sessions", "messages", "session_model_usage"] {
        insert_row(&connection, version, table);
    }
    add_messages(&connection, version);
    drop(connection);

    let database = home.open().unwrap();
    assert_eq!(database.version(), version);
    let transcripts = read_all(&database);
    assert_eq!(transcripts.len(), 1);
    let transcript = serde_json::to_value(&transcripts[0]).unwrap();
    check_columns(version, "sessions", &transcript);
    check_columns(version, "messages", &transcript["messages"][0]);
    if version >= 20 {
        check_columns(version, "session_model_usage", &transcript["usage"][0]);
    }

    let messages = &transcripts[0].messages;
    let seen: Vec<_> = messages.iter().map(|message| (message.seq, &*message.role)).collect();
    assert_eq!(seen, [(1, "assistant"), (2, "tool"), (3, "user"), (4, "user"), (5, "user")]);
    let contents: Vec<_> = messages[1..].iter().map(|m| m.content.clone().unwrap()).collect();
    let structured = json!([{"type": "text", "text": "sieh 😀"}]);
    assert_eq!(
        contents,
        [json!("exit 0\n\0 ende"), structured, json!("taken back"), json!("summed up")]
    );
    let flags: Vec<_> = messages.iter().map(|m| (m.undone, m.compacted)).collect();
    let none = (false, false);
    let undone = (version >= 14, false);
    let compacted = (false, version >= 17);
    assert_eq!(flags, [none, none, none, undone, compacted], "version {version}");
}

/// Version 23 represents a future version. It has more columns, two of which have the same names as
/// fields of a record.
#[test]
fn every_version_is_read_completely() {
    for version in 1..=23 {
        check_version(version, version);
    }
}

#[test]
fn a_database_that_was_migrated_is_read_completely() {
    for version in 2..=23 {
        check_version(1, version);
    }
}
