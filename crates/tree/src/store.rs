//! The store: one bare git repository that holds the trees of all workspaces.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability, FileLock, Temporary};
use takeback_base::hex;
use takeback_base::lock_wait::LockWait;

use crate::fault;
use crate::object::{self, Commit, Kind, Malformed};
use crate::oid::Oid;
use crate::pack::midx::{self, Midx};
use crate::pack::read::Pack;
use crate::pack::write::PackWriter;

/// The version of the layout that this code reads and writes.
const VERSION: u32 = 1;

/// What makes `git fsck --strict` judge the store and not what people keep in it.
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

/// `store.json`: what marks a complete store.
#[derive(Serialize, Deserialize)]
struct Identity {
    version: u32,
    uuid: String,
}

/// The shared object store. Cheap to open; packs are opened when an object is asked for.
pub struct Store {
    directory: PathBuf,
    uuid: String,
    packs: Mutex<Option<Arc<Packs>>>,
    /// The patience with other processes. `None`: workspaces are waited for until they are free, and
    /// maintenance of the store is not waited for.
    pub(crate) lock_wait: Option<LockWait>,
}

/// A store could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A newer takeback wrote this store.
    #[error("the store {} has format {found}, this program knows {VERSION}: update takeback", path.display())]
    TooNew {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The file that identifies the store is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An object is missing or broken.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Another process used the workspace for longer than [`Store::set_lock_wait`] allows.
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
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    }
}

/// An object cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// No pack has it.
    #[error("object {0} is missing from the store")]
    Missing(Oid),
    /// All copies of it are damaged.
    #[error("object {oid} in {pack} is damaged: {reason}")]
    Damaged {
        /// The object.
        oid: Oid,
        /// The pack it was read from.
        pack: String,
        /// What is wrong.
        reason: String,
    },
    /// It is there and whole, but of another kind than expected.
    #[error("object {0} is not a {1}")]
    WrongKind(Oid, &'static str),
    /// It is whole but does not have the form of its kind.
    #[error("object {0}: {1}")]
    Malformed(Oid, Malformed),
}

