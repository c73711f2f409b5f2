//! Tests of adoptions. Git creates the repositories that are adopted, and checks the result.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::pins::PinNumbers;
use super::*;
use crate::git::ForeignError;
use crate::lock::{read_seq, write_seq};
use crate::object::Commit;
use crate::path::RelPath;
use crate::pins::{PinName, WorkspaceId};
use crate::testing::{Bench, Ending, Files, child, file, harm, kill_at, text};

/// A repository with a work tree, in a directory next to the store.
struct Repository {
    directory: PathBuf,
}

impl Repository {
    fn new(bench: &Bench) -> Repository {
        let directory = bench.store.directory().parent().unwrap().join("foreign");
        fs::create_dir_all(&directory).unwrap();
        let repository = Repository { directory };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn open(&self) -> ForeignRepository {
        ForeignRepository::open(&self.directory).unwrap()
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut git = Command::new("git")
            .args([OsStr::new("-C"), self.directory.as_os_str()])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "somebody")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
            .envs(
                ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_DATE"), "1700000000 +0200")),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        io::Write::write_all(&mut git.stdin.take().unwrap(), input).unwrap();
        let output = git.wait_with_output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        output.stdout
    }

    fn git(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.git_with(arguments, b"")).trim_end().to_owned()
    }

    fn write(&self, path: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
        let path = self.directory.join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits everything and returns the tree.
    fn commit(&self, message: &str) -> Oid {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.tree_of("HEAD")
    }

    fn tree_of(&self, revision: &str) -> Oid {
        self.git(&["rev-parse", &format!("{revision}^{{tree}}")]).parse().unwrap()
    }

    fn loose(&self, oid: &Oid) -> PathBuf {
        let name = oid.to_string();
        self.directory.join(".git/objects").join(&name[..2]).join(&name[2..])
    }

    /// Writes a tree that git itself would not write.
    fn odd_tree(&self, entries: &[(&str, &[u8], Oid)]) -> Oid {
        let mut tree = Vec::new();
        for (mode, name, oid) in entries {
            tree.extend([mode.as_bytes(), b" ", name, b"\0", &oid.0].concat());
        }
        let arguments = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        let id = self.git_with(&arguments, &tree);
        String::from_utf8(id).unwrap().trim_end().parse().unwrap()
    }

    fn blob(&self, content: &[u8]) -> Oid {
        let id = self.git_with(&["hash-object", "-w", "--stdin"], content);
        String::from_utf8(id).unwrap().trim_end().parse().unwrap()
    }
}

/// Adopts trees as the oldest history of a workspace.
fn adopt_trees(bench: &Bench, foreign: &ForeignRepository, trees: &[Oid]) -> Vec<Adopted> {
    let mut adoption = bench.store.adopt().unwrap();
    let taken: Vec<Adopted> =
        trees.iter().map(|tree| adoption.take_tree(foreign, *tree).unwrap()).collect();
    let lock = adoption.lock(Path::new("/gone/project")).unwrap();
    let older: Vec<OlderPin> =
        taken.iter().map(|taken| OlderPin { after: 0, tree: taken.tree, time: 5 }).collect();
    lock.finish(&older, SystemTime::now(), &mut |index, seq| format!("{index} is {seq}\n"))
        .unwrap();
    taken
}

/// Parses git's listing of a tree. Skips links to other repositories.
fn listing(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == 0).filter(|line| !line.starts_with(b"160000"));
    lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Checks that git sees the same files in both repositories.
fn assert_same_files(bench: &Bench, repository: &Repository, trees: &[Oid], taken: &[Adopted]) {
    bench.fsck();
    assert_eq!(trees.len(), taken.len());
    for (tree, taken) in trees.iter().zip(taken) {
        let theirs = repository.git_with(&["ls-tree", "-r", "-z", &tree.to_string()], b"");
        let ours = bench.try_git(&["ls-tree", "-r", "-z", &taken.tree.to_string()]);
        assert_eq!(listing(&ours.stdout), listing(&theirs));
        assert_eq!(taken.files as usize, listing(&theirs).len());
    }
}

fn uncovered(path: &str, reason: UncoveredReason) -> Uncovered {
    Uncovered { path: RelPath::new(path).unwrap(), reason }
}

/// Lists the messages of a workspace's pins, oldest first, with their numbers.
fn messages(store: &Store, workspace: &WorkspaceId) -> Vec<(u64, String)> {
    let names = store.pin_names(workspace).unwrap();
    let pins = names.iter().map(|name| store.pin(name).unwrap().unwrap());
    pins.map(|pin| (pin.name.seq, pin.message)).collect()
}

#[test]
fn every_kind_of_entry_is_adopted() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    let mut trees = vec![repository.commit("nothing yet")];
    repository.write("a/b/file", "1");
    repository.write("a.b", "sorts before a/");
    repository.write("run.sh", "#!/bin/sh");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(repository.directory.join("run.sh"), executable).unwrap();
    symlink("../some where\n", repository.directory.join("a/link")).unwrap();
    repository.write(OsStr::from_bytes(b"caf\xe9/\xff"), "not UTF-8");
    trees.push(repository.commit("files"));
    repository.write("a/nested/x", "x");
    let nested = Repository { directory: repository.directory.join("a/nested") };
    nested.git(&["init", "-q"]);
    nested.commit("nested");
    repository.write("a/b/file", text(1, 50_000));
    trees.push(repository.commit("a nested repository"));
    fs::remove_dir_all(repository.directory.join("a")).unwrap();
    trees.push(repository.commit("deleted"));

