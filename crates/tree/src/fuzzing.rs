//! Entry points to the private parsers of this crate, for the targets in `fuzz/`. They are compiled
//! only for fuzzing.
//!
//! Each function reads arbitrary bytes and panics if the result violates a guarantee. Files are
//! written to `scratch`, a directory that belongs to the target.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use crate::capture::WorkspaceState;
use crate::git::index::{TrackedPaths, normalize_index};
use crate::object::{Commit, ObjectKind, is_valid_name, parse_entries, push_entry};
use crate::oid::Oid;
use crate::pack::index::{IndexedObject, PackIndex, encode_index};
use crate::pack::midx::Midx;
use crate::pack::read::Pack;
use crate::pack::{self, MAX_OBJECT, delta};
use crate::rules::{CaptureRules, Matcher, Scope};
use crate::salvage::DamagedPack;
use crate::source_packs::SourcePacks;
use crate::{ForbiddenRoots, ForeignRepository, GitDirectory, RelPath, Store, Workspace};

fn write(scratch: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch.join(name);
    fs::write(&path, bytes).expect("the scratch directory is writable");
    path
}

/// Splits off a part whose length is in the first byte.
fn split_short(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return (&[], &[]) };
    rest.split_at(usize::from(*length).min(rest.len()))
}

/// Reads a pack without an index, as a repair does, and again with an index of the objects that
/// were found.
pub fn pack(scratch: &Path, bytes: &[u8]) {
    let path = write(scratch, "pack-x.pack", bytes);
    let index_path = path.with_extension("idx");
    let _ = fs::remove_file(&index_path);
    let intact = SourcePacks::default();
    let Some(damaged) = DamagedPack::open(&path, &intact) else { return };
    let places = damaged.places.iter();
    let mut objects: Vec<IndexedObject> =
        places.map(|(oid, offset)| IndexedObject { oid: *oid, crc: 0, offset: *offset }).collect();
    let checksum = bytes.last_chunk().copied().unwrap_or_default();
    write(scratch, "pack-x.idx", &encode_index(&mut objects, &checksum));
    let Ok(pack) = Pack::open(&index_path) else { return };
    for object in &objects {
        // Without an index, the search may find an entry that reaches into the checksum at the end.
        // With an index, such an entry cannot be read.
        let Ok((kind, content)) = pack.read_object(object.offset) else { continue };
        assert!(content.len() as u64 <= MAX_OBJECT);
        assert_eq!(Oid::of(kind, &content), object.oid);
    }
}

/// Looks up objects in a pack index.
pub fn pack_index(scratch: &Path, bytes: &[u8]) {
    let Ok(index) = PackIndex::open(&write(scratch, "index", bytes)) else { return };
    probes(bytes).for_each(|oid| drop(index.find(&oid)));
    let (_, _) = (index.is_intact(), index.pack_checksum());
    if let Ok(objects) = index.objects() {
        assert_eq!(objects.len(), index.count() as usize);
        check_index_round_trip(scratch, objects);
    }
}

/// Looks up objects in a multi-pack index.
pub fn multi_pack_index(scratch: &Path, bytes: &[u8]) {
    let Ok(index) = Midx::open(&write(scratch, "multi", bytes)) else { return };
    probes(bytes).for_each(|oid| drop(index.find(&oid)));
    let _ = index.is_intact();
}

/// Lists ids that an index may contain: the ids that can be formed from its last bytes, and one id
/// for each possible first byte.
fn probes(index: &[u8]) -> impl Iterator<Item = Oid> {
    let listed = index.windows(20).rev().take(200).filter_map(Oid::from_slice);
    listed.chain((0..=u8::MAX).map(|first| Oid([first; 20])))
}

fn check_index_round_trip(scratch: &Path, mut objects: Vec<IndexedObject>) {
    let path = write(scratch, "again", &encode_index(&mut objects, &[0; 20]));
    let again = PackIndex::open(&path).and_then(|index| index.objects());
    let again = again.expect("it was just encoded");
    let key = |object: &IndexedObject| (object.oid, object.crc, object.offset);
    assert!(again.iter().map(key).eq(objects.iter().map(key)));
}

