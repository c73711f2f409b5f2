//! A scratch workspace, and a store that git checks.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use takeback_base::errors::error_chain;
use takeback_tree::{
    Capture, CaptureError, CaptureOptions, CaptureRules, ForbiddenRoots, Oid, Pin, Plan, PlanError,
    RelPath, RestoreError, RestoreOutcome, RestoreTarget, Store,
};

/// The reason why a restore did not happen.
#[derive(Debug)]
pub enum RestoreFailure {
    Plan(PlanError),
    Restore(RestoreError),
}

/// The directory of a scratch workspace. The process that created it removes it.
pub struct Directory {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Directory {
    fn new(temporary: tempfile::TempDir) -> Directory {
        Directory { path: temporary.path().to_owned(), _temporary: Some(temporary) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory with a store and a workspace in it.
pub struct Scratch {
    // This field is dropped first: a directory cannot be deleted while a file system is mounted on
    // it.
    mount: Option<Mount>,
    pub directory: Directory,
    pub store: Store,
    pub root: PathBuf,
    pub rules: CaptureRules,
    pub named: Vec<RelPath>,
    pub swept: Vec<RelPath>,
    /// The amount of time by which the clock of captures is ahead of the real time. If it is an
    /// hour ahead, all files are old enough to be trusted.
    pub ahead: Duration,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch::in_directory(Directory::new(tempfile::tempdir().unwrap()))
    }

    /// Creates a workspace, in memory where that is possible, for tests with thousands of captures.
    pub fn in_memory() -> Scratch {
        Scratch::in_directory(Directory::new(memory()))
    }

    /// Creates a workspace on a file system that stores times only in whole seconds, so that a
    /// change can go unnoticed because the times are equal. Returns `None` if this user cannot
    /// mount such a file system.
    pub fn in_whole_seconds() -> Option<Scratch> {
        let mut scratch = Scratch::in_memory();
        let image = scratch.directory.path().join("image");
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        // Inodes of 128 bytes have no room for nanoseconds.
        let made = Command::new("mke2fs")
            .args(["-q", "-F", "-t", "ext2", "-I", "128", "-N", "1024"])
            .arg(&image)
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            tell_skipped("mke2fs is not installed");
            return None;
        }
        scratch.mount = Some(Mount::new(&["-o", "loop"], &image, &scratch.root)?);
        scratch.remove("lost+found");
        Some(scratch)
    }

    /// Creates a workspace on a file system that can clone files. Returns `None` if this user
    /// cannot mount such a file system.
    pub fn on_cloning_disk() -> Option<Scratch> {
        let outside = tempfile::tempdir().unwrap();
        let (image, disk) = (outside.path().join("image"), outside.path().join("disk"));
        fs::File::create(&image).unwrap().set_len(160 << 20).unwrap();
        fs::create_dir(&disk).unwrap();
        let made = Command::new("mkfs.btrfs").arg("--quiet").arg(&image).output();
        if !made.is_ok_and(|output| output.status.success()) {
            tell_skipped("mkfs.btrfs is not installed");
            return None;
        }
        let mount = Mount::new(&["-o", "loop"], &image, &disk)?;
        let directory = Directory { path: disk, _temporary: Some(outside) };
        Some(Scratch { mount: Some(mount), ..Scratch::in_directory(directory) })
    }

    /// Creates a workspace with a store on a file system of this size. Returns `None` if this user
    /// cannot mount such a file system.
    pub fn with_small_store(megabytes: u32) -> Option<Scratch> {
        let directory = Directory::new(memory());
        let store = directory.path().join("store");
        fs::create_dir(&store).unwrap();
        let size = format!("size={megabytes}m,mode=755");
        let mount = Mount::new(&["-t", "tmpfs", "-o", &size], Path::new("none"), &store)?;
        Some(Scratch { mount: Some(mount), ..Scratch::in_directory(directory) })
    }

    /// Opens a scratch workspace that another process created.
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
            mount: None,
            directory,
            store,
            root,
            rules: CaptureRules::default(),
            named: Vec::new(),
            swept: Vec::new(),
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
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock()?;
        let now = self.now();
        let options =
            CaptureOptions { rules: &self.rules, named: &self.named, swept: &self.swept, now };
        let capture = lock.capture(&options)?;
        lock.pin(capture.tree, now, "a test\n").unwrap();
        lock.finish(now).unwrap();
        Ok(capture)
    }

