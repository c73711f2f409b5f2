//! A random state machine that compares captures and restores with a simple model of their
//! guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use takeback_tree::fault::{self, Fault};
use takeback_tree::{Capture, RestoreError};

use crate::kill::killed_restore;
use crate::support::{RestoreFailure, Scratch, in_own_process};

/// A file, link or directory in the model.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Thing {
    File(u32, String),
    Directory(u32),
    Link(String),
    /// A repository's own data, which is never read or touched.
    Repository,
}

type State = BTreeMap<String, Thing>;

/// The coverage of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cover {
    Plain,
    Guarded,
    /// A topmost path that is not covered.
    Uncovered,
    Below,
    Never,
}

const NAMES: [&str; 6] = ["a", "b", "c", "node_modules", ".env", "x.ign"];
const IGNORES: [&str; 5] = ["x.ign\n", "b/\n", ".env\n", "c\n", "# nothing\n"];
const FILE_MODES: [u32; 4] = [0o644, 0o600, 0o755, 0o4711];
const DIRECTORY_MODES: [u32; 4] = [0o755, 0o700, 0o1777, 0o550];

#[derive(Clone, Debug)]
enum Action {
    Write(String, u8),
    MakeDirectory(String),
    Link(String, u8),
    Remove(String),
    Rename(String, String),
    Chmod(String, usize),
    Ignore(String, Vec<usize>),
    Clone(String),
    Capture,
    Restore(prop::sample::Index),
    RestorePath(prop::sample::Index, String),
    /// A restore that fails at its nth fault point. If the last field is true, all later points
    /// also fail.
    FailingRestore(prop::sample::Index, usize, bool),
    /// A restore whose process is killed at its nth fault point.
    KilledRestore(prop::sample::Index, usize),
}

fn any_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4).prop_map(|names| names.join("/"))
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => (any::<prop::sample::Index>(), 0usize..60).prop_map(|(index, nth)| Action::KilledRestore(index, nth)),
        6 => (any_path(), any::<u8>()).prop_map(|(path, seed)| Action::Write(path, seed)),
        2 => any_path().prop_map(Action::MakeDirectory),
        1 => (any_path(), any::<u8>()).prop_map(|(path, seed)| Action::Link(path, seed)),
        3 => any_path().prop_map(Action::Remove),
        2 => (any_path(), any_path()).prop_map(|(from, to)| Action::Rename(from, to)),
        2 => (any_path(), 0usize..4).prop_map(|(path, mode)| Action::Chmod(path, mode)),
        2 => (any_path(), prop::collection::vec(0usize..IGNORES.len(), 0..3)).prop_map(|(path, lines)| Action::Ignore(path, lines)),
        1 => any_path().prop_map(Action::Clone),
        4 => Just(Action::Capture),
        4 => any::<prop::sample::Index>().prop_map(Action::Restore),
        1 => (any::<prop::sample::Index>(), any_path()).prop_map(|(index, path)| Action::RestorePath(index, path)),
        2 => (any::<prop::sample::Index>(), 0usize..60, any::<bool>()).prop_map(|(index, nth, lasting)| Action::FailingRestore(index, nth, lasting)),
    ]
}

fn read_state(scratch: &Scratch) -> State {
    let mut state = State::new();
    let mut pending = vec![scratch.root.clone()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = String::from_utf8(
                path.strip_prefix(&scratch.root).unwrap().as_os_str().as_bytes().to_vec(),
            )
            .unwrap();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let thing = if path.file_name().unwrap() == ".git" {
                Thing::Repository
            } else if metadata.is_symlink() {
                Thing::Link(fs::read_link(&path).unwrap().to_str().unwrap().to_owned())
            } else if metadata.is_dir() {
                pending.push(path);
                Thing::Directory(mode)
            } else {
                Thing::File(mode, fs::read_to_string(&path).unwrap())
            };
            state.insert(name, thing);
        }
    }
    state
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Lists the paths above a path, nearest first.
fn list_above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent))
        .skip(1)
}

fn is_directory(thing: Option<&Thing>) -> bool {
    matches!(thing, Some(Thing::Directory(_)))
}

