//! Turns that become too long for the model's context window.

use std::sync::Arc;

use serde_json::{Value, json};
use takeback_ledger::{MessageFilter, SearchOptions};
use takeback_runtime::model::ApiKind;
use takeback_runtime::{NewSession, Pause, Task, TurnOutcome};
use takeback_script::{Fault, Message, Reply, Request, Server};

use crate::model_support::APIS;
use crate::support::{Recorder, Scratch, build_agent};

const COMPLETE: Pause = Pause::TurnEnded(TurnOutcome::Complete);

/// A part of the note that replaces a result that was left out.
const NOTE: &str = "left out to save space";

fn begin(scratch: &Scratch, server: &Server, kind: ApiKind, window: u64) -> Task {
    let mut agent = build_agent(scratch.base(), &server.url());
    (agent.provider.kind, agent.provider.context_window) = (kind, window);
    let new = NewSession { title: Some("reading".into()), ..NewSession::default() };
    Task::begin(Arc::new(agent), &scratch.project(), new, "t1").unwrap()
}

fn journal(scratch: &Scratch, name: &str) -> Vec<Value> {
    let entries = scratch.ledger().read_journal("t1", 0).unwrap();
    entries.into_iter().map(|entry| entry.entry).filter(|entry| entry["entry"] == name).collect()
}

/// Creates files of about 1,000 tokens each.
fn write_files(scratch: &Scratch, count: usize) {
    for number in 0..count {
        scratch.write(&format!("{number}.txt"), &format!("word{number} ipsum ").repeat(250));
    }
}

/// Plays a model that reads the next of `count` files, and says `remark` before each call.
fn read_next(request: &Request, count: usize, remark: &str) -> Reply {
    let number = |message: &Message| {
        let path = message.calls.last()?.input["path"].as_str()?.to_owned();
        path.split('.').next()?.parse::<usize>().ok()
    };
    match request.messages.iter().filter_map(number).max().map_or(0, |last| last + 1) {
        next if next == count => Reply::text("All files are read."),
        next => Reply {
            text: remark.to_owned(),
            ..Reply::call("read_file", json!({ "path": format!("{next}.txt") }))
        },
    }
}

fn size_of(request: &Request) -> usize {
    request.body.to_string().len()
}

#[test]
fn old_results_are_left_out_of_the_requests_but_stay_in_the_session() {
    for kind in APIS {
        let scratch = Scratch::new();
        write_files(&scratch, 12);
        let server = Server::start(|request: &Request| read_next(request, 12, "")).unwrap();
        let mut task = begin(&scratch, &server, kind, 8_000);
        assert_eq!(task.prompt("read all", &Recorder::default()).unwrap(), COMPLETE);
        assert_eq!(task.session_id(), "takeback:t1", "nothing had to be summarized");
        assert!(!journal(&scratch, "cleared").is_empty(), "{kind:?}");
        for request in server.requests() {
            assert!(size_of(&request) / 3 < 8_000, "{kind:?}: {}", size_of(&request));
            // The newest result is never left out.
            if let Some(result) = request.last_result() {
                assert!(!result.text.contains(NOTE), "{kind:?}: {}", result.text);
            }
        }
        let last = server.requests().pop().unwrap();
        assert!(last.count_text(NOTE) > 3 && last.count_text("word0 ") == 0, "{kind:?}");
        let mut ledger = scratch.ledger();
        let messages = ledger.messages("takeback:t1", MessageFilter::Current).unwrap();
        let kept = serde_json::to_string(&messages).unwrap();
        assert!(
            (0..12).all(|number| kept.contains(&format!("word{number} "))) && !kept.contains(NOTE)
        );
        let found = ledger.search("word0", &SearchOptions::default()).unwrap();
        assert!(!found.results.is_empty());
    }
}

