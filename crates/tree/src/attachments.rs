//! Attachments: bytes that belong to a pin and live as long as it.
//!
//! One is a commit, the only parent of the pin's, with a tree of a single file: so git and gc see
//! what a pin needs, and pins with the same bytes share everything.

use crate::object::{self, Commit, Kind, Mode, TreeEntry};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::store::{ObjectError, Store};
use crate::workspace::{Lock, PinError};

/// The name of the file.
const NAME: &[u8] = b"attachment";

impl Lock<'_> {
    /// Prepares bytes for being attached to a pin by [`Lock::pin_with`]. The same bytes always
    /// have the same id, and are written only if the store does not have them.
    pub fn attach(&mut self, content: &[u8]) -> Result<Oid, PinError> {
        if content.len() as u64 > MAX_OBJECT {
            return Err(PinError::TooLarge(content.len() as u64));
        }
        let unwritten = self.unwritten();
        let mut put = || {
            let blob = self.put(Kind::Blob, content)?;
            let mut tree = Vec::new();
            let entry = TreeEntry { mode: Mode::file(0o600), name: NAME, oid: blob };
            object::push_entry(&mut tree, entry);
            let tree = self.put(Kind::Tree, &tree)?;
            self.put(Kind::Commit, &Commit::attachment(tree).encode())
        };
        put().map_err(unwritten)
    }
}

impl Store {
    /// The bytes of an attachment.
    pub fn attachment(&self, id: &Oid) -> Result<Vec<u8>, ObjectError> {
        let tree = self.commit(id)?.tree;
        let entry = self.tree(&tree)?.into_iter().find(|entry| entry.name == NAME);
        let blob = entry.ok_or(ObjectError::WrongKind(*id, "attachment"))?.oid;
        self.blob(&blob)
    }
}
