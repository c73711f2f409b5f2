//! Whole turns that test each strategy for broken replies with each kind of API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use takeback_ledger::MessageFilter;
use takeback_runtime::model::{ApiKind, Client, ClientOptions};
use takeback_runtime::{NewSession, Pause, Task, TurnOutcome};
use takeback_script::{Fault, Finish, Reply, Request, Server, StreamGate, StreamStep};

use crate::model_support::APIS;
use crate::support::{Recorder, Scratch, build_agent};

const COMPLETE: Pause = Pause::TurnEnded(TurnOutcome::Complete);

/// A turn that is over, and everything that was recorded about it.
struct Turn {
    scratch: Scratch,
    pause: Pause,
    journal: Vec<Value>,
    /// The requests to the provider, and those to the fallback.
    requests: [Vec<Request>; 2],
}

/// Runs a turn in which the model sends these replies one after another, and then repeats the last
/// one.
fn take_turn(kind: ApiKind, replies: Vec<Reply>, fallback: Option<Vec<Reply>>) -> Turn {
    let scratch = Scratch::new();
    let has_fallback = fallback.is_some();
    let server = in_turn(replies);
    let other = in_turn(fallback.unwrap_or_else(|| vec![Reply::text("unused")]));
    let mut agent = build_agent(scratch.base(), &server.url());
    agent.client =
        Client::new(ClientOptions { first_wait: Duration::ZERO, ..ClientOptions::default() });
    agent.provider.kind = kind;
    if has_fallback {
        let base_url = format!("{}/v1", other.url());
        agent.fallback =
            Some(takeback_runtime::model::Provider { base_url, ..agent.provider.clone() });
    }
    let directory = scratch.project();
    let mut task = Task::begin(Arc::new(agent), &directory, NewSession::default(), "t1").unwrap();
    let pause = task.prompt("go", &Recorder::default()).unwrap();
    let entries = scratch.ledger().read_journal("t1", 0).unwrap();
    let journal = entries.into_iter().map(|entry| entry.entry).collect();
    let turn = Turn { scratch, pause, journal, requests: [server.requests(), other.requests()] };
    turn.check_bills();
    turn
}

fn in_turn(replies: Vec<Reply>) -> Server {
    let next = AtomicUsize::new(0);
    Server::start(move |_: &Request| {
        let at = next.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
        replies[at].clone()
    })
    .unwrap()
}

impl Turn {
    fn entries(&self, name: &str) -> Vec<&Value> {
        self.journal.iter().filter(|entry| entry["entry"] == name).collect()
    }

    /// Checks that each attempt is in the journal, and is billed once if its tokens are known.
    fn check_bills(&self) {
        let asked = self.requests.iter().map(Vec::len).sum::<usize>();
        let ended = ["replied", "interrupted", "compressed"];
        let ends: Vec<&Value> = ended.iter().flat_map(|name| self.entries(name)).collect();
        assert_eq!(self.entries("requested").len(), asked, "{:#?}", self.journal);
        assert_eq!(ends.len(), asked, "{:#?}", self.journal);
        let billed: Vec<_> = ends.iter().filter(|end| end["tokens"].is_object()).collect();
        let ledger = self.scratch.ledger();
        let sessions = ledger.session_ids(&[]).unwrap();
        let sessions = sessions.iter().map(|id| ledger.session(id).unwrap());
        let (calls, input) = sessions.fold((0, 0), |(calls, input), session| {
            (calls + session.api_call_count, input + session.tokens.input)
        });
        let journaled: i64 = billed.iter().filter_map(|end| end["tokens"]["input"].as_i64()).sum();
        assert_eq!((calls, input), (billed.len() as i64, journaled), "{:#?}", self.journal);
    }