    let taken = adopt_trees(&bench, &repository.open(), &trees);
    assert_same_files(&bench, &repository, &trees, &taken);
    assert_eq!(taken[0], Adopted { tree: Oid::EMPTY_TREE, files: 0, uncovered: vec![] });
    assert_eq!(taken[2].uncovered, [uncovered("a/nested", UncoveredReason::Nested)]);
    assert!(taken[1].uncovered.is_empty() && taken[3].uncovered.is_empty());
    let root = bench.store.tree(&taken[1].tree).unwrap();
    assert_eq!(root.iter().find(|entry| entry.name == b"a").unwrap().mode, Mode(0o40755));

    let workspace = bench.store.workspace_id(Path::new("/gone/project"));
    let said = (0..4).map(|index| (index + 1, format!("{index} is {}\n", index + 1)));
    assert_eq!(messages(&bench.store, &workspace), said.collect::<Vec<_>>());
    let info = bench.store.workspace_info(&workspace).unwrap().unwrap();
    assert_eq!(info.path.0, Path::new("/gone/project"));
    let report = bench.store.verify(&|_, _| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    bench.store.gc().unwrap();
    assert_same_files(&bench, &repository, &trees, &taken);
}

#[test]
fn packs_and_deltas_and_packed_refs_and_alternates_are_read() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    let mut trees = Vec::new();
    for round in 0..20 {
        let edit = format!("{round}\n").into_bytes();
        repository.write("large", [text(1, 9000), edit, text(2, 9000)].concat());
        repository.write(format!("d/{round}"), text(round, 100));
        trees.push(repository.commit("edit"));
    }
    repository.git(&["tag", "-a", "-m", "a tag", "v1"]);
    repository.git(&["repack", "-adfq", "--depth=10", "--window=10"]);
    repository.git(&["pack-refs", "--all"]);
    assert!(repository.git(&["verify-pack", "-v", &pack(&repository)]).contains("chain length = "));
    // A second repository borrows all objects of the first one, and has packs and loose objects of
    // its own.
    let borrower = Repository { directory: repository.directory.with_file_name("borrower") };
    repository.git(&["clone", "-qs", ".", "../borrower"]);
    for round in 0..3 {
        borrower.write("large", text(7 + round, 9000));
        trees.push(borrower.commit("borrowed"));
        borrower.git(&["repack", "-dq", "-l"]);
    }
    borrower.git(&["multi-pack-index", "write"]);
    borrower.write("last", "loose");
    trees.push(borrower.commit("loose"));

