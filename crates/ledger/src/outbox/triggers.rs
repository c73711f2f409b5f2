//! The tables and triggers of the outbox.
//!
//! Triggers run in the transaction of the change, even if another version of takeback makes the
//! change. They only mark the changed row. The content of the row is read when the row is shipped.
//! So a row that changes a thousand times is shipped once.

use rusqlite::{Connection, params};

use super::Kind;

/// The version of the tables and triggers. When it changes, the outbox is created again, and
/// everything is shipped again.
pub(super) const VERSION: i64 = 3;

const TABLES: &str = "
    CREATE TABLE outbox (
        -- Never used twice: a row that changes while it is being shipped gets a new number.
        number  INTEGER PRIMARY KEY AUTOINCREMENT,
        kind    INTEGER NOT NULL,
        session INTEGER NOT NULL,
        -- The message's or turn's number, or the id of the call or of the deleted session.
        item    NOT NULL
    );
    CREATE UNIQUE INDEX outbox_item ON outbox (session, kind, item);
    -- Inserting into this view marks a row. All triggers share these statements, because each
    -- process that opens the ledger parses the schema. The old mark is deleted, not replaced: a
    -- conflict clause in a trigger is overridden by the clause of the statement that fires the
    -- trigger.
    CREATE VIEW outbox_mark AS SELECT kind, session, item FROM outbox;
    CREATE TRIGGER outbox_mark_insert INSTEAD OF INSERT ON outbox_mark BEGIN
        DELETE FROM outbox WHERE session = NEW.session AND kind = NEW.kind AND item = NEW.item;
        INSERT INTO outbox (kind, session, item) VALUES (NEW.kind, NEW.session, NEW.item);
    END;
    CREATE TABLE outbox_state (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL,
        -- The last session that existed before the outbox. The triggers mark the later ones.
        until   INTEGER NOT NULL,
        -- All rows of the sessions up to this key have been marked since the outbox exists.
        marked  INTEGER NOT NULL DEFAULT 0,
        -- The receipts of the last batch that arrived, and of the batch that is on its way.
        shipped TEXT,
        sending TEXT
    );";

/// Writes the statement that creates the trigger for deleted tasks. The trigger marks them because
/// the fleet may have their journals.
fn mark_deleted_tasks() -> String {
    format!(
        "CREATE TRIGGER outbox_tasks_delete AFTER DELETE ON tasks BEGIN
             INSERT INTO outbox_mark VALUES ({kind}, 0, OLD.id);
         END",
        kind = Kind::DeletedTask as i64
    )
}

/// A table whose changes are shipped.
struct Watched {
    table: &'static str,
    kind: Kind,
    /// The column with the key of the session.
    session: &'static str,
    /// The column that identifies the row in its session, or `0` if all rows of a session share one
    /// mark.
    item: &'static str,
}

const WATCHED: [Watched; 7] = [
    Watched { table: "sessions", kind: Kind::Session, session: "key", item: "0" },
    Watched { table: "session_texts", kind: Kind::Session, session: "session", item: "0" },
    Watched { table: "messages", kind: Kind::Message, session: "session", item: "seq" },
    Watched { table: "turns", kind: Kind::Turn, session: "session", item: "turn" },
    Watched { table: "calls", kind: Kind::Call, session: "session", item: "call" },
    Watched { table: "effects", kind: Kind::Effects, session: "session", item: "turn" },
    Watched { table: "usage", kind: Kind::Usage, session: "session", item: "0" },
];

impl Watched {
    /// Writes the statement that marks a row.
    fn mark(&self, row: &str) -> String {
        let session = format!("{row}.{}", self.session);
        let item = match self.item {
            "0" => "0".to_owned(),
            column => format!("{row}.{column}"),
        };
        let kind = self.kind as i64;
        format!("INSERT INTO outbox_mark VALUES ({kind}, {session}, {item});")
    }

