//! The opened value: when it opens and closes the store and the ledger.

use takeback_undo::history;

use crate::support::Scratch;

#[test]
fn reading_creates_neither_a_store_nor_a_ledger() {
    let scratch = Scratch::new();
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    assert!(list.checkpoints.is_empty());
    assert!(scratch.opened.ledger().unwrap().is_none());
    assert!(!scratch.base().join("home").exists());
}

#[test]
fn a_closed_ledger_is_opened_again() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "a", "1\n");
    scratch.opened.close_ledger();
    scratch.play_turn("write again", "a", "2\n");
    let ledger = scratch.opened.ledger().unwrap().unwrap();
    assert_eq!(ledger.turns("mine:s").unwrap().len(), 2);
}

#[test]
fn two_opened_homes_see_the_same_history() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "a", "1\n");
    let other = Scratch::open(scratch.base());
    let count =
        |opened| history::list_checkpoints(opened, &scratch.project()).unwrap().checkpoints.len();
    assert_eq!((count(&scratch.opened), count(&other)), (1, 1));
    scratch.play_turn("write again", "a", "2\n");
    assert_eq!((count(&scratch.opened), count(&other)), (2, 2));
    assert_eq!(other.ledger().unwrap().unwrap().turns("mine:s").unwrap().len(), 2);
}
