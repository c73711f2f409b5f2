//! Tests of the fold and of the next step.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::entry::CallStart;
use crate::model::{AttemptFailure, FailureKind, Finish, RequestedCall};

const USUAL: Circumstances = Circumstances {
    max_output: 1000,
    first_wait: Duration::from_secs(2),
    has_fallback: true,
    can_clear: false,
    can_compress: true,
};

fn fold(entries: &[Entry]) -> State {
    let mut state = State::default();
    entries.iter().for_each(|entry| state.apply(entry));
    state
}

fn prompted() -> Entry {
    Entry::Prompted { message: 1, turn: 1, wraps_up: false }
}

fn requested() -> Entry {
    let (provider, model) = ("p".to_owned(), "m".to_owned());
    Entry::Requested { provider, model, digest: String::new(), max_output: 1000 }
}

fn call(id: &str, name: &str) -> RequestedCall {
    RequestedCall { id: id.into(), name: name.into(), arguments: "{}".into() }
}

fn replied(finish: Finish, calls: Vec<RequestedCall>, cut_calls: usize) -> Entry {
    Entry::Replied { message: Some(2), finish, calls, cut_calls, bill: Bill::default() }
}

fn failed(kind: FailureKind, delivered: bool) -> Entry {
    let failure =
        AttemptFailure { kind, status: None, message: "broken".into(), retry_after: None };
    let message = delivered.then_some(2);
    Entry::Interrupted { message, calls: Vec::new(), failure, bill: Bill::default() }
}

fn ended(call: &str, is_error: bool) -> Entry {
    Entry::Ended {
        call: call.into(),
        message: 3,
        is_error,
        is_unusable: false,
        known_files: Vec::new(),
        bill: Bill::default(),
    }
}

/// Applies requests that all end in the same way, until the next step is something other than a
/// request. Returns the number of requests and that step.
fn repeat(entry: &Entry, circumstances: Circumstances) -> (u32, Step) {
    let mut state = fold(&[prompted()]);
    for count in 0.. {
        match state.next(circumstances) {
            Step::Ask(_) => {
                state.apply(&requested());
                state.apply(entry);
            }
            Step::LimitOutput(max_output) => state.apply(&Entry::LimitedOutput { max_output }),
            step => return (count, step),
        }
        assert!(count < 100, "the turn does not end");
    }
    unreachable!()
}

#[test]
fn a_turn_without_calls_ends_after_the_reply() {
    let mut state = State::default();
    assert_eq!(state.next(USUAL), Step::Wait);
    state.apply(&prompted());
    assert!(matches!(state.next(USUAL), Step::Ask(_)));
    state.apply(&requested());
    assert_eq!(state.next(USUAL), Step::ForgetRequest);
    state.apply(&replied(Finish::Stop, Vec::new(), 0));
    assert_eq!(state.next(USUAL), Step::End(TurnOutcome::Complete));
    state.apply(&Entry::TurnEnded { outcome: TurnOutcome::Complete });
    assert_eq!(state.next(USUAL), Step::Wait);
}

#[test]
fn calls_are_made_in_order_and_their_results_go_back_to_the_model() {
    let calls = vec![call("a", "read_file"), call("b", "terminal")];
    let mut state = fold(&[prompted(), requested(), replied(Finish::Stop, calls, 0)]);
    assert_eq!(state.next(USUAL), Step::Call(0));
    state.apply(&Entry::Started { call: "a".into(), start: CallStart::default() });
    assert_eq!(state.next(USUAL), Step::Settle(0));
    state.apply(&ended("a", false));
    assert_eq!(state.next(USUAL), Step::Call(1));
    state.apply(&Entry::Asked { call: "b".into(), because: "x".into(), remember: None });
    assert_eq!(state.next(USUAL), Step::Approve(1));
    state.apply(&Entry::Answered { call: "b".into(), answer: Answer::Allow });
    assert_eq!(state.next(USUAL), Step::Call(1));
    state.apply(&ended("b", false));
    assert!(matches!(state.next(USUAL), Step::Ask(_)));
}