/// Applies the second part of the bytes as a delta to the first part, and finds a delta that turns
/// the first part into the second.
pub fn delta(bytes: &[u8]) {
    let (base, delta) = split_short(bytes);
    if let Some(target) = delta::apply_delta(base, delta) {
        assert!(target.len() as u64 <= MAX_OBJECT);
    }
    let found = delta::encode_delta(base, delta, usize::MAX).expect("there is no limit");
    assert_eq!(delta::apply_delta(base, &found).as_deref(), Some(delta));
}

/// Parses the bytes as a tree, as a commit, and as objects of another program's repository.
pub fn object(scratch: &Path, bytes: &[u8]) {
    let (mut tree, mut is_whole) = (Vec::new(), true);
    for entry in parse_entries(bytes) {
        match entry {
            Ok(entry) => {
                assert!(is_valid_name(entry.name));
                push_entry(&mut tree, entry);
            }
            Err(_) => is_whole = false,
        }
    }
    // A mode may have leading zeros. They are not written again, so the new tree may be shorter.
    assert!(!is_whole || tree.len() <= bytes.len());
    if let Ok(commit) = Commit::parse(bytes) {
        assert_eq!(Commit::parse(&commit.encode()).expect("it was just encoded"), commit);
    }
    for kind in [ObjectKind::Commit, ObjectKind::Tree] {
        read_foreign(scratch, kind, bytes);
    }
}

/// Reads an object from another program's repository.
fn read_foreign(scratch: &Path, kind: ObjectKind, bytes: &[u8]) {
    let git = git_directory(scratch);
    let oid = Oid::of(kind, bytes);
    let (directory, name) = (&oid.to_string()[..2], &oid.to_string()[2..]);
    let directory = git.join("objects").join(directory);
    fs::create_dir_all(&directory).expect("the scratch directory is writable");
    let mut loose = Vec::new();
    pack::deflate(&[&kind.header(bytes.len() as u64), bytes].concat(), &mut loose);
    let path = write(&directory, name, &loose);
    let repository = ForeignRepository::open(&git).expect("it was just created");
    match kind {
        ObjectKind::Tree => drop(repository.tree(&oid, pack::MAX_OBJECT)),
        _ => drop(repository.commit(&oid)),
    }
    fs::remove_file(path).expect("it was just written");
}

fn git_directory(scratch: &Path) -> PathBuf {
    let git = scratch.join(".git");
    fs::create_dir_all(git.join("objects")).expect("the scratch directory is writable");
    write(&git, "HEAD", b"");
    git
}

/// Reads HEAD and packed refs.
pub fn git_refs(scratch: &Path, bytes: &[u8]) {
    let git = git_directory(scratch);
    let (head, packed) = split_short(bytes);
    write(&git, "HEAD", head);
    write(&git, "packed-refs", packed);
    let head = GitDirectory::find(scratch).expect("it was just created").head();
    assert!(head.commit.is_none_or(|id| matches!(id.len(), 40 | 64)));
    let repository = ForeignRepository::open(&git).expect("it was just created");
    let (_, _) = (repository.refs(), repository.head());
}

/// Reads the configuration of a repository.
pub fn git_config(scratch: &Path, bytes: &[u8]) {
    let git = git_directory(scratch);
    let path = write(&git, "config", bytes);
    let _ = ForeignRepository::open(&git);
    fs::remove_file(path).expect("it was just written");
}

/// Reads the index of a work tree.
pub fn git_index(scratch: &Path, bytes: &[u8]) {
    let path = write(&git_directory(scratch), "index", bytes);
    let tracked = TrackedPaths::read(&path);
    for path in [&b"a"[..], b"d/e", bytes] {
        tracked.contains(path);
        tracked.has_any_under(path);
    }
    if let Some(copy) = normalize_index(&with_sha1(bytes)) {
        assert!(copy.len() <= bytes.len());
        assert_eq!(normalize_index(&with_sha1(&copy)).as_ref(), Some(&copy));
    }
}

