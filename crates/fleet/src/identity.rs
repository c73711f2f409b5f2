//! The identity of this machine in its fleet, and the fleet's key, in takeback's home.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::durable::{self, Durability};
use takeback_base::hex;

use crate::FleetError;

/// The prefix of a key in the form that is shown to users.
pub const KEY_PREFIX: &str = "tkbk-";

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The id of the fleet.
    pub(crate) fleet: String,
    /// The id of the machine. It stays the same if the machine's name changes.
    pub(crate) machine: String,
}

impl Identity {
    pub(crate) fn random(fleet: Option<String>) -> Identity {
        let fleet = fleet.unwrap_or_else(|| hex::random_digits(32));
        Identity { fleet, machine: hex::random_digits(32) }
    }
}

/// The key of a fleet.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FleetKey(pub(crate) [u8; 32]);

impl FleetKey {
    pub(crate) fn random() -> FleetKey {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the kernel provides random numbers");
        FleetKey(key)
    }

    /// Parses a key in the form that is shown to users.
    pub(crate) fn parse(text: &str) -> Option<FleetKey> {
        hex::decode_array(text.trim().strip_prefix(KEY_PREFIX)?).map(FleetKey)
    }

    /// Formats the key for users.
    pub(crate) fn to_text(&self) -> String {
        format!("{KEY_PREFIX}{}", hex::encode(&self.0))
    }

    /// Returns a digest by which a machine recognizes the key. The key cannot be derived from the
    /// digest.
    pub(crate) fn check(&self) -> String {
        let digest = Sha256::new().chain_update("takeback fleet key\n").chain_update(self.0);
        hex::encode(&digest.finalize())
    }
}

/// The directory `fleet` in takeback's home.
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(crate) fn in_home(home: &Path) -> Files {
        Files { directory: home.join("fleet") }
    }

    /// Returns the path of a file in the directory. Creates the directory if it is missing.
    pub(crate) fn path_in_new(&self, name: &str) -> Result<PathBuf, FleetError> {
        let path = self.path(name);
        match durable::create_directory(&self.directory) {
            Ok(()) => Ok(path),
            Err(source) => Err(FleetError::File { path: self.directory.clone(), source }),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Reads the identity of this machine, if it belongs to a fleet.
    pub(crate) fn read_identity(&self) -> Result<Option<Identity>, FleetError> {
        match self.read("identity.json")? {
            None => Ok(None),
            Some(text) => serde_json::from_str(&text).map(Some).map_err(|error| FleetError::File {
                path: self.path("identity.json"),
                source: error.into(),
            }),
        }
    }

    /// Reads the fleet's key, if this machine has it.
    pub(crate) fn read_key(&self) -> Result<Option<FleetKey>, FleetError> {
        match self.read("key")? {
            None => Ok(None),
            Some(text) => FleetKey::parse(&text).map(Some).ok_or(FleetError::WrongKey),
        }
    }

    pub(crate) fn write_key(&self, key: &FleetKey) -> Result<(), FleetError> {
        self.write("key", format!("{}\n", key.to_text()).as_bytes(), Durability::Synced)
    }

    pub(crate) fn write_identity(&self, identity: &Identity) -> Result<(), FleetError> {
        let json = serde_json::to_vec(identity).expect("an identity has only text");
        self.write("identity.json", &json, Durability::Synced)
    }

    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, FleetError> {
        let path = self.path(name);
        durable::if_exists(fs::read_to_string(&path))
            .map_err(|source| FleetError::File { path, source })
    }

    pub(crate) fn write(
        &self,
        name: &str,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), FleetError> {
        let path = self.path_in_new(name)?;
        durable::replace_file(&path, content, durability)
            .map_err(|source| FleetError::File { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_being_written_down() {
        let key = FleetKey::random();
        assert!(FleetKey::parse(&format!(" {}\n", key.to_text())) == Some(key.clone()));
        assert!(!key.check().contains(&hex::encode(&key.0)));
        for bad in ["", "tkbk-", "tkbk-00", &hex::encode(&key.0)] {
            assert!(FleetKey::parse(bad).is_none(), "{bad}");
        }
    }
}