#[test]
fn subagents_work_in_parallel_and_other_calls_wait_for_them() {
    let calls = vec![call("a", SUBAGENT), call("b", "terminal"), call("c", SUBAGENT)];
    let mut state = fold(&[prompted(), requested(), replied(Finish::Stop, calls, 0)]);
    assert_eq!(state.next(USUAL), Step::Delegate(vec![0, 2]));
    state.apply(&Entry::Spawned { call: "a".into(), task: "t".into() });
    assert_eq!(state.next(USUAL), Step::Delegate(vec![0, 2]));
    state.apply(&ended("a", false));
    state.apply(&ended("c", false));
    assert_eq!(state.next(USUAL), Step::Call(1));
}

#[test]
fn requests_that_yield_nothing_are_tried_five_times() {
    let alone = Circumstances { has_fallback: false, ..USUAL };
    for kind in [FailureKind::Connection, FailureKind::Stalled, FailureKind::Server] {
        let (count, step) = repeat(&failed(kind, false), alone);
        assert_eq!(
            (count, step),
            (5, Step::End(TurnOutcome::Failed { because: "broken".into(), is_limited: false }))
        );
        assert_eq!(repeat(&failed(kind, false), USUAL), (5, Step::FailOver));
    }
    let (count, step) = repeat(&failed(FailureKind::RateLimited, false), USUAL);
    assert_eq!(count, 5);
    assert!(matches!(step, Step::End(TurnOutcome::Failed { .. })), "429 never fails over");
    assert_eq!(repeat(&failed(FailureKind::Overloaded, false), USUAL), (3, Step::FailOver));
}

#[test]
fn replies_with_nothing_but_unusable_calls_end_the_turn() {
    let ended = |id: &str, is_unusable| Entry::Ended {
        call: id.into(),
        message: 3,
        is_error: is_unusable,
        is_unusable,
        known_files: Vec::new(),
        bill: Bill::default(),
    };
    let reply = |state: &mut State, round: u32, second_is_unusable| {
        let ids = ["a", "b"].map(|call| format!("{call}{round}"));
        let calls = ids.iter().map(|id| call(id, &format!("tool {id}"))).collect();
        state.apply(&requested());
        state.apply(&replied(Finish::Stop, calls, 0));
        state.apply(&ended(&ids[0], true));
        state.apply(&ended(&ids[1], second_is_unusable));
        state.next(USUAL)
    };
    let mut state = fold(&[prompted()]);
    for round in 0..20 {
        assert!(matches!(reply(&mut state, round, false), Step::Ask(_)), "one call was made");
    }
    for round in 20..24 {
        assert!(matches!(reply(&mut state, round, true), Step::Ask(_)), "{round}");
    }
    assert!(matches!(reply(&mut state, 24, true), Step::End(TurnOutcome::Blocked { .. })));
}

#[test]
fn a_request_that_the_provider_rejects_is_not_repeated() {
    for kind in [FailureKind::Unauthorized, FailureKind::UnknownModel, FailureKind::Rejected] {
        let (count, step) = repeat(&failed(kind, false), USUAL);
        assert_eq!(count, 1);
        assert!(matches!(step, Step::End(TurnOutcome::Failed { .. })));
    }
}

#[test]
fn a_cut_answer_is_continued_four_times_and_never_counts_as_complete() {
    let (count, step) = repeat(&failed(FailureKind::Connection, true), USUAL);
    assert_eq!(count, 5);
    assert!(matches!(step, Step::End(TurnOutcome::Partial { .. })));
}

#[test]
fn a_reply_that_reaches_the_output_limit_gets_a_larger_limit() {
    let mut state = fold(&[prompted(), requested(), replied(Finish::Length, Vec::new(), 0)]);
    assert_eq!(state.next(USUAL), Step::LimitOutput(2000));
    state.apply(&Entry::LimitedOutput { max_output: 2000 });
    assert!(matches!(state.next(USUAL), Step::Ask(ModelStep { max_output: 2000, .. })));
    let (_, step) = repeat(&replied(Finish::Length, Vec::new(), 0), USUAL);
    assert!(matches!(step, Step::End(TurnOutcome::Partial { .. })));
    let (_, step) = repeat(&replied(Finish::Length, Vec::new(), 1), USUAL);
    assert!(matches!(step, Step::End(TurnOutcome::Partial { .. })));
}