    fn triggers(&self) -> String {
        let table = self.table;
        let (new, old) = (self.mark("NEW"), self.mark("OLD"));
        let moved = match self.item {
            "0" => String::new(),
            item => format!(
                "CREATE TRIGGER outbox_{table}_move AFTER UPDATE OF {item} ON {table}
                 WHEN OLD.{item} <> NEW.{item} BEGIN {old} END;"
            ),
        };
        let deleted = match self.kind {
            // The marks of a deleted session are useless, and another session may get its key.
            Kind::Session if table == "sessions" => format!(
                "DELETE FROM outbox WHERE session = OLD.key;
                 INSERT INTO outbox_mark VALUES ({kind}, 0, OLD.id);",
                kind = Kind::Deleted as i64
            ),
            _ => old,
        };
        format!(
            "CREATE TRIGGER outbox_{table}_insert AFTER INSERT ON {table} BEGIN {new} END;
             CREATE TRIGGER outbox_{table}_update AFTER UPDATE ON {table} BEGIN {new} END;
             {moved}
             CREATE TRIGGER outbox_{table}_delete AFTER DELETE ON {table} BEGIN {deleted} END;"
        )
    }
}

/// Creates the outbox, and marks all sessions. The other rows are marked later, in slices. Marks of
/// deletions are copied from an earlier outbox, because deletions are recorded nowhere else.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let deleted = list_deleted(connection)?;
    drop_all(connection)?;
    connection.execute_batch(TABLES)?;
    for watched in &WATCHED {
        connection.execute_batch(&watched.triggers())?;
    }
    connection.execute_batch(&mark_deleted_tasks())?;
    connection.execute(
        "INSERT INTO outbox_state (id, version, until)
         VALUES (1, ?1, (SELECT ifnull(max(key), 0) FROM sessions))",
        [VERSION],
    )?;
    for (kind, id) in deleted {
        let sql = "INSERT INTO outbox (kind, session, item) VALUES (?1, 0, ?2)";
        connection.execute(sql, params![kind, id])?;
    }
    connection.execute(
        "INSERT INTO outbox (kind, session, item) SELECT ?1, key, 0 FROM sessions ORDER BY key",
        [Kind::Session as i64],
    )?;
    Ok(())
}

/// Lists the marks of deleted sessions and tasks, oldest first. Lists none if there is no outbox.
fn list_deleted(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    if !connection.table_exists(None, "outbox")? {
        return Ok(Vec::new());
    }
    let sql =
        "SELECT kind, item FROM outbox WHERE session = 0 AND kind IN (?1, ?2) ORDER BY number";
    let kinds = [Kind::Deleted as i64, Kind::DeletedTask as i64];
    let mut statement = connection.prepare(sql)?;
    statement.query_map(kinds, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Deletes the outbox, if there is one.
pub(super) fn drop_all(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'outbox#_%' ESCAPE '#'")?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    for name in names {
        connection.execute_batch(&format!("DROP TRIGGER {name}"))?;
    }
    connection.execute_batch(
        "DROP VIEW IF EXISTS outbox_mark;
         DROP TABLE IF EXISTS outbox;
         DROP TABLE IF EXISTS outbox_state",
    )
}

/// Marks all rows of sessions that are older than the outbox, beginning after the session `marked`,
/// until at least `least` rows are marked. Returns the key of the last session whose rows are
/// marked, or `None` if there are no such sessions.
pub(super) fn mark_sessions(
    connection: &Connection,
    marked: i64,
    least: usize,
) -> rusqlite::Result<Option<i64>> {
    let mut keys = connection.prepare_cached(
        "SELECT key FROM sessions WHERE key > ?1 AND key <= (SELECT until FROM outbox_state)
             ORDER BY key",
    )?;
    let mut keys = keys.query([marked])?;
    let (mut last, mut rows) = (None, 0);
    while rows < least
        && let Some(row) = keys.next()?
    {
        let key: i64 = row.get(0)?;
        rows += mark_session(connection, key)?;
        last = Some(key);
        rows += 1;
    }
    Ok(last)
}

/// Marks all rows of a session. Returns their number.
pub(super) fn mark_session(connection: &Connection, key: i64) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for watched in WATCHED.iter().filter(|watched| !matches!(watched.kind, Kind::Session)) {
        let Watched { table, kind, item, .. } = watched;
        let sql = format!(
            "INSERT OR IGNORE INTO outbox (kind, session, item)
             SELECT {}, session, {item} FROM {table} WHERE session = ?1 ORDER BY id",
            *kind as i64
        );
        rows += connection.prepare_cached(&sql)?.execute([key])?;
    }
    Ok(rows)
}
