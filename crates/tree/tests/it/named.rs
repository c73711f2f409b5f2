//! Paths that a call names or sweeps are captured regardless of the rules, within a budget.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use takeback_tree::{Capture, Oid, RelPath, UncoveredReason};

use crate::support::{Scratch, git, read_directory, rel};

fn reason(capture: &Capture, path: &str) -> Option<UncoveredReason> {
    let found = capture.uncovered.iter().find(|found| found.path == rel(path));
    found.map(|found| found.reason.clone())
}

/// Creates a project with files that the rules exclude.
fn make_project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(".gitignore", "uploads/\n*.sqlite\nnode_modules/\n");
    scratch.write("src/main.rs", "fn main() {}");
    scratch.write("uploads/2024/photo.jpg", "a photo");
    scratch.write("uploads/cv.pdf", "a CV");
    scratch.write("model.bin", vec![7; 11 << 20]);
    scratch.write("dev.sqlite", vec![8; 3 << 19]);
    scratch
}

#[test]
fn named_paths_come_back_after_they_were_deleted() {
    let mut scratch = make_project();
    let before = read_directory(&scratch.root);
    scratch.named = vec![rel("uploads"), rel("model.bin"), rel("dev.sqlite")];
    let capture = scratch.capture();
    assert_eq!(capture.uncovered, []);
    for path in ["uploads", "model.bin", "dev.sqlite"] {
        scratch.remove(path);
    }
    // A restore does not know which paths the call named.
    scratch.named.clear();
    scratch.restore(&capture, &[]);
    assert!(read_directory(&scratch.root) == before);
    scratch.fsck();
}

#[test]
fn a_swept_workspace_comes_back_after_git_clean() {
    let mut scratch = make_project();
    git(&scratch.root, &["init", "-q"]);
    git(&scratch.root, &["add", ".gitignore", "src"]);
    scratch.write("app.log", "what happened");
    let before = read_directory(&scratch.root);
    scratch.write("node_modules/p/index.js", "x");
    scratch.write("build/out.o", "x");
    scratch.swept = vec![rel("")];
    let capture = scratch.capture();
    assert_eq!(reason(&capture, "node_modules"), Some(UncoveredReason::Excluded));
    assert_eq!(reason(&capture, "build"), Some(UncoveredReason::Excluded));
    assert_eq!(capture.uncovered.len(), 2);
    git(&scratch.root, &["clean", "-fdxq"]);
    assert!(!scratch.exists("uploads"));
    scratch.swept.clear();
    scratch.restore(&capture, &[]);
    assert!(read_directory(&scratch.root) == before);
}

#[test]
fn a_sweep_stays_in_its_directory() {
    let mut scratch = Scratch::new();
    scratch.write(".gitignore", "*.bin\ndata/\n");
    scratch.write("a/data/x", "1");
    scratch.write("b/data/x", "1");
    scratch.write("a/large.bin", vec![0; 2 << 20]);
    scratch.write("b/large.bin", vec![0; 2 << 20]);
    scratch.swept = vec![rel("a")];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), [".gitignore", "a/data/x", "a/large.bin"]);
        assert_eq!(capture, scratch.fresh());
    }
}

#[test]
fn a_named_directory_that_can_be_regenerated_is_reported_and_not_copied() {
    let mut scratch = Scratch::new();
    scratch.write("node_modules/p/index.js", "x");
    scratch.write("node_modules/.package-lock.json", "{}");
    scratch.write("target/debug/app", "x");
    scratch.write("lib/target/debug/app", "x");
    scratch.write("data/venv/bin/python", "x");
    scratch.write("data/table.csv", "1");
    scratch.write("dist/notes.txt", "by hand");
    scratch.write("build/notes.txt", "by hand");
    scratch.write("build/other.txt", "x");
    scratch.write(".gitignore", "/data/\n");
    scratch.named = ["node_modules", "target/debug", "lib", "data", "dist", "build/notes.txt"]
        .map(rel)
        .to_vec();
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(
            scratch.files(capture.tree),
            [".gitignore", "build/notes.txt", "data/table.csv", "dist/notes.txt"]
        );
        let uncovered: Vec<String> =
            capture.uncovered.iter().map(|found| found.path.to_string()).collect();
        assert_eq!(uncovered, ["build", "data/venv", "lib/target", "node_modules", "target"]);
        assert_eq!(capture, scratch.fresh());
    }
}

