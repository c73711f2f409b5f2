//! Rewinding a conversation, and reversing a rewind.

use takeback_ledger::{ConversationPoint, LedgerError, MessageFilter, SearchOptions};

use crate::support::{Fixture, at, message};

#[test]
fn a_rewind_marks_messages_and_an_unrewind_restores_them() {
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
fn rewinding_more_turns_than_there_are_takes_back_all_turns() {
    let mut fixture = Fixture::with_three_turns();
    assert_eq!(fixture.ledger.rewind_turns("s", 99, at(10)).unwrap().turns, 3);
    assert_eq!(fixture.counts("s"), (0, 0));
    assert!(matches!(
        fixture.ledger.rewind_turns("s", 1, at(11)),
        Err(LedgerError::NothingToRewind(_))
    ));
}

#[test]
fn a_conversation_that_has_continued_cannot_be_unrewound() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.rewind_turns("s", 1, at(10)).unwrap();
    fixture.say("s", "user", "other");
    assert!(matches!(fixture.ledger.unrewind("s", at(12)), Err(LedgerError::WentOn(_))));
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2", "other"]);
    // A rewind of the new turn can be reversed.
    fixture.ledger.rewind_turns("s", 1, at(13)).unwrap();
    fixture.ledger.unrewind("s", at(14)).unwrap();
    assert_eq!(fixture.current_texts("s").last().unwrap(), "other");
}

#[test]
fn rewinding_takes_back_the_last_turn_even_if_another_turn_was_added_later() {
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
fn messages_that_were_taken_back_are_found_only_on_request() {
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

#[test]
fn a_return_to_a_message_that_was_taken_back_restores_what_came_before_it() {
    let mut fixture = Fixture::with_three_turns();
    let before = ConversationPoint::BeforeMessage;
    fixture.ledger.return_to_point("s", before(3), at(10)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1"]);
    let moved = fixture.ledger.return_to_point("s", before(5), at(11)).unwrap();
    assert_eq!((moved.taken_back, moved.brought_back), (0, 2));
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    let turns = fixture.ledger.turns("s").unwrap();
    assert_eq!(turns.iter().map(|turn| turn.undone).collect::<Vec<_>>(), [false, false, true]);
    fixture.ledger.unrewind("s", at(12)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1"]);
    fixture.ledger.unrewind("s", at(13)).unwrap();
    assert_eq!(fixture.current_texts("s").len(), 6);
}

#[test]
fn a_return_to_another_branch_leaves_only_that_branch() {
    let mut fixture = Fixture::with_three_turns();
    let before = ConversationPoint::BeforeMessage;
    fixture.ledger.return_to_point("s", before(3), at(10)).unwrap();
    fixture.talk("s", &["ask4", "answer4"]);
    fixture.ledger.return_to_point("s", before(5), at(11)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    fixture.talk("s", &["ask5", "answer5"]);
    let moved = fixture.ledger.return_to_point("s", before(7), at(12)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1"]);
    assert_eq!((moved.taken_back, moved.brought_back), (4, 0));
    let moved = fixture.ledger.return_to_point("s", before(9), at(13)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    assert_eq!((moved.taken_back, moved.brought_back), (0, 2));
}

#[test]
fn a_rewind_is_reversed_even_if_the_conversation_has_continued() {
    let mut fixture = Fixture::with_three_turns();
    let all = fixture.current_texts("s");
    fixture.ledger.return_to_point("s", ConversationPoint::BeforeMessage(3), at(10)).unwrap();
    fixture.talk("s", &["ask4", "answer4"]);
    let with_fourth = fixture.current_texts("s");
    let before_rewind = |time| ConversationPoint::BeforeRewind(at(time));
    fixture.ledger.return_to_point("s", before_rewind(10), at(11)).unwrap();
    assert_eq!(fixture.current_texts("s"), all);
    fixture.ledger.return_to_point("s", before_rewind(11), at(12)).unwrap();
    assert_eq!(fixture.current_texts("s"), with_fourth);
}

/// Moves the end of a conversation at random. After each move, compares the conversation with the
/// list of messages that it should contain.
#[test]
fn a_conversation_can_return_to_every_earlier_point() {
    for seed in 1..40_u64 {
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        let mut said: Vec<Vec<String>> = Vec::new();
        let mut moves: Vec<(i64, Vec<String>)> = Vec::new();
        let mut now: Vec<String> = Vec::new();
        for step in 1..40 {
            let point = match below(5) {
                0 if !moves.is_empty() => {
                    let (time, then) = moves[below(moves.len() as u64) as usize].clone();
                    moves.push((step, now));
                    now = then;
                    ConversationPoint::BeforeRewind(at(time))
                }
                1 if !said.is_empty() => {
                    let number = below(said.len() as u64) as usize;
                    moves.push((step, now));
                    now = said[number].clone();
                    ConversationPoint::BeforeMessage(number as i64 + 1)
                }
                _ => {
                    said.push(now.clone());
                    now.push(format!("m{step}"));
                    fixture.say("s", "user", &format!("m{step}"));
                    continue;
                }
            };
            let moved = fixture.ledger.return_to_point("s", point, at(step)).unwrap();
            if moved.is_empty() {
                moves.pop();
            }
            assert_eq!(fixture.current_texts("s"), now, "seed {seed}, step {step}: {point:?}");
        }
    }
}