    /// Returns the texts that the model wrote, with their finish reasons.
    fn answers(&self) -> Vec<(String, String)> {
        let messages = self.scratch.ledger().messages("takeback:t1", MessageFilter::Current);
        let messages = messages.unwrap().into_iter();
        let answers = messages.filter(|message| message.role == "assistant");
        let text = |content: Option<Value>| match content {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let answer = |message: takeback_ledger::MessageRecord| {
            (text(message.content), message.finish_reason.unwrap_or_default())
        };
        answers.map(answer).collect()
    }

    fn whole_text(&self) -> String {
        self.answers().into_iter().map(|(text, _)| text).collect()
    }

    fn outcome(&self) -> &TurnOutcome {
        let Pause::TurnEnded(outcome) = &self.pause else { panic!("{:?}", self.pause) };
        outcome
    }
}

fn refusal(status: u16, kind: &str, message: &str) -> Reply {
    let body = json!({ "error": { "type": kind, "code": kind, "message": message } });
    Reply::fault(Fault::Response { status, headers: Vec::new(), body: body.to_string() })
}

fn overflow() -> Reply {
    refusal(400, "context_length_exceeded", "maximum context length is 100 tokens")
}

fn cut_at(reply: Reply, event: usize) -> Reply {
    let decide = move |number| if number >= event { StreamStep::Cut } else { StreamStep::Send };
    Reply { gate: Some(StreamGate::new(decide)), ..reply }
}

/// Counts the events of a reply.
fn count_events(kind: ApiKind, reply: &Reply) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let gate = StreamGate::new(move |number| {
        seen.store(number + 1, Ordering::SeqCst);
        StreamStep::Send
    });
    take_turn(kind, vec![Reply { gate: Some(gate), ..reply.clone() }, Reply::text("x")], None);
    count.load(Ordering::SeqCst)
}

fn write_file() -> Reply {
    Reply::call("write_file", json!({ "path": "a.txt", "content": "whole" }))
}

#[test]
fn a_request_that_yields_nothing_is_tried_again() {
    let failures = [
        refusal(500, "api_error", "broken"),
        refusal(529, "overloaded_error", "busy"),
        refusal(429, "rate_limit_error", "slow down"),
        refusal(408, "timeout", "too slow"),
        Reply::fault(Fault::CutAtByte(0)),
        Reply::fault(Fault::CutAtByte(70)),
        Reply::fault(Fault::ErrorEvent {
            after: 0,
            kind: "api_error".into(),
            message: "no".into(),
        }),
    ];
    for kind in APIS {
        for failure in &failures {
            let turn = take_turn(kind, vec![failure.clone(), Reply::text("Done.")], None);
            assert_eq!(turn.pause, COMPLETE, "{kind:?} {failure:?}");
            assert_eq!(turn.answers(), [("Done.".into(), "stop".into())], "{kind:?}");
            assert_eq!(turn.entries("interrupted").len(), 1, "{kind:?} {failure:?}");
        }
    }
}

#[test]
fn requests_that_yield_nothing_are_tried_five_times_and_then_sent_to_the_fallback() {
    for kind in APIS {
        for (status, tries, fails_over) in [(500, 5, true), (529, 3, true), (429, 5, false)] {
            let failure = refusal(status, "x", "no");
            let fallback = Some(vec![Reply::text("Here I am.")]);
            let turn = take_turn(kind, vec![failure.clone()], fallback);
            let [first, second] = &turn.requests;
            assert_eq!((first.len(), second.len()), (tries, usize::from(fails_over)), "{status}");
            assert_eq!(turn.pause == COMPLETE, fails_over);
            let turn = take_turn(kind, vec![failure], None);
            assert!(matches!(turn.outcome(), TurnOutcome::Failed { .. }), "{:?}", turn.pause);
            assert_eq!(turn.answers(), []);
        }
        for (status, error) in [(401, "invalid key"), (404, "no such model"), (400, "bad field")] {
            let turn = take_turn(kind, vec![refusal(status, "x", error)], None);
            assert!(matches!(turn.outcome(), TurnOutcome::Failed { .. }), "{:?}", turn.pause);
            assert_eq!(turn.requests[0].len(), 1, "{status} is never repeated");
        }
    }
}

#[test]
fn an_answer_that_is_cut_at_any_event_is_continued_and_never_mistaken_for_a_whole_one() {
    let answer = Reply::text("The first half, and the second.");
    for kind in APIS {
        let events = count_events(kind, &answer);
        assert!(events > 3, "{kind:?} {events}");
        let mut continued = 0;
        for event in 0..events {
            let replies = vec![cut_at(answer.clone(), event), answer.clone()];
            let turn = take_turn(kind, replies, None);
            assert_eq!(turn.pause, COMPLETE, "{kind:?} {event}");
            let answers = turn.answers();
            let cuts = turn.entries("interrupted");
            if cuts.iter().any(|cut| cut["message"].is_i64()) {
                continued += 1;
                assert_eq!(answers[0].1, "interrupted", "{kind:?} {event}");
            }
            // Text that the model repeats is left out, unless it is too short to be recognized.
            let text = turn.whole_text();
            assert!(text.ends_with(" and the second.") && text.len() < 50, "{text:?}");
        }
        assert!(continued > 0, "{kind:?}");
    }
}

