//! Stores for tests, created without a workspace and checked by git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fault::{self, Fault};
use crate::object::{Commit, Mode, ObjectKind, TreeEntry, compare_names, push_entry};
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::{self, RelPath};
use crate::pins::{PinName, WorkspaceId};
use crate::store::Store;
use crate::verify::{PinState, VerifyReport};

/// The files in a workspace, by path, each with its mode and content.
pub(crate) type Files = BTreeMap<Vec<u8>, (Mode, Vec<u8>)>;

pub(crate) fn file(content: impl Into<Vec<u8>>) -> (Mode, Vec<u8>) {
    (Mode::file(0o644), content.into())
}

/// Generates `size` bytes of text that hardly compresses and depends on `seed`.
pub(crate) fn text(seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random(seed + 1);
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        let word = random.below(400);
        text.extend_from_slice(format!("w{word:x}").as_bytes());
        text.push(if random.below(9) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(size);
    text
}

/// A source of random numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) fn workspace(number: u8) -> WorkspaceId {
    WorkspaceId::new(format!("{number:016x}"))
}

/// A store in a directory of its own.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let directory = temporary_directory();
        let store = Store::open(directory.path().join("store")).expect("a new store");
        Bench { directory, store }
    }

    /// Copies the store to another directory.
    pub(crate) fn copy(&self) -> Bench {
        let directory = temporary_directory();
        copy_directory(self.store.directory(), &directory.path().join("store"));
        let store = Store::open(directory.path().join("store")).expect("a copied store");
        Bench { directory, store }
    }

    /// Opens a mirror of the store in another directory.
    pub(crate) fn mirror(&self) -> Bench {
        let directory = temporary_directory();
        let store = self.store.open_mirror(directory.path().join("store")).expect("a mirror");
        Bench { directory, store }
    }

    /// Reopens the store, as another process would.
    pub(crate) fn reopen(&mut self) {
        self.store = Store::open(self.store.directory()).expect("the store can be opened");
    }

    /// Writes a state and pins it, as a capture does.
    pub(crate) fn capture(&self, number: u8, files: &Files) -> PinName {
        capture(&self.store, number, files)
    }

    /// Determines which parts of a pin cannot be read, with the simplest possible code.
    pub(crate) fn state(&self, pin: &PinName) -> PinState {
        let store = Store::open(self.store.directory()).expect("the store can be opened");
        let pin = store.pin(pin).map(|pin| pin.expect("the pin exists"));
        let Some(pin) = pin.ok().filter(|pin| store.tree(&pin.tree).is_ok()) else {
            return PinState::Lost { reason: String::new() };
        };
        let attachment = pin.attachment.is_some_and(|id| store.attachment(&id).is_err());
        let mut lost = Vec::new();
        let mut directories = vec![(RelPath::root(), pin.tree)];
        while let Some((directory, tree)) = directories.pop() {
            let Ok(entries) = store.tree(&tree) else {
                lost.push(directory);
                continue;
            };
            for entry in entries {
                let path = directory.join(&entry.name);
                if entry.mode.is_directory() {
                    directories.push((path, entry.oid));
                } else if store.blob(&entry.oid).is_err() {
                    lost.push(path);
                }
            }
        }
        lost.sort();
        let count = lost.len() as u64;
        match lost.is_empty() && !attachment {
            true => PinState::Whole,
            false => PinState::Partly { lost, count, attachment },
        }
    }

    /// Checks that the report gives the actual state of each pin.
    pub(crate) fn assert_reported(&self, report: &VerifyReport, pins: &BTreeMap<PinName, Files>) {
        for pin in &report.pins {
            let mut told = pin.state.clone();
            match &mut told {
                PinState::Lost { reason } => reason.clear(),
                PinState::Partly { lost, .. } => lost.sort(),
                PinState::Whole => {}
            }
            assert_eq!(told, self.state(pin.pin.as_ref().expect("a pin")), "{}", pin.name);
        }
        assert_eq!(report.pins.len(), pins.len());
    }

    /// Checks that all pins still hold these files.
    pub(crate) fn assert_whole(&self, pins: &BTreeMap<PinName, Files>) {
        for (pin, files) in pins {
            assert_eq!(&self.files(pin), files, "{pin}");
        }
    }

    /// Creates a workspace with some directories and a history of small edits.
    pub(crate) fn edited(&self, number: u8, captures: usize) -> BTreeMap<PinName, Files> {
        let mut random = Random(u64::from(number));
        let mut files = Files::new();
        for index in 0..30 {
            let path = format!("d{}/e{}/f{index}", index % 3, index % 2);
            files.insert(path.into_bytes(), file(text(index, 900)));
        }
        let mut pins = BTreeMap::new();
        for round in 0..captures {
            let path = files.keys().nth(random.below(30) as usize).expect("a file").clone();
            let (_, content) = files.get_mut(&path).expect("the file");
            let at = random.below(content.len() as u64) as usize;
            content.splice(at..at, format!("edit {round}\n").into_bytes());
            pins.insert(self.capture(number, &files), files.clone());
        }
        pins
    }

    /// Reads the files of a pin.
    pub(crate) fn files(&self, pin: &PinName) -> Files {
        let pin = self.store.pin(pin).expect("a readable pin").expect("the pin exists");
        let mut files = Files::new();
        let mut directories = vec![(Vec::new(), pin.tree)];
        while let Some((directory, tree)) = directories.pop() {
            for entry in self.store.tree(&tree).expect("a readable tree") {
                let path = path::join(&directory, &entry.name);
                if entry.mode.is_directory() {
                    directories.push((path, entry.oid));
                } else {
                    let content = self.store.blob(&entry.oid).expect("a readable file");
                    files.insert(path, (entry.mode, content));
                }
            }
        }
        files
    }

    pub(crate) fn packs(&self) -> PathBuf {
        self.store.pack_directory()
    }

    /// Lists the files of the store that hold objects or are temporary, with their sizes.
    pub(crate) fn listing(&self) -> BTreeMap<String, u64> {
        let mut listing = BTreeMap::new();
        for directory in ["objects/pack", "tmp", "tmp-gc", "quarantine"] {
            let entries = fs::read_dir(self.store.directory().join(directory));
            for entry in entries.into_iter().flatten() {
                let entry = entry.expect("an entry");
                let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
                // Another thread may have renamed the file in the meantime.
                if let Ok(found) = entry.metadata() {
                    listing.insert(name, found.len());
                }
            }
        }
        listing
    }

    /// Measures the size of all files in the pack directory.
    pub(crate) fn bytes(&self) -> u64 {
        let packs = self.listing().into_iter().filter(|(name, _)| name.starts_with("objects"));
        packs.map(|(_, bytes)| bytes).sum()
    }

    /// Runs git on the store, without this machine's configuration.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Output {
        Command::new("git")
            .args([OsStr::new("-C"), self.store.directory().as_os_str()])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git runs")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.try_git(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Checks that git finds nothing wrong.
    pub(crate) fn fsck(&self) {
        let output = self.try_git(&["fsck", "--strict", "--full", "--no-dangling"]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let harmless = |line: &&str| line.starts_with("notice: ");
        let complaints: Vec<&str> = said.lines().filter(|line| !harmless(line)).collect();
        assert!(output.status.success() && complaints.is_empty(), "git fsck: {said}");
        if self.packs().join("multi-pack-index").exists() {
            self.git(&["multi-pack-index", "verify"]);
        }
    }
}