    /// Captures the workspace and pins the state. Returns an error as one line.
    pub fn try_capture_and_pin(&self) -> Result<Capture, String> {
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().map_err(|error| error_chain(&error))?;
        let now = self.now();
        let options =
            CaptureOptions { rules: &self.rules, named: &self.named, swept: &self.swept, now };
        let capture = lock.capture(&options).map_err(|error| error_chain(&error))?;
        lock.pin(capture.tree, now, "a test\n").map_err(|error| error_chain(&error))?;
        lock.finish(now).map_err(|error| error_chain(&error))?;
        Ok(capture)
    }

    /// Captures the workspace without a pin.
    pub fn capture_only(&self) -> Capture {
        capture_into(&self.store, self)
    }

    /// Captures the workspace into a new store, which has no stat cache yet.
    pub fn fresh(&self) -> Capture {
        let directory = memory();
        capture_into(&Store::open(directory.path()).unwrap(), self)
    }

    /// True if a restore was interrupted.
    pub fn journal(&self) -> bool {
        let directories = fs::read_dir(self.store.directory().join("workspaces")).unwrap();
        let mut directories = directories.map(|entry| entry.unwrap().path());
        directories
            .any(|path| path.join("journal").exists() || path.join("journal.staging").exists())
    }

    /// Captures the workspace and pins the state.
    pub fn capture(&self) -> Capture {
        self.try_capture().unwrap()
    }

    /// Plans the restore of a capture.
    pub fn plan(&self, target: &Capture, paths: &[&str]) -> Result<Plan, PlanError> {
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        self.plan_with(&mut lock, target, paths)
    }

    pub fn plan_with(
        &self,
        lock: &mut takeback_tree::Lock<'_>,
        target: &Capture,
        paths: &[&str],
    ) -> Result<Plan, PlanError> {
        let target = RestoreTarget {
            tree: target.tree,
            filter: &target.filter,
            uncovered: &target.uncovered,
            undoes: None,
            released: &[],
            silent: false,
        };
        let paths: Vec<RelPath> = paths.iter().map(|path| rel(path)).collect();
        let options = CaptureOptions {
            rules: &self.rules,
            named: &self.named,
            swept: &self.swept,
            now: self.now(),
        };
        lock.plan(&target, &paths, &options)
    }

    pub fn try_restore(
        &self,
        target: &Capture,
        paths: &[&str],
    ) -> Result<(Plan, RestoreOutcome), RestoreFailure> {
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let plan = self.plan_with(&mut lock, target, paths).map_err(RestoreFailure::Plan)?;
        let safety = lock.pin(plan.from, self.now(), "before a restore\n").unwrap();
        let outcome = lock.apply(&plan, &safety).map_err(RestoreFailure::Restore)?;
        lock.finish(self.now()).unwrap();
        Ok((plan, outcome))
    }

    /// Restores a capture, but does not touch paths that cannot be restored. Returns those paths.
    pub fn restore_what_is_possible(&self, target: &Capture) -> Vec<RelPath> {
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let target = RestoreTarget {
            tree: target.tree,
            filter: &target.filter,
            uncovered: &target.uncovered,
            undoes: None,
            released: &[],
            silent: false,
        };
        let options = CaptureOptions {
            rules: &self.rules,
            named: &self.named,
            swept: &self.swept,
            now: self.now(),
        };
        let mut skipped: Vec<RelPath> = Vec::new();
        loop {
            let plan = lock.plan_without(&target, &[], &skipped, &options).unwrap();
            let safety = lock.pin(plan.from, self.now(), "before a restore\n").unwrap();
            match lock.apply(&plan, &safety) {
                Ok(_) => return skipped,
                Err(error) => {
                    let blocked = error.blocked_paths();
                    assert!(!blocked.is_empty(), "{error}");
                    assert!(blocked.iter().all(|blocked| !skipped.contains(&blocked.path)));
                    skipped.extend(blocked.into_iter().map(|blocked| blocked.path));
                }
            }
        }
    }