/// Parses a `.gitignore` in the root and in a directory, and matches a path against them.
pub fn gitignore(bytes: &[u8]) {
    let (path, text) = split_short(bytes);
    let Ok(path) = RelPath::new(path.to_vec()) else { return };
    let path = [b"d/", path.as_bytes()].concat();
    let patterns = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    let rules = CaptureRules { exclude: patterns, ..CaptureRules::default() };
    let root = Scope::enter(None, b"", Some(text));
    let below = Scope::enter(Some(&root), b"d", Some(text));
    for matcher in [Matcher::new(&CaptureRules::default()), Matcher::new(&rules)] {
        for is_directory in [false, true] {
            matcher.judge(&root, &path, is_directory);
            matcher.judge(&below, &path, is_directory);
        }
        matcher.has_include_under(&path);
        matcher.is_private(&path);
    }
}

/// A small workspace in a store of its own.
pub struct ScratchWorkspace {
    store: Store,
    root: PathBuf,
}

impl ScratchWorkspace {
    /// Creates the workspace and the store.
    pub fn new(scratch: &Path) -> ScratchWorkspace {
        let scratch = fs::canonicalize(scratch).expect("the scratch directory exists");
        let store = Store::open(scratch.join("store")).expect("the scratch directory is writable");
        write(&scratch, "outside", b"outside");
        let workspace = ScratchWorkspace { store, root: scratch.join("workspace") };
        workspace.fill();
        workspace
    }

    /// Gives the workspace its usual files.
    fn fill(&self) {
        let _ = fs::remove_dir_all(&self.root);
        fs::create_dir_all(self.root.join("d")).expect("the scratch directory is writable");
        for name in ["a", "d/b"] {
            write(&self.root, name, name.as_bytes());
        }
    }

    fn workspace(&self) -> Workspace<'_> {
        let forbidden = ForbiddenRoots::default();
        self.store.workspace(&self.root, &forbidden).expect("it is a usual directory")
    }

    /// Reads a stat cache and its log, after filling in their checksums.
    pub fn read_cache(&self, bytes: &[u8]) {
        let (log, cache) = split_short(bytes);
        let directory = self.store.workspace_directory(self.workspace().id());
        fs::create_dir_all(&directory).expect("the store is writable");
        let checksum = crc32fast::hash(cache);
        write(&directory, "state", &[cache, &checksum.to_le_bytes()].concat());
        let mut log = log.to_vec();
        // The header of a log names the cache that it belongs to, and a checksum ends the log.
        if let Some(belongs_to) = log.get_mut(68..72) {
            belongs_to.copy_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32fast::hash(&log);
        log.extend_from_slice(&checksum.to_le_bytes());
        write(&directory, "state.log", &log);
        if let Some(state) = WorkspaceState::load(&directory) {
            for path in ["a", "d/b", "d"] {
                state.cache().find_entry(path.as_bytes());
            }
        }
    }

    /// Finishes or reverts the restore that a journal describes, after writing the identity of the
    /// workspace's root into the journal.
    pub fn recover(&self, bytes: &[u8]) {
        let Some((phase, bytes)) = bytes.split_first() else { return };
        let Ok(mut journal) = serde_json::from_slice::<Value>(bytes) else { return };
        self.fill();
        let workspace = self.workspace();
        let identity = workspace.root().identity().expect("the root exists");
        if let Some(fields) = journal.as_object_mut() {
            fields.insert("root".into(), json!(identity));
        }
        let directory = self.store.workspace_directory(workspace.id());
        fs::create_dir_all(&directory).expect("the store is writable");
        let phases = ["journal", "journal.staging", "journal.restored"];
        let name = phases[usize::from(*phase) % phases.len()];
        let path = write(&directory, name, journal.to_string().as_bytes());
        drop(workspace.lock());
        let _ = fs::remove_file(path);
        let outside = fs::read(self.root.join("../outside")).expect("no restore touches it");
        assert_eq!(outside, b"outside");
    }
}

/// Returns bytes followed by their SHA-1.
fn with_sha1(bytes: &[u8]) -> Vec<u8> {
    [bytes, &Sha1::digest(bytes)[..]].concat()
}
