//! Claims: numbered objects that show that all uploads under a machine's identity come from one
//! home. A copied home, or one that was restored from an older copy, finds a claim that it does not
//! know.

use serde::{Deserialize, Serialize};
use takeback_base::hex;

use super::Objects;
use super::bucket::Content;
use super::error::ObjectsError;
use super::layout::{FLEET, Inventory, machine_prefix};
use super::state::UploadState;

/// The version of the layout.
const VERSION: u32 = 1;

/// The content of `fleet.json`.
#[derive(Serialize, Deserialize)]
struct FleetObject {
    version: u32,
    fleet: String,
    /// The id of the bucket, which stays the same if its address changes.
    bucket: String,
}

impl Objects {
    /// Makes sure that the bucket belongs to this machine's fleet. If the bucket belongs to no
    /// fleet and `create` is true, it becomes this fleet's bucket. Returns the id of the bucket.
    pub(super) fn check_fleet(&self, create: bool) -> Result<String, ObjectsError> {
        let target = || self.bucket.target().to_owned();
        for _ in 0..2 {
            if let Some(content) = self.bucket.read(FLEET)? {
                // A web server may answer every request with a page.
                if content.trim_ascii_start().starts_with(b"<") {
                    return Err(ObjectsError::NotStorage { target: target() });
                }
                let found: FleetObject = serde_json::from_slice(&content).map_err(|error| {
                    ObjectsError::Damaged { key: FLEET.to_owned(), reason: error.to_string() }
                })?;
                return match (found.version > VERSION, found.fleet == self.identity.fleet) {
                    (true, _) => Err(ObjectsError::TooNew { target: target() }),
                    (_, true) => Ok(found.bucket),
                    (_, false) => Err(ObjectsError::OtherFleet { target: target() }),
                };
            }
            if !create {
                return Err(ObjectsError::Empty { target: target() });
            }
            // Another fleet may create the object at the same moment, so the object is read again.
            let object = FleetObject {
                version: VERSION,
                fleet: self.identity.fleet.clone(),
                bucket: hex::random_digits(32),
            };
            let json = serde_json::to_vec(&object).expect("it has only text and numbers");
            self.bucket.create(FLEET, &Content::Bytes(&json))?;
        }
        Err(ObjectsError::Missing { key: FLEET.to_owned() })
    }

    pub(super) fn read_inventory(&self) -> Result<Inventory, ObjectsError> {
        let machine = &self.identity.machine;
        Ok(Inventory::read(machine, self.bucket.list(&machine_prefix(machine))?))
    }

    /// Fails unless the latest upload under this machine's identity came from this home.
    pub(super) fn check_claim(
        &self,
        inventory: &Inventory,
        state: &UploadState,
    ) -> Result<(), ObjectsError> {
        let Some(latest) = inventory.claims.last() else { return Ok(()) };
        if state.accepts_any {
            return Ok(());
        }
        let receipt = self.bucket.read(&self.claim_key(*latest))?;
        let own = state.claims.get(latest).map(String::as_bytes);
        match receipt.is_some() && receipt.as_deref() == own {
            true => Ok(()),
            false => Err(ObjectsError::Diverged),
        }
    }

    /// Announces an upload: claims the next number. Of two homes with one identity, only one can
    /// claim a number.
    pub(super) fn claim(
        &self,
        inventory: &Inventory,
        state: &mut UploadState,
    ) -> Result<(), ObjectsError> {
        let latest = inventory.claims.last().copied();
        let number = latest.unwrap_or(0) + 1;
        let receipt = hex::random_digits(32);
        state.claims.retain(|known, _| Some(*known) == latest);
        state.claims.insert(number, receipt.clone());
        state.write(&self.files)?;
        let key = self.claim_key(number);
        if !self.bucket.create(&key, &Content::Bytes(receipt.as_bytes()))?
            && self.bucket.read(&key)?.as_deref() != Some(receipt.as_bytes())
        {
            return Err(ObjectsError::Diverged);
        }
        state.claims.retain(|known, _| *known == number);
        state.accepts_any = false;
        state.write(&self.files)?;
        for old in &inventory.claims {
            self.bucket.remove(&self.claim_key(*old))?;
        }
        Ok(())
    }

    fn claim_key(&self, number: u64) -> String {
        format!("{}claims/{number:020}", machine_prefix(&self.identity.machine))
    }
}
