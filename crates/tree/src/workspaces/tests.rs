#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::fault::Fault;
use crate::forbidden::ForbiddenRoots;
use crate::oid::Oid;
use crate::testing::{Bench, Ending, alone, child, kill_at};

/// Creates the directory of a workspace beside the store.
fn make_root(store: &Store, name: &str) -> PathBuf {
    let path = fs::canonicalize(store.directory().parent().unwrap()).unwrap().join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

fn open_workspace<'s>(store: &'s Store, name: &str) -> Workspace<'s> {
    store.workspace(&make_root(store, name), &ForbiddenRoots::default()).unwrap()
}

/// Pins `count` states, each with a message of its own.
fn make_pins(store: &Store, name: &str, count: u64) {
    let workspace = open_workspace(store, name);
    let mut lock = workspace.lock().unwrap();
    let tree = lock.edit_tree(Oid::EMPTY_TREE, &[]).unwrap();
    for _ in 0..count {
        let message = format!("{name}{}\n", lock.next_seq().unwrap());
        lock.pin(tree, SystemTime::UNIX_EPOCH, &message).unwrap();
    }
    lock.finish(SystemTime::now()).unwrap();
}

fn remove_pins(store: &Store, name: &str, seqs: &[u64]) {
    let workspace = open_workspace(store, name).id().clone();
    for seq in seqs {
        store.unpin(&PinName { workspace: workspace.clone(), seq: *seq }).unwrap();
    }
}

/// Lists the numbers and messages of a workspace's pins.
fn list_pins(store: &Store, name: &str) -> Vec<(u64, String)> {
    let names = store.pin_names(open_workspace(store, name).id()).unwrap();
    let read = |name: &PinName| {
        let pin = store.pin(name).unwrap().unwrap();
        (name.seq, pin.message.trim_end().to_owned())
    };
    names.iter().map(read).collect()
}

fn list_messages(store: &Store, name: &str) -> Vec<String> {
    list_pins(store, name).into_iter().map(|(_, message)| message).collect()
}

fn move_pins(store: &Store) -> Result<u64, MoveError> {
    let from = open_workspace(store, "old").id().clone();
    store.move_workspace(&from, &open_workspace(store, "new"))
}

fn expected_pins(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(seq, message)| (*seq, (*message).to_owned())).collect()
}

#[test]
fn moved_pins_come_before_the_existing_ones() {
    let bench = Bench::new();
    let store = &bench.store;
    make_pins(store, "old", 3);
    make_pins(store, "new", 2);
    remove_pins(store, "old", &[1]);
    let old = open_workspace(store, "old").id().clone();
    fs::create_dir_all(open_workspace(store, "old").notes()).unwrap();
    assert_eq!(move_pins(store).unwrap(), 2);
    let expected = expected_pins(&[(2, "old2"), (3, "old3"), (4, "new1"), (5, "new2")]);
    assert_eq!(list_pins(store, "new"), expected);
    assert_eq!(store.workspaces().unwrap(), [open_workspace(store, "new").id().clone()]);
    assert!(!store.workspace_directory(&old).exists());
    assert!(store.workspace_info(&old).unwrap().is_none());
    bench.fsck();
    // Nothing is left to move.
    assert_eq!(move_pins(store).unwrap(), 0);
    assert_eq!(list_pins(store, "new"), expected);
    make_pins(store, "new", 1);
    assert_eq!(list_pins(store, "new").last().unwrap(), &(6, "new6".to_owned()));
    // The old directory can be used again, but its new pins get numbers that it never used before.
    make_pins(store, "old", 1);
    assert_eq!(list_messages(store, "old"), ["old4"]);
    assert_eq!(bench.listing().keys().filter(|name| name.starts_with("tmp")).count(), 0);
}

#[test]
fn pins_move_into_a_workspace_that_was_never_captured() {
    let bench = Bench::new();
    let store = &bench.store;
    make_pins(store, "old", 5);
    remove_pins(store, "old", &[2, 5]);
    assert_eq!(move_pins(store).unwrap(), 3);
    assert_eq!(list_pins(store, "new"), expected_pins(&[(1, "old1"), (3, "old3"), (4, "old4")]));
    // The number of a deleted pin is not reused.
    make_pins(store, "new", 1);
    assert_eq!(list_pins(store, "new").last().unwrap(), &(6, "new6".to_owned()));
}

#[test]
fn pins_are_renumbered_only_if_their_numbers_are_too_small() {
    let bench = Bench::new();
    let store = &bench.store;
    make_pins(store, "old", 3);
    make_pins(store, "new", 9);
    remove_pins(store, "new", &[1, 2, 4, 5, 6, 7, 8]);
    assert_eq!(move_pins(store).unwrap(), 3);
    let expected = [(1, "old1"), (2, "old2"), (3, "old3"), (6, "new3"), (9, "new9")];
    assert_eq!(list_pins(store, "new"), expected_pins(&expected));
}

