//! The schema of the fleet's database, its version, and its migrations.

use postgres::Transaction;

use crate::FleetError;
use crate::connection::Connection;

/// The migrations. Each one turns a version of the schema into the next version.
const MIGRATIONS: &[&str] = &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// The version of the schema that this program knows.
pub(crate) const VERSION: i32 = MIGRATIONS.len() as i32;

/// The number of the advisory lock that a process holds while it changes the schema.
const LOCK: i64 = 0x746b_626b;

/// The database row that describes the fleet itself.
pub(crate) struct FleetRow {
    pub(crate) id: String,
    pub(crate) schema: i32,
    pub(crate) key_check: String,
}

/// Reads the row that describes the fleet. Returns `None` if the database holds no fleet.
pub(crate) fn read_fleet(connection: &mut Connection) -> Result<Option<FleetRow>, FleetError> {
    connection.run(|client| {
        let exists = client.query_one("SELECT to_regclass('takeback.fleet') IS NOT NULL", &[])?;
        if !exists.get::<_, bool>(0) {
            return Ok(None);
        }
        let row = client.query_opt("SELECT id, schema, key_check FROM takeback.fleet", &[])?;
        Ok(row.map(|row| FleetRow { id: row.get(0), schema: row.get(1), key_check: row.get(2) }))
    })
}

/// Fails unless `found` is the version of the schema that this program knows.
pub(crate) fn check_version(found: i32) -> Result<(), FleetError> {
    match found.cmp(&VERSION) {
        std::cmp::Ordering::Less => Err(FleetError::OlderSchema { found, known: VERSION }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(FleetError::NewerSchema { found, known: VERSION }),
    }
}

/// Takes the lock for changing the schema. The lock is held until the end of the transaction.
pub(crate) fn lock(transaction: &mut Transaction<'_>) -> Result<(), postgres::Error> {
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).map(drop)
}

/// Migrates the schema from version `found` to the version that this program knows.
pub(crate) fn migrate(
    transaction: &mut Transaction<'_>,
    found: i32,
) -> Result<(), postgres::Error> {
    let done = usize::try_from(found).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.batch_execute(migration)?;
    }
    transaction.execute("UPDATE takeback.fleet SET schema = $1", &[&VERSION]).map(drop)
}
