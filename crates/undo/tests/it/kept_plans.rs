//! Plans that are kept, as JSON and without a lock, while the user decides.

use takeback_undo::{Destination, RollbackError, TurnUndo};

use crate::support::Scratch;

fn checkpoint(text: &str) -> Destination {
    Destination::Checkpoint(text.into())
}

#[test]
fn a_kept_plan_is_applied_by_another_process() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.play_turn("change it", "a", "2\n");
    let planned = scratch.plan(checkpoint("1"));
    assert_eq!(planned.view().undone_messages, 1);
    let other = Scratch::open(scratch.base());
    let view = takeback_undo::rollback::apply(&other, planned).unwrap();
    assert_eq!(scratch.read("a"), "1\n");
    assert_eq!((view.undone_messages, view.restored.len()), (1, 1));
}

#[test]
fn a_kept_plan_is_refused_if_the_workspace_changed() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.play_turn("change it", "a", "2\n");
    for name in ["a", "another"] {
        let planned = scratch.plan(checkpoint("1"));
        scratch.write(name, "the user's\n");
        let refused = scratch.apply(planned);
        assert!(matches!(refused, Err(RollbackError::Changed(_))), "{name}: {refused:?}");
        assert_eq!(scratch.read(name), "the user's\n");
    }
}

#[test]
fn a_kept_plan_is_applied_once() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.play_turn("change it", "a", "2\n");
    let planned = scratch.plan(checkpoint("1"));
    scratch.apply(planned.clone()).unwrap();
    assert!(matches!(scratch.apply(planned), Err(RollbackError::Changed(_))));
    assert_eq!(scratch.read("a"), "1\n");
}

#[test]
fn the_same_rollback_is_not_undone_by_two_plans() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.play_turn("change it", "a", "2\n");
    scratch.play_turn("change it again", "a", "3\n");
    scratch.apply(scratch.plan(checkpoint("1"))).unwrap();
    scratch.apply(scratch.plan(checkpoint("2"))).unwrap();
    let first = scratch.plan(Destination::BeforeLastRollback);
    let second = scratch.plan(Destination::BeforeLastRollback);
    scratch.apply(first).unwrap();
    assert_eq!(scratch.read("a"), "2\n");
    // The user returns the workspace to the state that the second plan starts from.
    scratch.write("a", "1\n");
    assert!(matches!(scratch.apply(second), Err(RollbackError::Changed(_))));
}

#[test]
fn a_plan_to_undo_a_turn_survives_a_gc() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n2\n3\n4\n5\n");
    scratch.play_turn("change the first line", "a", "one\n2\n3\n4\n5\n");
    scratch.write("a", "one\n2\n3\n4\nfive\n");
    let planned = scratch.plan(Destination::WithoutTurn(TurnUndo::default()));
    // The merged file is in no checkpoint, so a gc removes it if it was stored at all.
    scratch.opened.store().unwrap().gc().unwrap();
    scratch.apply(planned).unwrap();
    assert_eq!(scratch.read("a"), "1\n2\n3\n4\nfive\n");
    scratch.apply(scratch.plan(Destination::BeforeLastRollback)).unwrap();
    assert_eq!(scratch.read("a"), "one\n2\n3\n4\nfive\n");
}

#[test]
fn a_session_that_began_after_the_plan_also_gets_a_notice() {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.play_turn("change it", "a", "2\n");
    let planned = scratch.plan(checkpoint("1"));
    // A call that changes nothing leaves the plan valid.
    scratch.play_turn_of("later", "look around", || {});
    scratch.apply(planned).unwrap();
    for session in ["mine:s", "mine:later"] {
        let notices = takeback_undo::rollback::take_notices(&scratch.opened, session).unwrap();
        assert_eq!(notices.len(), 1, "{session}");
    }
}
