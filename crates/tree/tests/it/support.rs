//! A scratch workspace with a store, and git as the referee.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use takeback_tree::{
    Capture, CaptureError, CaptureOptions, Oid, Outcome, Places, Plan, PlanError, RelPath,
    RestoreError, Rules, Store, Target,
};

/// Why a restore did not happen.
#[derive(Debug)]
pub enum Failure {
    Plan(PlanError),
    Restore(RestoreError),
}

/// Where a scratch workspace is; the one who made it removes it.
pub struct Directory {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Directory {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory with a store and a workspace in it.
pub struct Scratch {
    pub directory: Directory,
    pub store: Store,
    pub root: PathBuf,
    pub rules: Rules,
    pub named: Vec<RelPath>,
    /// How far the clock of captures is ahead: an hour makes everything old enough to be trusted.
    pub ahead: Duration,
}

impl Scratch {
    pub fn new() -> Scratch {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().to_owned();
        Scratch::in_directory(Directory { path, _temporary: Some(temporary) })
    }

    /// The one that another process made.
    pub fn at(path: &Path) -> Scratch {
        Scratch::in_directory(Directory { path: path.to_owned(), _temporary: None })
    }

    fn in_directory(directory: Directory) -> Scratch {
        let base = fs::canonicalize(directory.path()).unwrap();
        let root = base.join("work");
        fs::create_dir_all(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let store = Store::open(base.join("store")).unwrap();
        Scratch {
            directory,
            store,
            root,
            rules: Rules::default(),
            named: Vec::new(),
            ahead: Duration::ZERO,
        }
    }

    pub fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.as_ref()))
    }

    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: impl AsRef<[u8]>) -> String {
        String::from_utf8_lossy(&fs::read(self.path(path)).unwrap()).into_owned()
    }

    pub fn exists(&self, path: impl AsRef<[u8]>) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    pub fn mkdir(&self, path: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    pub fn link(&self, target: &str, path: impl AsRef<[u8]>) {
        symlink(target, self.path(path)).unwrap();
    }

    pub fn remove(&self, path: impl AsRef<[u8]>) {
        let path = self.path(path);
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    pub fn chmod(&self, path: impl AsRef<[u8]>, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn now(&self) -> SystemTime {
        SystemTime::now() + self.ahead
    }

    pub fn try_capture(&self) -> Result<Capture, CaptureError> {
        let workspace = self.store.workspace(&self.root, &Places::default()).unwrap();
        let mut lock = workspace.lock()?;
        let now = self.now();
        let options = CaptureOptions { rules: &self.rules, named: &self.named, now };
        let capture = lock.capture(&options)?;
        lock.pin(capture.tree, now, "a test\n").unwrap();
        lock.finish(now).unwrap();
        Ok(capture)
    }

    /// Whether a restore was cut off.
    pub fn journal(&self) -> bool {
        let directories = fs::read_dir(self.store.directory().join("workspaces")).unwrap();
        let mut directories = directories.map(|entry| entry.unwrap().path());
        directories
            .any(|path| path.join("journal").exists() || path.join("journal.staging").exists())
    }

    /// Captures and pins.
    pub fn capture(&self) -> Capture {
        self.try_capture().unwrap()
    }

    /// What it would take to return to a capture.
    pub fn plan(&self, target: &Capture, paths: &[&str]) -> Result<Plan, PlanError> {
        let workspace = self.store.workspace(&self.root, &Places::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        self.plan_with(&mut lock, target, paths)
    }

    pub fn plan_with(
        &self,
        lock: &mut takeback_tree::Lock<'_>,
        target: &Capture,
        paths: &[&str],
    ) -> Result<Plan, PlanError> {
        let target =
            Target { tree: target.tree, filter: &target.filter, uncovered: &target.uncovered };
        let paths: Vec<RelPath> = paths.iter().map(|path| rel(path)).collect();
        let options = CaptureOptions { rules: &self.rules, named: &self.named, now: self.now() };
        lock.plan(&target, &paths, &options)
    }

    pub fn try_restore(
        &self,
        target: &Capture,
        paths: &[&str],
    ) -> Result<(Plan, Outcome), Failure> {
        let workspace = self.store.workspace(&self.root, &Places::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let plan = self.plan_with(&mut lock, target, paths).map_err(Failure::Plan)?;
        let safety = lock.pin(plan.from, self.now(), "before a restore\n").unwrap();
        let outcome = lock.apply(&plan, &safety).map_err(Failure::Restore)?;
        lock.finish(self.now()).unwrap();
        Ok((plan, outcome))
    }

    /// Returns to a capture, with something happening between the plan and its application.
    pub fn restore_with(
        &self,
        target: &Capture,
        meanwhile: impl FnOnce(),
    ) -> Result<Outcome, RestoreError> {
        let workspace = self.store.workspace(&self.root, &Places::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let plan = self.plan_with(&mut lock, target, &[]).unwrap();
        let safety = lock.pin(plan.from, self.now(), "before a restore\n").unwrap();
        meanwhile();
        lock.apply(&plan, &safety)
    }

    /// Returns to a capture.
    pub fn restore(&self, target: &Capture, paths: &[&str]) -> Plan {
        self.try_restore(target, paths).unwrap().0
    }

    /// The present as a capture, for returning to it.
    pub fn as_capture(&self, plan: &Plan) -> Capture {
        Capture {
            tree: plan.from,
            files: 0,
            uncovered: plan.uncovered.clone(),
            filter: plan.filter.clone(),
        }
    }

    /// Runs git on the store.
    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        git(self.store.directory(), arguments)
    }

    /// The store is clean in git's own eyes.
    pub fn fsck(&self) {
        self.git(&["fsck", "--strict", "--full", "--no-dangling"]);
    }

    /// What git lists in a tree: path → (mode, object).
    pub fn ls_tree(&self, tree: Oid) -> BTreeMap<Vec<u8>, (String, String)> {
        let listing = self.git(&["ls-tree", "-r", "-t", "-z", &tree.to_string()]);
        listing
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
            .map(|line| {
                let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
                let head = String::from_utf8(line[..tab].to_vec()).unwrap();
                let mut fields = head.split(' ');
                let mode = fields.next().unwrap().to_owned();
                let object = fields.nth(1).unwrap().to_owned();
                (line[tab + 1..].to_vec(), (mode, object))
            })
            .collect()
    }

    /// The same from the raw tree objects: git shows only some of the bits of a mode.
    pub fn raw_tree(&self, tree: Oid) -> BTreeMap<Vec<u8>, (String, String)> {
        let mut found = BTreeMap::new();
        let mut pending = vec![(Vec::new(), tree.to_string())];
        while let Some((prefix, tree)) = pending.pop() {
            let raw = self.git(&["cat-file", "tree", &tree]);
            let mut rest = &raw[..];
            while !rest.is_empty() {
                let nul = rest.iter().position(|byte| *byte == 0).unwrap();
                let space = rest.iter().position(|byte| *byte == b' ').unwrap();
                let mode = String::from_utf8(rest[..space].to_vec()).unwrap();
                let path = [&prefix[..], &rest[space + 1..nul]].concat();
                let object: String =
                    rest[nul + 1..nul + 21].iter().map(|byte| format!("{byte:02x}")).collect();
                if mode.starts_with('4') {
                    pending.push(([&path[..], b"/"].concat(), object.clone()));
                }
                found.insert(path, (mode, object));
                rest = &rest[nul + 21..];
            }
        }
        found
    }

    /// The paths of files in a tree.
    pub fn files(&self, tree: Oid) -> Vec<String> {
        let entries =
            self.ls_tree(tree).into_iter().filter(|(_, (mode, _))| !mode.starts_with("04"));
        entries.map(|(path, _)| String::from_utf8_lossy(&path).into_owned()).collect()
    }
}

/// Runs git without any configuration but the repository's own.
pub fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("error"),
        "git {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// What is in a directory, for comparison: path → mode and content. `.git` is passed over.
pub fn look(root: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string().into_vec();
                found.insert(name, (0o120_000, target));
            } else if metadata.is_dir() {
                found.insert(name, (mode, Vec::new()));
                pending.push(path);
            } else if metadata.is_file() {
                found.insert(name, (mode, fs::read(&path).unwrap()));
            } else {
                found.insert(name, (mode, Vec::new()));
            }
        }
    }
    found
}

pub fn rel(path: &str) -> RelPath {
    RelPath::new(path).unwrap()
}

/// Runs a test in a process of its own: the test calls itself again.
pub fn in_own_process(test: &str, body: impl FnOnce()) {
    const MARK: &str = "TAKEBACK_TEST_CHILD";
    if std::env::var_os(MARK).is_some_and(|mark| mark == test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MARK, test)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
