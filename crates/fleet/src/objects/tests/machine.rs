//! Machines with stores of their own, and buckets that fail.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use takeback_base::lock_wait::LockWait;
use takeback_ledger::Time;
use takeback_tree::{CaptureOptions, CaptureRules, ForbiddenRoots, Oid, Store};

use crate::identity::{Files, FleetKey, Identity};
use crate::objects::bucket::{Bucket, Content, Listing};
use crate::objects::directory::DirectoryBucket;
use crate::objects::{Objects, ObjectsError, Pull, RemoteWorkspace, UploadReport};
use crate::{Encrypt, FleetError};

/// The key of all fleets in these tests.
pub(super) const KEY: [u8; 32] = [7; 32];

/// A machine with a store and a workspace.
pub(super) struct Machine {
    pub(super) home: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) project: PathBuf,
    pub(super) encrypt: Encrypt,
    pub(super) name: String,
    identity: Identity,
    time: u64,
}

impl Machine {
    pub(super) fn new(name: &str) -> Machine {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().canonicalize().unwrap().join("shop");
        fs::create_dir(&project).unwrap();
        let store = Store::open(home.path().join("store")).unwrap();
        let identity = Identity { fleet: "f".repeat(32), machine: format!("{name:m<32}") };
        Machine {
            home,
            store,
            project,
            encrypt: Encrypt::Private,
            name: name.to_owned(),
            identity,
            time: 1_700_000_000,
        }
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Captures the workspace and pins its state. Returns the commit.
    pub(super) fn pin(&mut self) -> Oid {
        self.time += 1;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(self.time);
        let workspace = self.store.workspace(&self.project, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let rules = CaptureRules::default();
        let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        let capture = lock.capture(&options).unwrap();
        let pin = lock.pin(capture.tree, now, &format!("state {}\n", self.time)).unwrap();
        lock.finish(now).unwrap();
        pin.id
    }

    pub(super) fn objects(&self, bucket: Box<dyn Bucket>) -> Objects {
        Objects {
            bucket,
            files: Files::in_home(self.home.path()),
            identity: self.identity.clone(),
            key: (self.encrypt != Encrypt::Off).then_some(FleetKey(KEY)),
            encrypt: self.encrypt,
            name: self.name.clone(),
            lock_wait: LockWait::silent(Duration::from_secs(60)),
        }
    }

    pub(super) fn in_directory(&self, directory: &Path) -> Objects {
        self.objects(Box::new(DirectoryBucket::open(directory, None).unwrap()))
    }

    pub(super) fn upload(&self, directory: &Path) -> Result<UploadReport, ObjectsError> {
        upload(&self.in_directory(directory), &self.store)
    }

    /// Adopts the identity of another machine, as if this home were a copy of the other home.
    pub(super) fn copy_identity(&mut self, other: &Machine) {
        self.identity = other.identity.clone();
    }

    pub(super) fn join_fleet(&mut self, fleet: &str) {
        fleet.clone_into(&mut self.identity.fleet);
    }

    /// Returns the content of the file with the state of the machine's uploads. Returns `None` if
    /// there is no such file.
    pub(super) fn fleet_files(&self) -> Result<Option<String>, FleetError> {
        Files::in_home(self.home.path()).read("objects.json")
    }
}

pub(super) fn upload(objects: &Objects, store: &Store) -> Result<UploadReport, ObjectsError> {
    objects.upload(store, &CaptureRules::default(), Time(1_000), &|_| {})
}

/// Finds a workspace of this machine in the bucket.
pub(super) fn find_workspace(objects: &Objects, machine: &str) -> RemoteWorkspace {
    let all = objects.workspaces().unwrap();
    all.into_iter().find(|it| it.machine == machine).unwrap()
}

/// Reads a whole workspace of a machine. Returns the pull if nothing is missing.
pub(super) fn pull_all<'o>(objects: &'o Objects, machine: &str, local: &Store) -> Option<Pull<'o>> {
    let mut pull = objects.pull(&find_workspace(objects, machine)).unwrap();
    let commits: Vec<Oid> = pull.pins().iter().map(|pin| pin.commit).collect();
    pull.fetch(&commits, local).unwrap().then_some(pull)
}

/// Lists all files below a directory, with their contents.
pub(super) fn all_files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory_now) = waiting.pop() {
        for entry in fs::read_dir(directory_now).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                files.push((name, fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// A bucket that stops answering after some requests, as if the process had been killed.
pub(super) struct DyingBucket {
    pub(super) inner: DirectoryBucket,
    /// The number of requests that still succeed.
    pub(super) left: Arc<AtomicI64>,
    /// True if the last request takes effect, but its answer is lost.
    pub(super) dies_after: bool,
}

impl DyingBucket {
    fn run<T>(&self, request: impl FnOnce() -> Result<T, ObjectsError>) -> Result<T, ObjectsError> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 {
            return request();
        }
        if left == 0 && self.dies_after {
            request()?;
        }
        let source = std::io::Error::other("the process was killed");
        Err(ObjectsError::Unreachable { target: "test".into(), source })
    }
}

impl Bucket for DyingBucket {
    fn target(&self) -> &str {
        self.inner.target()
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError> {
        self.run(|| self.inner.download(key, out))
    }

    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError> {
        self.run(|| self.inner.create(key, content))
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        self.run(|| self.inner.remove(key))
    }

    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError> {
        self.run(|| self.inner.list(prefix))
    }
}

/// A bucket that calls a function before each creation of an object.
pub(super) struct WatchedBucket {
    pub(super) inner: DirectoryBucket,
    pub(super) on_create: Box<dyn Fn() + Send + Sync>,
}

impl Bucket for WatchedBucket {
    fn target(&self) -> &str {
        self.inner.target()
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError> {
        self.inner.download(key, out)
    }

    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError> {
        (self.on_create)();
        self.inner.create(key, content)
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        self.inner.remove(key)
    }

    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError> {
        self.inner.list(prefix)
    }
}
