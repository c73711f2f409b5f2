//! Sessions databases that are designed to exhaust memory, time or disk space.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use rusqlite::Connection;

use crate::support::{HermesHome, read_all};

/// A query that never ends.
const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT";

const TABLES: [&str; 4] = [
    "CREATE TABLE schema_version (version INTEGER);",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, title TEXT);",
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT);",
    "CREATE TABLE session_model_usage (session_id TEXT, model TEXT);",
];

/// Creates a database with these statements.
fn home_with(statements: &[&str]) -> HermesHome {
    let home = HermesHome::new();
    home.connect().execute_batch(&statements.concat()).unwrap();
    home
}

/// Reads the whole database and returns the errors, each with its causes. Asserts that no copy
/// remains.
fn read_errors(home: &HermesHome) -> Vec<String> {
    let errors = match home.open() {
        Err(error) => vec![takeback_base::errors::error_chain(&error)],
        Ok(database) => match database.transcripts() {
            Err(error) => vec![takeback_base::errors::error_chain(&error)],
            Ok(transcripts) => transcripts
                .filter_map(Result::err)
                .map(|error| takeback_base::errors::error_chain(&error))
                .collect(),
        },
    };
    assert_eq!(fs::read_dir(home.scratch()).unwrap().count(), 0);
    errors
}

#[test]
fn a_view_in_place_of_a_table_is_not_read() {
    for (number, columns) in [
        (0, "version"),
        (1, "rowid, id, source"),
        (2, "rowid, session_id, role"),
        (3, "rowid, session_id, model"),
    ] {
        let table = TABLES[number].split(' ').nth(2).unwrap();
        let values = if number == 0 { "x FROM c WHERE x < 0" } else { "x, 's' || x, 'a' FROM c" };
        let view = format!("CREATE VIEW {table} ({columns}) AS {ENDLESS} {values};");
        let mut statements = TABLES;
        statements[number] = &view;
        let errors = read_errors(&home_with(&statements));
        let expected = format!("`{table}` is a view, not a table");
        assert!(errors.len() == 1 && errors[0].ends_with(&expected), "{errors:?}");
    }
}

#[test]
fn a_view_that_is_listed_as_a_table_is_not_read() {
    let home = home_with(&TABLES);
    let connection = home.connect();
    let view =
        format!("CREATE VIEW messages (rowid, session_id, role) AS {ENDLESS} x, x, x FROM c");
    connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
    connection
        .execute("UPDATE sqlite_schema SET sql = ?1, rootpage = 0 WHERE name = 'messages'", [view])
        .unwrap();
    drop(connection);
    let errors = read_errors(&home);
    assert!(
        errors.len() == 1 && errors[0].ends_with("`messages` is a view, not a table"),
        "{errors:?}"
    );
}

#[test]
fn a_virtual_table_is_not_read() {
    let mut statements = TABLES;
    statements[2] = "CREATE VIRTUAL TABLE messages USING fts5(session_id, role, content);";
    let errors = read_errors(&home_with(&statements));
    let expected = "`messages` is a virtual table, not a table";
    assert!(errors.len() == 1 && errors[0].ends_with(expected), "{errors:?}");
}

#[test]
fn generated_columns_are_not_computed() {
    let mut statements = TABLES.to_vec();
    // Each row would take 2 GB.
    statements[2] = "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
        content TEXT, big TEXT GENERATED ALWAYS AS (hex(zeroblob(490000000))));";
    statements.push("INSERT INTO messages VALUES (1, 'a', 'user', 'hello');");
    let home = home_with(&statements);
    let sessions = read_all(&home.open().unwrap());
    assert_eq!(sessions[0].messages[0].content, Some("hello".into()));
}

#[test]
fn links_and_pipes_beside_the_database_are_not_read() {
    for suffix in ["-wal", "-journal"] {
        for target in ["pipe", "/dev/zero", "outside"] {
            let home = home_with(&TABLES);
            let path = home.path().join(format!("state.db{suffix}"));
            if target == "pipe" {
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            } else {
                fs::write(home.path().join("outside"), "private").unwrap();
                symlink(target, &path).unwrap();
            }
            let errors = read_errors(&home);
            let expected = format!("state.db{suffix}: it is not a regular file");
            assert!(errors.len() == 1 && errors[0].ends_with(&expected), "{errors:?}");
        }
    }
}

#[test]
fn a_database_of_9_gb_is_not_copied() {
    for name in ["state.db", "state.db-journal"] {
        let home = home_with(&TABLES);
        let file = fs::File::options().create(true).append(true).open(home.path().join(name));
        file.unwrap().set_len(9 << 30).unwrap();
        let errors = read_errors(&home);
        let expected = format!("{name}: it is larger than 8 GB");
        assert!(errors.len() == 1 && errors[0].ends_with(&expected), "{errors:?}");
    }
}

