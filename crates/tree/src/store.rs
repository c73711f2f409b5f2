//! The store: one bare git repository that holds the trees of all workspaces.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability, FileLock, Temporary};
use takeback_base::hex;
use takeback_base::lock_wait::LockWait;

use crate::capture::WorkspaceState;
use crate::capture::kept::KeptState;
use crate::fault;
use crate::object::{self, Commit, Malformed, ObjectKind};
use crate::oid::Oid;
use crate::pack::midx;
use crate::pack::write::PackWriter;
use crate::packs::{PackPool, Packs, is_damage};

/// The version of the layout that this code reads and writes.
const VERSION: u32 = 1;

/// The configuration of the store. It makes `git fsck --strict` check the store, but not the
/// content of the captured files.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfilemode = true
\tmaxTreeDepth = 8192
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fsck]
\tbadFilemode = ignore
\thasDotgit = ignore
\tgitmodulesMissing = ignore
\tgitmodulesBlob = ignore
\tgitmodulesLarge = ignore
\tgitmodulesName = ignore
\tgitmodulesParse = ignore
\tgitmodulesPath = ignore
\tgitmodulesSymlink = ignore
\tgitmodulesUpdate = ignore
\tgitmodulesUrl = ignore
\tgitattributesBlob = ignore
\tgitattributesLarge = ignore
\tgitattributesLineLength = ignore
\tgitattributesMissing = ignore
\tgitattributesSymlink = ignore
\tgitignoreSymlink = ignore
\tmailmapSymlink = ignore
";

/// The content of `store.json`, which marks a complete store.
#[derive(Serialize, Deserialize)]
struct StoreIdentity {
    version: u32,
    uuid: String,
}

/// The shared object store. It is cheap to open: packs are opened when an object is first read.
pub struct Store {
    directory: PathBuf,
    uuid: String,
    packs: Mutex<Option<Arc<Packs>>>,
    pool: Arc<PackPool>,
    /// The state of the workspace that was captured last.
    kept_state: Mutex<Option<KeptState>>,
    /// The time to wait for other processes. If it is `None`, this process waits for a locked
    /// workspace without a time limit, but a gc, merge or repair fails at once if another gc, merge
    /// or repair is running.
    pub(crate) lock_wait: Option<LockWait>,
    /// The number of files that have been read or written so far.
    pub(crate) handled: Arc<AtomicU64>,
}

/// The reason why a store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum StoreError {
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A newer version of takeback wrote this store.
    #[error(
        "the store {} has format {found}, but this program knows only {VERSION}: update takeback",
        path.display()
    )]
    TooNew { path: PathBuf, found: u32 },
    /// A file in the store is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// An object is missing or damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Another process had the workspace locked for longer than [`Store::set_lock_wait`] allows.
    #[error("another takeback process{} is using this workspace", describe_process(*holder))]
    Busy {
        /// The id of that process, if it is known.
        holder: Option<u32>,
    },
}

fn describe_process(id: Option<u32>) -> String {
    id.map(|id| format!(" (pid {id})")).unwrap_or_default()
}

impl StoreError {
    /// Returns a function that turns a system error into a [`StoreError`].
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    }
}

/// The reason why an object cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ObjectError {
    #[error("object {0} is missing from the store")]
    Missing(Oid),
    /// All copies of the object are damaged. `pack` is the pack with the last copy that was tried.
    #[error("object {oid} in {pack} is damaged: {reason}")]
    Damaged { oid: Oid, pack: String, reason: String },
    /// The object is intact, but not of the expected kind.
    #[error("object {0} is not a {1}")]
    WrongKind(Oid, &'static str),
    /// The object is intact, but its content is invalid for its kind.
    #[error("object {0}: {1}")]
    Malformed(Oid, Malformed),
}

