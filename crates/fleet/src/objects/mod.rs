//! The checkpoints of a fleet, in object storage.
//!
//! Each machine uploads its own checkpoints, under its own id, in a detached process: packs that
//! are built for upload (`takeback_tree::Store::export`), their indexes, and one small object for
//! each checkpoint. Everything is created once and never changed, so uploads cannot conflict.
//! `layout` describes the keys.

mod access;
mod address;
mod azure;
mod bucket;
mod choices;
mod claim;
mod collect;
mod directory;
mod error;
mod facts;
mod fetch;
mod google;
mod layout;
mod packs;
mod pull;
mod remote;
mod s3;
mod staging;
mod state;
mod stream;
mod upload;
mod verify;

use std::path::Path;

use takeback_base::durable::FileLock;
use takeback_base::lock_wait::LockWait;

pub use self::access::{AzureAccess, GoogleAccess, Provider, S3Access, StorageAccess};
pub use self::collect::{CollectOptions, Collected};
pub use self::error::ObjectsError;
pub use self::pull::{Placed, Pull, PullPin, RemoteWorkspace};
pub use self::state::LastUpload;
pub use self::upload::{UploadProgress, UploadReport};
pub use self::verify::{Affected, VerifiedObjects};

use self::address::ObjectsAddress;
use self::azure::Azure;
use self::bucket::Bucket;
use self::directory::DirectoryBucket;
use self::google::Google;
use self::remote::{Protocol, RemoteBucket};
use self::s3::S3;
use self::state::UploadState;
use crate::identity::{Files, FleetKey, Identity};
use crate::{Encrypt, FleetSettings};

/// The values that the caller provides to open the checkpoints of a fleet.
pub struct ObjectsOptions<'a> {
    /// Takeback's own directory.
    pub home: &'a Path,
    /// The user's settings.
    pub settings: &'a FleetSettings,
    /// The name of this machine if the settings have none.
    pub host_name: String,
    /// The keys and the servers for addresses of object storage.
    pub access: &'a StorageAccess,
    /// The time to wait while another process uploads.
    pub lock_wait: LockWait,
}

/// The checkpoints of a fleet in object storage.
pub struct Objects {
    bucket: Box<dyn Bucket>,
    files: Files,
    identity: Identity,
    key: Option<FleetKey>,
    encrypt: Encrypt,
    name: String,
    lock_wait: LockWait,
}

/// Checks the form of an address. The error explains the problem.
pub(crate) fn check_address(address: &str) -> Result<(), String> {
    ObjectsAddress::parse(address).map(drop)
}

impl Objects {
    /// Opens the object storage that the settings name, but makes no request yet. The machine must
    /// have joined the fleet.
    pub fn open(options: ObjectsOptions<'_>) -> Result<Objects, ObjectsError> {
        let ObjectsOptions { home, settings, host_name, access, lock_wait } = options;
        let address = settings.objects.as_deref().ok_or(ObjectsError::NotConfigured)?;
        let limit = settings.upload_kb_per_second.map(|limit| limit.saturating_mul(1024).max(1));
        let address = ObjectsAddress::parse(address).map_err(ObjectsError::BadAddress)?;
        let bucket = open_bucket(&address, access, limit)?;
        let files = Files::in_home(home);
        let identity = files.read_identity()?.ok_or(ObjectsError::NotJoined)?;
        let key = files.read_key()?;
        if key.is_none() && settings.encrypt != Encrypt::Off {
            return Err(ObjectsError::NoKey);
        }
        let name = settings.name.clone().unwrap_or(host_name);
        let encrypt = settings.encrypt;
        Ok(Objects { bucket, files, identity, key, encrypt, name, lock_wait })
    }

    /// Returns the name of the bucket for messages to the user.
    pub fn target(&self) -> &str {
        self.bucket.target()
    }

    /// Returns the outcome of the latest attempts to upload. Makes no request.
    pub fn last_upload(&self) -> LastUpload {
        LastUpload::read(&self.files)
    }

    /// Takes the lock that only one process of this machine can hold at a time.
    fn lock(&self) -> Result<FileLock, ObjectsError> {
        let path = self.files.path_in_new("objects.lock")?;
        let lock = FileLock::exclusive_within(&path, &self.lock_wait);
        lock.map_err(ObjectsError::file(&path))?.ok_or(ObjectsError::Busy)
    }

    /// Reads the state of this machine's uploads to the bucket with this id.
    fn read_state(&self, bucket: &str) -> Result<UploadState, ObjectsError> {
        UploadState::read(&self.files, &self.identity.machine, bucket)
    }

    fn key(&self) -> Result<&[u8; 32], ObjectsError> {
        self.key.as_ref().map(|FleetKey(key)| key).ok_or(ObjectsError::NoKey)
    }
}

fn open_bucket(
    address: &ObjectsAddress,
    access: &StorageAccess,
    bytes_per_second: Option<u64>,
) -> Result<Box<dyn Bucket>, ObjectsError> {
    let (provider, bucket, prefix) = match address {
        ObjectsAddress::Directory(path) => {
            return Ok(Box::new(DirectoryBucket::open(path, bytes_per_second)?));
        }
        ObjectsAddress::Server { provider, bucket, prefix } => (*provider, bucket, prefix),
    };
    let (origin, protocol): (_, Box<dyn Protocol>) = match provider {
        Provider::S3 => {
            let (origin, s3) = S3::open(bucket, &access.s3)?;
            (origin, Box::new(s3))
        }
        Provider::Google => {
            let (origin, google) = Google::open(bucket, &access.google)?;
            (origin, Box::new(google))
        }
        Provider::Azure => {
            let (origin, azure) = Azure::open(bucket, &access.azure)?;
            (origin, Box::new(azure))
        }
    };
    let noun = if provider == Provider::Azure { "container" } else { "bucket" };
    let name = format!("the {noun} {bucket}");
    let bucket = RemoteBucket::new(provider, origin, protocol, &name, prefix, bytes_per_second);
    Ok(Box::new(bucket))
}

/// Makes the next upload accept the earlier uploads of this machine as this home's own. This is
/// needed after the home was restored from an older copy.
pub(crate) fn accept_uploads(files: &Files) -> Result<(), crate::FleetError> {
    match UploadState::reset(files) {
        Err(ObjectsError::Fleet(error)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