/// Writes a state and pins it, as a capture does.
pub(crate) fn capture(store: &Store, number: u8, files: &Files) -> PinName {
    let _lock = store.lock_shared().expect("the lock");
    let writer = store.new_pack();
    let tree = write_tree(store, &writer, files);
    let id = workspace(number);
    let last = store.pin_names(&id).expect("the pins").pop();
    let name = PinName { workspace: id, seq: last.map_or(1, |last| last.seq + 1) };
    let message = format!(
        "a checkpoint\n\n{{\"version\":1,\"seq\":{},\"workspace\":\"/home/somebody/{number}\"}}\n",
        name.seq
    );
    let commit =
        Commit { tree, parent: None, time: 1_700_000_000 + name.seq as i64, message }.encode();
    let commit_id = put(store, &writer, ObjectKind::Commit, &commit);
    writer.seal(&store.pack_directory()).expect("the pack is sealed");
    store
        .place_ref(&name, store.write_ref(commit_id).expect("the ref is written"))
        .expect("the ref is placed");
    name
}

/// Adds an object unless the store already has it.
pub(crate) fn put(store: &Store, writer: &PackWriter, kind: ObjectKind, content: &[u8]) -> Oid {
    let oid = Oid::of(kind, content);
    if !store.packs().contains(&oid) {
        writer.add(kind, oid, content).expect("the object is added");
    }
    oid
}