impl Store {
    /// Opens the store in this directory, and creates it if it does not exist.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Store, StoreError> {
        Store::open_with_uuid(directory.into(), &hex::random_digits(32))
    }

    /// Opens the store in this directory, and creates it with this id if it does not exist.
    pub(crate) fn open_with_uuid(directory: PathBuf, uuid: &str) -> Result<Store, StoreError> {
        let identity_path = directory.join("store.json");
        if !identity_path.exists() {
            create_store(&directory, uuid)?;
        }
        let text = fs::read(&identity_path).map_err(StoreError::io("read", &identity_path))?;
        let identity: StoreIdentity = serde_json::from_slice(&text).map_err(|error| {
            StoreError::Damaged { path: identity_path, reason: error.to_string() }
        })?;
        if identity.version > VERSION {
            return Err(StoreError::TooNew { path: directory, found: identity.version });
        }
        let (uuid, packs) = (identity.uuid, Mutex::new(None));
        let (pool, handled) = (Arc::default(), Arc::default());
        let kept_state = Mutex::default();
        let store = Store { directory, uuid, packs, pool, kept_state, lock_wait: None, handled };
        store.sweep_temporary_files()?;
        Ok(store)
    }

    /// Limits how long this process waits for other processes, and sets how the wait is reported.
    pub fn set_lock_wait(&mut self, wait: LockWait) {
        self.lock_wait = Some(wait);
    }

    /// Returns the number of files that captures have read and restores have written so far. It
    /// grows while they are running, so it shows their progress.
    pub fn handled_files(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.handled)
    }

    /// Returns the directory of the store.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the random id of the store. Workspace ids depend on it, so they differ between
    /// stores.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    pub(crate) fn pack_directory(&self) -> PathBuf {
        self.directory.join("objects/pack")
    }

    /// Returns the directory for the temporary files of captures. A process that uses it must hold
    /// the store's lock.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// Returns the path of the store's lock. A process holds it as a shared lock while writing and
    /// pinning objects, and as an exclusive lock while deleting packs.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Removes the temporary files of killed processes, unless another process holds the store's
    /// lock.
    fn sweep_temporary_files(&self) -> Result<(), StoreError> {
        let temporary = self.temporary();
        let failed = || StoreError::io("clean up", &temporary);
        let mut entries = fs::read_dir(&temporary).map_err(failed())?;
        if entries.next().is_none() {
            return Ok(());
        }
        match FileLock::try_exclusive(&self.lock_path()).map_err(failed())? {
            Some(_lock) => durable::sweep_directory(&temporary).map_err(failed()),
            None => Ok(()),
        }
    }

    /// Takes the store's shared lock. While it is held, no packs are deleted.
    pub(crate) fn lock_shared(&self) -> Result<FileLock, StoreError> {
        let path = self.lock_path();
        let lock = FileLock::shared(&path).map_err(StoreError::io("lock", &path))?;
        // Packs that were loaded earlier may have been deleted in the meantime.
        self.forget_packs();
        Ok(lock)
    }

    pub(crate) fn forget_packs(&self) {
        *self.packs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes the state that the last capture of a workspace left in memory, if it still matches the
    /// files on disk.
    pub(crate) fn take_state(&self, directory: &Path) -> Option<WorkspaceState> {
        let kept = self.kept_state.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept?.into_state(directory)
    }

    /// Keeps the state of a workspace for the next capture.
    pub(crate) fn keep_state(&self, state: KeptState) {
        *self.kept_state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Adds a new pack of this process to the known packs, so that they need not be listed again.
    pub(crate) fn add_pack(&self, name: &str) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        *packs = packs.take().map(|known| Arc::new(known.with_pack(name)));
    }

    pub(crate) fn new_pack(&self) -> PackWriter {
        PackWriter::new(&self.temporary())
    }

    /// Reads the generation, a number that grows whenever objects are deleted or packs are set
    /// aside. A stat cache is valid only within one generation.
    pub(crate) fn generation(&self) -> u64 {
        fs::read_to_string(self.directory.join("generation"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }

    pub(crate) fn bump_generation(&self) -> Result<(), StoreError> {
        let path = self.directory.join("generation");
        let next = format!("{}\n", self.generation() + 1);
        durable::replace_file_through(&self.temporary(), &path, next.as_bytes(), Durability::Synced)
            .map_err(StoreError::io("write", &path))
    }

    pub(crate) fn packs(&self) -> Arc<Packs> {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || Packs::load_with(&self.pack_directory(), self.pool.clone());
        packs.get_or_insert_with(|| Arc::new(load())).clone()
    }

    /// Reads an object and checks that it matches its id.
    pub fn read_object(&self, oid: &Oid) -> Result<(ObjectKind, Vec<u8>), ObjectError> {
        let mut packs = self.packs();
        loop {
            let failure = match packs.read_object(oid) {
                Ok(object) => return Ok(object),
                Err(failure) => failure,
            };
            // Another process may have added or merged packs.
            self.forget_packs();
            let present = self.packs();
            if present.names() == packs.names() {
                return present.search_object(oid).ok_or(failure);
            }
            packs = present;
        }
    }

    fn read_kind(
        &self,
        oid: &Oid,
        kind: ObjectKind,
        name: &'static str,
    ) -> Result<Vec<u8>, ObjectError> {
        match self.read_object(oid)? {
            (actual, content) if actual == kind => Ok(content),
            _ => Err(ObjectError::WrongKind(*oid, name)),
        }
    }

    /// Reads the content of a file or the target of a symlink.
    pub fn blob(&self, oid: &Oid) -> Result<Vec<u8>, ObjectError> {
        self.read_kind(oid, ObjectKind::Blob, "file")
    }

    /// Reads the entries of a tree.
    pub(crate) fn tree(&self, oid: &Oid) -> Result<Vec<object::OwnedEntry>, ObjectError> {
        if *oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        let content = self.read_kind(oid, ObjectKind::Tree, "tree")?;
        object::parse_entries(&content)
            .map(|entry| entry.map(object::OwnedEntry::from))
            .collect::<Result<_, _>>()
            .map_err(|error| ObjectError::Malformed(*oid, error))
    }

    pub(crate) fn commit(&self, oid: &Oid) -> Result<Commit, ObjectError> {
        let content = self.read_kind(oid, ObjectKind::Commit, "pin")?;
        Commit::parse(&content).map_err(|error| ObjectError::Malformed(*oid, error))
    }

    /// Sets aside the packs that cannot be opened because they are damaged. Returns their names.
    /// The caller must hold the store's lock.
    pub(crate) fn set_aside_broken(&self) -> Result<Vec<String>, StoreError> {
        let broken = self.packs().find_broken();
        let damaged = broken.into_iter().filter(|(_, error)| is_damage(error));
        damaged.map(|(name, _)| self.quarantine_pack(&name).map(|()| name)).collect()
    }

    /// Moves a damaged pack to `quarantine/`.
    pub(crate) fn quarantine_pack(&self, name: &str) -> Result<(), StoreError> {
        let quarantine = self.directory.join("quarantine");
        durable::create_directory(&quarantine).map_err(StoreError::io("create", &quarantine))?;
        let directory = self.pack_directory();
        let failed = |action| StoreError::io(action, &directory);
        // The generation is raised twice: before the move, in case this process is killed, and
        // after it, because a process that is capturing at the same time may still see the pack.
        fault::point("quarantine generation").map_err(failed("write"))?;
        self.bump_generation()?;
        // The multi-pack index is removed first: it must never name a pack that no longer exists.
        let midx = directory.join(midx::NAME);
        fault::point("quarantine midx")
            .and_then(|()| durable::ignore_missing(fs::remove_file(&midx)))
            .map_err(StoreError::io("remove", &midx))?;
        // The pack is moved before its index, so that the pack is still recognized as broken if
        // this process is killed in between.
        for extension in ["pack", "idx"] {
            let file = format!("{name}.{extension}");
            let from = directory.join(&file);
            fault::point("quarantine rename")
                .and_then(|()| durable::ignore_missing(fs::rename(&from, quarantine.join(&file))))
                .map_err(StoreError::io("set aside", &from))?;
        }
        for directory in [&quarantine, &directory] {
            durable::sync_directory(directory).map_err(failed("write"))?;
        }
        fault::point("quarantine generation again").map_err(failed("write"))?;
        self.bump_generation()?;
        self.forget_packs();
        Ok(())
    }
}

/// Creates an empty store. Several processes may do so at the same time. `store.json` is written
/// last.
fn create_store(directory: &Path, uuid: &str) -> Result<(), StoreError> {
    for sub in ["objects/pack", "objects/info", "refs/takeback", "workspaces", "tmp", "tmp-gc"] {
        let path = directory.join(sub);
        durable::create_directory(&path).map_err(StoreError::io("create", &path))?;
    }
    let identity = StoreIdentity { version: VERSION, uuid: uuid.to_owned() };
    let identity = serde_json::to_string(&identity).expect("plain data serializes to JSON");
    let temporary = directory.join("tmp");
    // The lock prevents other processes from removing the temporary files.
    let lock = directory.join("lock");
    let _lock = FileLock::shared(&lock).map_err(StoreError::io("lock", &lock))?;
    for (name, content) in
        [("HEAD", "ref: refs/heads/main\n"), ("config", CONFIG), ("store.json", &identity)]
    {
        let path = directory.join(name);
        write_if_missing(&temporary, &path, content.as_bytes())
            .map_err(StoreError::io("write", &path))?;
    }
    Ok(())
}

/// Writes a file durably, unless it already exists.
fn write_if_missing(temporary: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Temporary::create_in(temporary)?;
    io::Write::write_all(&mut *file, content)?;
    file.sync_data()?;
    match file.persist_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }?;
    durable::sync_directory(path.parent().expect("a file is in a directory"))
}