#[test]
fn a_conversation_that_does_not_fit_is_compressed_at_most_twice() {
    let overflow = failed(FailureKind::Overflow, false);
    let mut state = fold(&[prompted(), requested(), overflow.clone()]);
    let compressed = Entry::Compressed {
        session: "s2".into(),
        turn: 1,
        prompt: 2,
        moves: 0,
        bill: Bill::default(),
    };
    for _ in 0..2 {
        assert_eq!(state.next(USUAL), Step::Compress);
        [compressed.clone(), requested(), overflow.clone()]
            .iter()
            .for_each(|entry| state.apply(entry));
    }
    assert_eq!(state.next(USUAL), Step::FailOver);
    let alone = Circumstances { has_fallback: false, ..USUAL };
    assert!(matches!(state.next(alone), Step::End(TurnOutcome::Blocked { .. })));
}

#[test]
fn results_of_old_calls_are_left_out_before_anything_is_summarized() {
    let overflow = failed(FailureKind::Overflow, false);
    let mut state = fold(&[prompted(), requested(), overflow]);
    let can_clear = Circumstances { can_clear: true, ..USUAL };
    assert_eq!(state.next(can_clear), Step::Clear);
    state.apply(&Entry::Cleared { through: 7 });
    assert_eq!(state.cleared, 7);
    assert!(matches!(state.next(USUAL), Step::Ask(_)));
}

#[test]
fn a_request_for_a_summary_that_does_not_fit_either_is_not_repeated_forever() {
    let overflow = failed(FailureKind::Overflow, false);
    let mut state = fold(&[prompted()]);
    let alone = Circumstances { has_fallback: false, ..USUAL };
    for _ in 0..5 {
        assert!(matches!(state.next(alone), Step::Ask(_) | Step::Compress));
        state.apply(&requested());
        state.apply(&overflow);
    }
    assert!(matches!(state.next(alone), Step::End(TurnOutcome::Blocked { .. })));
}

#[test]
fn the_same_call_may_fail_only_three_times() {
    let round =
        [requested(), replied(Finish::Stop, vec![call("a", "terminal")], 0), ended("a", true)];
    let mut state = fold(&[prompted()]);
    for _ in 0..3 {
        assert!(matches!(state.next(USUAL), Step::Ask(_)));
        round.iter().for_each(|entry| state.apply(entry));
    }
    assert!(matches!(state.next(USUAL), Step::End(TurnOutcome::Blocked { .. })));
}

#[test]
fn a_command_that_is_always_allowed_is_remembered_by_its_prefix() {
    let mut state = fold(&[
        prompted(),
        requested(),
        replied(Finish::Stop, vec![call("a", "terminal")], 0),
        Entry::Asked {
            call: "a".into(),
            because: "it publishes".into(),
            remember: Some("git push".into()),
        },
    ]);
    state.apply(&Entry::Answered { call: "a".into(), answer: Answer::AllowAlways });
    assert!(state.allowed.contains("git push"));
    assert_eq!(state.next(USUAL), Step::Call(0));
}

#[test]
fn a_state_survives_being_stored() {
    let state = fold(&[
        prompted(),
        requested(),
        replied(Finish::Stop, vec![call("a", "terminal")], 0),
        Entry::Started { call: "a".into(), start: CallStart::default() },
    ]);
    let mut state = state;
    let strange = std::ffi::OsString::from_vec(vec![b'/', 0xff]);
    state.known_files.insert(strange.into(), Some("0".into()));
    let stored = serde_json::to_value(&state).unwrap();
    assert_eq!(serde_json::from_value::<State>(stored).unwrap(), state);
    let entry = failed(FailureKind::Overloaded, true);
    assert_eq!(Entry::from_json(&entry.to_json()).unwrap(), entry);
}
