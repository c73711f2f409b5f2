//! The reasons why an operation on a fleet's checkpoints failed.

use std::io;
use std::path::PathBuf;

use takeback_tree::{CheckoutError, ExportError, PinCopyError, StoreError};

use super::access::Provider;

/// The reason why an operation on the checkpoints of a fleet failed. The checkpoints on this machine
/// are intact in any case.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ObjectsError {
    #[error("no object storage is configured")]
    NotConfigured,
    #[error("{0}")]
    BadAddress(String),
    #[error("this machine does not belong to a fleet")]
    NotJoined,
    #[error("no keys for the object storage")]
    NoCredentials { provider: Provider },
    #[error("the key for the object storage cannot be used: {reason}")]
    BadKey { provider: Provider, reason: String },
    #[error("{target} cannot be reached")]
    Unreachable { target: String, source: io::Error },
    #[error("{target} does not exist")]
    NoBucket { target: String },
    #[error("access to {target} is denied")]
    Permission { target: String, reason: String },
    #[error("the object storage refuses the keys for {target}")]
    Credentials { provider: Provider, target: String, reason: String },
    #[error("this machine's clock is {difference}, so the object storage refuses its requests")]
    Clock { difference: String },
    #[error("{target} is in another region")]
    Region { target: String, reason: String },
    #[error("{target} answers with an error")]
    Server { target: String, reason: String },
    #[error("{target} does not speak the protocol that the address names")]
    NotStorage { target: String },
    #[error("{target} cannot be written to")]
    Directory { target: String, source: io::Error },
    #[error("{target} holds the checkpoints of another fleet")]
    OtherFleet { target: String },
    #[error("{target} was written by a newer version of takeback")]
    TooNew { target: String },
    #[error("{target} holds no checkpoints")]
    Empty { target: String },
    /// Another home with the same identity has uploaded checkpoints, or this home is an older copy.
    #[error("the last upload under this machine's identity did not come from this home")]
    Diverged,
    #[error("another process is uploading")]
    Busy,
    #[error("the fleet's key is needed")]
    NoKey,
    #[error("{key} is damaged: {reason}")]
    Damaged { key: String, reason: String },
    #[error("{key} is missing")]
    Missing { key: String },
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Fleet(#[from] crate::FleetError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Copy(#[from] PinCopyError),
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
}

impl ObjectsError {
    /// Returns a function that turns a system error into an error about a file on this machine.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> ObjectsError {
        let path = path.to_owned();
        move |source| ObjectsError::File { path, source }
    }
}