#[test]
fn the_budget_goes_to_small_files_first_and_the_rest_is_reported() {
    let mut scratch = Scratch::new();
    scratch.rules.max_named_size = 100;
    scratch.rules.max_file_size = 50;
    scratch.write(".gitignore", "data/\n");
    scratch.write("src", vec![0; 40]);
    scratch.write("data/a", vec![1; 60]);
    scratch.write("data/b", vec![2; 30]);
    scratch.write("data/c", vec![3; 50]);
    scratch.write("data/large/d", vec![4; 70]);
    scratch.write("data/large/e", vec![5; 80]);
    scratch.named = vec![rel("data"), rel("src")];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), [".gitignore", "data/b", "data/c", "src"]);
        assert_eq!(reason(&capture, "data/a"), Some(UncoveredReason::OverBudget { size: 60 }));
        let large = UncoveredReason::OverBudget { size: 150 };
        assert_eq!(reason(&capture, "data/large"), Some(large));
        assert_eq!(capture.uncovered.len(), 2);
        assert_eq!(capture, scratch.fresh());
    }
    // Files that the rules capture in any case do not use up the budget.
    scratch.rules.max_named_size = 0;
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [".gitignore", "src"]);
    assert_eq!(reason(&capture, "data"), Some(UncoveredReason::OverBudget { size: 290 }));
}

#[test]
fn named_files_come_before_swept_ones() {
    let mut scratch = Scratch::new();
    scratch.rules.max_named_size = 100;
    scratch.write(".gitignore", "*/data/\n");
    scratch.write("a/data/x", vec![1; 90]);
    scratch.write("b/data/y", vec![2; 20]);
    scratch.named = vec![rel("a/data")];
    scratch.swept = vec![rel("")];
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [".gitignore", "a/data/x"]);
    assert_eq!(reason(&capture, "b/data"), Some(UncoveredReason::OverBudget { size: 20 }));
}

#[test]
fn a_named_file_over_the_budget_does_not_displace_swept_ones() {
    let mut scratch = Scratch::new();
    scratch.rules.max_named_size = 100;
    scratch.rules.max_file_size = 10;
    scratch.write(".gitignore", "*/data/\n");
    scratch.write("huge.bin", vec![1; 101]);
    scratch.write("b/data/y", vec![2; 20]);
    scratch.write("b/data/z", vec![3; 90]);
    scratch.named = vec![rel("huge.bin")];
    scratch.swept = vec![rel("")];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), [".gitignore", "b/data/y"]);
        assert_eq!(reason(&capture, "huge.bin"), Some(UncoveredReason::OverBudget { size: 101 }));
        assert_eq!(reason(&capture, "b/data/z"), Some(UncoveredReason::OverBudget { size: 90 }));
        assert_eq!(capture, scratch.fresh());
    }
}

#[test]
fn a_named_directory_with_many_files_does_not_make_the_capture_fail() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 10;
    scratch.write(".gitignore", "data/\n");
    scratch.write("src", "1");
    for number in 0..20 {
        scratch.write(format!("data/{number:02}"), vec![0; number]);
    }
    scratch.named = vec![rel("data")];
    let capture = scratch.capture();
    assert_eq!(capture.files, 12);
    assert!(scratch.files(capture.tree).contains(&"data/09".to_owned()));
    assert_eq!(reason(&capture, "data/10"), Some(UncoveredReason::OverBudget { size: 10 }));
}

#[test]
fn the_directory_is_reported_if_many_files_in_it_are_over_the_budget() {
    let mut scratch = Scratch::new();
    scratch.rules.max_named_size = 1;
    scratch.write(".gitignore", "data/\n");
    for number in 0..1100 {
        scratch.write(format!("data/{number}"), "xy");
    }
    scratch.write("data/small", "x");
    scratch.named = vec![rel("data")];
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [".gitignore", "data/small"]);
    assert_eq!(capture.uncovered.len(), 1);
    assert_eq!(reason(&capture, "data"), Some(UncoveredReason::OverBudget { size: 2200 }));
    // A restore does not touch the files over the budget.
    scratch.named.clear();
    let before = read_directory(&scratch.root);
    scratch.restore(&capture, &[]);
    assert!(read_directory(&scratch.root) == before);
}

