//! Pins: refs that keep trees alive, one per checkpoint. Each pin refers to a commit. If this
//! commit has a parent, its only parent is the pin's attachment.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use takeback_base::durable::{self, Temporary};
use takeback_base::hex;

use crate::fault;
use crate::object::Commit;
use crate::oid::{InvalidOid, Oid};
use crate::pack::read::{KeptObjects, RecentObjects};
use crate::packs::Packs;
use crate::store::{Store, StoreError};

/// The id of a workspace: 16 hexadecimal digits, derived from the store's id and the canonical
/// path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    pub(crate) fn new(digits: String) -> WorkspaceId {
        WorkspaceId(digits)
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WorkspaceId {
    type Err = ();

    fn from_str(text: &str) -> Result<WorkspaceId, ()> {
        let is_id = text.len() == 16 && hex::is_hex(text);
        if is_id { Ok(WorkspaceId(text.to_owned())) } else { Err(()) }
    }
}

/// The name of a pin: `refs/takeback/<workspace>/<seq>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PinName {
    /// The workspace that the pin belongs to.
    pub workspace: WorkspaceId,
    /// The number of the pin. Numbers are assigned in order and never reused.
    pub seq: u64,
}

impl fmt::Display for PinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refs/takeback/{}/{}", self.workspace, self.seq)
    }
}

impl FromStr for PinName {
    type Err = ();

    fn from_str(text: &str) -> Result<PinName, ()> {
        let rest = text.strip_prefix("refs/takeback/").ok_or(())?;
        let (workspace, seq) = rest.split_once('/').ok_or(())?;
        // The strict parser prevents the damaged ref `007` from being mistaken for pin 7.
        let PinSeq(seq) = seq.parse()?;
        Ok(PinName { workspace: workspace.parse()?, seq })
    }
}

/// The exclusive upper limit on pin numbers.
pub(crate) const SEQ_END: u64 = 1 << 62;

/// The number of a pin, parsed from the name of its ref. Leading zeros, signs, and numbers of
/// [`SEQ_END`] or more are refused.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PinSeq(u64);

impl FromStr for PinSeq {
    type Err = ();

    fn from_str(text: &str) -> Result<PinSeq, ()> {
        let seq: u64 = text.parse().map_err(drop)?;
        if seq < SEQ_END && seq.to_string() == text { Ok(PinSeq(seq)) } else { Err(()) }
    }
}

/// A tree that is kept alive, with a message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Pin {
    pub name: PinName,
    /// The id of the pin's commit.
    pub id: Oid,
    /// The state that the pin keeps.
    pub tree: Oid,
    /// The id of the attachment, for [`Store::attachment`]. The attachment lives as long as the
    /// pin.
    pub attachment: Option<Oid>,
    /// The time at which the pin was created, in seconds since 1970.
    pub time: i64,
    /// The caller's text, which this crate does not interpret.
    pub message: String,
}

impl Pin {
    fn new(name: &PinName, id: Oid, commit: Commit) -> Pin {
        let Commit { tree, parent, time, message } = commit;
        Pin { name: name.clone(), id, tree, attachment: parent, time, message }
    }
}

/// Reads many pins. Most of their commits are stored as deltas from each other, so commits that
/// were read recently are kept in memory.
pub struct PinReader<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    kept: RefCell<KeptObjects>,
}

/// The maximum size of the objects that a [`PinReader`] keeps.
const KEPT_BYTES: usize = 4 << 20;

impl PinReader<'_> {
    /// Reads a pin. Returns `None` if there is no such pin.
    pub fn read(&self, name: &PinName) -> Result<Option<Pin>, StoreError> {
        let Some(id) = self.store.pin_id(name)? else { return Ok(None) };
        let commit = match self.packs.read_commit(&id, &self.kept) {
            Some(commit) => commit,
            // Another pack may have an intact copy, or another process may have added a pack.
            None => self.store.commit(&id)?,
        };
        Ok(Some(Pin::new(name, id, commit)))
    }
}

impl Store {
    pub(crate) fn refs_directory(&self) -> PathBuf {
        self.directory().join("refs/takeback")
    }

    /// Returns the time at which the pins of a workspace last changed, or `None` if the workspace
    /// has no pins. Creating, replacing or deleting a pin changes this time.
    pub fn pins_changed_at(&self, workspace: &WorkspaceId) -> Option<SystemTime> {
        let directory = self.refs_directory().join(workspace.to_string());
        fs::metadata(directory).and_then(|metadata| metadata.modified()).ok()
    }

