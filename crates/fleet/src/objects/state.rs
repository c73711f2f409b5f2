//! The state of this machine's uploads, in takeback's home.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use takeback_base::durable::Durability;
use takeback_ledger::Time;

use super::error::ObjectsError;
use crate::identity::Files;

const STATE: &str = "objects.json";
const LAST_UPLOAD: &str = "last_upload.json";

/// The state that remains from earlier uploads. If it is lost, the user has to confirm that the
/// uploads in the bucket are this home's own. Nothing else is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UploadState {
    /// The id of the machine under which the uploads were made.
    pub(crate) machine: String,
    /// The id of the bucket that the uploads went to.
    pub(crate) bucket: String,
    /// The address of the bucket. It may change.
    pub(crate) target: String,
    /// The receipts of the latest uploads, by number. The receipt is written here before the upload
    /// begins.
    pub(crate) claims: BTreeMap<u64, String>,
    /// True if the newest upload in the bucket is accepted as this home's own, regardless of its
    /// receipt.
    pub(crate) accepts_any: bool,
    /// The sizes of the packs that were uploaded, by digest.
    pub(crate) packs: BTreeMap<String, u64>,
    /// The size of all packs when all of them were last rewritten.
    pub(crate) full_bytes: u64,
    /// For each workspace, the highest number of a checkpoint that was uploaded.
    pub(crate) newest: BTreeMap<String, u64>,
    /// The packs in the bucket that turned out to be damaged.
    pub(crate) broken: BTreeSet<String>,
}

impl UploadState {
    /// Reads the state of the latest uploads, regardless of their bucket. A damaged file is treated
    /// as missing.
    pub(crate) fn read_latest(files: &Files) -> Result<UploadState, ObjectsError> {
        let text = files.read(STATE)?.unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Reads the state of uploads to this bucket.
    pub(crate) fn read(
        files: &Files,
        machine: &str,
        bucket: &str,
    ) -> Result<UploadState, ObjectsError> {
        let state = UploadState::read_latest(files)?;
        let (machine, bucket) = (machine.to_owned(), bucket.to_owned());
        match state.machine == machine && state.bucket == bucket {
            true => Ok(state),
            false => {
                let accepts_any = state.accepts_any && state.machine.is_empty();
                Ok(UploadState { machine, bucket, accepts_any, ..UploadState::default() })
            }
        }
    }

    pub(crate) fn write(&self, files: &Files) -> Result<(), ObjectsError> {
        let json = serde_json::to_vec(self).expect("it has only text and numbers");
        Ok(files.write(STATE, &json, Durability::Synced)?)
    }

    /// Forgets all uploads. The newest upload in the bucket will be accepted as this home's own.
    pub(crate) fn reset(files: &Files) -> Result<(), ObjectsError> {
        UploadState { accepts_any: true, ..UploadState::default() }.write(files)
    }
}

/// The outcome of the latest attempts to upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LastUpload {
    /// The time at which everything was last uploaded.
    pub succeeded_at: Option<Time>,
    /// The time of the last attempt, if it failed.
    pub failed_at: Option<Time>,
    /// The reason why the last attempt failed.
    pub error: Option<String>,
    /// The number of this machine's checkpoints in the bucket after the last success.
    pub checkpoints: u64,
    /// The size of this machine's objects in the bucket after the last success.
    pub bytes: u64,
    /// The number of checkpoints that could not be uploaded, because they are damaged here.
    pub damaged: u64,
    /// The progress of an upload that is running or was cut off: the bytes that have been uploaded,
    /// and the bytes of all packs that it uploads.
    pub progress: Option<(u64, u64)>,
}

impl LastUpload {
    /// Reads the file. A damaged file is treated as missing.
    pub(crate) fn read(files: &Files) -> LastUpload {
        let text = files.read(LAST_UPLOAD).ok().flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes the file. If this fails, only this information is lost.
    pub(crate) fn write(&self, files: &Files) {
        let json = serde_json::to_vec(self).expect("it has only text and numbers");
        let _ = files.write(LAST_UPLOAD, &json, Durability::Cached);
    }
}