#[test]
fn impossible_moves_are_refused() {
    let bench = Bench::new();
    let store = &bench.store;
    assert_eq!(move_pins(store).unwrap(), 0);
    assert!(store.workspaces().unwrap().is_empty());
    make_pins(store, "old", 2);
    let old = open_workspace(store, "old");
    assert_eq!(store.move_workspace(old.id(), &old).unwrap(), 0);
    let other = Bench::new();
    let error = store.move_workspace(old.id(), &open_workspace(&other.store, "new")).unwrap_err();
    assert!(matches!(error, MoveError::OtherStore));
    for journal in ["journal", "journal.staging"] {
        let path = store.workspace_directory(old.id()).join(journal);
        fs::write(&path, "{}").unwrap();
        assert!(matches!(move_pins(store).unwrap_err(), MoveError::Unfinished(_)));
        let guard = store.try_lock_workspace(old.id()).unwrap().unwrap();
        assert!(guard.has_unfinished_restore());
        drop(guard);
        assert!(!store.forget_workspace(old.id()).unwrap());
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(list_messages(store, "old"), ["old1", "old2"]);

    // With this number in `old`, the pins of `new` cannot get larger numbers.
    make_pins(store, "new", 1);
    let directory = store.refs_of(old.id());
    let huge = (SEQ_END - 1).to_string();
    fs::rename(directory.join("2"), directory.join(huge)).unwrap();
    assert!(matches!(move_pins(store).unwrap_err(), MoveError::Numbers(_)));
    assert_eq!(list_messages(store, "old"), ["old1", "old2"]);
    assert_eq!(list_messages(store, "new"), ["new1"]);
}

#[test]
fn a_move_killed_at_any_point_loses_no_pin() {
    const TEST: &str = "workspaces::tests::a_move_killed_at_any_point_loses_no_pin";
    if child(|store| assert!(move_pins(store).is_ok())) {
        return;
    }
    let bench = Bench::new();
    make_pins(&bench.store, "old", 4);
    make_pins(&bench.store, "new", 7);
    remove_pins(&bench.store, "old", &[2]);
    remove_pins(&bench.store, "new", &[2, 3]);
    let ids =
        |bench: &Bench| ["old", "new"].map(|name| open_workspace(&bench.store, name).id().clone());
    let complete = bench.copy();
    // The copy is at another path, so its workspaces have different ids.
    rename_workspaces(&bench, &complete, &ids);
    move_pins(&complete.store).unwrap();
    let expected = list_pins(&complete.store, "new");
    assert_eq!(expected.len(), 8);
    let mut point = 0;
    loop {
        let killed = bench.copy();
        rename_workspaces(&bench, &killed, &ids);
        let ending = kill_at(TEST, point, &killed.store);
        // All pins exist and are in order.
        let all =
            [list_messages(&killed.store, "old"), list_messages(&killed.store, "new")].concat();
        let sorted: Vec<&str> = expected.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(all, sorted, "point {point}");
        killed.fsck();
        move_pins(&killed.store).unwrap();
        assert_eq!(list_pins(&killed.store, "new"), expected, "point {point}");
        assert_eq!(killed.store.workspaces().unwrap().len(), 1, "point {point}");
        make_pins(&killed.store, "new", 1);
        if ending == Ending::Completed {
            break;
        }
        point += 1;
    }
    assert!(point > 10, "{point}");
}

/// Gives the workspaces in a copied store the ids for their new paths beside the copy.
fn rename_workspaces(from: &Bench, to: &Bench, ids: &dyn Fn(&Bench) -> [WorkspaceId; 2]) {
    for (old, new) in ids(from).iter().zip(ids(to)) {
        for (old, new) in [
            (to.store.workspace_directory(old), to.store.workspace_directory(&new)),
            (to.store.refs_of(old), to.store.refs_of(&new)),
        ] {
            fs::rename(old, new).unwrap();
        }
    }
}

#[test]
fn a_move_that_fails_at_any_point_loses_no_pin() {
    alone("workspaces::tests::a_move_that_fails_at_any_point_loses_no_pin", || {
        let mut point = 0;
        loop {
            let bench = Bench::new();
            make_pins(&bench.store, "old", 2);
            make_pins(&bench.store, "new", 3);
            fault::arm(point, Fault::Errno(rustix::io::Errno::IO.raw_os_error()), false);
            let moved = move_pins(&bench.store);
            fault::disarm();
            let all =
                [list_messages(&bench.store, "old"), list_messages(&bench.store, "new")].concat();
            assert_eq!(all, ["old1", "old2", "new1", "new2", "new3"], "point {point}");
            move_pins(&bench.store).unwrap();
            assert_eq!(list_messages(&bench.store, "new"), all);
            if moved.is_ok() {
                break;
            }
            point += 1;
        }
        assert!(point > 8, "{point}");
    });
}

#[test]
fn moves_in_opposite_directions_do_not_block_each_other() {
    let bench = Bench::new();
    let store = &bench.store;
    make_pins(store, "old", 3);
    make_pins(store, "new", 3);
    std::thread::scope(|scope| {
        for (from, to) in [("old", "new"), ("new", "old")] {
            scope.spawn(move || {
                for _ in 0..50 {
                    let from = open_workspace(store, from).id().clone();
                    store.move_workspace(&from, &open_workspace(store, to)).unwrap();
                }
            });
        }
    });
    let mut all = [list_messages(store, "old"), list_messages(store, "new")].concat();
    all.sort();
    assert_eq!(all, ["new1", "new2", "new3", "old1", "old2", "old3"]);
}

#[test]
fn pins_made_during_a_move_are_kept() {
    let bench = Bench::new();
    let store = &bench.store;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pinners = ["old", "new"]
            .map(|name| scope.spawn(move || (0..40).for_each(|_| make_pins(store, name, 1))));
        let mover = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                move_pins(store).unwrap();
            }
        });
        pinners.into_iter().for_each(|thread| thread.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        mover.join().unwrap();
    });
    move_pins(store).unwrap();
    assert_eq!(list_pins(store, "new").len(), 80);
    bench.fsck();
}

