//! Attachments: bytes that belong to a pin and live as long as it does.
//!
//! An attachment is a commit whose tree has a single file. This commit is the only parent of the
//! pin's commit, so that git and gc can tell that the pin needs it. Pins with equal attachments
//! share one commit.

use crate::lock::{Lock, PinError};
use crate::object::{self, Commit, Mode, ObjectKind, TreeEntry};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::store::{ObjectError, Store};

/// The name of the single file in an attachment's tree.
const NAME: &[u8] = b"attachment";

impl Lock<'_> {
    /// Adds bytes to the store, so that [`Lock::pin_with_attachment`] can attach them to a pin.
    /// Equal bytes have the same id and are written only once.
    ///
    /// ```
    /// use takeback_tree::{CaptureOptions, CaptureRules, Store};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let project = scratch.path().join("shop");
    /// # std::fs::create_dir(&project)?;
    /// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
    /// # let store = Store::open(scratch.path().join("store"))?;
    /// # let workspace = store.workspace(&project, &Default::default())?;
    /// # let mut lock = workspace.lock()?;
    /// # let now = std::time::SystemTime::now();
    /// # let rules = CaptureRules::default();
    /// # let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    /// let tree = lock.capture(&options)?.tree;
    /// let id = lock.add_attachment(b"the git index")?;
    /// lock.pin_with_attachment(tree, now, "", Some(id))?;
    /// assert_eq!(store.attachment(&id)?, b"the git index");
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_attachment(&mut self, content: &[u8]) -> Result<Oid, PinError> {
        if content.len() as u64 > MAX_OBJECT {
            return Err(PinError::TooLarge(content.len() as u64));
        }
        let failed = self.write_error();
        let mut put = || {
            let blob = self.put_object(ObjectKind::Blob, content)?;
            let mut tree = Vec::new();
            let entry = TreeEntry { mode: Mode::file(0o600), name: NAME, oid: blob };
            object::push_entry(&mut tree, entry);
            let tree = self.put_object(ObjectKind::Tree, &tree)?;
            self.put_object(ObjectKind::Commit, &Commit::new_attachment(tree).encode())
        };
        put().map_err(failed)
    }

    /// Returns true if the store still has all parts of an attachment. Does not read the attached
    /// bytes.
    pub fn has_attachment(&self, id: &Oid) -> bool {
        self.store().find_attached(id).is_ok_and(|blob| self.has_object(&blob))
    }
}

impl Store {
    /// Reads the bytes of an attachment.
    pub fn attachment(&self, id: &Oid) -> Result<Vec<u8>, ObjectError> {
        self.blob(&self.find_attached(id)?)
    }

    /// Finds the blob that holds the bytes of an attachment.
    fn find_attached(&self, id: &Oid) -> Result<Oid, ObjectError> {
        let tree = self.commit(id)?.tree;
        let entry = self.tree(&tree)?.into_iter().find(|entry| entry.name == NAME);
        Ok(entry.ok_or(ObjectError::WrongKind(*id, "attachment"))?.oid)
    }
}
