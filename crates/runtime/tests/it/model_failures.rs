//! Failures that the server reports, and servers that stay silent.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use takeback_runtime::model::{
    AttemptEnd, AttemptFailure, Client, ClientOptions, FailureKind, Provider,
};
use takeback_script::{Fault, Reply, Server, StreamGate, StreamStep};

use crate::model_support::{
    APIS, KEY, ask, ask_scripted, client, expected_reply, provider, text_and_call, with_fault,
};

fn failure_of(end: &AttemptEnd) -> &AttemptFailure {
    match end {
        AttemptEnd::Failed(failure) => failure,
        end => panic!("{end:?}"),
    }
}

#[test]
fn each_status_is_classified() {
    let error =
        |kind: &str, message: &str| json!({ "error": { "type": kind, "message": message } });
    let cases = [
        (401, error("authentication_error", "invalid x-api-key"), FailureKind::Unauthorized),
        (404, error("not_found_error", "model: m"), FailureKind::UnknownModel),
        (400, error("invalid_request_error", "prompt is too long: 9 > 8"), FailureKind::Overflow),
        (400, error("invalid_request_error", "max_tokens: 9 > 8"), FailureKind::OutputLimit),
        (429, error("rate_limit_error", "slow down"), FailureKind::RateLimited),
        (500, error("api_error", "Internal server error"), FailureKind::Server),
        (529, error("overloaded_error", "Overloaded"), FailureKind::Overloaded),
    ];
    for kind in APIS {
        for (status, body, expected) in &cases {
            let headers = vec![("retry-after".to_owned(), "2".to_owned())];
            let fault = Fault::Response { status: *status, headers, body: body.to_string() };
            let outcome = ask_scripted(kind, Reply::fault(fault));
            let failure = failure_of(&outcome.attempt.end);
            assert_eq!((failure.kind, failure.status), (*expected, Some(*status)), "{failure:?}");
            assert!(failure.message.starts_with(body["error"]["message"].as_str().unwrap()));
            assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
            assert_eq!(outcome.attempt.reply, Default::default());
        }
    }
}

#[test]
fn text_that_arrives_before_an_error_in_the_stream_is_kept() {
    let cases = [
        ("overloaded_error", FailureKind::Overloaded),
        ("server_error", FailureKind::Server),
        ("rate_limit_exceeded", FailureKind::RateLimited),
        ("context_length_exceeded", FailureKind::Overflow),
        ("invalid_request_error", FailureKind::Rejected),
    ];
    for kind in APIS {
        for (code, expected) in cases {
            for after in 0..8 {
                let fault = Fault::ErrorEvent {
                    after,
                    kind: code.to_owned(),
                    message: "no more".to_owned(),
                };
                let outcome = ask_scripted(kind, with_fault(fault, text_and_call()));
                let failure = failure_of(&outcome.attempt.end);
                assert_eq!((failure.kind, failure.status), (expected, Some(200)), "{after}");
                assert_eq!(failure.message, "no more");
                let text = &outcome.attempt.reply.text;
                assert!(expected_reply().text.starts_with(text.as_str()));
                assert_eq!(&outcome.shown, text);
                assert!(after < 4 || !text.is_empty());
            }
        }
    }
}

#[test]
fn a_request_that_stalls_for_too_long_fails() {
    for kind in APIS {
        for place in [0, 3] {
            let (release, released) = mpsc::channel::<()>();
            let released = Mutex::new(released);
            let gate = StreamGate::new(move |event| {
                if event == place {
                    // The server waits until the test is over.
                    let _ = released.lock().unwrap().recv();
                }
                StreamStep::Send
            });
            let reply = Reply { gate: Some(gate), ..text_and_call() };
            let server = Server::start(move |_| reply.clone()).unwrap();
            let stall_timeout = Duration::from_millis(150);
            let client = Client::new(ClientOptions { stall_timeout, ..ClientOptions::default() });
            let outcome = ask(&client, &provider(kind, &server));
            let failure = failure_of(&outcome.attempt.end);
            assert_eq!(failure.kind, FailureKind::Stalled, "{failure:?}");
            assert_eq!(failure.message, "nothing came from 127.0.0.1 for 0.15 seconds");
            assert!(expected_reply().text.starts_with(&outcome.attempt.reply.text));
            drop(release);
        }
    }
}

