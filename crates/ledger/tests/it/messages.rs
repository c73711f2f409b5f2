//! Messages: appending, summarizing and forking.

use serde_json::json;
use takeback_ledger::{Event, LedgerError, MessageFilter, MessageRecord, ParentKind};

use crate::support::{Fixture, at, message, record_event};

#[test]
fn everything_in_a_message_comes_back() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let full = MessageRecord {
        role: "assistant".into(),
        content: Some(json!([{ "type": "text", "text": "höi" }])),
        tool_call_id: Some("id".into()),
        tool_calls: Some(json!([{ "id": "1" }])),
        tool_name: Some("name".into()),
        timestamp: Some(at(7)),
        token_count: Some(12),
        finish_reason: Some("stop".into()),
        reasoning: Some("r".into()),
        reasoning_content: Some("rc".into()),
        reasoning_details: Some(json!([{ "x": 1.5 }])),
        codex_reasoning_items: Some(json!({ "a": null })),
        codex_message_items: Some(json!("text")),
        extra: json!({ "effect_disposition": "none" }).as_object().unwrap().clone(),
        ..MessageRecord::default()
    };
    let nothing = MessageRecord { role: "tool".into(), ..MessageRecord::default() };
    let seqs = fixture.ledger.append("s", &[full.clone(), nothing], at(1)).unwrap();
    assert_eq!(seqs, [1, 2]);
    let stored = fixture.open_another().messages("s", MessageFilter::All).unwrap();
    assert_eq!(stored[0], MessageRecord { seq: 1, ..full });
    assert_eq!(stored[1].content, None);
    assert_eq!(stored[1].timestamp, Some(at(1)), "a message without a time gets the current one");
}

#[test]
fn a_message_from_the_user_begins_a_turn() {
    let mut fixture = Fixture::with_three_turns();
    let turns = fixture.ledger.turns("s").unwrap();
    assert_eq!(
        turns.iter().map(|turn| (turn.turn, turn.first_seq)).collect::<Vec<_>>(),
        [(1, 1), (2, 3), (3, 5)]
    );
    record_event(&mut fixture.ledger, Event::TurnEnd { session: "s".into() }, at(9));
    record_event(&mut fixture.ledger, Event::TurnEnd { session: "s".into() }, at(10));
    assert_eq!(fixture.ledger.turns("s").unwrap()[2].ended_at, Some(at(9)));
}

#[test]
fn a_summary_replaces_the_messages_that_it_summarizes() {
    let mut fixture = Fixture::with_three_turns();
    let seq = fixture.ledger.compact("s", 4, &message("user", "summary"), at(10)).unwrap();
    assert_eq!(seq, 7);
    assert_eq!(fixture.current_texts("s"), ["summary", "ask3", "answer3"]);
    assert_eq!(fixture.counts("s"), (7, 3), "compaction does not change the counts");
    assert_eq!(fixture.find("ask1"), [("s".to_owned(), 1)], "compacted messages are found");
    assert_eq!(fixture.ledger.turns("s").unwrap().len(), 3, "a summary is not a turn");

    fixture.say("s", "user", "ask4");
    fixture.ledger.compact("s", 6, &message("user", "summary2"), at(11)).unwrap();
    assert_eq!(
        fixture.current_texts("s"),
        ["summary2", "ask4"],
        "earlier summaries are summarized too"
    );

    // Taking back the turn in which the summary was made makes the summarized messages current
    // again.
    fixture.ledger.rewind_turns("s", 1, at(12)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["summary", "ask3", "answer3"]);
    fixture.ledger.unrewind("s", at(13)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["summary2", "ask4"]);
    assert!(matches!(
        fixture.ledger.compact("s", 99, &message("user", "x"), at(14)),
        Err(LedgerError::NoSuchMessage { .. })
    ));
}

#[test]
fn a_summary_after_a_rewound_summary_summarizes_everything() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.talk("s", &["u1", "a1", "u2", "a2"]);
    fixture.ledger.compact("s", 2, &message("user", "sum1"), at(2)).unwrap();
    fixture.ledger.rewind_turns("s", 1, at(3)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["u1", "a1"]);
    fixture.talk("s", &["u3", "a3"]);
    fixture.ledger.compact("s", 7, &message("user", "sum2"), at(4)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["sum2"]);
}

#[test]
fn a_fork_is_an_independent_copy() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.set_title("s", Some("Fix Docker Build")).unwrap();
    fixture.ledger.rewind_turns("s", 1, at(9)).unwrap();
    let fork = fixture.ledger.fork("s", 3, "f", at(10)).unwrap();
    assert_eq!(fork.parent_session_id.as_deref(), Some("s"));
    assert_eq!(fork.parent_kind, Some(ParentKind::Fork));
    assert_eq!(fork.title.as_deref(), Some("Fix Docker Build #2"));
    assert_eq!((fork.message_count, fork.tool_call_count), (3, 1));
    fixture.say("f", "user", "elsewhere");
    assert_eq!(fixture.current_texts("f"), ["ask1", "answer1", "ask2", "elsewhere"]);
    assert_eq!(fixture.current_texts("s"), ["ask1", "answer1", "ask2", "answer2"]);
    assert_eq!(fixture.ledger.turns("f").unwrap().len(), 3);

    assert!(
        matches!(
            fixture.ledger.fork("s", 5, "g", at(11)),
            Err(LedgerError::NoSuchMessage { seq: 5, .. }),
        ),
        "a session cannot be forked at an undone message"
    );
    assert!(matches!(fixture.ledger.fork("s", 1, "f", at(11)), Err(LedgerError::Exists(_))));
}

#[test]
fn a_fork_from_before_the_summary_has_the_messages_that_it_summarizes() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.compact("s", 4, &message("user", "summary"), at(10)).unwrap();
    fixture.ledger.fork("s", 5, "before", at(11)).unwrap();
    assert_eq!(fixture.current_texts("before"), ["ask1", "answer1", "ask2", "answer2", "ask3"]);
    fixture.ledger.fork("s", 7, "after", at(12)).unwrap();
    assert_eq!(fixture.current_texts("after"), ["summary", "ask3", "answer3"]);
}