    let foreign = borrower.open();
    let head: Oid = borrower.git(&["rev-parse", "HEAD"]).parse().unwrap();
    assert_eq!(foreign.head().unwrap(), Some(head));
    let commit = foreign.commit(&head).unwrap();
    assert_eq!((commit.time, commit.zone, &*commit.message), (1_700_000_000, 120, "loose\n"));
    assert_eq!((commit.tree, commit.parents.len()), (trees[23], 1));
    let named: Vec<String> = foreign.refs().unwrap().into_iter().map(|found| found.name).collect();
    let git = borrower.git(&["for-each-ref", "--format=%(refname)"]);
    let git: Vec<&str> = git.lines().filter(|name| !name.ends_with("/HEAD")).collect();
    assert_eq!(named, git);
    let packed = repository.open();
    assert_eq!(
        packed.head().unwrap(),
        Some(repository.git(&["rev-parse", "HEAD"]).parse().unwrap())
    );

    let taken = adopt_trees(&bench, &foreign, &trees);
    assert_same_files(&bench, &borrower, &trees, &taken);
    let packs = bench.listing();
    adopt_trees(&bench, &foreign, &[]);
    let mut adoption = bench.store.adopt().unwrap();
    trees.iter().for_each(|tree| drop(adoption.take_tree(&foreign, *tree).unwrap()));
    drop(adoption.lock(Path::new("/gone/project")).unwrap());
    assert_eq!(bench.listing(), packs, "known objects are not written again");
}

/// Returns the name of the only pack of a repository.
fn pack(repository: &Repository) -> String {
    let directory = repository.directory.join(".git/objects/pack");
    let name = crate::packs::list_pack_names(&directory).pop().unwrap();
    directory.join(name).with_extension("idx").to_str().unwrap().to_owned()
}

#[test]
fn a_missing_or_damaged_object_affects_only_the_states_that_need_it() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    let mut trees = Vec::new();
    for round in 0..6 {
        repository.write("same/deep/file", "same");
        repository.write("same/deep/other", format!("{}", round / 3));
        repository.write("dir/file", text(round, 400));
        trees.push(repository.commit("edit"));
    }
    let blob = |revision: &str| repository.git(&["rev-parse", revision]).parse::<Oid>().unwrap();
    fs::remove_file(repository.loose(&blob("HEAD~4:dir/file"))).unwrap();
    fs::remove_file(repository.loose(&blob("HEAD~3:dir"))).unwrap();
    harm(&repository.loose(&blob("HEAD~2:dir/file")), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
    });
    let other = repository.loose(&blob("HEAD~1:dir/file"));
    let last = repository.loose(&blob("HEAD:dir/file"));
    fs::remove_file(&other).unwrap();
    fs::copy(last, other).unwrap();

    let foreign = repository.open();
    let mut adoption = bench.store.adopt().unwrap();
    let taken: Vec<_> = trees.iter().map(|tree| adoption.take_tree(&foreign, *tree)).collect();
    let missing = |index: usize| {
        matches!(&taken[index], Err(AdoptError::Foreign(ForeignObjectError::Missing(_))))
    };
    let damaged = |index: usize| {
        matches!(&taken[index], Err(AdoptError::Foreign(ForeignObjectError::Damaged { .. })))
    };
    assert!(missing(1) && missing(2) && damaged(3) && damaged(4), "{taken:?}");
    let (trees, taken): (Vec<Oid>, Vec<Adopted>) =
        trees.iter().zip(taken).filter_map(|(tree, taken)| Some((*tree, taken.ok()?))).unzip();
    let lock = adoption.lock(Path::new("/gone/project")).unwrap();
    let older: Vec<OlderPin> =
        taken.iter().map(|taken| OlderPin { after: 0, tree: taken.tree, time: -1 }).collect();
    let pins = lock.finish(&older, SystemTime::now(), &mut |_, _| "x".into()).unwrap();
    assert_eq!((pins.len(), trees.len()), (2, 2));
    assert_same_files(&bench, &repository, &trees, &taken);
}

