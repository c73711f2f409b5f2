//! The facts about the workspaces in the bucket: the machine and the path of each workspace.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_tree::{AnyPath, Store, WorkspaceId};

use super::bucket::Content;
use super::error::ObjectsError;
use super::layout::{RemoteRef, workspaces_prefix};
use super::packs::Purpose;
use super::{Objects, stream};
use crate::Encrypt;

/// The content of an object below `workspaces/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkspaceFacts {
    pub(super) version: u32,
    /// The name of the machine.
    pub(super) machine: String,
    /// The id of the machine's store.
    pub(super) store: String,
    pub(super) path: AnyPath,
    #[serde(default)]
    pub(super) single_file: bool,
}

/// The first byte of encrypted facts.
pub(super) const SEALED_FACTS: u8 = b'*';

impl Objects {
    /// Finds the workspaces whose facts are missing from the bucket. Returns the key and content of
    /// each object that has to be created.
    pub(super) fn find_missing_facts(
        &self,
        store: &Store,
        local: &[RemoteRef],
    ) -> Result<Vec<(String, Vec<u8>)>, ObjectsError> {
        let prefix = workspaces_prefix(&self.identity.machine);
        let listing = self.bucket.list(&prefix)?;
        let known: HashSet<&str> = listing.objects.iter().map(|it| it.key.as_str()).collect();
        let workspaces: BTreeSet<&WorkspaceId> = local.iter().map(|it| &it.workspace).collect();
        let mut missing = Vec::new();
        for workspace in workspaces {
            let Some(info) = store.workspace_info(workspace)? else { continue };
            let facts = WorkspaceFacts {
                version: 1,
                machine: self.name.clone(),
                store: store.uuid().to_owned(),
                path: info.path,
                single_file: info.single_file,
            };
            let json = serde_json::to_vec(&facts).expect("it has only text");
            // The digest is computed from the facts before they are encrypted, so that equal facts
            // have the same name. The digest also covers the fleet's key, so that the path cannot
            // be guessed from the name.
            let mut hasher = Sha256::new();
            if let Some(key) = &self.key {
                hasher.update(key.0);
            }
            let digest = hex::encode(&hasher.chain_update(&json).finalize());
            let key = format!("{prefix}{workspace}.{digest}.json");
            if !known.contains(key.as_str()) {
                missing.push((key, self.encode_facts(json)?));
            }
        }
        Ok(missing)
    }

    fn encode_facts(&self, json: Vec<u8>) -> Result<Vec<u8>, ObjectsError> {
        if self.encrypt != Encrypt::All {
            return Ok(json);
        }
        let mut sealed = vec![SEALED_FACTS];
        let purpose = Purpose::Workspace.to_bytes(&self.identity.machine);
        stream::encrypt(self.key()?, &purpose, &mut json.as_slice(), &mut sealed)
            .expect("writing to memory succeeds");
        Ok(sealed)
    }

    pub(super) fn send_facts(&self, facts: &[(String, Vec<u8>)]) -> Result<(), ObjectsError> {
        facts.iter().try_for_each(|(key, content)| {
            self.bucket.create(key, &Content::Bytes(content)).map(drop)
        })
    }
}
