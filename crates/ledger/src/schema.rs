//! The schema, its version, and migrations from older versions.

use rusqlite::Connection;

use crate::search::INDEX_VERSION;

/// The application id that marks a database as takeback's ("tkbk").
pub(crate) const APPLICATION_ID: i32 = 0x746b_626b;

/// The version that this program writes.
pub(crate) const VERSION: i32 = 6;

/// The oldest version that this program can upgrade. Version 1 was never released.
pub(crate) const OLDEST_VERSION: i32 = 2;

const SCHEMA: &str = include_str!("schema.sql");

/// The tables that version 4 added. In a new database, they are created after those in `SCHEMA`.
const TASK_SCHEMA: &str = include_str!("schema_tasks.sql");

/// The tables that version 6 added.
const THREAD_SCHEMA: &str = include_str!("schema_threads.sql");

/// The changes that turn the previous version into version `to`.
struct Migration {
    to: i32,
    /// Added columns: table, column, declaration.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// Any other change, made after the columns are added.
    sql: &'static str,
}

/// The migrations from [`OLDEST_VERSION`] to [`VERSION`], in order.
const MIGRATIONS: &[Migration] = &[
    Migration {
        to: 3,
        columns: &[
            ("undos", "was_seq", "INTEGER"),
            ("undos", "to_seq", "INTEGER"),
            ("calls", "owner_turn", "INTEGER"),
        ],
        sql: "",
    },
    Migration { to: 4, columns: &[], sql: TASK_SCHEMA },
    Migration {
        to: 5,
        columns: &[("sessions", "inherited", "INTEGER NOT NULL DEFAULT 0")],
        sql: "DROP INDEX IF EXISTS effects_session;
              CREATE INDEX IF NOT EXISTS effects_call ON effects (session, call, time);",
    },
    Migration { to: 6, columns: &[], sql: THREAD_SCHEMA },
];

/// Creates the tables in an empty database, or upgrades a database of an older version. The caller
/// provides the transaction.
pub(crate) fn bring_up_to_date(connection: &Connection, found: i32) -> rusqlite::Result<()> {
    if found == 0 {
        connection.execute_batch(SCHEMA)?;
        connection.execute_batch(TASK_SCHEMA)?;
        connection.execute_batch(THREAD_SCHEMA)?;
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
            // A user may have added the column by hand.
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

    fn with_one_session() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        bring_up_to_date(&connection, 0).unwrap();
        connection
            .execute_batch(
                "INSERT INTO sessions (id, source, last_activity, started_at) VALUES ('a', 'x', 1, 1)",
            )
            .unwrap();
        connection
    }

    const TWO_MIGRATIONS: &[Migration] = &[
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
    fn migrations_run_in_order_from_the_version_of_the_database() {
        let connection = with_one_session();
        migrate(&connection, 1, TWO_MIGRATIONS).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "good");
    }

    #[test]
    fn a_migration_runs_only_once() {
        let connection = with_one_session();
        migrate(&connection, 1, &TWO_MIGRATIONS[..1]).unwrap();
        connection.execute_batch("UPDATE sessions SET mood = 'bad'").unwrap();
        migrate(&connection, 2, TWO_MIGRATIONS).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "bad");
    }

    #[test]
    fn an_existing_column_is_not_changed() {
        let connection = with_one_session();
        connection
            .execute_batch("ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'odd'")
            .unwrap();
        migrate(&connection, 1, TWO_MIGRATIONS).unwrap();
        let mood: String =
            connection.query_row("SELECT x FROM more", [], |row| row.get(0)).unwrap();
        assert_eq!(mood, "odd");
    }

    #[test]
    fn the_list_of_migrations_leads_to_this_version() {
        let mut version = OLDEST_VERSION;
        for migration in MIGRATIONS {
            version += 1;
            assert_eq!(migration.to, version);
        }
        assert_eq!(version, VERSION);
    }
}