#[test]
fn entries_that_the_store_cannot_hold_are_left_out_and_reported() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    let blob = repository.blob(b"content");
    let large = repository.blob(b"said to be large");
    let mut fake = Vec::new();
    crate::pack::deflate(b"blob 600000000\0and so on", &mut fake);
    harm(&repository.loose(&large), |bytes| *bytes = fake);
    let inner = repository.odd_tree(&[
        ("100644", b".git", blob),
        ("100664", b"b", blob),
        ("100644", b"a", blob),
        ("100644", b"b", blob),
        ("100644", b"large", large),
    ]);
    let tree = repository.odd_tree(&[
        ("100644", b"..", blob),
        ("40000", b".GIT", inner),
        ("40000", b".git", inner),
        ("100644", b"a/b", blob),
        ("0100755", b"d", blob),
        ("20000", b"device", blob),
        ("040000", b"d", inner),
        ("040000", b"e", inner),
        ("160000", b"nested", Oid([7; 20])),
        ("100644", &[b'n'; 300], blob),
    ]);
    let taken = adopt_trees(&bench, &repository.open(), &[tree]).pop().unwrap();
    bench.fsck();
    let pin = PinName { workspace: bench.store.workspace_id(Path::new("/gone/project")), seq: 1 };
    let content = |permissions| (Mode::file(permissions), b"content".to_vec());
    let files: Files = [("d", 0o755), ("e/a", 0o644), ("e/b", 0o644)]
        .map(|(path, permissions)| (path.as_bytes().to_vec(), content(permissions)))
        .into();
    assert_eq!(bench.files(&pin), files);
    assert_eq!(taken.files, 3);
    let told = [
        uncovered("", UncoveredReason::Excluded),
        uncovered(".GIT", UncoveredReason::Excluded),
        uncovered(".git", UncoveredReason::Excluded),
        uncovered("d", UncoveredReason::Special),
        uncovered("device", UncoveredReason::Special),
        uncovered("e/.git", UncoveredReason::Excluded),
        uncovered("e/b", UncoveredReason::Special),
        uncovered("e/large", UncoveredReason::TooLarge { size: 600_000_000 }),
        uncovered("nested", UncoveredReason::Nested),
        uncovered(&"n".repeat(300), UncoveredReason::Excluded),
    ];
    let mut told = told.to_vec();
    told.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(taken.uncovered, told);
}

#[test]
fn a_very_deep_tree_is_adopted() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    let mut tree = repository.odd_tree(&[("100644", b"file", repository.blob(b"deep"))]);
    for _ in 0..5000 {
        let content = [b"40000 d\0", &tree.0[..]].concat();
        tree = Oid::of(ObjectKind::Tree, &content);
        let mut object = Vec::new();
        crate::pack::deflate(&[&b"tree 28\0"[..], &content].concat(), &mut object);
        let path = repository.loose(&tree);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, object).unwrap();
    }
    let taken = adopt_trees(&bench, &repository.open(), &[tree]);
    assert_eq!(taken[0].files, 1);
}

#[test]
fn repositories_in_unreadable_formats_are_refused() {
    let bench = Bench::new();
    let at = |name: &str| bench.store.directory().with_file_name(name);
    let beside = Repository { directory: bench.store.directory().parent().unwrap().to_owned() };
    beside.git(&["init", "-q", "--bare", "--object-format=sha256", "sha256"]);
    beside.git(&["init", "-q", "--bare", "--ref-format=reftable", "reftable"]);
    let opened = |name: &str| ForeignRepository::open(&at(name)).map(drop);
    assert!(
        matches!(opened("sha256"), Err(ForeignError::ObjectFormat { format, .. }) if format == "sha256")
    );
    assert!(
        matches!(opened("reftable"), Err(ForeignError::RefFormat { format, .. }) if format == "reftable")
    );
    assert!(matches!(opened("nowhere"), Err(ForeignError::NotRepository(_))));
    beside.git(&["init", "-q", "--bare", "empty"]);
    let empty = ForeignRepository::open(&at("empty")).unwrap();
    assert_eq!((empty.head().unwrap(), empty.refs().unwrap()), (None, vec![]));
}