#[test]
fn results_are_left_out_when_the_provider_says_that_the_request_is_too_long() {
    let scratch = Scratch::new();
    write_files(&scratch, 8);
    let server = Server::start(|request: &Request| match size_of(request) > 20_000 {
        true => Reply::fault(Fault::response(400, r#"{"error":{"message":"prompt is too long"}}"#)),
        false => read_next(request, 8, ""),
    })
    .unwrap();
    let mut task = begin(&scratch, &server, ApiKind::Openai, 1_000_000);
    assert_eq!(task.prompt("read all", &Recorder::default()).unwrap(), COMPLETE);
    assert!(!journal(&scratch, "cleared").is_empty());
    assert_eq!(task.session_id(), "takeback:t1");
}

#[test]
fn a_turn_that_is_still_too_long_is_summarized_before_it_ends() {
    for kind in APIS {
        let scratch = Scratch::new();
        write_files(&scratch, 14);
        let remark = "and so I read on and on ".repeat(60);
        let server = Server::start(move |request: &Request| match request.last_text() {
            text if text.starts_with("Summarize") => Reply::text("Some files are read."),
            _ => read_next(request, 14, &remark),
        })
        .unwrap();
        let mut task = begin(&scratch, &server, kind, 6_000);
        assert_eq!(task.prompt("read all", &Recorder::default()).unwrap(), COMPLETE, "{kind:?}");
        assert!(!journal(&scratch, "compressed").is_empty(), "{kind:?}");
        let ledger = scratch.ledger();
        let session = ledger.session(task.session_id()).unwrap();
        assert!(session.title.unwrap().starts_with("reading #"));
        let conversation = scratch.conversation(task.session_id());
        assert!(conversation[0].ends_with("Some files are read."), "{conversation:?}");
        assert_eq!(conversation[1], "user: read all");
        assert_eq!(conversation.last().unwrap(), "assistant: All files are read.");
        // The oldest session still contains the messages that were summarized.
        assert!(scratch.conversation("takeback:t1").join("\n").contains("word0 "));
        let summaries = server.requests().into_iter();
        let mut summaries = summaries.filter(|request| request.last_text().starts_with("Summ"));
        assert!(summaries.all(|request| request.tools.is_empty() && request.messages.len() == 1));
        // The next turn works in the same session.
        let pause = task.prompt("thank you", &Recorder::default()).unwrap();
        assert_eq!(pause, COMPLETE, "{kind:?}");
    }
}

#[test]
fn a_turn_that_cannot_be_shortened_is_blocked_with_a_reason() {
    let scratch = Scratch::new();
    let server = Server::start(|_: &Request| {
        Reply::fault(Fault::response(400, r#"{"error":{"message":"prompt is too long"}}"#))
    })
    .unwrap();
    let mut task = begin(&scratch, &server, ApiKind::Anthropic, 100);
    let pause = task.prompt(&"much too long ".repeat(100), &Recorder::default()).unwrap();
    let Pause::TurnEnded(TurnOutcome::Blocked { because }) = pause else { panic!("{pause:?}") };
    assert!(because.starts_with("the conversation is too long for the model"), "{because}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_summary_that_never_fits_does_not_prolong_the_turn_forever() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.messages.len() {
        1 if !request.last_text().starts_with("Summarize") => Reply::text("Hello."),
        _ => Reply::fault(Fault::response(400, r#"{"error":{"message":"prompt is too long"}}"#)),
    })
    .unwrap();
    let mut task = begin(&scratch, &server, ApiKind::Openai, 100_000);
    assert_eq!(task.prompt("hi", &Recorder::default()).unwrap(), COMPLETE);
    let pause = task.prompt("and now?", &Recorder::default()).unwrap();
    assert!(matches!(pause, Pause::TurnEnded(TurnOutcome::Blocked { .. })), "{pause:?}");
    assert!(server.requests().len() < 10, "{}", server.requests().len());
}

#[test]
fn an_error_is_returned_if_a_summary_that_the_user_asked_for_fails() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_text() {
        text if text.starts_with("Summarize") => Reply::fault(Fault::response(401, "{}")),
        _ => Reply::text("Hello."),
    })
    .unwrap();
    let mut task = begin(&scratch, &server, ApiKind::Openai, 100_000);
    assert!(!task.compress_now(&Recorder::default()).unwrap(), "nothing to summarize");
    for prompt in ["one", "two"] {
        task.prompt(prompt, &Recorder::default()).unwrap();
    }
    let error = task.compress_now(&Recorder::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot summarize the conversation"), "{error}");
    assert_eq!(task.prompt("three", &Recorder::default()).unwrap(), COMPLETE);
}