/// Links some pages of a table's tree into a chain in which each page refers to the next one many
/// times, so that the table has more rows than any program can read.
fn multiply_rows(home: &HermesHome) {
    const PAGE: usize = 512;
    let mut bytes = fs::read(home.file()).unwrap();
    let connection = home.connect();
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(connection);
    let root = root as usize;
    let kind = |bytes: &[u8], page: usize| bytes[(page - 1) * PAGE];
    let count = bytes.len() / PAGE;
    let mut inner: Vec<usize> =
        (2..=count).filter(|page| kind(&bytes, *page) == 5 && *page != root).take(6).collect();
    assert_eq!(inner.len(), 6, "the table is too small");
    inner.insert(0, root);
    // A leaf with rows belongs to this table, because the other tables are empty.
    let is_leaf = |page: &usize| kind(&bytes, *page) == 13 && bytes[(*page - 1) * PAGE + 4] > 0;
    inner.push((2..=count).find(is_leaf).unwrap());
    for pair in inner.windows(2) {
        let (page, next) = (&mut bytes[(pair[0] - 1) * PAGE..][..PAGE], pair[1] as u32);
        let cells = u16::from_be_bytes([page[3], page[4]]) as usize;
        page[8..12].copy_from_slice(&next.to_be_bytes());
        for cell in 0..cells {
            let at = u16::from_be_bytes([page[12 + cell * 2], page[13 + cell * 2]]) as usize;
            page[at..at + 4].copy_from_slice(&next.to_be_bytes());
        }
    }
    fs::write(home.file(), bytes).unwrap();
}

#[test]
fn a_table_whose_pages_contain_each_other_is_not_read_forever() {
    let home = HermesHome::new();
    let connection = home.connect();
    connection.execute_batch("PRAGMA page_size = 512").unwrap();
    connection.execute_batch(&TABLES.concat()).unwrap();
    connection
        .execute_batch(
            "INSERT INTO messages (session_id, role, content)
             WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000)
             SELECT 'a', 'user', 'message ' || x FROM c;",
        )
        .unwrap();
    drop(connection);
    multiply_rows(&home);
    let errors = read_errors(&home);
    let expected = "reading it takes too long for its size, so it is damaged or was designed to \
                    be endless";
    assert!(errors.len() == 1 && errors[0].ends_with(expected), "{errors:?}");
}

#[test]
fn a_session_that_takes_too_much_memory_is_refused_and_the_others_are_read() {
    let home = home_with(&TABLES);
    let connection = home.connect();
    connection.execute("INSERT INTO sessions (id) VALUES ('small'), ('large')", []).unwrap();
    // This text is only ten megabytes long, but would take up gigabytes of memory once parsed.
    let json = format!("\0json:[{}0]", "{},".repeat(3_500_000));
    insert_message(&connection, "large", &json);
    insert_message(&connection, "small", "hello");
    drop(connection);
    let errors = read_errors(&home);
    let expected = "the session takes more than 1024 MB of memory";
    assert!(errors.len() == 1 && errors[0].ends_with(expected), "{errors:?}");
    let database = home.open().unwrap();
    let read: Vec<_> = database.transcripts().unwrap().filter_map(Result::ok).collect();
    assert_eq!(read.len(), 1);
    assert_eq!((read[0].session.id.as_str(), read[0].messages.len()), ("small", 1));
}

#[test]
fn a_value_larger_than_256_mb_is_refused() {
    let home = home_with(&TABLES);
    let connection = home.connect();
    let sql = "INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', zeroblob(?1))";
    connection.execute(sql, [300 << 20]).unwrap();
    drop(connection);
    let errors = read_errors(&home);
    assert!(
        errors.len() == 1 && errors[0].ends_with("it has a row of more than 256 MB"),
        "{errors:?}"
    );
}

#[test]
fn a_message_of_50_mb_is_read() {
    let home = home_with(&TABLES);
    insert_message(&home.connect(), "a", &"words, and [more] words ".repeat(2_200_000));
    let sessions = read_all(&home.open().unwrap());
    let content = sessions[0].messages[0].content.as_ref().unwrap();
    assert_eq!(content.as_str().unwrap().len(), 24 * 2_200_000);
}

fn insert_message(connection: &Connection, session: &str, content: &str) {
    let sql = "INSERT INTO messages (session_id, role, content) VALUES (?1, 'user', ?2)";
    connection.execute(sql, [session, content]).unwrap();
}
