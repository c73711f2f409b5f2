//! The packs of a repository at one moment, and the lookup of objects in them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::beneath::Stat;
use crate::capture::cache::Cutoff;
use crate::object::{Commit, ObjectKind};
use crate::oid::Oid;
use crate::pack::midx::{self, Midx};
use crate::pack::read::{KeptObjects, Pack};
use crate::store::ObjectError;

/// The packs of a repository at one moment. They are opened when an object is first looked up.
pub(crate) struct Packs {
    directory: PathBuf,
    files: PackFiles,
    pool: Arc<PackPool>,
    opened: OnceLock<OpenedPacks>,
}

/// The files of the packs in a directory, with their stats.
#[derive(Default)]
struct PackFiles {
    midx: Stat,
    /// The stats of each pack and of its index, by name. The stat of a missing file is all zeros.
    packs: BTreeMap<String, [Stat; 2]>,
}

struct OpenedPacks {
    midx: Option<Arc<Midx>>,
    /// The packs that the multi-pack index covers, opened on first use.
    covered: Vec<OnceLock<Option<Arc<Pack>>>>,
    /// The packs that the multi-pack index does not cover.
    loose: Vec<Arc<Pack>>,
    /// The names of the packs that could not be opened and are not in the multi-pack index.
    broken: Vec<String>,
}

/// Opened packs, which stay open for as long as their files do not change. A long-running process
/// lists the packs again and again, but opens each of them only once.
#[derive(Default)]
pub(crate) struct PackPool {
    packs: Mutex<HashMap<String, Pooled<Pack>>>,
    midx: Mutex<Option<Pooled<Midx>>>,
}

struct Pooled<T> {
    stats: [Stat; 2],
    opened: Arc<T>,
}

impl<T> Pooled<T> {
    /// Returns the opened file if it had these stats when it was opened.
    fn get(&self, stats: &[Stat; 2]) -> Option<Arc<T>> {
        (self.stats == *stats).then(|| self.opened.clone())
    }
}

impl PackFiles {
    /// Lists the files in a directory of packs.
    fn list(directory: &Path) -> PackFiles {
        let mut files = PackFiles::default();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else { continue };
            let (Some(name), stat) = (name.to_str(), Stat::of(&metadata)) else { continue };
            match name.split_once('.') {
                Some((name, "pack")) => files.packs.entry(name.into()).or_default()[0] = stat,
                Some((name, "idx")) => files.packs.entry(name.into()).or_default()[1] = stat,
                None if name == midx::NAME => files.midx = stat,
                _ => {}
            }
        }
        files
    }

    /// Returns the names of the packs that have an index.
    fn indexed_names(&self) -> impl Iterator<Item = &String> {
        self.packs.iter().filter(|(_, [_, index])| *index != Stat::default()).map(|(name, _)| name)
    }

    /// Returns the cutoff that determines which of these files are racy. A file that is not racy
    /// gets a different stat whenever it changes.
    fn cutoff(&self) -> Cutoff {
        let stats = self.packs.values().flatten().chain([&self.midx]);
        // The clock of the file system has reached the time of the newest file.
        Cutoff { scan: stats.map(|stat| stat.ctime).max().unwrap_or(0) }
    }
}

impl PackPool {
    fn packs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Pooled<Pack>>> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn midx(&self) -> std::sync::MutexGuard<'_, Option<Pooled<Midx>>> {
        self.midx.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the packs that have been deleted or changed.
    fn retain(&self, files: &PackFiles) {
        self.packs().retain(|name, pooled| files.packs.get(name) == Some(&pooled.stats));
    }
}

impl Packs {
    /// Lists the packs in a directory.
    pub(crate) fn load(directory: &Path) -> Packs {
        Packs::load_with(directory, Arc::default())
    }

    /// Lists the packs in a directory. Those in the pool are not opened again.
    pub(crate) fn load_with(directory: &Path, pool: Arc<PackPool>) -> Packs {
        let files = PackFiles::list(directory);
        pool.retain(&files);
        Packs { directory: directory.to_owned(), files, pool, opened: OnceLock::new() }
    }

    /// Returns an updated list of packs after a pack was added to the directory.
    pub(crate) fn with_pack(&self, name: &str) -> Packs {
        let mut packs = self.files.packs.clone();
        let stat = |extension| {
            let path = self.directory.join(name).with_extension(extension);
            fs::metadata(path).map(|metadata| Stat::of(&metadata)).unwrap_or_default()
        };
        packs.insert(name.to_owned(), ["pack", "idx"].map(stat));
        let files = PackFiles { packs, midx: self.files.midx };
        let (directory, pool) = (self.directory.clone(), self.pool.clone());
        Packs { directory, files, pool, opened: OnceLock::new() }
    }