#[test]
fn a_named_file_that_grows_past_the_limit_is_still_captured() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    scratch.write("table.csv", vec![1; 90]);
    scratch.write("src", "1");
    scratch.ahead = std::time::Duration::from_secs(3600);
    scratch.capture();
    scratch.write("table.csv", vec![2; 110]);
    scratch.named = vec![rel("table.csv")];
    for _ in 0..2 {
        let capture = scratch.capture();
        assert_eq!(scratch.files(capture.tree), ["src", "table.csv"]);
        assert_eq!(capture, scratch.fresh());
    }
    scratch.named.clear();
    let capture = scratch.capture();
    assert_eq!(reason(&capture, "table.csv"), Some(UncoveredReason::TooLarge { size: 110 }));
}

#[test]
fn secrets_are_left_out_even_in_named_directories() {
    let mut scratch = Scratch::new();
    scratch.rules.skip_private = true;
    scratch.write(".gitignore", "data/\n.env\n");
    scratch.write("data/.env", "SECRET=1");
    scratch.write("data/x", "1");
    scratch.write("src/.env", "SECRET=2");
    scratch.write("src/id_map.rs", "not ignored");
    scratch.named = vec![rel("data"), rel("src")];
    let capture = scratch.capture();
    assert_eq!(scratch.files(capture.tree), [".gitignore", "data/x", "src/id_map.rs"]);
    for path in ["data/.env", "src/.env"] {
        assert_eq!(reason(&capture, path), Some(UncoveredReason::Private));
    }
}

#[test]
fn a_restore_replaces_a_directory_that_can_be_regenerated() {
    let scratch = Scratch::new();
    scratch.write("node_modules", "a file of this name");
    let capture = scratch.capture();
    scratch.remove("node_modules");
    scratch.write("node_modules/p/index.js", "x");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("node_modules"), "a file of this name");
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(scratch.read("node_modules/p/index.js"), "x");
}

#[test]
fn a_limit_on_the_number_of_files_never_blocks_a_restore() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 5;
    scratch.write("a", "1");
    let capture = scratch.capture();
    for number in 0..20 {
        scratch.write(format!("new/{number}"), "x");
    }
    scratch.write("a", "2");
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("a"), "1");
    assert!(!scratch.exists("new"));
}

const PATHS: [&str; 8] = [
    "src/a",
    "src/b",
    "data/a",
    "data/sub/b",
    "data/venv/v",
    "dist/notes",
    "node_modules/m",
    "big.bin",
];
const REQUESTS: [&str; 9] = [
    "src",
    "src/a",
    "data",
    "data/sub",
    "data/a",
    "dist",
    "node_modules",
    "node_modules/m",
    "big.bin",
];
const IGNORES: [&str; 4] = ["", "data/\n", "*.bin\n", "data/\n*.bin\n"];

#[derive(Clone, Debug)]
enum Action {
    Write(usize, u8),
    Remove(usize),
    Ignore(usize),
    /// A change of the rules. The fields say whether there is a configured exclude, whether there
    /// is a configured include, and which budget applies.
    Rules(bool, bool, usize),
    /// A capture with some paths named and, perhaps, everything swept.
    Capture(Vec<usize>, bool),
    Restore(prop::sample::Index, Vec<usize>),
}

fn any_action() -> impl Strategy<Value = Action> {
    let requests = || prop::collection::vec(0..REQUESTS.len(), 0..3);
    prop_oneof![
        6 => (0..PATHS.len(), any::<u8>()).prop_map(|(path, seed)| Action::Write(path, seed)),
        3 => (0..PATHS.len()).prop_map(Action::Remove),
        1 => (0..IGNORES.len()).prop_map(Action::Ignore),
        1 => (any::<bool>(), any::<bool>(), 0usize..3)
            .prop_map(|(exclude, include, budget)| Action::Rules(exclude, include, budget)),
        4 => (requests(), any::<bool>()).prop_map(|(named, sweep)| Action::Capture(named, sweep)),
        3 => (any::<prop::sample::Index>(), requests())
            .prop_map(|(index, named)| Action::Restore(index, named)),
    ]
}

type Files = BTreeMap<String, Vec<u8>>;

fn read_files(scratch: &Scratch) -> Files {
    let files = PATHS.iter().filter_map(|path| Some((*path, fs::read(scratch.path(path)).ok()?)));
    files.map(|(path, content)| (path.to_owned(), content)).collect()
}

