//! A workspace: a directory whose states the store keeps, and the lock that all work on it takes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::durable::{self, Durability, FileLock};
use takeback_base::{hex, paths};

use crate::beneath::Root;
use crate::capture::{
    self, Capture, CaptureContext, CaptureError, CaptureOptions, Unsaved, WorkspaceState,
};
use crate::fault;
use crate::object::{Commit, ObjectKind};
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::{AnyPath, RelPath};
use crate::pins::{Pin, PinName, WorkspaceId};
use crate::store::{ObjectError, Store, StoreError};

/// Where workspaces must not be. The library looks none of this up itself.
#[derive(Clone, Debug, Default)]
pub struct ForbiddenRoots {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Roots of temporary files, such as `/tmp`.
    pub temporary: Vec<PathBuf>,
    /// Takeback's own directory.
    pub own: Option<PathBuf>,
}

/// A directory whose states the store keeps.
pub struct Workspace<'s> {
    store: &'s Store,
    id: WorkspaceId,
    path: PathBuf,
    root: Root,
    own: Option<RelPath>,
    /// The one name in the root that counts, if it is not all of them.
    only: Option<Vec<u8>>,
}

/// A directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It cannot be opened as a directory.
    #[error("cannot open {} as a workspace", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is one of the places that are never captured.
    #[error("{} is {what}, not a workspace", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// `workspace.json`: what is known of a workspace whether it still exists or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkspaceInfo {
    /// The canonical path.
    pub path: AnyPath,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// When it was last captured or restored, in milliseconds since 1970.
    pub last_seen: i64,
    /// Whether it is a single file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_file: bool,
}

impl Store {
    /// The workspace in this directory. `WorkspaceError::Refused` if it must not be one.
    pub fn workspace(
        &self,
        path: &Path,
        places: &ForbiddenRoots,
    ) -> Result<Workspace<'_>, WorkspaceError> {
        let failed = |source| WorkspaceError::Open { path: path.to_owned(), source };
        let path = fs::canonicalize(path).map_err(failed)?;
        if let Some(what) = places.refusal(&path) {
            return Err(WorkspaceError::Refused { path, what });
        }
        let root = Root::open(&path).map_err(failed)?;
        let own = places.own.as_deref().and_then(|own| fs::canonicalize(own).ok());
        let own = own.and_then(|own| RelPath::from_path(own.strip_prefix(&path).ok()?).ok());
        Ok(Workspace { store: self, id: self.workspace_id(&path), path, root, own, only: None })
    }

    /// A single file as a workspace: for one that is in no workspace, such as `~/.zshrc`. It need
    /// not exist. What is beside it is not looked at, so it may be anywhere but in takeback's own
    /// directory.
    pub fn single_file(
        &self,
        file: &Path,
        places: &ForbiddenRoots,
    ) -> Result<Workspace<'_>, WorkspaceError> {
        let failed = |source| WorkspaceError::Open { path: file.to_owned(), source };
        // Through a link, because whoever writes to it writes there too.
        let path = match (fs::canonicalize(file), file.parent(), file.file_name()) {
            (Ok(path), ..) => path,
            (Err(_), Some(parent), Some(name)) => {
                fs::canonicalize(parent).map_err(failed)?.join(name)
            }
            (Err(error), ..) => return Err(failed(error)),
        };
        let own = places.own.as_deref().and_then(|own| fs::canonicalize(own).ok());
        if own.is_some_and(|own| path.starts_with(own)) {
            return Err(WorkspaceError::Refused { path, what: "in takeback's own directory" });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(WorkspaceError::Refused { path, what: "the root of the file system" });
        };
        let root = Root::open(parent).map_err(failed)?;
        let only = Some(name.as_bytes().to_vec());
        let id = self.workspace_id(&path);
        Ok(Workspace { store: self, id, path: parent.to_owned(), root, own: None, only })
    }

    /// The id of the workspace at a canonical path.
    pub fn workspace_id(&self, path: &Path) -> WorkspaceId {
        let mut hasher = Sha256::new();
        hasher.update(self.uuid());
        hasher.update(paths::as_bytes(path));
        let digest: [u8; 32] = hasher.finalize().into();
        WorkspaceId::new(hex::encode(&digest[..8]))
    }

    /// What is known of a workspace; `None` if it was never locked.
    pub fn workspace_info(&self, id: &WorkspaceId) -> Result<Option<WorkspaceInfo>, StoreError> {
        let path = self.workspace_directory(id).join("workspace.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| StoreError::Damaged { path, reason: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    pub(crate) fn workspace_directory(&self, id: &WorkspaceId) -> PathBuf {
        self.directory().join("workspaces").join(id.to_string())
    }
}