#[test]
fn an_answer_that_is_repeatedly_cut_stays_partial() {
    for kind in APIS {
        // The last event ends the stream.
        let last = count_events(kind, &Reply::text("word by word")) - 1;
        let answers =
            ["one of many, ", "two of many, ", "three of many, ", "four of many, ", "the last, "];
        for event in 0..last {
            let cut = |text: &&str| cut_at(Reply::text(*text), event);
            let turn = take_turn(kind, answers.iter().map(cut).collect(), None);
            if turn.pause == COMPLETE {
                // The event before the cut already says that the reply is finished.
                assert_eq!(turn.answers(), [("one of many, ".into(), "stop".into())], "{kind:?}");
                continue;
            }
            let is_cut = |(_, reason): &(String, String)| reason == "interrupted";
            assert!(turn.answers().iter().all(is_cut), "{:?}", turn.answers());
            assert_eq!(turn.requests[0].len(), 5, "{kind:?} {event}");
            match turn.answers().is_empty() {
                true => assert!(matches!(turn.outcome(), TurnOutcome::Failed { .. })),
                false => assert!(matches!(turn.outcome(), TurnOutcome::Partial { .. })),
            }
        }
    }
}

#[test]
fn a_call_that_is_cut_at_any_event_is_never_made_in_part() {
    for kind in APIS {
        let events = count_events(kind, &write_file());
        for event in 0..events {
            let replies = vec![cut_at(write_file(), event), Reply::text("Never mind.")];
            let turn = take_turn(kind, replies, None);
            let content = turn.scratch.read("a.txt");
            assert!(content.is_empty() || content == "whole", "{kind:?} {event}: {content}");
            // A call has a result if and only if it was made.
            let made = turn.entries("ended").len();
            assert_eq!(made, usize::from(!content.is_empty()), "{kind:?} {event}");
        }
    }
}

#[test]
fn a_text_that_reaches_the_output_limit_is_continued_with_twice_the_limit() {
    let long = |text: &str| Reply { finish: Finish::Length, ..Reply::text(text) };
    for kind in APIS {
        let turn = take_turn(kind, vec![long("One, "), long("two, "), Reply::text("three.")], None);
        assert_eq!(turn.pause, COMPLETE);
        assert_eq!(turn.whole_text(), "One, two, three.");
        let limits: Vec<u64> = turn.requests[0].iter().map(read_limit).collect();
        assert_eq!(limits, [1_000, 2_000, 4_000], "{kind:?}");
        let turn = take_turn(kind, vec![long("on and on, ")], None);
        assert!(matches!(turn.outcome(), TurnOutcome::Partial { .. }), "{:?}", turn.pause);
        assert_eq!(turn.requests[0].len(), 4, "{kind:?}");
    }
}

fn read_limit(request: &Request) -> u64 {
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    names.iter().find_map(|name| request.body[name].as_u64()).unwrap()
}

#[test]
fn a_call_that_reaches_the_output_limit_is_not_made_but_asked_for_once_more() {
    let long = || Reply { finish: Finish::Length, ..write_file() };
    for kind in APIS {
        let turn = take_turn(kind, vec![long(), write_file(), Reply::text("Done.")], None);
        assert_eq!(turn.pause, COMPLETE);
        assert_eq!(
            (turn.scratch.read("a.txt"), turn.whole_text()),
            ("whole".into(), "Done.".into())
        );
        assert_eq!(turn.entries("ended").len(), 1, "{kind:?}");
        let turn = take_turn(kind, vec![long()], None);
        assert!(matches!(turn.outcome(), TurnOutcome::Partial { .. }), "{:?}", turn.pause);
        assert_eq!((turn.scratch.read("a.txt"), turn.requests[0].len()), (String::new(), 2));
    }
}

#[test]
fn a_conversation_that_does_not_fit_goes_to_the_fallback_or_is_blocked() {
    for kind in APIS {
        let turn = take_turn(kind, vec![overflow()], Some(vec![Reply::text("It fits here.")]));
        assert_eq!(turn.pause, COMPLETE);
        assert_eq!(turn.whole_text(), "It fits here.");
        let turn = take_turn(kind, vec![overflow()], None);
        assert!(matches!(turn.outcome(), TurnOutcome::Blocked { .. }), "{:?}", turn.pause);
        assert_eq!((turn.answers(), turn.requests[0].len()), (vec![], 1));
    }
}
