//! Broken streams and refused requests: each turn ends with a complete answer or with a reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use takeback_runtime::{NewSession, Pause, Task, TurnOutcome};
use takeback_script::{Fault, Finish, Reply, Request, Server, StreamGate, StreamStep};

use crate::support::{Recorder, Scratch, build_agent, provider};

const COMPLETE: Pause = Pause::TurnEnded(TurnOutcome::Complete);

/// Starts a server that sends these replies one after another, and then repeats the last one.
fn in_turn(replies: Vec<Reply>) -> Server {
    let next = AtomicUsize::new(0);
    Server::start(move |_: &Request| {
        let at = next.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
        replies[at].clone()
    })
    .unwrap()
}

/// Returns a reply whose stream is cut off before the event with this number.
fn cut_at(reply: Reply, event: usize) -> Reply {
    let decide = move |number| if number >= event { StreamStep::Cut } else { StreamStep::Send };
    Reply { gate: Some(StreamGate::new(decide)), ..reply }
}

#[test]
fn a_cut_answer_is_continued_without_repetition() {
    let scratch = Scratch::new();
    let server = in_turn(vec![
        cut_at(Reply::text("The first half and the second half"), 2),
        Reply::text("first half and the second half"),
    ]);
    let mut task = scratch.begin(&server.url(), "t1");
    assert_eq!(task.prompt("tell me", &Recorder::default()).unwrap(), COMPLETE);
    let conversation = scratch.conversation("takeback:t1");
    let text: String =
        conversation[1..].iter().map(|line| line.trim_start_matches("assistant: ")).collect();
    assert_eq!(text, "The first half and the second half");
    let asked = serde_json::to_string(&server.requests()[1].body).unwrap();
    assert!(asked.contains("cut off"), "{asked}");
}

#[test]
fn an_answer_that_reaches_the_output_limit_is_continued_with_a_larger_limit() {
    let scratch = Scratch::new();
    let long = Reply { finish: Finish::Length, ..Reply::text("One, two, ") };
    let server = in_turn(vec![long, Reply::text("three.")]);
    let mut task = scratch.begin(&server.url(), "t1");
    assert_eq!(task.prompt("count", &Recorder::default()).unwrap(), COMPLETE);
    let limits: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let body = &request.body;
            body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64())
        })
        .collect();
    assert_eq!(limits, [Some(1000), Some(2000)]);
    let session = scratch.ledger().session("takeback:t1").unwrap();
    assert_eq!(session.api_call_count, 2, "both attempts are billed");
}

#[test]
fn a_rejected_key_ends_the_turn_and_the_session_can_be_continued() {
    let scratch = Scratch::new();
    let body = json!({ "error": { "message": "invalid api key" } }).to_string();
    let server = in_turn(vec![Reply::fault(Fault::response(401, body)), Reply::text("Hello.")]);
    let mut task = scratch.begin(&server.url(), "t1");
    let pause = task.prompt("hi", &Recorder::default()).unwrap();
    let Pause::TurnEnded(TurnOutcome::Failed { because, .. }) = pause else { panic!("{pause:?}") };
    assert!(because.contains("invalid api key"), "{because}");
    assert_eq!(task.prompt("hi again", &Recorder::default()).unwrap(), COMPLETE);
}

#[test]
fn the_fallback_takes_over_from_an_overloaded_provider() {
    let scratch = Scratch::new();
    let failing = in_turn(vec![Reply::fault(Fault::Response {
        status: 529,
        headers: vec![("retry-after".into(), "0".into())],
        body: json!({ "error": { "type": "overloaded_error", "message": "busy" } }).to_string(),
    })]);
    let other = in_turn(vec![Reply::text("Here I am.")]);
    let mut agent = build_agent(scratch.base(), &failing.url());
    agent.fallback = Some(provider(&other.url()));
    let directory = scratch.project();
    let mut task = Task::begin(Arc::new(agent), &directory, NewSession::default(), "t1").unwrap();
    assert_eq!(task.prompt("hi", &Recorder::default()).unwrap(), COMPLETE);
    assert_eq!((failing.requests().len(), other.requests().len()), (3, 1));
}

#[test]
fn a_conversation_that_does_not_fit_continues_in_a_child_session() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| {
        let is_long = request.count_text("prompt 1 ") > 0 && request.count_text("prompt 6 ") > 0;
        let overflow = json!({ "error": {
            "code": "context_length_exceeded",
            "message": "This model's maximum context length is 100 tokens",
        } });
        match request.last_text() {
            text if text.starts_with("Summarize") => Reply::text("They counted to five."),
            _ if is_long => Reply::fault(Fault::response(400, overflow.to_string())),
            _ => Reply::text("Go on."),
        }
    })
    .unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    for number in 1..=6 {
        let prompt = format!("prompt {number} ");
        assert_eq!(task.prompt(&prompt, &Recorder::default()).unwrap(), COMPLETE);
    }
    assert_ne!(task.session_id(), "takeback:t1");
    let conversation = scratch.conversation(task.session_id());
    assert!(conversation[0].ends_with("They counted to five."), "{conversation:?}");
    assert_eq!(conversation.last().unwrap(), "assistant: Go on.");
    let ancestors = scratch.ledger().ancestors(task.session_id()).unwrap();
    assert_eq!(ancestors[0].id, "takeback:t1");
    assert_eq!(ancestors[0].end_reason.as_deref(), Some("compacted"));
    assert_eq!(scratch.conversation("takeback:t1").len(), 11, "the old messages stay");
}