#[test]
fn workspaces_without_pins_are_forgotten() {
    let bench = Bench::new();
    let store = &bench.store;
    let (old, new) = (open_workspace(store, "old"), open_workspace(store, "new"));
    assert!(!store.forget_workspace(old.id()).unwrap(), "nothing to forget");
    make_pins(store, "old", 1);
    drop(new.lock().unwrap());
    let mut both = vec![old.id().clone(), new.id().clone()];
    both.sort();
    assert_eq!(store.workspaces().unwrap(), both);
    assert!(!store.forget_workspace(old.id()).unwrap(), "it has a pin");

    let lock = new.lock().unwrap();
    assert!(!store.forget_workspace(new.id()).unwrap(), "it is locked");
    assert!(store.try_lock_workspace(new.id()).unwrap().is_none());
    drop(lock);
    assert!(store.forget_workspace(new.id()).unwrap());
    assert_eq!(store.workspaces().unwrap(), [old.id().clone()]);

    // A workspace with pins need not have a directory in the store.
    fs::remove_dir_all(store.workspace_directory(old.id())).unwrap();
    let guard = store.try_lock_workspace(old.id()).unwrap().unwrap();
    assert!(!guard.has_unfinished_restore());
    assert!(!store.forget_workspace(old.id()).unwrap(), "it is locked");
    remove_pins(store, "old", &[1]);
    drop(guard);
    assert!(store.forget_workspace(old.id()).unwrap());
    assert!(store.workspaces().unwrap().is_empty());
    assert!(!store.forget_workspace(old.id()).unwrap());
    make_pins(store, "old", 1);
    assert_eq!(list_messages(store, "old"), ["old1"]);
}

/// A lock that one thread holds must always exclude the other threads.
#[test]
fn a_lock_excludes_others_even_while_the_workspace_is_forgotten() {
    let bench = Bench::new();
    let store = &bench.store;
    let id = open_workspace(store, "work").id().clone();
    let (is_locked, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let forgotten = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let workspace = open_workspace(store, "work");
                    for _ in 0..100 {
                        let lock = workspace.lock().unwrap();
                        assert!(!is_locked.swap(true, Ordering::SeqCst), "two at once");
                        std::thread::sleep(Duration::from_micros(50));
                        assert!(store.workspace_directory(&id).join("lock").exists());
                        is_locked.store(false, Ordering::SeqCst);
                        drop(lock);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    let was_forgotten = store.forget_workspace(&id).unwrap();
                    forgotten.fetch_add(u64::from(was_forgotten), Ordering::SeqCst);
                }
            });
        }
        let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::SeqCst);
        assert!(ends.iter().all(Result::is_ok));
    });
    assert!(forgotten.into_inner() > 0);
}

proptest! {
    #[test]
    fn numbers_are_raised_in_order_and_only_once(
        seqs in prop::collection::btree_set(1u64..60, 0..12),
        room in 1u64..40,
        cut in 0usize..12,
    ) {
        let seqs: Vec<u64> = seqs.into_iter().collect();
        let grow = |seqs: &[u64], count: usize, from: usize| -> Vec<u64> {
            let grown = |(place, seq): (usize, &u64)| {
                if (from..count).contains(&place) { seq + room } else { *seq }
            };
            seqs.iter().enumerate().map(grown).collect()
        };
        let count = count_raised(&seqs, room);
        let whole = grow(&seqs, count, 0);
        prop_assert!(whole.iter().all(|seq| *seq > room));
        prop_assert!(whole.windows(2).all(|pair| pair[0] < pair[1]));
        // If a call is interrupted halfway, the next call continues from there.
        let partly = grow(&seqs, count, cut.min(count));
        let rest = count_raised(&partly, room);
        prop_assert_eq!(grow(&partly, rest, 0), whole.clone());
        prop_assert_eq!(count_raised(&whole, room), 0);
    }
}
