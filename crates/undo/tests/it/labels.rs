//! Naming and protecting existing checkpoints, and deleting single checkpoints.

use std::fs::File;
use std::time::{Duration, SystemTime};

use takeback_undo::history::{find_workspace, history_changed_at, label_checkpoint};
use takeback_undo::retention::{PruneOptions, delete_checkpoint, prune};
use takeback_undo::{
    DeleteError, Destination, FileResolution, LabelChange, LabelError, NameError, Resolution,
    TurnUndo, history, move_history,
};

use crate::support::Scratch;

fn name(text: Option<&str>) -> LabelChange {
    LabelChange { name: Some(text.map(str::to_owned)), pinned: None }
}

fn pin(pinned: bool) -> LabelChange {
    LabelChange { name: None, pinned: Some(pinned) }
}

fn names(scratch: &Scratch) -> Vec<Option<String>> {
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    list.checkpoints.into_iter().map(|row| row.name).collect()
}

fn three_turns() -> Scratch {
    let scratch = Scratch::new();
    for turn in ["1", "2", "3"] {
        scratch.play_turn(turn, "a", &format!("{turn}\n"));
    }
    scratch
}

#[test]
fn an_existing_checkpoint_can_be_named_and_the_name_protects_it() {
    let scratch = three_turns();
    let workspace = find_workspace(&scratch.opened, &scratch.project()).unwrap();
    let id = workspace.id();
    // Two changes within the same tick of the file system's clock have the same time.
    let pins = workspace.store().directory().join("refs/takeback").join(id.to_string());
    let earlier = SystemTime::now() - Duration::from_secs(60);
    File::open(pins).unwrap().set_modified(earlier).unwrap();
    let before = history_changed_at(workspace.store(), id);
    let good = label_checkpoint(&workspace, "2", &name(Some("good"))).unwrap();
    assert_eq!(names(&scratch), [None, Some("good".into()), None]);
    assert!(history_changed_at(workspace.store(), id) > before, "the change can be noticed");
    let taken = label_checkpoint(&workspace, "1", &name(Some("good")));
    assert!(matches!(taken, Err(LabelError::Name(NameError::Taken(_)))), "{taken:?}");
    assert!(label_checkpoint(&workspace, "1", &name(Some("undo"))).is_err());
    // A prune of everything except the newest row spares the named checkpoint.
    let options = PruneOptions { max_size_mb: Some(0), ..PruneOptions::default() };
    prune(&scratch.opened, &options).unwrap();
    assert_eq!(names(&scratch), [None, Some("good".into())]);
    scratch.roll_back("good");
    assert_eq!(scratch.read("a"), "1\n");
    let freed = label_checkpoint(&workspace, "good", &name(None)).unwrap();
    assert_eq!((freed.pin.id, freed.record.name), (good.pin.id, None));
}

#[test]
fn labels_move_with_their_history() {
    let scratch = three_turns();
    let old = scratch.project();
    let workspace = find_workspace(&scratch.opened, &old).unwrap();
    label_checkpoint(&workspace, "3", &name(Some("first"))).unwrap();
    let new = old.with_file_name("moved");
    std::fs::rename(&old, &new).unwrap();
    move_history(&scratch.opened, &old, &new).unwrap();
    let list = history::list_checkpoints(&scratch.opened, &new).unwrap();
    assert_eq!(list.checkpoints[2].name.as_deref(), Some("first"));
}

#[test]
fn a_turn_is_deleted_unless_it_is_pinned() {
    let scratch = three_turns();
    let workspace = find_workspace(&scratch.opened, &scratch.project()).unwrap();
    label_checkpoint(&workspace, "2", &pin(true)).unwrap();
    let refused = delete_checkpoint(&scratch.opened, &workspace, "2");
    assert!(matches!(refused, Err(DeleteError::Protected(_))), "{refused:?}");
    label_checkpoint(&workspace, "2", &pin(false)).unwrap();
    let deleted = delete_checkpoint(&scratch.opened, &workspace, "2").unwrap();
    assert!(deleted.checkpoints >= 1, "{deleted:?}");
    assert_eq!(names(&scratch).len(), 2);
    assert_eq!(scratch.read("a"), "3\n", "files stay as they are");
    scratch.roll_back("2");
    assert!(!scratch.exists("a"), "the other checkpoints still work");
}

#[test]
fn conflicts_are_resolved_for_each_file() {
    let scratch = Scratch::new();
    for file in ["a", "b", "c"] {
        scratch.write(file, "one\ntwo\nthree\n");
    }
    scratch.play_turn_of("s", "change all", || {
        for file in ["a", "b", "c"] {
            scratch.write(file, "one\n2\nthree\n");
        }
    });
    for file in ["a", "b", "c"] {
        scratch.write(file, "one\nzwei\nthree\n");
    }
    let files = [("a", Resolution::Theirs), ("b", Resolution::Ours)];
    let files = files.map(|(path, resolution)| FileResolution {
        path: takeback_tree::RelPath::new(path).unwrap(),
        resolution,
    });
    let undo = TurnUndo { files: files.into(), ..TurnUndo::default() };
    let done = scratch.carry_out(Destination::WithoutTurn(undo));
    let resolved: Vec<bool> = done.conflicts.iter().map(|conflict| conflict.resolved).collect();
    assert_eq!(resolved, [true, true, false]);
    let read = |file: &str| scratch.read(file).lines().nth(1).unwrap().to_owned();
    assert_eq!([read("a"), read("b"), read("c")], ["two", "zwei", "zwei"]);
}
