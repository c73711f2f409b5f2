//! The fleet as one machine sees it.

use std::path::Path;

use takeback_base::lock_wait::LockWait;

use crate::connection::Connection;
use crate::identity::{Files, FleetKey, Identity};
use crate::schema::FleetRow;
use crate::seal::Sealer;
use crate::settings::is_name;
use crate::{Encrypt, FleetError, FleetSettings};

/// The values that the caller provides to create a [`Fleet`].
pub struct FleetOptions<'a> {
    /// Takeback's own directory.
    pub home: &'a Path,
    /// The user's settings.
    pub settings: &'a FleetSettings,
    /// The name of this machine if the settings have none.
    pub host_name: String,
    /// The version of the program.
    pub version: &'static str,
    /// The time to wait while another process ships.
    pub lock_wait: LockWait,
}

/// The fleet that this machine belongs to, or may join.
pub struct Fleet {
    pub(crate) files: Files,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) encrypt: Encrypt,
    pub(crate) version: &'static str,
    pub(crate) lease_seconds: u32,
    pub(crate) lock_wait: LockWait,
}

impl Fleet {
    /// Creates a `Fleet` without connecting to the database.
    pub fn new(options: FleetOptions<'_>) -> Result<Fleet, FleetError> {
        let FleetOptions { home, settings, host_name, version, lock_wait } = options;
        let address = settings.postgres.clone().ok_or(FleetError::NotConfigured)?;
        let name = settings.name.clone().unwrap_or(host_name);
        if !is_name(&name) {
            return Err(FleetError::BadName(name));
        }
        let files = Files::in_home(home);
        let (encrypt, lease_seconds) = (settings.encrypt, settings.lease_seconds.get());
        Ok(Fleet { files, address, name, encrypt, version, lease_seconds, lock_wait })
    }

    /// Returns the name of this machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects to the fleet's database. Fails unless this machine belongs to the fleet.
    pub(crate) fn connect(&self) -> Result<(Connection, Identity), FleetError> {
        let (connection, fleet) = Connection::open_fleet(&self.address)?;
        let identity = self.files.read_identity()?;
        let Some(identity) = identity else {
            return Err(FleetError::NotJoined { target: connection.target });
        };
        check_fleet(&identity, &fleet, &connection)?;
        Ok((connection, identity))
    }

    /// Creates the sealer for rows that this machine writes and reads.
    pub(crate) fn sealer(&self) -> Result<Sealer, FleetError> {
        let key = self.files.read_key()?;
        Sealer::new(key.as_ref().map(|FleetKey(key)| key), self.encrypt == Encrypt::All)
    }
}

/// Fails if a machine belongs to a different fleet than the one in the database.
pub(crate) fn check_fleet(
    identity: &Identity,
    fleet: &FleetRow,
    connection: &Connection,
) -> Result<(), FleetError> {
    match identity.fleet == fleet.id {
        true => Ok(()),
        false => Err(FleetError::OtherFleet { target: connection.target.clone() }),
    }
}
