//! A fleet: machines that share one ledger in PostgreSQL.
//!
//! Each machine records its work only in its own SQLite ledger. [`Fleet::sync`] ships all changes,
//! in batches; if the database cannot be reached, the changes wait in the ledger's outbox. No other
//! crate knows about PostgreSQL. The crate `postgres` has a synchronous interface and runs tokio
//! internally, so this crate needs no runtime of its own.

mod apply;
mod connection;
mod error;
mod fleet;
mod identity;
mod join;
mod journal;
mod objects;
mod schema;
mod seal;
mod search;
mod sessions;
mod settings;
mod shipper;
mod status;
mod sync;
mod tls;

pub use error::FleetError;
pub use fleet::{Fleet, FleetOptions};
pub use identity::KEY_PREFIX;
pub use join::{JoinOptions, Joined};
pub use journal::FleetJournal;
pub use objects::{
    Affected, AzureAccess, CollectOptions, Collected, GoogleAccess, LastUpload, Objects,
    ObjectsError, ObjectsOptions, Placed, Provider, Pull, PullPin, RemoteWorkspace, S3Access,
    StorageAccess, UploadProgress, UploadReport, VerifiedObjects,
};
pub use search::{FleetHit, FleetResults};
pub use sessions::FleetSession;
pub use settings::{Encrypt, FleetSettings, LeaseSeconds};
pub use shipper::Shipper;
pub use status::{FleetStatus, LastSync, MachineStatus, ServerStatus};
pub use sync::SyncReport;
