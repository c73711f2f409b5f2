//! Streams in the forms that the real APIs and compatible servers send.

#![allow(clippy::needless_pass_by_value, reason = "the values are written in place")]

mod anthropic;
mod chat;
mod responses;

use serde_json::{Value, json};
use takeback_ledger::Tokens;

use super::super::response::{Headers, ReadEnd, ResponseReader};
use super::super::{ApiKind, Attempt, AttemptEnd, AttemptFailure, Delta, Finish};

/// An attempt, and the pieces that were passed on to the caller.
pub(super) struct Decoded {
    pub(super) attempt: Attempt,
    pub(super) pieces: Vec<String>,
}

impl Decoded {
    pub(super) fn finish(&self) -> &Finish {
        match &self.attempt.end {
            AttemptEnd::Finished(finish) => finish,
            end => panic!("{end:?}"),
        }
    }

    pub(super) fn failure(&self) -> &AttemptFailure {
        match &self.attempt.end {
            AttemptEnd::Failed(failure) => failure,
            end => panic!("{end:?}"),
        }
    }

    pub(super) fn calls(&self) -> Vec<(&str, &str, &str)> {
        let calls = self.attempt.reply.calls.iter();
        calls.map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
    }
}

/// Decodes the text of a body.
pub(super) fn decode_text(kind: ApiKind, text: &str) -> Decoded {
    let mut pieces = Vec::new();
    let mut on_delta = |delta: Delta<'_>| {
        pieces.push(match delta {
            Delta::Text(text) => text.to_owned(),
            Delta::Reasoning(text) => format!("({text})"),
            Delta::Call { name } => format!("{name}!"),
        });
    };
    let mut reader = ResponseReader::new(kind, None);
    reader.read_head(200, Headers::default());
    reader.read_body(text.as_bytes(), &mut on_delta);
    let attempt = reader.finish_attempt(ReadEnd::Ended, &mut on_delta);
    Decoded { attempt, pieces }
}

/// Decodes events whose names are the types of their data.
pub(super) fn decode_events(kind: ApiKind, events: &[Value]) -> Decoded {
    let lines = events.iter().map(|data| match data["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    });
    decode_text(kind, &lines.collect::<String>())
}

pub(super) fn tokens(input: i64, output: i64) -> Tokens {
    Tokens { input, output, ..Tokens::default() }
}

#[test]
fn an_event_that_is_not_json_makes_the_reply_fail() {
    for kind in [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic] {
        let decoded = decode_text(kind, "data: {\"type\": \n\n");
        assert_eq!(decoded.failure().message, "the server sent an event that is not valid JSON");
    }
}

#[test]
fn events_that_only_keep_the_connection_alive_are_ignored() {
    let end = json!({ "choices": [{ "index": 0, "delta": { "content": "hi" }, "finish_reason": "stop" }] });
    let text = format!(
        ": OPENROUTER PROCESSING\n\ndata: ping\n\ndata:\n\ndata: {end}\n\ndata: [DONE]\n\n"
    );
    let decoded = decode_text(ApiKind::Openai, &text);
    assert_eq!((decoded.finish(), decoded.attempt.reply.text.as_str()), (&Finish::Stop, "hi"));
}

#[test]
fn an_empty_body_is_not_a_reply() {
    for kind in [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic] {
        for text in ["", "\n\n", ": hello\n\n", "data: [DONE]\n\n"] {
            let decoded = decode_text(kind, text);
            assert_eq!(decoded.failure().message, "the reply ended before it was complete");
        }
    }
}
