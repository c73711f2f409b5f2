//! Streams that are cut off: at every event, and at every byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use takeback_runtime::model::{ApiKind, AttemptEnd, FailureKind, Finish, Reply as ModelReply};
use takeback_script::{Fault, Reply, Server, StreamGate, StreamStep};

use crate::model_support::{
    APIS, Outcome, ask, client, expected_reply, provider, response_bytes, text_and_call, with_fault,
};

/// Checks an attempt whose response ended too early: the attempt has failed, its text is the
/// beginning of the whole text, and all its calls are complete.
fn check_cut(outcome: &Outcome, place: usize) {
    let AttemptEnd::Failed(failure) = &outcome.attempt.end else {
        panic!("finished at {place}: {outcome:?}");
    };
    assert_eq!(failure.kind, FailureKind::Connection, "{outcome:?}");
    let ModelReply { text, calls, cut_calls, .. } = &outcome.attempt.reply;
    assert!(expected_reply().text.starts_with(text.as_str()), "{text:?}");
    assert_eq!(&outcome.shown, text);
    assert!(calls.is_empty() || *calls == expected_reply().calls, "{calls:?}");
    assert_eq!(outcome.shown_calls.len(), calls.len() + cut_calls);
}

/// Returns the number of bytes up to the end of the event that ends the reply.
fn find_terminal(kind: ApiKind, bytes: &[u8]) -> usize {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mark = match kind {
        ApiKind::Openai => r#""finish_reason":"tool_calls""#,
        ApiKind::Responses => r#""type":"response.completed""#,
        ApiKind::Anthropic => r#""type":"message_stop""#,
    };
    let start = text.find(mark).unwrap();
    start + text[start..].find("\n\n").unwrap() + 2
}

/// Cuts the response at every byte, and checks the outcome.
fn cut_at_every_byte(kind: ApiKind) {
    let whole = response_bytes(kind, text_and_call());
    let terminal = find_terminal(kind, &whole);
    let place = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let place = place.clone();
        move |_| with_fault(Fault::CutAtByte(place.load(Ordering::SeqCst)), text_and_call())
    })
    .unwrap();
    let (client, provider) = (client(), provider(kind, &server));
    let (mut texts, mut calls) = (0, 0);
    for count in 0..whole.len() {
        place.store(count, Ordering::SeqCst);
        let outcome = ask(&client, &provider);
        let reply = &outcome.attempt.reply;
        if count < terminal {
            check_cut(&outcome, count);
            texts += usize::from(!reply.text.is_empty());
            calls += usize::from(!reply.calls.is_empty());
        } else {
            assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop), "{count}");
            let usage = reply.usage;
            assert_eq!(*reply, ModelReply { usage, ..expected_reply() }, "{count}");
        }
    }
    assert!(texts > 100, "{texts}");
    // Chat completions do not mark the end of a call.
    assert_eq!(calls > 0, kind != ApiKind::Openai, "{calls}");
}

#[test]
fn a_streamed_chat_reply_cut_at_any_byte_never_counts_as_finished() {
    cut_at_every_byte(ApiKind::Openai);
}

#[test]
fn a_streamed_responses_reply_cut_at_any_byte_never_counts_as_finished() {
    cut_at_every_byte(ApiKind::Responses);
}

#[test]
fn a_streamed_messages_reply_cut_at_any_byte_never_counts_as_finished() {
    cut_at_every_byte(ApiKind::Anthropic);
}

#[test]
fn a_reply_cut_at_any_event_never_counts_as_finished() {
    for kind in APIS {
        let whole = String::from_utf8(response_bytes(kind, text_and_call())).unwrap();
        let terminal_at = find_terminal(kind, whole.as_bytes());
        let count = whole.matches("\ndata: ").count();
        let terminal = whole[..terminal_at].matches("data: ").count();
        let client = client();
        let mut texts = Vec::new();
        for place in 0..count {
            let gate =
                StreamGate::new(
                    move |event| {
                        if event == place { StreamStep::Cut } else { StreamStep::Send }
                    },
                );
            let reply = Reply { gate: Some(gate), ..text_and_call() };
            let server = Server::start(move |_| reply.clone()).unwrap();
            let outcome = ask(&client, &provider(kind, &server));
            if place < terminal {
                check_cut(&outcome, place);
                texts.push(outcome.attempt.reply.text);
            } else {
                assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop), "{place}");
            }
        }
        texts.dedup();
        assert_eq!(texts, ["", "Häve ", "Häve a look."], "{kind:?}");
    }
}

#[test]
fn a_non_streamed_reply_cut_at_any_byte_never_counts_as_finished() {
    for kind in APIS {
        let whole = response_bytes(kind, with_fault(Fault::NoStream, text_and_call()));
        let text = String::from_utf8(whole).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let client = client();
        for count in (0..body.len()).filter(|count| body.is_char_boundary(*count)).step_by(3) {
            let reply = Reply::fault(Fault::response(200, &body[..count]));
            let server = Server::start(move |_| reply.clone()).unwrap();
            let outcome = ask(&client, &provider(kind, &server));
            assert!(matches!(outcome.attempt.end, AttemptEnd::Failed(_)), "{outcome:?}");
            assert_eq!(outcome.attempt.reply, ModelReply::default());
        }
    }
}