/// Writes files as a tree, with all its subtrees.
pub(crate) fn write_tree(store: &Store, writer: &PackWriter, files: &Files) -> Oid {
    let mut entries: Vec<(Mode, Vec<u8>, Oid)> = Vec::new();
    let mut directories: BTreeMap<&[u8], Files> = BTreeMap::new();
    for (path, (mode, content)) in files {
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => {
                let inside = directories.entry(&path[..slash]).or_default();
                inside.insert(path[slash + 1..].to_vec(), (*mode, content.clone()));
            }
            None => {
                entries.push((*mode, path.clone(), put(store, writer, ObjectKind::Blob, content)));
            }
        }
    }
    for (name, files) in directories {
        let tree = write_tree(store, writer, &files);
        entries.push((Mode::directory(0o755), name.to_vec(), tree));
    }
    put(store, writer, ObjectKind::Tree, &encode_tree(&mut entries))
}

pub(crate) fn encode_tree(entries: &mut [(Mode, Vec<u8>, Oid)]) -> Vec<u8> {
    entries.sort_by(|a, b| compare_names((&a.1, a.0.is_directory()), (&b.1, b.0.is_directory())));
    let mut tree = Vec::new();
    for (mode, name, oid) in entries {
        push_entry(&mut tree, TreeEntry { mode: *mode, name, oid: *oid });
    }
    tree
}

/// Damages a file.
pub(crate) fn harm(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a readable file");
    change(&mut bytes);
    fs::remove_file(path).expect("the file can be removed");
    fs::write(path, bytes).expect("the file is written");
}

/// Creates a directory, in memory where that is possible, because these tests sync thousands of
/// files.
fn temporary_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory")
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("its kind").is_dir() {
            copy_directory(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// The outcome of a process that is to be killed at a fault point.
#[derive(Debug, PartialEq)]
pub(crate) enum Ending {
    Killed,
    /// The process ended before it reached the fault point.
    Completed,
}

const CHILD_STORE: &str = "TAKEBACK_TEST_STORE";
const CHILD_POINT: &str = "TAKEBACK_TEST_POINT";

/// Reruns the calling test in a separate process, which is killed at its `nth` fault point. That
/// process must call [`child`].
pub(crate) fn kill_at(test: &str, nth: usize, store: &Store) -> Ending {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_STORE, store.directory())
        .env(CHILD_POINT, nth.to_string())
        .output()
        .expect("the test runs again");
    match (output.status.signal(), output.status.code()) {
        (Some(9), _) => Ending::Killed,
        (None, Some(0)) => Ending::Completed,
        _ => panic!("{}{:?}", String::from_utf8_lossy(&output.stderr), output.status),
    }
}

/// In a process that [`kill_at`] started, does the work and returns true. In any other process,
/// does nothing and returns false.
pub(crate) fn child(work: impl FnOnce(&Store)) -> bool {
    let Some(directory) = std::env::var_os(CHILD_STORE) else { return false };
    let nth = std::env::var(CHILD_POINT).expect("the point").parse().expect("a number");
    let store = Store::open(directory).expect("the store can be opened");
    fault::arm(nth, Fault::Kill, false);
    work(&store);
    fault::disarm();
    true
}

const ALONE: &str = "TAKEBACK_TEST_ALONE";

/// Runs a test in a separate process, because faults affect all threads of a process.
pub(crate) fn alone(test: &str, work: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return work();
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("the test runs again");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
}