#[test]
fn numbers_of_existing_checkpoints_change_only_where_they_must() {
    let older = |after: &[u64]| -> Vec<OlderPin> {
        after.iter().map(|after| OlderPin { after: *after, tree: Oid::ZERO, time: 0 }).collect()
    };
    let check = |existing: &[u64], after: &[u64], new: &[u64], moved: &[u64]| {
        let numbers = PinNumbers::assign(existing, &older(after));
        assert_eq!(numbers.older, new);
        let moves: Vec<(u64, u64)> = existing.iter().copied().zip(moved.iter().copied()).collect();
        assert_eq!(numbers.moves, moves);
    };
    check(&[], &[0, 0], &[1, 2], &[]);
    check(&[1, 2], &[0, 0, 0], &[1, 2, 3], &[4, 5]);
    check(&[1, 2, 11, 12], &[2, 2, 2], &[3, 4, 5], &[1, 2, 11, 12]);
    check(&[1, 2, 3], &[1, 3], &[2, 5], &[1, 3, 4]);
    check(&[1, 12, 13], &[0, 0], &[1, 2], &[3, 12, 13]);
    check(&[5], &[0, 0], &[1, 2], &[5]);
}

/// Adopts the states that are not pinned yet, as an import does. Recognizes states by their
/// messages.
fn adopt_missing_states(store: &Store) {
    let foreign = ForeignRepository::open(&store.directory().with_file_name("foreign")).unwrap();
    let mut trees = Vec::new();
    let mut next = foreign.head().unwrap();
    while let Some(commit) = next.map(|commit| foreign.commit(&commit).unwrap()) {
        trees.insert(0, commit.tree);
        next = commit.parents.first().copied();
    }
    let mut adoption = store.adopt().unwrap();
    let taken: Vec<Adopted> =
        trees.iter().map(|tree| adoption.take_tree(&foreign, *tree).unwrap()).collect();
    let lock = adoption.lock(Path::new("/gone/project")).unwrap();
    let pins = lock.pins().unwrap();
    let (mut older, mut which, mut after) = (Vec::new(), Vec::new(), 0);
    for (index, taken) in taken.iter().enumerate() {
        let message = format!("imported {index}");
        match pins.iter().find(|pin| pin.message == message) {
            Some(pin) => after = pin.name.seq,
            None => {
                older.push(OlderPin { after, tree: taken.tree, time: 1 });
                which.push(message);
            }
        }
    }
    lock.finish(&older, SystemTime::now(), &mut |index, _| which[index].clone()).unwrap();
}

/// Pins some states for a workspace at a path that need not exist.
fn pin_states(store: &Store, path: &Path, messages: &[&str]) {
    let mut adoption = store.adopt().unwrap();
    let foreign = ForeignRepository::open(&store.directory().with_file_name("foreign")).unwrap();
    let taken = adoption.take_tree(&foreign, Oid::EMPTY_TREE).unwrap();
    let lock = adoption.lock(path).unwrap();
    let last = lock.pins().unwrap().last().map_or(0, |pin| pin.name.seq);
    let older = vec![OlderPin { after: last, tree: taken.tree, time: 9 }; messages.len()];
    lock.finish(&older, SystemTime::now(), &mut |index, _| messages[index].to_owned()).unwrap();
}

const KILL_TEST: &str =
    "adopt::tests::an_adoption_that_was_killed_at_any_point_is_completed_by_the_next_one";