fn read_tree(scratch: &Scratch, tree: Oid) -> Files {
    let entries = scratch.ls_tree(tree).into_iter();
    let files = entries.filter(|(_, (mode, _))| !mode.starts_with("04"));
    let read = |(path, (_, oid)): (Vec<u8>, (String, String))| {
        let content = scratch.store.blob(&oid.parse().unwrap()).unwrap();
        (String::from_utf8(path).unwrap(), content)
    };
    files.map(read).collect()
}

fn requests(numbers: &[usize]) -> Vec<RelPath> {
    numbers.iter().map(|number| rel(REQUESTS[*number])).collect()
}

/// Restores a capture and checks that the restore keeps its promises.
fn restore(scratch: &Scratch, capture: &Capture, then: &Files) {
    let now = read_files(scratch);
    let captured = read_tree(scratch, capture.tree);
    let plan = scratch.restore(capture, &[]);
    let (after, safe) = (read_files(scratch), read_tree(scratch, plan.from));
    for path in PATHS {
        let (now, after) = (now.get(path), after.get(path));
        // Every path in the checkpoint is restored, unless a guarded file is in its place.
        if let Some(captured) = captured.get(path) {
            let is_left = plan.guarded.contains(&rel(path)) && after == now;
            assert!(after == Some(captured) || is_left, "{path} does not come back");
        }
        // A path that existed at the time of the checkpoint is not deleted as if it were new,
        // regardless of the checkpoint's rules.
        if then.contains_key(path) && now.is_some() {
            assert!(after.is_some(), "{path} existed then and was deleted");
        }
        // Every path that changes is saved first.
        if now.is_some() && after != now {
            assert_eq!(safe.get(path), now, "{path} was not saved");
        }
    }
    // A later restore of the previous state brings back all its files.
    let back = scratch.restore(&scratch.as_capture(&plan), &[]);
    let again = read_files(scratch);
    for (path, content) in &now {
        // A file that was ignored in that state is also guarded in this restore.
        let is_left = plan.guarded.contains(&rel(path)) || back.guarded.contains(&rel(path));
        assert!(again.get(path) == Some(content) || is_left, "{path} is not as before");
    }
}

fn play(actions: &[Action]) {
    let mut scratch = Scratch::in_memory();
    (scratch.rules.max_file_size, scratch.rules.max_guarded_size) = (20, 10);
    let mut captures: Vec<(Capture, Files)> = Vec::new();
    for action in actions {
        match action {
            Action::Write(path, seed) => {
                scratch.write(PATHS[*path], vec![*seed; usize::from(*seed % 3) * 12 + 1]);
            }
            Action::Remove(path) => drop(fs::remove_file(scratch.path(PATHS[*path]))),
            Action::Ignore(text) => scratch.write(".gitignore", IGNORES[*text]),
            Action::Rules(exclude, include, budget) => {
                let pattern = |is_set: &bool, text: &str| is_set.then(|| text.to_owned());
                scratch.rules.exclude = pattern(exclude, "src/b").into_iter().collect();
                scratch.rules.include = pattern(include, "/data/sub/").into_iter().collect();
                scratch.rules.max_named_size = [0, 30, 1000][*budget];
            }
            Action::Capture(named, sweep) => {
                scratch.named = requests(named);
                scratch.swept = if *sweep { vec![rel("")] } else { Vec::new() };
                let capture = scratch.capture();
                assert_eq!(capture, scratch.fresh());
                scratch.swept.clear();
                let unsaved = |path: &&str| {
                    let path = rel(path);
                    capture.uncovered.iter().any(|found| path.starts_with(&found.path))
                };
                // Every file is in the tree or reported.
                let (files, captured) = (read_files(&scratch), read_tree(&scratch, capture.tree));
                for path in PATHS.iter().filter(|path| files.contains_key(**path)) {
                    assert!(
                        captured.contains_key(*path) || unsaved(path),
                        "{path} is not reported"
                    );
                }
                captures.push((capture, files));
            }
            Action::Restore(index, named) if !captures.is_empty() => {
                scratch.named = requests(named);
                let (capture, then) = index.get(&captures);
                restore(&scratch, capture, then);
            }
            Action::Restore(..) => {}
        }
    }
}

#[test]
fn random_histories_with_named_paths_and_changing_rules_lose_nothing() {
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    let actions = prop::collection::vec(any_action(), 1..25);
    TestRunner::new(config)
        .run(&actions, |actions| {
            play(&actions);
            Ok(())
        })
        .unwrap();
}