impl ForbiddenRoots {
    /// What this directory is, if it is something that is never captured as a whole. The path is
    /// canonical.
    pub fn refusal(&self, path: &Path) -> Option<&'static str> {
        refusal(path, self)
    }
}

fn refusal(path: &Path, places: &ForbiddenRoots) -> Option<&'static str> {
    let is = |place: &PathBuf| fs::canonicalize(place).is_ok_and(|place| place == path);
    let is_above =
        |place: &PathBuf| fs::canonicalize(place).is_ok_and(|place| place.starts_with(path));
    let own = places.own.iter().filter_map(|own| fs::canonicalize(own).ok()).next();
    if path.parent().is_none() {
        Some("the root of the file system")
    } else if places.home.iter().any(is) {
        Some("the home directory")
    } else if places.home.iter().any(is_above) {
        Some("above the home directory")
    } else if places.temporary.iter().any(is) {
        Some("a directory for temporary files")
    } else if own.is_some_and(|own| path.starts_with(own)) {
        Some("takeback's own directory")
    } else {
        None
    }
}

impl<'s> Workspace<'s> {
    /// Its id in the store.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// Its canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is about: the directory, or the single file.
    pub fn subject(&self) -> PathBuf {
        match &self.only {
            Some(name) => self.path.join(paths::from_bytes(name)),
            None => self.path.clone(),
        }
    }

    /// The store that keeps its states.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Where the store keeps what belongs to this workspace alone.
    pub(crate) fn directory(&self) -> PathBuf {
        self.store.workspace_directory(&self.id)
    }

    /// A directory for what callers keep about this workspace. It is not there before they make
    /// it, and it goes with what else the store notes of the workspace: nothing that cannot be
    /// done without belongs in it.
    pub fn notes(&self) -> PathBuf {
        self.directory().join("notes")
    }

    /// Waits until nobody else works on this workspace. If a restore was cut off, it is finished
    /// or reverted first: [`Lock::recovery`] tells.
    pub fn lock(&self) -> Result<Lock<'_>, StoreError> {
        let workspace_lock = self.store.lock_directory(&self.id)?;
        let store_lock = self.store.share()?;
        let mut lock = Lock {
            workspace: self,
            directory: self.directory(),
            writer: None,
            state: None,
            captured: None,
            next_seq: None,
            recovery: None,
            _store_lock: store_lock,
            _workspace_lock: workspace_lock,
        };
        lock.recover();
        Ok(lock)
    }
}

/// The right to capture and restore a workspace. Ends with [`Lock::finish`]; a lock that is just
/// dropped leaves pinned states behind and forgets the rest.
pub struct Lock<'w> {
    pub(crate) workspace: &'w Workspace<'w>,
    pub(crate) directory: PathBuf,
    writer: Option<PackWriter>,
    pub(crate) state: Option<WorkspaceState>,
    /// The tree of the latest capture under this lock, if no restore followed.
    pub(crate) captured: Option<Oid>,
    next_seq: Option<u64>,
    pub(crate) recovery: Option<crate::restore::Recovery>,
    // The locks go last: whatever else is dropped is dropped under them.
    _store_lock: FileLock,
    _workspace_lock: FileLock,
}