#[test]
fn an_adoption_that_was_killed_at_any_point_is_completed_by_the_next_one() {
    if child(adopt_missing_states) {
        return;
    }
    let project = Path::new("/gone/project");
    for nth in 0.. {
        let bench = Bench::new();
        let repository = Repository::new(&bench);
        for round in 0..3 {
            repository.write("file", format!("{round}"));
            repository.commit("edit");
        }
        pin_states(&bench.store, project, &["own 0", "own 1"]);
        let workspace = bench.store.workspace_id(project);
        let ending = kill_at(KILL_TEST, nth, &bench.store);
        bench.fsck();
        let seen = messages(&bench.store, &workspace);
        let own: Vec<&str> =
            seen.iter().map(|(_, said)| &**said).filter(|said| said.starts_with("own")).collect();
        assert_eq!(own, ["own 0", "own 1"], "killed at {nth}: {seen:?}");
        // A state that is captured before the adoption is completed becomes the newest state.
        pin_newest(&bench.store, project);
        adopt_missing_states(&bench.store);
        adopt_missing_states(&bench.store);
        bench.fsck();
        let seen = messages(&bench.store, &workspace);
        let order: Vec<&str> = seen.iter().map(|(_, said)| &**said).collect();
        let expected = ["imported 0", "imported 1", "imported 2", "own 0", "own 1", "own 2"];
        assert_eq!(order, expected, "killed at {nth}");
        if ending == Ending::Completed {
            assert!(nth > 12, "there are only {nth} points");
            break;
        }
    }
}

/// Pins a state with the next number, as a capture does.
fn pin_newest(store: &Store, project: &Path) {
    let workspace = store.workspace_id(project);
    let _lock = store.lock_directory(&workspace).unwrap();
    let directory = store.workspace_directory(&workspace);
    let _store_lock = store.lock_shared().unwrap();
    let last = store.pin_names(&workspace).unwrap().last().map_or(0, |name| name.seq);
    let seq = read_seq(&directory.join("seq")).max(last + 1);
    let writer = store.new_pack();
    let commit = Commit { tree: Oid::EMPTY_TREE, parent: None, time: 3, message: "own 2".into() };
    let commit = commit.encode();
    let id = crate::testing::put(store, &writer, ObjectKind::Commit, &commit);
    writer.seal(&store.pack_directory()).unwrap();
    store.place_ref(&PinName { workspace, seq }, store.write_ref(id).unwrap()).unwrap();
    write_seq(&directory.join("seq"), seq + 1).unwrap();
}

#[test]
fn older_history_can_be_added_to_a_workspace_that_was_already_captured() {
    let bench = Bench::new();
    let repository = Repository::new(&bench);
    repository.write("file", "1");
    let tree = repository.commit("old");
    let root = repository.directory.with_file_name("workspace");
    fs::create_dir(&root).unwrap();
    let root = fs::canonicalize(root).unwrap();
    let pin = |content: &str, message: &str| {
        fs::write(root.join("file"), content).unwrap();
        let workspace = bench.store.workspace(&root, &Default::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let rules = crate::rules::CaptureRules::default();
        let now = SystemTime::now();
        let options = crate::capture::CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        let capture = lock.capture(&options).unwrap();
        lock.pin(capture.tree, now, message).unwrap();
        lock.finish(now).unwrap();
    };
    pin("2", "own 0");
    pin("3", "own 1");
    let mut adoption = bench.store.adopt().unwrap();
    let taken = adoption.take_tree(&repository.open(), tree).unwrap();
    let lock = adoption.lock(&root).unwrap();
    let older = [OlderPin { after: 0, tree: taken.tree, time: 1 }];
    let refused = lock.finish(&older, SystemTime::now(), &mut |_, _| "with \0".into());
    assert!(matches!(refused, Err(PinError::Message)));
    let mut adoption = bench.store.adopt().unwrap();
    adoption.take_tree(&repository.open(), tree).unwrap();
    let lock = adoption.lock(&root).unwrap();
    let pins = lock.finish(&older, SystemTime::now(), &mut |_, _| "old".into()).unwrap();
    assert_eq!(pins[0].name.seq, 1);
    pin("4", "own 2");
    let workspace = bench.store.workspace_id(&root);
    let expected = [(1, "old"), (2, "own 0"), (3, "own 1"), (4, "own 2")];
    assert_eq!(messages(&bench.store, &workspace), expected.map(|(seq, said)| (seq, said.into())));
    bench.fsck();
    assert_eq!(bench.files(&pins[0].name), Files::from([(b"file".to_vec(), file("1"))]));
}