    /// Lists all workspaces that have pins.
    pub fn pinned_workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let mut workspaces = self.parse_names_in(&self.refs_directory())?;
        workspaces.sort();
        Ok(workspaces)
    }

    /// Lists the names of a workspace's pins, oldest first.
    pub fn pin_names(&self, workspace: &WorkspaceId) -> Result<Vec<PinName>, StoreError> {
        let mut seqs: Vec<PinSeq> =
            self.parse_names_in(&self.refs_directory().join(&workspace.0))?;
        seqs.sort_unstable();
        let name = |PinSeq(seq)| PinName { workspace: workspace.clone(), seq };
        Ok(seqs.into_iter().map(name).collect())
    }

    /// Returns true if a workspace has pins. This is cheaper than listing them.
    pub fn has_pins(&self, workspace: &WorkspaceId) -> Result<bool, StoreError> {
        let directory = self.refs_directory().join(&workspace.0);
        let entries = durable::if_exists(fs::read_dir(&directory));
        let entries = entries.map_err(StoreError::io("list", &directory))?;
        let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        Ok(names.any(|name| name.to_str().is_some_and(|name| name.parse::<PinSeq>().is_ok())))
    }

    /// Parses the names in a directory and skips those that cannot be parsed. A missing directory
    /// is treated as empty.
    pub(crate) fn parse_names_in<T: FromStr>(
        &self,
        directory: &PathBuf,
    ) -> Result<Vec<T>, StoreError> {
        let failed = || StoreError::io("list", directory);
        let entries = durable::if_exists(fs::read_dir(directory)).map_err(failed())?;
        let mut names = Vec::new();
        for entry in entries.into_iter().flatten() {
            let name = entry.map_err(failed())?.file_name();
            names.extend(name.to_str().and_then(|name| name.parse::<T>().ok()));
        }
        Ok(names)
    }

    /// Reads the id of a pin's commit. Returns `None` if there is no such pin.
    pub fn pin_id(&self, name: &PinName) -> Result<Option<Oid>, StoreError> {
        let path = self.directory().join(name.to_string());
        let text = durable::if_exists(fs::read_to_string(&path));
        let Some(text) = text.map_err(StoreError::io("read", &path))? else { return Ok(None) };
        let damaged = |error: InvalidOid| StoreError::Damaged { path, reason: error.to_string() };
        text.trim_end().parse().map(Some).map_err(damaged)
    }

    /// Reads a pin. Returns `None` if there is no such pin.
    pub fn pin(&self, name: &PinName) -> Result<Option<Pin>, StoreError> {
        let Some(id) = self.pin_id(name)? else { return Ok(None) };
        Ok(Some(Pin::new(name, id, self.commit(&id)?)))
    }

    /// Returns a reader that reads many pins faster than separate calls of [`Store::pin`] would.
    pub fn pin_reader(&self) -> PinReader<'_> {
        let kept = RefCell::new(RecentObjects::new(KEPT_BYTES));
        PinReader { store: self, packs: self.packs(), kept }
    }

    /// Deletes a pin. The next [gc](Store::gc) frees everything that only this pin kept alive.
    pub fn unpin(&self, name: &PinName) -> Result<(), StoreError> {
        let path = self.directory().join(name.to_string());
        durable::ignore_missing(fs::remove_file(&path)).map_err(StoreError::io("remove", &path))
    }

    /// Writes the content of a ref to a temporary file. The caller must make it durable and hold
    /// the store's lock.
    pub(crate) fn write_ref(&self, id: Oid) -> io::Result<Temporary> {
        let mut file = Temporary::create_in(&self.temporary())?;
        file.write_all(format!("{id}\n").as_bytes())?;
        Ok(file)
    }

    /// Gives a ref its name, durably. Fails if the name already exists. The caller must have made
    /// the commit durable.
    pub(crate) fn place_ref(&self, name: &PinName, written: Temporary) -> io::Result<()> {
        let directory = self.link_ref(name, written)?;
        durable::sync_directory(&directory)
    }

    /// Makes an existing ref refer to another commit, durably. The caller must have made the commit
    /// durable, and must hold the locks of the workspace and the store.
    pub(crate) fn replace_ref(&self, name: &PinName, id: Oid) -> io::Result<()> {
        let path = self.directory().join(name.to_string());
        fault::point("replace ref")?;
        let text = format!("{id}\n");
        durable::replace_file_through(
            &self.temporary(),
            &path,
            text.as_bytes(),
            durable::Durability::Synced,
        )
    }

    /// Gives a ref its name, but not durably: the caller must sync the returned directory.
    pub(crate) fn link_ref(&self, name: &PinName, written: Temporary) -> io::Result<PathBuf> {
        let path = self.directory().join(name.to_string());
        let directory = path.parent().expect("a ref is in a directory");
        if !directory.exists() {
            durable::create_directory(directory)?;
            durable::sync_directory(&self.refs_directory())?;
        }
        fault::point("ref link")?;
        written.persist_new(&path)?;
        Ok(directory.to_owned())
    }

    /// Renumbers pins, durably. `moves` holds sorted pairs (old, new), in which no number becomes
    /// smaller. The pin with the highest number is renamed first, so that no other pin is replaced.
    /// The caller must hold the locks of the workspace and the store.
    pub(crate) fn renumber_pins(
        &self,
        workspace: &WorkspaceId,
        moves: &[(u64, u64)],
    ) -> io::Result<()> {
        let directory = self.refs_directory().join(&workspace.0);
        let moved = moves.iter().rev().filter(|(old, new)| old != new);
        for (old, new) in moved {
            fault::point("renumber")?;
            durable::rename_new(
                &directory.join(old.to_string()),
                &directory.join(new.to_string()),
            )?;
        }
        if moves.iter().any(|(old, new)| old != new) {
            durable::sync_directory(&directory)?;
        }
        Ok(())
    }
}