impl Store {
    /// Opens the store in this directory, making it if it is not there.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Store, StoreError> {
        let directory = directory.into();
        let identity_path = directory.join("store.json");
        if !identity_path.exists() {
            create(&directory)?;
        }
        let text = fs::read(&identity_path).map_err(StoreError::io("read", &identity_path))?;
        let identity: Identity = serde_json::from_slice(&text).map_err(|error| {
            StoreError::Damaged { path: identity_path, reason: error.to_string() }
        })?;
        if identity.version > VERSION {
            return Err(StoreError::TooNew { path: directory, found: identity.version });
        }
        let (uuid, packs) = (identity.uuid, Mutex::new(None));
        let store = Store { directory, uuid, packs, lock_wait: None };
        store.sweep()?;
        Ok(store)
    }

    /// Limits how long this process waits for others, and has it say so.
    pub fn set_lock_wait(&mut self, wait: LockWait) {
        self.lock_wait = Some(wait);
    }

    /// The directory of the store.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Random, made with the store: workspace ids of different stores never coincide.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    pub(crate) fn pack_directory(&self) -> PathBuf {
        self.directory.join("objects/pack")
    }

    /// Temporary files of captures; whoever uses it holds the store's lock.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// Held shared while objects are written and pinned, exclusively while packs are deleted.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Removes what killed processes left, if nobody is at work.
    fn sweep(&self) -> Result<(), StoreError> {
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

    /// Starts to write: the guard keeps packs from being deleted meanwhile.
    pub(crate) fn share(&self) -> Result<FileLock, StoreError> {
        let path = self.lock_path();
        let lock = FileLock::shared(&path).map_err(StoreError::io("lock", &path))?;
        // What was loaded before may have been deleted since.
        self.forget_packs();
        Ok(lock)
    }

    pub(crate) fn forget_packs(&self) {
        *self.packs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn writer(&self) -> PackWriter {
        PackWriter::new(&self.temporary())
    }

    /// How often packs were deleted: what a stat cache knows of objects is valid within one.
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
        packs.get_or_insert_with(|| Arc::new(Packs::load(&self.pack_directory()))).clone()
    }

    /// Reads an object and checks that it is what its id says.
    pub fn read(&self, oid: &Oid) -> Result<(Kind, Vec<u8>), ObjectError> {
        let mut packs = self.packs();
        loop {
            let failure = match packs.read(oid) {
                Ok(found) => return Ok(found),
                Err(failure) => failure,
            };
            // Other processes add packs and put one in the place of many.
            self.forget_packs();
            let present = self.packs();
            if present.names() == packs.names() {
                return present.search(oid).ok_or(failure);
            }
            packs = present;
        }
    }

    fn read_kind(&self, oid: &Oid, kind: Kind, name: &'static str) -> Result<Vec<u8>, ObjectError> {
        match self.read(oid)? {
            (found, content) if found == kind => Ok(content),
            _ => Err(ObjectError::WrongKind(*oid, name)),
        }
    }

    /// The content of a file or the target of a symlink.
    pub fn blob(&self, oid: &Oid) -> Result<Vec<u8>, ObjectError> {
        self.read_kind(oid, Kind::Blob, "file")
    }

    /// The entries of a tree.
    pub(crate) fn tree(&self, oid: &Oid) -> Result<Vec<object::OwnedEntry>, ObjectError> {
        if *oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        let content = self.read_kind(oid, Kind::Tree, "tree")?;
        object::entries(&content)
            .map(|entry| entry.map(object::OwnedEntry::from))
            .collect::<Result<_, _>>()
            .map_err(|error| ObjectError::Malformed(*oid, error))
    }

    pub(crate) fn commit(&self, oid: &Oid) -> Result<Commit, ObjectError> {
        let content = self.read_kind(oid, Kind::Commit, "pin")?;
        Commit::parse(&content).map_err(|error| ObjectError::Malformed(*oid, error))
    }

    /// Moves packs out of the way that cannot be opened because they are damaged, and says which.
    /// The caller holds the store's lock.
    pub(crate) fn set_aside_broken(&self) -> Result<Vec<String>, StoreError> {
        let packs = self.packs();
        let covered = packs.covered_broken();
        let damaged = packs.broken.iter().chain(&covered).filter(|(_, error)| is_damage(error));
        damaged.map(|(name, _)| self.quarantine(name).map(|()| name.clone())).collect()
    }

    /// Moves a damaged pack out of the way. Its files are kept.
    pub(crate) fn quarantine(&self, name: &str) -> Result<(), StoreError> {
        let quarantine = self.directory.join("quarantine");
        durable::create_directory(&quarantine).map_err(StoreError::io("create", &quarantine))?;
        let directory = self.pack_directory();
        let failed = |action| StoreError::io(action, &directory);
        // Before, in case that this process is killed; again afterwards, because others may be
        // capturing meanwhile and still see the pack.
        fault::point("quarantine generation").map_err(failed("write"))?;
        self.bump_generation()?;
        // The index over all packs first: it must never name a pack that is gone.
        let midx = directory.join(midx::NAME);
        fault::point("quarantine midx")
            .and_then(|()| durable::ignore_missing(fs::remove_file(&midx)))
            .map_err(StoreError::io("remove", &midx))?;
        // The pack before its index: if that is all that happens, it is still found broken.
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

/// Makes an empty store. Several processes may do so at once; `store.json` comes last.
fn create(directory: &Path) -> Result<(), StoreError> {
    for sub in ["objects/pack", "objects/info", "refs/takeback", "workspaces", "tmp", "tmp-gc"] {
        let path = directory.join(sub);
        durable::create_directory(&path).map_err(StoreError::io("create", &path))?;
    }
    let uuid = hex::random_digits(32);
    let identity = serde_json::to_string(&Identity { version: VERSION, uuid })
        .expect("plain data becomes JSON");
    let temporary = directory.join("tmp");
    // Held shared, so that no other process sweeps the files away.
    let lock = directory.join("lock");
    let _lock = FileLock::shared(&lock).map_err(StoreError::io("lock", &lock))?;
    for (name, content) in
        [("HEAD", "ref: refs/heads/main\n"), ("config", CONFIG), ("store.json", &identity)]
    {
        let path = directory.join(name);
        write_new(&temporary, &path, content.as_bytes()).map_err(StoreError::io("write", &path))?;
    }
    Ok(())
}

/// Writes a file durably unless it is there.
fn write_new(temporary: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Temporary::create_in(temporary)?;
    io::Write::write_all(&mut *file, content)?;
    file.sync_data()?;
    match file.persist_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }?;
    durable::sync_directory(path.parent().expect("a file is in a directory"))
}

/// The packs of a store at one moment.
pub(crate) struct Packs {
    directory: PathBuf,
    midx: Option<Midx>,
    /// The packs that the index over all packs covers, opened when needed.
    covered: Vec<OnceLock<Option<Pack>>>,
    pub(crate) loose: Vec<Pack>,
    /// Packs that could not be opened, and why.
    pub(crate) broken: Vec<(String, io::Error)>,
}

impl Packs {
    pub(crate) fn load(directory: &Path) -> Packs {
        let midx_path = directory.join(midx::NAME);
        // It only repeats what the packs' own indexes say, so a broken one is passed over.
        let midx = Midx::open(&midx_path).ok();
        let covered: HashSet<&str> =
            midx.iter().flat_map(|midx| midx.packs.iter().map(String::as_str)).collect();
        let (mut loose, mut broken) = (Vec::new(), Vec::new());
        for name in names(directory) {
            if covered.contains(name.as_str()) {
                continue;
            }
            match Pack::open(&directory.join(&name).with_extension("idx")) {
                Ok(pack) => loose.push(pack),
                // Merged away between listing and opening.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && !directory.join(&name).with_extension("idx").exists() => {}
                Err(error) => broken.push((name, error)),
            }
        }
        let covered = midx.iter().flat_map(|midx| &midx.packs).map(|_| OnceLock::new()).collect();
        Packs { directory: directory.to_owned(), midx, covered, loose, broken }
    }

    fn covered(&self, number: usize) -> Option<&Pack> {
        let name = &self.midx.as_ref()?.packs[number];
        self.covered[number]
            .get_or_init(|| Pack::open(&self.directory.join(name).with_extension("idx")).ok())
            .as_ref()
    }

    /// Packs that the index over all packs covers but that cannot be opened, and why.
    fn covered_broken(&self) -> Vec<(String, io::Error)> {
        let names = self.midx.iter().flat_map(|midx| &midx.packs).enumerate();
        let broken = names.filter(|(number, _)| self.covered(*number).is_none());
        let open = |name: &String| Pack::open(&self.directory.join(name).with_extension("idx"));
        broken.filter_map(|(_, name)| Some((name.clone(), open(name).err()?))).collect()
    }

    /// All packs that can be opened.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Pack> {
        (0..self.covered.len()).filter_map(|number| self.covered(number)).chain(&self.loose)
    }

    /// Whether the object is in a pack, by the indexes.
    pub(crate) fn contains(&self, oid: &Oid) -> bool {
        self.find(oid).next().is_some()
    }

    /// Everywhere that the object is.
    pub(crate) fn find<'a>(&'a self, oid: &'a Oid) -> impl Iterator<Item = (&'a Pack, u64)> {
        let covered = self.midx.as_ref().and_then(|midx| {
            let (number, offset) = midx.find(oid).ok()??;
            Some((self.covered(number)?, offset))
        });
        let loose = self.loose.iter().filter_map(|pack| Some((pack, pack.index.find(oid).ok()??)));
        covered.into_iter().chain(loose)
    }

    /// The names of all packs.
    fn names(&self) -> (&[String], Vec<&str>, Vec<&str>) {
        let covered = self.midx.as_ref().map_or(&[][..], |midx| &midx.packs);
        let loose = self.loose.iter().map(|pack| pack.name.as_str()).collect();
        (covered, loose, self.broken.iter().map(|(name, _)| name.as_str()).collect())
    }

    /// Reads an object from wherever any pack says that it has it, even if its index is damaged
    /// and has lost its order.
    fn search(&self, oid: &Oid) -> Option<(Kind, Vec<u8>)> {
        self.all().find_map(|pack| {
            let entries = pack.index.entries().ok()?;
            let offset = entries.iter().find(|(found, _)| found == oid)?.1;
            let (kind, content) = pack.read(offset).ok()?;
            (Oid::of(kind, &content) == *oid).then_some((kind, content))
        })
    }

    /// Reads an object from where it is by the quickest way to know.
    pub(crate) fn read(&self, oid: &Oid) -> Result<(Kind, Vec<u8>), ObjectError> {
        let mut failure = ObjectError::Missing(*oid);
        for (pack, offset) in self.find(oid) {
            let damaged = |reason: String| ObjectError::Damaged {
                oid: *oid,
                pack: pack.name.clone(),
                reason,
            };
            match pack.read(offset) {
                Ok((kind, content)) if Oid::of(kind, &content) == *oid => {
                    return Ok((kind, content));
                }
                Ok(_) => failure = damaged("its content does not match its id".into()),
                Err(error) => failure = damaged(error.to_string()),
            }
        }
        Err(failure)
    }
}

/// Whether a pack failed to open because of what is in it, and not because of the system's
/// troubles of the moment.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// The names of the packs in a directory, by their indexes.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".idx").map(str::to_owned))
        .collect();
    names.sort();
    names
}