    /// Restores a capture. Runs `meanwhile` after the plan is made and before it is applied.
    pub fn restore_with(
        &self,
        target: &Capture,
        meanwhile: impl FnOnce(),
    ) -> Result<RestoreOutcome, RestoreError> {
        let workspace = self.store.workspace(&self.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let plan = self.plan_with(&mut lock, target, &[]).unwrap();
        let safety = lock.pin(plan.from, self.now(), "before a restore\n").unwrap();
        meanwhile();
        lock.apply(&plan, &safety)
    }

    /// Restores a capture.
    pub fn restore(&self, target: &Capture, paths: &[&str]) -> Plan {
        self.try_restore(target, paths).unwrap().0
    }

    /// Returns the state that a plan starts from, as a capture that can be restored.
    pub fn as_capture(&self, plan: &Plan) -> Capture {
        Capture {
            tree: plan.from,
            files: 0,
            uncovered: plan.uncovered.clone(),
            unsettled: Vec::new(),
            unprivileged: Vec::new(),
            unapplied: Vec::new(),
            incomplete_index: false,
            damaged: Vec::new(),
            filter: plan.filter.clone(),
        }
    }

    /// Runs git on the store.
    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        git(self.store.directory(), arguments)
    }

    /// Reads the pins of the workspace.
    pub fn pins(&self) -> Vec<Pin> {
        let id = self.store.workspace_id(&self.root);
        let names = self.store.pin_names(&id).unwrap();
        names.iter().map(|name| self.store.pin(name).unwrap().unwrap()).collect()
    }

    /// Checks that git finds nothing wrong with the store.
    pub fn fsck(&self) {
        self.git(&["fsck", "--strict", "--full", "--no-dangling"]);
    }

    /// Lists a tree with git: path → (mode, object).
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

    /// Lists a tree by its raw objects: path → (mode, object). Git shows only some bits of a mode.
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

    /// Lists the paths of files in a tree.
    pub fn files(&self, tree: Oid) -> Vec<String> {
        let entries =
            self.ls_tree(tree).into_iter().filter(|(_, (mode, _))| !mode.starts_with("04"));
        entries.map(|(path, _)| String::from_utf8_lossy(&path).into_owned()).collect()
    }
}

/// Creates a directory, in memory where that is possible.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Prints the reason why a test is skipped on this machine. `cargo xtask test` collects these
/// lines.
pub fn tell_skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// A mounted file system, unmounted when it is dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts a file system. Prints a note and returns `None` if this user cannot do so.
    pub fn new(options: &[&str], source: &Path, target: &Path) -> Option<Mount> {
        let output = Command::new("mount").args(options).arg(source).arg(target).output().unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!rustix::process::geteuid().is_root(), "cannot mount: {error}");
            tell_skipped(&format!("cannot mount: {}", error.trim()));
            return None;
        }
        Some(Mount(target.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn capture_into(store: &Store, scratch: &Scratch) -> Capture {
    let workspace = store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = scratch.now();
    let options =
        CaptureOptions { rules: &scratch.rules, named: &scratch.named, swept: &scratch.swept, now };
    let capture = lock.capture(&options).unwrap();
    lock.finish(now).unwrap();
    capture
}

/// Returns a command that runs one of these tests in a separate process, with `CHILD` in its
/// environment.
pub fn rerun_test(test: &str, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let own = fs::File::open(std::env::current_exe().unwrap()).unwrap();
    // The program is passed as an open file, because another user may not have access to its path.
    command.args(arguments).arg("/proc/self/fd/0").stdin(own);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("CHILD", test);
    command
}

/// Reads a variable that the caller of [`rerun_test`] set, if this process is the child.
pub fn child_variable(name: &str) -> Option<String> {
    std::env::var_os("CHILD")?;
    Some(std::env::var_os(name)?.into_string().unwrap())
}

/// Runs a command and checks that its test ran and passed.
pub fn succeed(mut command: Command) {
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(output.status.success() && told.contains("1 passed"), "{}: {told}", output.status);
}

/// Runs git with no configuration except the repository's own.
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

/// Reads a directory, for comparison: path → mode and content. Skips `.git`.
pub fn read_directory(root: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
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

/// Runs the body of a test in a separate process. That process runs the same test again and
/// executes only the body.
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