    /// Lists each pack with the sizes of the pack and of its index.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&str, [u64; 2])> {
        let packs = self.files.packs.iter();
        packs.map(|(name, [pack, index])| (name.as_str(), [pack.size, index.size]))
    }

    fn opened(&self) -> &OpenedPacks {
        self.opened.get_or_init(|| {
            // The multi-pack index only repeats the packs' own indexes, so a broken multi-pack
            // index is ignored.
            let midx = self.open_midx().ok();
            let names = || midx.iter().flat_map(|midx| &midx.packs);
            let covered: HashSet<&str> = names().map(String::as_str).collect();
            let (mut loose, mut broken) = (Vec::new(), Vec::new());
            for name in self.files.indexed_names().filter(|name| !covered.contains(name.as_str())) {
                match self.open_pack(name) {
                    Ok(pack) => loose.push(pack),
                    // A merge removed the pack after it was listed and before it was opened.
                    Err(error)
                        if error.kind() == io::ErrorKind::NotFound
                            && !self.index_path(name).exists() => {}
                    Err(_) => broken.push(name.clone()),
                }
            }
            let covered = names().map(|_| OnceLock::new()).collect();
            OpenedPacks { midx, covered, loose, broken }
        })
    }

    fn index_path(&self, name: &str) -> PathBuf {
        self.directory.join(name).with_extension("idx")
    }

    /// Opens a pack, unless the pool has it.
    fn open_pack(&self, name: &str) -> io::Result<Arc<Pack>> {
        let Some(stats) = self.files.packs.get(name) else {
            return Pack::open(&self.index_path(name)).map(Arc::new);
        };
        let pooled = self.pool.packs().get(name).and_then(|pooled| pooled.get(stats));
        // Bytes can rot without a change to the stat. A pack that is still open is checked in the
        // same way as a newly opened one, except for its index.
        if let Some(pack) = pooled.filter(|pack| pack.check_ends().is_ok()) {
            return Ok(pack);
        }
        let pack = Arc::new(Pack::open(&self.index_path(name))?);
        if self.are_settled(stats) {
            let pooled = Pooled { stats: *stats, opened: pack.clone() };
            self.pool.packs().insert(name.to_owned(), pooled);
        }
        Ok(pack)
    }

    fn open_midx(&self) -> io::Result<Arc<Midx>> {
        let stats = [self.files.midx; 2];
        if let Some(midx) = self.pool.midx().as_ref().and_then(|pooled| pooled.get(&stats)) {
            return Ok(midx);
        }
        let midx = Arc::new(Midx::open(&self.directory.join(midx::NAME))?);
        if self.are_settled(&stats) {
            *self.pool.midx() = Some(Pooled { stats, opened: midx.clone() });
        }
        Ok(midx)
    }

    /// True if every later change to these files will also change their stats.
    fn are_settled(&self, stats: &[Stat; 2]) -> bool {
        let cutoff = self.files.cutoff();
        stats.iter().all(|stat| *stat != Stat::default() && !cutoff.is_racy(stat))
    }

    fn covered_pack(&self, number: usize) -> Option<&Pack> {
        let name = &self.opened().midx.as_ref()?.packs[number];
        self.opened().covered[number].get_or_init(|| self.open_pack(name).ok()).as_deref()
    }

    /// Returns the packs that the multi-pack index does not cover.
    pub(crate) fn loose(&self) -> &[Arc<Pack>] {
        &self.opened().loose
    }

    /// Finds the packs that cannot be opened, each with its error.
    pub(crate) fn find_broken(&self) -> Vec<(String, io::Error)> {
        let OpenedPacks { midx, broken, .. } = self.opened();
        let names = midx.iter().flat_map(|midx| &midx.packs).enumerate();
        let covered = names.filter(|(number, _)| self.covered_pack(*number).is_none());
        let names = broken.iter().chain(covered.map(|(_, name)| name));
        // Opening the pack again shows why it cannot be opened.
        let find_error = |name: &String| Some((name.clone(), self.open_pack(name).err()?));
        names.filter_map(find_error).collect()
    }

    /// Lists all packs that can be opened.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pack> {
        let covered = (0..self.opened().covered.len()).filter_map(|at| self.covered_pack(at));
        covered.chain(self.loose().iter().map(Arc::as_ref))
    }

    /// True if a pack has the object, according to an index.
    pub(crate) fn contains(&self, oid: &Oid) -> bool {
        self.find_object(oid).next().is_some()
    }

    /// Finds copies of an object, each by its pack and offset: the copy that the multi-pack index
    /// lists, and all copies in the packs that this index does not cover.
    pub(crate) fn find_object<'a>(&'a self, oid: &'a Oid) -> impl Iterator<Item = (&'a Pack, u64)> {
        let covered = self.opened().midx.as_ref().and_then(|midx| {
            let (number, offset) = midx.find(oid).ok()??;
            Some((self.covered_pack(number)?, offset))
        });
        let find = |pack: &'a Arc<Pack>| Some((&**pack, pack.index.find(oid).ok()??));
        covered.into_iter().chain(self.loose().iter().filter_map(find))
    }

    /// Returns the names of all packs: covered, loose and broken ones.
    pub(crate) fn names(&self) -> (&[String], Vec<&str>, Vec<&str>) {
        let OpenedPacks { midx, loose, broken, .. } = self.opened();
        let covered = midx.as_ref().map_or(&[][..], |midx| &midx.packs);
        let loose = loose.iter().map(|pack| pack.name.as_str()).collect();
        (covered, loose, broken.iter().map(String::as_str).collect())
    }

    /// Searches all indexes linearly, so that an object is found even if a damaged index is no
    /// longer sorted.
    pub(crate) fn search_object(&self, oid: &Oid) -> Option<(ObjectKind, Vec<u8>)> {
        self.iter().find_map(|pack| {
            let entries = pack.index.entries().ok()?;
            let offset = entries.iter().find(|(indexed, _)| indexed == oid)?.1;
            let (kind, content) = pack.read_object(offset).ok()?;
            (Oid::of(kind, &content) == *oid).then_some((kind, content))
        })
    }

    /// Reads a commit from the first pack that has it. Keeps the commit, and the objects that it
    /// was rebuilt from, in `kept`. Returns `None` if no pack has the commit, or if it is damaged
    /// in that pack.
    pub(crate) fn read_commit(&self, oid: &Oid, kept: &RefCell<KeptObjects>) -> Option<Commit> {
        let (pack, offset) = self.find_object(oid).next()?;
        let (kind, content) = pack.read_and_keep(offset, kept).ok()?;
        let is_intact = kind == ObjectKind::Commit && Oid::of(kind, &content) == *oid;
        if is_intact { Commit::parse(&content).ok() } else { None }
    }

    /// Reads the first intact copy of an object.
    pub(crate) fn read_object(&self, oid: &Oid) -> Result<(ObjectKind, Vec<u8>), ObjectError> {
        let mut failure = ObjectError::Missing(*oid);
        for (pack, offset) in self.find_object(oid) {
            let damaged = |reason: String| ObjectError::Damaged {
                oid: *oid,
                pack: pack.name.clone(),
                reason,
            };
            match pack.read_object(offset) {
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

/// True if a pack could not be opened because it is damaged or missing, rather than because of a
/// temporary system problem.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Lists the names of the packs that have an index in this directory.
pub(crate) fn list_pack_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".idx").map(str::to_owned))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, harm};

    /// Waits until a new file has a later time than all existing files. From then on, every change
    /// to an existing file also changes its stat.
    fn wait_for_clock(directory: &Path) {
        let start = PackFiles::list(directory).cutoff().scan;
        let path = directory.join("clock.idx");
        while PackFiles::list(directory).cutoff().scan < start + 25_000_000 {
            fs::write(&path, "").unwrap();
        }
    }

    #[test]
    fn a_pack_is_opened_again_only_if_its_file_has_changed() {
        let bench = Bench::new();
        bench.edited(1, 2);
        let directory = bench.packs();
        wait_for_clock(&directory);
        let pool = Arc::new(PackPool::default());
        let load = || Packs::load_with(&directory, pool.clone());
        let (first, second) = (load(), load());
        assert_eq!(first.loose().len(), 2);
        let are_same = |one: &Packs, other: &Packs| {
            let pairs = one.loose().iter().zip(other.loose());
            pairs.map(|(one, other)| Arc::ptr_eq(one, other)).collect::<Vec<bool>>()
        };
        assert_eq!(are_same(&first, &second), [true, true]);
        let changed = directory.join(&second.loose()[1].name).with_extension("pack");
        harm(&changed, |bytes| bytes[0] ^= 1);
        let third = load();
        assert_eq!(third.loose().len(), 1);
        let broken = third.find_broken();
        assert!(broken.iter().any(|(name, _)| *name == second.loose()[1].name), "{broken:?}");
        harm(&changed, |bytes| bytes[0] ^= 1);
        assert_eq!(are_same(&first, &load()), [true, false]);
    }

    /// The file rots on the disk: its content changes, but its stat does not.
    #[test]
    fn damage_to_either_end_of_an_open_pack_is_noticed() {
        let bench = Bench::new();
        bench.edited(1, 2);
        let directory = bench.packs();
        for from_end in [false, true] {
            wait_for_clock(&directory);
            let pool = Arc::new(PackPool::default());
            let load = || Packs::load_with(&directory, pool.clone());
            let name = load().loose()[0].name.clone();
            let path = directory.join(&name).with_extension("pack");
            let length = fs::metadata(&path).unwrap().len();
            let at = if from_end { length - 1 } else { 0 };
            flip_byte(&path, at);
            let stats = PackFiles::list(&directory).packs[&name];
            pool.packs().get_mut(&name).unwrap().stats = stats;
            assert!(load().find_broken().iter().any(|(broken, _)| *broken == name));
            assert_eq!(load().loose().len(), 1);
            flip_byte(&path, at);
        }
    }

    /// Changes a byte of a file in place.
    fn flip_byte(path: &Path, at: u64) {
        use std::os::unix::fs::{FileExt, PermissionsExt};
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }

    #[test]
    fn a_pack_that_has_just_been_written_is_opened_again() {
        let bench = Bench::new();
        wait_for_clock(&bench.packs());
        bench.edited(1, 1);
        let pool = Arc::new(PackPool::default());
        let load = || Packs::load_with(&bench.packs(), pool.clone());
        // The pack is so new that another write might not change its stat.
        assert!(!Arc::ptr_eq(&load().loose()[0], &load().loose()[0]));
    }
}
