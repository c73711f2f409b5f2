//! The state of the fleet's database, and the changes that it does not have yet.

use serde::{Deserialize, Serialize};
use takeback_base::durable::Durability;
use takeback_ledger::{Ledger, Time};

use crate::identity::Files;
use crate::{Fleet, FleetError, schema};

/// The state of this machine in its fleet.
#[derive(Debug)]
pub struct FleetStatus {
    /// The name of this machine.
    pub name: String,
    /// The number of changes that are not shipped; `None` if this machine has never joined.
    pub waiting: Option<u64>,
    /// The last attempts to ship.
    pub last: LastSync,
    /// The state of the database, or the reason why it cannot be used.
    pub server: Result<ServerStatus, FleetError>,
}

/// The last attempts to ship changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastSync {
    /// The time at which everything was last shipped.
    pub succeeded_at: Option<Time>,
    /// The time of the last attempt, if it failed.
    pub failed_at: Option<Time>,
    /// The reason why the last attempt failed.
    pub error: Option<String>,
}

/// The state of the fleet's database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ServerStatus {
    /// The host and the name of the database.
    pub target: String,
    pub schema: i32,
    pub machines: i64,
    pub sessions: i64,
}

/// A machine of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MachineStatus {
    pub name: String,
    /// True for this machine.
    pub is_this: bool,
    pub joined_at: Time,
    /// The time at which the machine last shipped or joined, by the clock of the server.
    pub seen_at: Time,
    pub version: Option<String>,
    pub sessions: i64,
}

impl Fleet {
    /// Returns the state of this machine and of the fleet's database.
    pub fn status(&self, ledger: Option<&Ledger>) -> Result<FleetStatus, FleetError> {
        let waiting = ledger.map(Ledger::outbox_length).transpose()?.flatten();
        let last = read_last_sync(&self.files)?;
        Ok(FleetStatus { name: self.name.clone(), waiting, last, server: self.server_status() })
    }

    fn server_status(&self) -> Result<ServerStatus, FleetError> {
        let (mut connection, _) = self.connect()?;
        let row = connection.run(|client| {
            client.query_one(
                "SELECT (SELECT count(*) FROM takeback.machines),
                        (SELECT count(*) FROM takeback.sessions)",
                &[],
            )
        })?;
        let target = connection.target;
        let (machines, sessions) = (row.get(0), row.get(1));
        Ok(ServerStatus { target, schema: schema::VERSION, machines, sessions })
    }

    /// If the last attempt to ship failed, returns the number of changes that are waiting, and the
    /// reason.
    pub fn last_failure(
        &self,
        ledger: Option<&Ledger>,
    ) -> Result<Option<(u64, String)>, FleetError> {
        let waiting = ledger.map(Ledger::outbox_length).transpose()?.flatten().unwrap_or(0);
        Ok(read_last_sync(&self.files)?.error.map(|error| (waiting, error)))
    }

    /// Lists the machines of the fleet, by name.
    pub fn machines(&self) -> Result<Vec<MachineStatus>, FleetError> {
        let (mut connection, identity) = self.connect()?;
        let rows = connection.run(|client| {
            client.query(
                "SELECT m.name, m.id = $1, m.version,
                        (extract(epoch FROM m.joined_at) * 1000)::bigint,
                        (extract(epoch FROM m.seen_at) * 1000)::bigint,
                        (SELECT count(*) FROM takeback.sessions s WHERE s.machine = m.key)
                 FROM takeback.machines m ORDER BY m.name",
                &[&identity.machine],
            )
        })?;
        let machine = |row: &postgres::Row| MachineStatus {
            name: row.get(0),
            is_this: row.get(1),
            version: row.get(2),
            joined_at: Time(row.get(3)),
            seen_at: Time(row.get(4)),
            sessions: row.get(5),
        };
        Ok(rows.iter().map(machine).collect())
    }
}

const LAST_SYNC: &str = "last_sync.json";

/// Reads the file about the last attempts. A damaged file is treated as missing.
fn read_last_sync(files: &Files) -> Result<LastSync, FleetError> {
    let text = files.read(LAST_SYNC)?.unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Writes down the result of an attempt to ship. If that fails, only this information is lost.
pub(crate) fn write_last_sync(files: &Files, failure: Option<String>, now: Time) {
    let last = match failure {
        None => LastSync { succeeded_at: Some(now), ..LastSync::default() },
        Some(error) => {
            let earlier = read_last_sync(files).unwrap_or_default();
            LastSync { failed_at: Some(now), error: Some(error), ..earlier }
        }
    };
    let json = serde_json::to_vec(&last).expect("it has only text and numbers");
    let _ = files.write(LAST_SYNC, &json, Durability::Cached);
}
