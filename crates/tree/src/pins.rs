//! Pins: refs that keep trees alive, one per checkpoint, each a commit whose only parent, if it
//! has one, is its attachment.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use takeback_base::durable::{self, Temporary};

use crate::fault;
use crate::oid::Oid;
use crate::store::{ObjectError, Store, StoreError};

/// Which workspace: 16 hexadecimal digits made from the store's identity and the canonical path.
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
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits { Ok(WorkspaceId(text.to_owned())) } else { Err(()) }
    }
}

/// The name of a pin: `refs/takeback/<workspace>/<seq>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PinName {
    /// Whose tree it is.
    pub workspace: WorkspaceId,
    /// Given out in order, never twice.
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
        Ok(PinName { workspace: workspace.parse()?, seq: seq.parse().map_err(drop)? })
    }
}

/// No number of a pin is as large.
pub(crate) const SEQ_END: u64 = 1 << 62;

/// A pin's number as it stands in the name of its ref, and in no other form. A number that no
/// workspace ever gets to is none either: there would be no next one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Seq(u64);

impl FromStr for Seq {
    type Err = ();

    fn from_str(text: &str) -> Result<Seq, ()> {
        let seq: u64 = text.parse().map_err(drop)?;
        if seq < SEQ_END && seq.to_string() == text { Ok(Seq(seq)) } else { Err(()) }
    }
}

/// A tree that is kept, with what its maker said about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Its name.
    pub name: PinName,
    /// Its id: that of the commit.
    pub id: Oid,
    /// The state it keeps.
    pub tree: Oid,
    /// What lives as long as it does: for [`Store::attachment`].
    pub attachment: Option<Oid>,
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// Whatever its maker wrote: not looked into here.
    pub message: String,
}

impl Store {
    pub(crate) fn refs(&self) -> PathBuf {
        self.directory().join("refs/takeback")
    }

    /// All workspaces that have pins.
    pub fn pinned_workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let mut workspaces = self.names_in(&self.refs())?;
        workspaces.sort();
        Ok(workspaces)
    }

    /// The names of a workspace's pins, oldest first.
    pub fn pin_names(&self, workspace: &WorkspaceId) -> Result<Vec<PinName>, StoreError> {
        let mut seqs: Vec<Seq> = self.names_in(&self.refs().join(&workspace.0))?;
        seqs.sort_unstable();
        Ok(seqs.into_iter().map(|Seq(seq)| PinName { workspace: workspace.clone(), seq }).collect())
    }

    /// The entries of a directory whose names have a certain form; none if it is not there.
    pub(crate) fn names_in<T: FromStr>(&self, directory: &PathBuf) -> Result<Vec<T>, StoreError> {
        let failed = || StoreError::io("list", directory);
        match fs::read_dir(directory) {
            Ok(entries) => entries
                .map(|entry| Ok(entry.map_err(failed())?.file_name()))
                .filter_map(|name| match name {
                    Ok(name) => name.to_str()?.parse().ok().map(Ok),
                    Err(error) => Some(Err(error)),
                })
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed()(error)),
        }
    }

    /// The commit that a pin names; `None` if there is no such pin.
    pub fn pin_id(&self, name: &PinName) -> Result<Option<Oid>, StoreError> {
        let path = self.directory().join(name.to_string());
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(StoreError::io("read", &path))?,
        };
        let damaged =
            |error: crate::oid::InvalidOid| StoreError::Damaged { path, reason: error.to_string() };
        text.trim_end().parse().map(Some).map_err(damaged)
    }

    /// Reads a pin; `None` if there is no such pin.
    pub fn pin(&self, name: &PinName) -> Result<Option<Pin>, StoreError> {
        let Some(id) = self.pin_id(name)? else { return Ok(None) };
        let commit = self.commit(&id).map_err(|error: ObjectError| StoreError::Object(error))?;
        Ok(Some(Pin {
            name: name.clone(),
            id,
            tree: commit.tree,
            attachment: commit.parent,
            time: commit.time,
            message: commit.message,
        }))
    }

    /// Deletes a pin; what only it kept goes with the next [gc](Store::gc). Touches no other pin.
    pub fn unpin(&self, name: &PinName) -> Result<(), StoreError> {
        let path = self.directory().join(name.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes what a ref will say; the caller makes it durable, and holds the store's lock.
    pub(crate) fn write_ref(&self, id: Oid) -> io::Result<Temporary> {
        let mut file = Temporary::create_in(&self.temporary())?;
        file.write_all(format!("{id}\n").as_bytes())?;
        Ok(file)
    }

    /// Gives a ref its name, durably. Fails if the name is taken. The caller has made the commit
    /// durable.
    pub(crate) fn place_ref(&self, name: &PinName, written: Temporary) -> io::Result<()> {
        let directory = self.link_ref(name, written)?;
        durable::sync_directory(&directory)
    }

    /// The same for one of many: the caller syncs the directory that is returned.
    pub(crate) fn link_ref(&self, name: &PinName, written: Temporary) -> io::Result<PathBuf> {
        let path = self.directory().join(name.to_string());
        let directory = path.parent().expect("a ref is in a directory");
        if !directory.exists() {
            durable::create_directory(directory)?;
            durable::sync_directory(&self.refs())?;
        }
        fault::point("ref link")?;
        written.persist_new(&path)?;
        Ok(directory.to_owned())
    }

    /// Gives pins other numbers, durably. The pairs (old, new) are in order, no number becomes
    /// smaller, and the new ones are free or become so: the highest goes first, and nothing is
    /// ever replaced. The caller holds the workspace's lock and the store's.
    pub(crate) fn renumber(&self, workspace: &WorkspaceId, moves: &[(u64, u64)]) -> io::Result<()> {
        let directory = self.refs().join(&workspace.0);
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
