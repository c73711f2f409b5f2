//! Rewinding a conversation, and taking a rewind back.

use takeback_ledger::{LedgerError, MessageFilter, SearchOptions};

use crate::support::{Fixture, at, message};

#[test]
fn a_rewind_marks_messages_and_an_unrewind_brings_them_back() {
    let mut fixture = Fixture::with_three_turns();
    assert_eq!(fixture.counts("s"), (6, 3));

    let undone = fixture.ledger.rewind_turns("s", 1, at(10)).unwrap();
    assert_eq!((undone.messages, undone.turns, undone.from_seq), (2, 1, 5));
    assert_eq!(undone.prompt.as_deref(), Some("ask3"));
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    assert_eq!(fixture.counts("s"), (4, 2));
    assert_eq!(
        fixture.ledger.messages("s", MessageFilter::All).unwrap().len(),
        6,
        "nothing is deleted"
    );
    assert!(fixture.ledger.turns("s").unwrap()[2].undone);

    fixture.ledger.rewind_turns("s", 1, at(11)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1"]);
    fixture.ledger.unrewind("s", at(12)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    fixture.ledger.unrewind("s", at(13)).unwrap();
    assert_eq!(fixture.current_texts("s").len(), 6);
    assert_eq!(fixture.counts("s"), (6, 3));
    assert!(matches!(fixture.ledger.unrewind("s", at(14)), Err(LedgerError::NothingToUnrewind(_))));
}

#[test]
fn rewinding_more_turns_than_there_are_rewinds_all_of_them() {
    let mut fixture = Fixture::with_three_turns();
    assert_eq!(fixture.ledger.rewind_turns("s", 99, at(10)).unwrap().turns, 3);
    assert_eq!(fixture.counts("s"), (0, 0));
    assert!(matches!(
        fixture.ledger.rewind_turns("s", 1, at(11)),
        Err(LedgerError::NothingToRewind(_))
    ));
}

#[test]
fn a_conversation_that_went_on_cannot_be_unrewound() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.rewind_turns("s", 1, at(10)).unwrap();
    fixture.say("s", "user", "other");
    assert!(matches!(fixture.ledger.unrewind("s", at(12)), Err(LedgerError::WentOn(_))));
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2", "other"]);
    // The undo of the new turn can be.
    fixture.ledger.rewind_turns("s", 1, at(13)).unwrap();
    fixture.ledger.unrewind("s", at(14)).unwrap();
    assert_eq!(fixture.current_texts("s").last().unwrap(), "other");
}

#[test]
fn the_last_turn_is_the_last_in_the_conversation() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.talk("s", &["u1", "a1"]);
    let early = fixture.ledger.transcript("s").unwrap();
    fixture.ledger.clear_messages("s").unwrap();
    fixture.talk("s", &["u2", "a2"]);
    fixture.ledger.import(&early, at(9)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["u1", "a1", "u2", "a2"]);
    fixture.ledger.rewind_turns("s", 1, at(9)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["u1", "a1"]);
}

#[test]
fn messages_taken_back_are_found_only_when_asked_for() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.append("s", &[message("user", "数据 gone")], at(5)).unwrap();
    for optimized in [false, true] {
        if optimized {
            fixture.ledger.unrewind("s", at(6)).unwrap();
            fixture.ledger.optimize(&|_| {}).unwrap();
        }
        fixture.ledger.rewind_turns("s", 1, at(6)).unwrap();
        for query in ["gone", "数据", "*on*"] {
            assert!(fixture.find(query).is_empty(), "{query}");
            let options = SearchOptions { undone: true, ..SearchOptions::default() };
            assert_eq!(fixture.ledger.search(query, &options).unwrap().total, 1, "{query}");
        }
    }
}