/// Applies the rules, which are implemented here a second time and as simply as possible.
fn model_coverage(state: &State) -> BTreeMap<String, Cover> {
    let ignored = |path: &str, is_directory: bool| {
        list_above(path).chain([""]).any(|directory| {
            let file = if directory.is_empty() {
                ".gitignore".to_owned()
            } else {
                format!("{directory}/.gitignore")
            };
            match state.get(&file) {
                Some(Thing::File(_, text)) => {
                    text.lines().any(|line| match line.strip_suffix('/') {
                        Some(pattern) => is_directory && pattern == name(path),
                        None => line == name(path),
                    })
                }
                _ => false,
            }
        })
    };
    let mut covers: BTreeMap<String, Cover> = BTreeMap::new();
    for (path, thing) in state {
        let outer = covers.get(parent(path)).copied().unwrap_or(Cover::Plain);
        let cover = match (outer, thing) {
            (_, Thing::Repository) => Cover::Never,
            (Cover::Uncovered | Cover::Below, _) => Cover::Below,
            (_, Thing::Directory(_)) if ignored(path, true) || name(path) == "node_modules" => {
                Cover::Uncovered
            }
            (_, Thing::Directory(_)) => Cover::Plain,
            _ if ignored(path, false) => Cover::Guarded,
            _ => Cover::Plain,
        };
        covers.insert(path.clone(), cover);
    }
    covers
}

/// Predicts the state after a restore of the paths for which `asks` is true. Returns `None` if the
/// restore is blocked.
fn expected_state(now: &State, then: &State, asks: &dyn Fn(&str) -> bool) -> Option<State> {
    let (now_covers, then_covers) = (model_coverage(now), model_coverage(then));
    let captured = |covers: &BTreeMap<String, Cover>, path: &str| {
        matches!(covers.get(path), Some(Cover::Plain | Cover::Guarded))
    };
    let uncovered_then = |path: &str| {
        std::iter::once(path)
            .chain(list_above(path))
            .any(|path| then_covers.get(path) == Some(&Cover::Uncovered))
    };
    // The rules of the target apply, even to a path that did not exist when the target was
    // captured.
    let guarded_then = |path: &str| {
        let mut hypothetical = then.clone();
        let mut places: Vec<&str> = list_above(path).collect();
        places.reverse();
        for place in places {
            hypothetical.entry(place.to_owned()).or_insert(Thing::Directory(0o755));
        }
        hypothetical.entry(path.to_owned()).or_insert(Thing::File(0o644, String::new()));
        model_coverage(&hypothetical).get(path) == Some(&Cover::Guarded)
    };
    let mut result = now.clone();
    // Restore the paths that the target has.
    for (path, thing) in then.iter().filter(|(path, _)| captured(&then_covers, path) && asks(path))
    {
        let guarded = then_covers[path] == Cover::Guarded;
        let present = now.get(path);
        if guarded
            && present.is_some()
            && !is_directory(present)
            && !list_above(path).any(|path| {
                then.contains_key(path)
                    && now.contains_key(path)
                    && is_directory(then.get(path))
                    && !is_directory(now.get(path))
            })
        {
            continue;
        }
        if is_directory(present) && !is_directory(Some(thing)) {
            // A directory in the way is removed with its content, unless some of the content is
            // never captured.
            let below: Vec<String> = result
                .keys()
                .filter(|other| list_above(other).any(|above| above == path))
                .cloned()
                .collect();
            if below.iter().any(|path| now[path] == Thing::Repository) {
                return None;
            }
            below.iter().for_each(|path| drop(result.remove(path)));
        }
        result.insert(path.clone(), thing.clone());
    }
    // Remove the files that only the current state has.
    for (path, thing) in now.iter().filter(|(path, _)| asks(path)) {
        let still_there = result.get(path) == Some(thing);
        let in_target = captured(&then_covers, path);
        if in_target || !still_there || is_directory(Some(thing)) || !captured(&now_covers, path) {
            continue;
        }
        let guarded = now_covers[path] == Cover::Guarded || guarded_then(path);
        if !uncovered_then(path) && !guarded {
            result.remove(path);
        }
    }
    // Directories that only the current state has are removed if they become empty.
    let directories: Vec<&String> =
        now.keys().rev().filter(|path| asks(path) && is_directory(now.get(*path))).collect();
    for path in directories {
        let goes = is_directory(result.get(path))
            && !captured(&then_covers, path)
            && now_covers[path] == Cover::Plain
            && !uncovered_then(path)
            && !result.keys().any(|other| parent(other) == path);
        if goes {
            result.remove(path);
        }
    }
    // Nothing remains below a path that is no longer a directory.
    let gone: Vec<String> = result
        .keys()
        .filter(|path| list_above(path).any(|above| !is_directory(result.get(above))))
        .cloned()
        .collect();
    gone.iter().for_each(|path| drop(result.remove(path)));
    Some(result)
}