#[test]
fn an_address_without_a_server_is_reported() {
    let server = Server::start(|_| Reply::text("hi")).unwrap();
    for kind in APIS {
        let mut provider = provider(kind, &server);
        // Port 1 is reserved, so no server is listening there.
        provider.base_url = "http://127.0.0.1:1/v1".to_owned();
        let outcome = ask(&client(), &provider);
        let failure = failure_of(&outcome.attempt.end);
        assert_eq!((failure.kind, failure.status), (FailureKind::Connection, None));
        assert!(failure.message.contains("127.0.0.1"), "{}", failure.message);
        assert!(failure.message.contains("refused"), "{}", failure.message);
    }
}

#[test]
fn a_server_that_is_not_a_model_server_is_reported() {
    let page = |body: &str| {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        Reply::fault(Fault::Response { status: 200, headers, body: body.to_owned() })
    };
    for kind in APIS {
        for body in ["<html><title>Welcome</title></html>", "{\"status\": \"ok\"}", "[]"] {
            let outcome = ask_scripted(kind, page(body));
            let failure = failure_of(&outcome.attempt.end);
            assert_eq!(failure.kind, FailureKind::Rejected, "{body}");
            assert!(failure.message.contains("base_url"), "{}", failure.message);
        }
        let not_found = Reply::fault(Fault::response(404, "<html><title>404</title></html>"));
        let outcome = ask_scripted(kind, not_found);
        assert_eq!(failure_of(&outcome.attempt.end).kind, FailureKind::Rejected);
        assert_eq!(failure_of(&outcome.attempt.end).message, "404 (check base_url)");
        let headers = vec![("location".to_owned(), "https://example.org/v1".to_owned())];
        let moved = Fault::Response { status: 308, headers, body: String::new() };
        let outcome = ask_scripted(kind, Reply::fault(moved));
        assert_eq!(failure_of(&outcome.attempt.end).kind, FailureKind::Rejected);
        assert!(failure_of(&outcome.attempt.end).message.contains("https://example.org/v1"));
    }
}

#[test]
fn an_error_in_the_body_counts_even_if_the_status_is_200() {
    let body = json!({ "error": { "message": "no credits", "code": 402 } }).to_string();
    for kind in APIS {
        let outcome = ask_scripted(kind, Reply::fault(Fault::response(200, body.clone())));
        let failure = failure_of(&outcome.attempt.end);
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Rejected, "no credits"));
    }
}

#[test]
fn a_wrong_configuration_is_reported_without_the_key() {
    let server = Server::start(|_| Reply::text("hi")).unwrap();
    let base = provider(APIS[0], &server);
    let with_url = |url: &str| Provider { base_url: url.to_owned(), ..base.clone() };
    let with_key = |key: &str| Provider { key: Some(key.to_owned()), ..base.clone() };
    let cases = [
        (with_url("localhost:8080/v1"), "base_url must begin with http:// or https://"),
        (with_url("ftp://localhost/v1"), "base_url must begin with http:// or https://"),
        (with_url("http://a b/v1"), "base_url is invalid"),
        (with_url(""), "base_url must begin with http:// or https://"),
        (with_key("sk-secret\nkey"), "the key contains characters that are not allowed in a key"),
    ];
    for (provider, message) in cases {
        let outcome = ask(&client(), &provider);
        let failure = failure_of(&outcome.attempt.end);
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Rejected, message));
    }
    let options = ClientOptions { proxy: Some("http://".to_owned()), ..ClientOptions::default() };
    let outcome = ask(&Client::new(options), &with_url("http://model.invalid/v1"));
    assert_eq!(failure_of(&outcome.attempt.end).message, "the address of the proxy is invalid");
    assert!(server.requests().is_empty());
}

#[test]
fn the_key_is_never_part_of_a_message() {
    let text = format!("{} the key {KEY} is wrong", "x".repeat(580));
    let body = json!({ "error": { "message": text, "type": "authentication_error" } }).to_string();
    let replies = [
        Reply::fault(Fault::response(401, body.clone())),
        Reply::fault(Fault::response(200, body)),
        Reply::fault(Fault::response(500, format!("no such key: {KEY}"))),
        Reply::fault(Fault::ErrorEvent { after: 0, kind: "e".to_owned(), message: text }),
    ];
    for kind in APIS {
        for reply in &replies {
            let outcome = ask_scripted(kind, reply.clone());
            let message = &failure_of(&outcome.attempt.end).message;
            assert!(message.contains("key") && !message.contains("sk-"), "{message}");
        }
    }
}
