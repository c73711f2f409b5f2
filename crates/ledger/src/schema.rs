//! The schema, its version, and the way from older versions to it.

use rusqlite::Connection;

use crate::search::INDEX_VERSION;

/// Marks a database as ours ("tkbk").
pub(crate) const APPLICATION_ID: i32 = 0x746b_626b;

/// What this program writes.
pub(crate) const VERSION: i32 = 2;

const SCHEMA: &str = include_str!("schema.sql");

/// What version `to` has that its predecessor does not.
struct Migration {
    to: i32,
    /// Plain additions: table, column, declaration.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// Whatever else is to be done, after the columns are there.
    sql: &'static str,
}

/// Forward only, in order, each from the version before it.
const MIGRATIONS: &[Migration] = &[Migration { to: 2, columns: &[], sql: LOGS }];

/// What is known of agents' own logs.
const LOGS: &str = "
    CREATE TABLE origins (
        id      INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq     INTEGER,
        origin  TEXT NOT NULL
    );
    CREATE UNIQUE INDEX origins_identity ON origins (session, origin);
    CREATE INDEX origins_message ON origins (session, seq) WHERE seq IS NOT NULL;

    CREATE TABLE bookmarks (
        id       INTEGER PRIMARY KEY,
        log      TEXT NOT NULL,
        agent    TEXT NOT NULL,
        offset   INTEGER NOT NULL,
        read_at  INTEGER NOT NULL,
        identity TEXT NOT NULL,
        state    TEXT NOT NULL
    );
    CREATE UNIQUE INDEX bookmarks_identity ON bookmarks (log);
    CREATE INDEX bookmarks_recent ON bookmarks (read_at);";

/// Makes the tables in an empty database, or brings an older one up to date. In a transaction.
pub(crate) fn bring_up_to_date(connection: &Connection, found: i32) -> rusqlite::Result<()> {
    if found == 0 {
        connection.execute_batch(SCHEMA)?;
        connection.execute(
            "INSERT INTO search_state (id, version, indexed) VALUES (1, ?1, 0)",
            [INDEX_VERSION],
        )?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    } else {
        migrate(connection, found, MIGRATIONS)?;
    }
    connection.pragma_update(None, "user_version", VERSION)
}

fn migrate(connection: &Connection, found: i32, migrations: &[Migration]) -> rusqlite::Result<()> {
    for migration in migrations.iter().filter(|migration| migration.to > found) {
        for (table, column, declaration) in migration.columns {
            // A column that is there already was added by hand, or by a version that never was.
            if !connection.column_exists(None, *table, *column)? {
                connection.execute_batch(&format!(
                    "ALTER TABLE {table} ADD COLUMN {column} {declaration}"
                ))?;
            }
        }
        connection.execute_batch(migration.sql)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_1() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        bring_up_to_date(&connection, 0).unwrap();
        connection
            .execute_batch(
                "INSERT INTO sessions (id, source, last_activity, started_at) VALUES ('a', 'x', 1, 1)",
            )
            .unwrap();
        connection
    }

    const TWO: &[Migration] = &[
        Migration {
            to: 2,
            columns: &[("sessions", "mood", "TEXT NOT NULL DEFAULT 'good'")],
            sql: "",
        },
        Migration {
            to: 3,
            columns: &[],
            sql: "CREATE TABLE more (x); INSERT INTO more SELECT mood FROM sessions;",
        },
    ];

    #[test]
    fn migrations_run_in_order_from_where_the_database_is() {
        let connection = version_1();
        migrate(&connection, 1, TWO).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "good");
    }

    #[test]
    fn migrations_that_are_done_are_not_done_again() {
        let connection = version_1();
        migrate(&connection, 1, &TWO[..1]).unwrap();
        connection.execute_batch("UPDATE sessions SET mood = 'bad'").unwrap();
        migrate(&connection, 2, TWO).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "bad");
    }

    #[test]
    fn a_column_that_is_there_already_is_left_alone() {
        let connection = version_1();
        connection
            .execute_batch("ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'odd'")
            .unwrap();
        migrate(&connection, 1, TWO).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "odd");
    }

    #[test]
    fn a_ledger_that_was_migrated_has_the_tables_of_a_new_one() {
        let tables = |connection: &Connection| -> Vec<String> {
            let mut statement = connection
                .prepare("SELECT name || ' ' || sql FROM sqlite_schema WHERE sql IS NOT NULL")
                .unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let tidy = |sql: String| {
                let lines = sql.lines().filter(|line| !line.trim().starts_with("--"));
                lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
            };
            let mut tables: Vec<String> = rows.map(|sql| tidy(sql.unwrap())).collect();
            tables.sort();
            tables
        };
        let (fresh, old) = (version_1(), version_1());
        old.execute_batch("DROP TABLE origins; DROP TABLE bookmarks").unwrap();
        bring_up_to_date(&old, 1).unwrap();
        assert_eq!(tables(&old), tables(&fresh));
    }

    #[test]
    fn the_list_of_migrations_leads_to_this_version() {
        let steps: Vec<i32> = MIGRATIONS.iter().map(|migration| migration.to).collect();
        assert_eq!(steps, (1..VERSION).map(|version| version + 1).collect::<Vec<_>>());
    }
}