struct Machine {
    scratch: Scratch,
    captures: Vec<(Capture, State)>,
}

impl Machine {
    fn new() -> Machine {
        Machine { scratch: Scratch::new(), captures: Vec::new() }
    }

    /// Applies an action to the workspace, if the paths allow it.
    fn apply(&mut self, action: &Action) {
        let scratch = &self.scratch;
        match action {
            Action::Write(path, seed) => {
                let path = scratch.path(path);
                if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_symlink() {
                    let _ = fs::write(
                        path,
                        format!("content {}\n", seed % 5).repeat(1 + usize::from(*seed) / 50),
                    );
                }
            }
            Action::MakeDirectory(path) => {
                let _ = fs::create_dir_all(scratch.path(path));
            }
            Action::Link(path, seed) => {
                let path = scratch.path(path);
                if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                    let _ = symlink(
                        ["a", "../b", "nowhere", "/etc/passwd"][usize::from(*seed) % 4],
                        path,
                    );
                }
            }
            Action::Remove(path) => {
                let path = scratch.path(path);
                if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    let _ = fs::remove_file(path);
                }
            }
            Action::Rename(from, to) => {
                let _ = fs::rename(scratch.path(from), scratch.path(to));
            }
            Action::Chmod(path, mode) => {
                let path = scratch.path(path);
                if let Ok(metadata) = fs::symlink_metadata(&path)
                    && !metadata.is_symlink()
                {
                    let modes = if metadata.is_dir() { DIRECTORY_MODES } else { FILE_MODES };
                    fs::set_permissions(path, fs::Permissions::from_mode(modes[*mode])).unwrap();
                }
            }
            Action::Ignore(path, lines) => {
                let file = scratch.path(parent(path)).join(".gitignore");
                let text: String = lines.iter().map(|line| IGNORES[*line]).collect();
                if scratch.path(parent(path)).is_dir() && !lines.is_empty() {
                    let _ = fs::write(file, text);
                } else {
                    let _ = fs::remove_file(file);
                }
            }
            Action::Clone(path) => {
                let git = scratch.path(path).join(".git");
                if fs::create_dir_all(&git).is_ok() {
                    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
                }
            }
            Action::Capture => self.capture(),
            Action::Restore(index) => self.restore(index, None),
            Action::RestorePath(index, path) => self.restore(index, Some(path)),
            Action::FailingRestore(index, nth, lasting) => {
                self.failing_restore(index, *nth, *lasting);
            }
            Action::KilledRestore(index, nth) => self.killed_restore(index, *nth),
        }
    }

    fn capture(&mut self) {
        let state = read_state(&self.scratch);
        let capture = self.scratch.capture();
        let covers = model_coverage(&state);
        let uncovered: Vec<String> =
            capture.uncovered.iter().map(|found| found.path.to_string()).collect();
        let of = |cover: Cover| {
            covers.iter().filter(move |(_, found)| **found == cover).map(|(path, _)| path.clone())
        };
        assert_eq!(uncovered, of(Cover::Uncovered).collect::<Vec<_>>());
        let files = state.iter().filter(|(path, thing)| {
            !is_directory(Some(thing)) && matches!(covers[*path], Cover::Plain | Cover::Guarded)
        });
        assert_eq!(capture.files, files.count() as u64);
        self.captures.push((capture, state));
    }

    fn restore(&mut self, index: &prop::sample::Index, path: Option<&str>) {
        if self.captures.is_empty() {
            return;
        }
        let (capture, then) = index.get(&self.captures);
        let now = read_state(&self.scratch);
        let asks = |candidate: &str| {
            path.is_none_or(|path| candidate == path || candidate.starts_with(&format!("{path}/")))
        };
        if let Some(path) = path {
            // This test restores a single path only if the path and all paths above and below it
            // are plain in both states.
            let plain = |state: &State| {
                let covers = model_coverage(state);
                covers.iter().all(|(path, cover)| !asks(path) || *cover == Cover::Plain)
                    && list_above(path).all(|above| {
                        is_directory(state.get(above)) && covers[above] == Cover::Plain
                    })
            };
            if !plain(&now) || !plain(then) || !(now.contains_key(path) || then.contains_key(path))
            {
                return;
            }
        }
        let paths: Vec<&str> = path.into_iter().collect();
        let expected = expected_state(&now, then, &asks);
        match (self.scratch.try_restore(capture, &paths), expected) {
            (Ok(_), Some(expected)) => {
                assert_eq!(read_state(&self.scratch), expected, "now {now:#?} then {then:#?}");
            }
            (Err(RestoreFailure::Restore(RestoreError::Blocked(_))), None) => {
                assert_eq!(read_state(&self.scratch), now);
            }
            (result, expected) => {
                panic!("{result:?} but expected {expected:#?}, now {now:#?} then {then:#?}")
            }
        }
    }

    fn failing_restore(&mut self, index: &prop::sample::Index, nth: usize, lasting: bool) {
        if self.captures.is_empty() {
            return;
        }
        let (capture, then) = index.get(&self.captures);
        let now = read_state(&self.scratch);
        let expected = expected_state(&now, then, &|_| true);
        let workspace =
            self.scratch.store.workspace(&self.scratch.root, &Default::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let plan = self.scratch.plan_with(&mut lock, capture, &[]).unwrap();
        let safety = lock.pin(plan.from, self.scratch.now(), "before\n").unwrap();
        fault::arm(nth, Fault::Errno(28), lasting);
        let result = lock.apply(&plan, &safety);
        fault::disarm();
        drop(lock);
        match result {
            Err(RestoreError::NotReverted { .. }) => {
                // The next command finishes or reverts the restore.
                drop(workspace.lock().unwrap());
                let after = read_state(&self.scratch);
                assert!(after == now || Some(after) == expected);
            }
            Err(_) => assert_eq!(read_state(&self.scratch), now),
            Ok(_) => {
                drop(workspace.lock().unwrap());
                assert_eq!(Some(read_state(&self.scratch)), expected);
            }
        }
    }

    fn killed_restore(&mut self, index: &prop::sample::Index, nth: usize) {
        if self.captures.is_empty() {
            return;
        }
        let (capture, then) = index.get(&self.captures);
        let now = read_state(&self.scratch);
        let expected = expected_state(&now, then, &|_| true);
        killed_restore(&self.scratch, capture, nth);
        let workspace =
            self.scratch.store.workspace(&self.scratch.root, &Default::default()).unwrap();
        drop(workspace.lock().unwrap());
        let after = read_state(&self.scratch);
        assert!(
            after == now || Some(&after) == expected.as_ref(),
            "{after:#?} now {now:#?} then {then:#?}"
        );
    }

    /// Checks that git agrees with the model about everything that was captured.
    fn finish(&self) {
        self.scratch.fsck();
        let Some((capture, state)) = self.captures.last() else { return };
        let covers = model_coverage(state);
        let listed: BTreeMap<String, String> = self
            .scratch
            .raw_tree(capture.tree)
            .into_iter()
            .map(|(path, (mode, _))| (String::from_utf8(path).unwrap(), mode))
            .collect();
        let expected: BTreeMap<String, String> = state
            .iter()
            .filter(|(path, _)| matches!(covers[*path], Cover::Plain | Cover::Guarded))
            .map(|(path, thing)| {
                let mode = match thing {
                    Thing::File(mode, _) => 0o100_000 | mode,
                    Thing::Directory(mode) => 0o040_000 | mode,
                    _ => 0o120_000,
                };
                (path.clone(), format!("{mode:o}"))
            })
            .collect();
        assert_eq!(listed, expected);
        let names: BTreeSet<String> = self
            .scratch
            .ls_tree(capture.tree)
            .into_keys()
            .map(|path| String::from_utf8(path).unwrap())
            .collect();
        assert_eq!(names, expected.into_keys().collect());
    }
}

#[test]
fn random_histories_agree_with_the_model() {
    // Faults affect the whole process, so the test needs a separate one.
    in_own_process("model::random_histories_agree_with_the_model", || {
        let cases = std::env::var("TAKEBACK_MODEL_CASES")
            .ok()
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(96);
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 2000,
            ..Config::default()
        };
        let actions = prop::collection::vec(any_action(), 1..40);
        TestRunner::new(config)
            .run(&actions, |actions| {
                let mut machine = Machine::new();
                actions.iter().for_each(|action| machine.apply(action));
                machine.finish();
                Ok(())
            })
            .unwrap();
    });
}