/// A pin was not made.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// A pin's message is text without NUL.
    #[error("the message of a pin must not contain NUL")]
    Message,
    /// An attachment is larger than an object may be.
    #[error("an attachment of {0} bytes is too large")]
    TooLarge(u64),
    /// It cannot be written.
    #[error("cannot write to the store {}", path.display())]
    Write {
        /// The store.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'w> Lock<'w> {
    /// The workspace that is locked.
    pub fn workspace(&self) -> &'w Workspace<'w> {
        self.workspace
    }

    pub(crate) fn store(&self) -> &'w Store {
        self.workspace.store
    }

    /// Captures the workspace as it is.
    pub fn capture(&mut self, options: &CaptureOptions<'_>) -> Result<Capture, CaptureError> {
        self.captured = None;
        let known = self.state.take().or_else(|| WorkspaceState::load(&self.directory));
        let writer = self.writer.get_or_insert_with(|| self.workspace.store.writer());
        let context = CaptureContext {
            store: self.workspace.store,
            root: &self.workspace.root,
            path: &self.workspace.path,
            own: self.workspace.own.clone(),
            only: self.workspace.only.as_deref(),
            writer,
        };
        let outcome = capture::capture_workspace(&context, known, options);
        if let Err(CaptureError::Write { .. }) = outcome {
            self.lose();
        }
        let (capture, state) = outcome?;
        (self.state, self.captured) = (Some(state), Some(capture.tree));
        Ok(capture)
    }

    /// Captures the workspace such that its trees can be read at once.
    pub fn capture_readable(
        &mut self,
        options: &CaptureOptions<'_>,
    ) -> Result<Capture, CaptureError> {
        let capture = self.capture(options)?;
        let path = self.store().directory().to_owned();
        self.seal().map_err(|source| CaptureError::Write { path, source })?;
        Ok(capture)
    }

    /// The stat of a path when the last capture read it.
    pub(crate) fn captured_stat(&self, path: &RelPath) -> Option<crate::beneath::Stat> {
        self.state.as_ref()?.cache().find_entry(path.as_bytes()).map(|entry| entry.stat)
    }

    /// The number that the next pin will have.
    pub fn next_seq(&mut self) -> Result<u64, StoreError> {
        if let Some(seq) = self.next_seq {
            return Ok(seq);
        }
        let noted = read_seq(&self.directory.join("seq"));
        let is_pin = |seq| {
            let name = PinName { workspace: self.workspace.id.clone(), seq };
            self.store().directory().join(name.to_string()).exists()
        };
        // Mostly the note is right, and then there is no need to look at all pins.
        if is_pin(noted - 1) && !is_pin(noted) {
            return Ok(*self.next_seq.insert(noted));
        }
        let pins = self.store().pin_names(&self.workspace.id)?;
        let after_pins = pins.last().map_or(1, |last| last.seq + 1);
        Ok(*self.next_seq.insert(after_pins.max(noted)))
    }

    /// Keeps a captured tree: writes what is new of it durably, then creates its ref.
    pub fn pin(&mut self, tree: Oid, time: SystemTime, message: &str) -> Result<Pin, PinError> {
        self.pin_with_attachment(tree, time, message, None)
    }

    /// The same with an attachment, as [`Lock::attach`] or an earlier pin named it.
    pub fn pin_with_attachment(
        &mut self,
        tree: Oid,
        time: SystemTime,
        message: &str,
        attachment: Option<Oid>,
    ) -> Result<Pin, PinError> {
        if message.contains('\0') {
            return Err(PinError::Message);
        }
        let seq = self.next_seq()?;
        let time = milliseconds(time).div_euclid(1000);
        // The caller may have the id of a tree or an attachment from anywhere. Only what was just
        // captured under this lock is certain to be written with the pin.
        let unsure_tree = (self.captured != Some(tree)).then_some(tree);
        let needed = unsure_tree.into_iter().chain(attachment);
        for oid in needed {
            if !self.has(&oid) {
                // Another process may have written it since the packs were looked at.
                self.store().forget_packs();
            }
            if !self.has(&oid) {
                return Err(StoreError::Object(ObjectError::Missing(oid)).into());
            }
        }
        let commit = Commit { tree, parent: attachment, time, message: message.to_owned() };
        let content = commit.encode();
        let id = Oid::of(ObjectKind::Commit, &content);
        self.add(ObjectKind::Commit, id, &content).map_err(self.unwritten())?;
        let reference = self.store().write_ref(id).map_err(self.unwritten())?;
        self.seal_with(&[&reference]).map_err(self.unwritten())?;
        let name = PinName { workspace: self.workspace.id.clone(), seq };
        self.store().place_ref(&name, reference).map_err(self.unwritten())?;
        self.next_seq = Some(seq + 1);
        // Only deleting the newest pin makes this matter, so it need not survive a power cut.
        let _ = write_seq(&self.directory.join("seq"), seq + 1);
        Ok(Pin { name, id, tree, attachment, time, message: commit.message })
    }

    /// Adds an object to what is pending, unless the store has it.
    pub(crate) fn put(&mut self, kind: ObjectKind, content: &[u8]) -> io::Result<Oid> {
        let oid = Oid::of(kind, content);
        if !self.has(&oid) {
            self.add(kind, oid, content)?;
        }
        Ok(oid)
    }

    /// Whether an object is pending or in the store.
    fn has(&self, oid: &Oid) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.contains(oid))
            || self.store().packs().contains(oid)
    }

    fn add(&mut self, kind: ObjectKind, oid: Oid, content: &[u8]) -> io::Result<()> {
        let writer = self.writer.get_or_insert_with(|| self.workspace.store.writer());
        let added = writer.add(kind, oid, content);
        if added.is_err() {
            self.lose();
        }
        added
    }

    pub(crate) fn unwritten(&self) -> impl FnOnce(io::Error) -> PinError + use<> {
        let path = self.store().directory().to_owned();
        move |source| PinError::Write { path, source }
    }

    /// Writes the pending pack.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        self.seal_with(&[])
    }

    fn seal_with(&mut self, others: &[&fs::File]) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            let sealed = writer.seal_with(&self.workspace.store.pack_directory(), others);
            self.workspace.store.forget_packs();
            if let Err(error) = sealed {
                self.lose();
                return Err(error);
            }
        }
        Ok(())
    }

    /// What was captured could not be written: nothing that is known in memory may be relied on.
    fn lose(&mut self) {
        (self.writer, self.state, self.captured) = (None, None, None);
    }

    /// Ends the work: writes what is pending, and the stat cache for the next capture.
    pub fn finish(mut self, now: SystemTime) -> Result<(), PinError> {
        self.seal().map_err(self.unwritten())?;
        let now = milliseconds(now);
        fault::point("note").map_err(self.unwritten())?;
        self.note(now)?;
        // The cache is worth having but nothing depends on it.
        let _ = self.save_cache();
        Ok(())
    }

    fn save_cache(&self) -> io::Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        fault::point("stat cache")?;
        let appended = match &state.unsaved {
            Unsaved::Nothing => return Ok(()),
            Unsaved::Entries(entries) => {
                state.cache().append_to_log(&self.directory, entries).unwrap_or(false)
            }
            Unsaved::All => false,
        };
        if appended {
            Ok(())
        } else {
            state.cache().save(&self.directory, &self.store().temporary())
        }
    }

    /// Writes `workspace.json`, if it says something new.
    fn note(&self, now: i64) -> Result<(), StoreError> {
        const HOUR: i64 = 3_600_000;
        let known = self.store().workspace_info(&self.workspace.id).ok().flatten();
        if let Some(info) = &known
            && (info.last_seen..info.last_seen + HOUR).contains(&now)
        {
            return Ok(());
        }
        let info = WorkspaceInfo {
            path: AnyPath(self.workspace.subject()),
            created_at: known.map_or(now, |info| info.created_at),
            last_seen: now,
            single_file: self.workspace.only.is_some(),
        };
        let text = serde_json::to_vec(&info).expect("plain data becomes JSON");
        let path = self.directory.join("workspace.json");
        durable::replace_file_through(&self.store().temporary(), &path, &text, Durability::Cached)
            .map_err(StoreError::io("write", &path))
    }
}

/// The number of the next pin as it was noted; damage only means that numbers follow the pins
/// that there are.
pub(crate) fn read_seq(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(1).clamp(1, 1 << 62)
}

/// Always twenty digits, written over the ones before: cheaper than a new file, and as good.
pub(crate) fn write_seq(path: &Path, seq: u64) -> io::Result<fs::File> {
    use std::os::unix::fs::FileExt;
    let file = durable::open_file(path)?;
    file.write_all_at(format!("{seq:020}\n").as_bytes(), 0)?;
    Ok(file)
}

pub(crate) fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
