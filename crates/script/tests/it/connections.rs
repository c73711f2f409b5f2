//! Requests that are not for the model, and streams that are delayed or cut off.

use std::sync::{Mutex, mpsc};

use serde_json::json;
use takeback_script::{Reply, Server, StreamGate, StreamStep};

use crate::client::{post_json, send_raw};

/// The number of events in a reply whose text comes in two pieces.
const EVENT_COUNT: usize = 7;

fn request_body() -> serde_json::Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] })
}

#[test]
fn requests_that_are_not_for_the_model_are_answered_and_logged() {
    let server = Server::start(|_| Reply::text("hi")).unwrap();
    assert_eq!(
        post_json(&server, "/v1/messages/count_tokens", &json!({})).json()["input_tokens"],
        100
    );
    let path = "/v1beta/models/m:countTokens";
    assert_eq!(post_json(&server, path, &json!({})).json()["totalTokens"], 100);
    let models = send_raw(&server, "GET /v1/models HTTP/1.1\r\n\r\n");
    assert_eq!(models.json()["data"], json!([]));
    let nothing = send_raw(&server, "GET /telemetry?x=1 HTTP/1.1\r\n\r\n");
    assert!(nothing.head.starts_with("HTTP/1.1 404"), "{}", nothing.head);
    let log = server.log();
    assert!(server.requests().is_empty());
    assert_eq!(log.len(), 4);
    let last = &log[3];
    assert_eq!((last.method.as_str(), last.path.as_str()), ("GET", "/telemetry?x=1"));
    assert_eq!(last.status, "404 Not Found");
}

#[test]
fn a_request_body_can_be_chunked() {
    let server = Server::start(|request| Reply::text(request.last_text())).unwrap();
    let body =
        json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let (first, second) = body.split_at(10);
    let chunks = format!("{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", 10, second.len());
    let head = "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let response = send_raw(&server, &format!("{head}{chunks}"));
    assert_eq!(response.json()["content"][0]["text"], "hi");
}

#[test]
fn a_stream_can_be_cut_at_any_event() {
    let whole = Server::start(|_| Reply::text("hello")).unwrap();
    let all = post_json(&whole, "/v1/messages", &request_body());
    assert!(all.is_whole);
    for at in 0..all.events().len() {
        let gate = StreamGate::new(
            move |event| if event == at { StreamStep::Cut } else { StreamStep::Send },
        );
        let script = move |_: &_| Reply { gate: Some(gate.clone()), ..Reply::text("hello") };
        let server = Server::start(script).unwrap();
        let response = post_json(&server, "/v1/messages", &request_body());
        assert!(!response.is_whole);
        assert_eq!(response.events(), all.events()[..at]);
    }
}

#[test]
fn a_stream_can_be_delayed() {
    let (open, opened) = mpsc::channel();
    let (reached, reaches) = mpsc::channel();
    let opened = Mutex::new(opened);
    let gate = StreamGate::new(move |event| {
        reached.send(event).unwrap();
        opened.lock().unwrap().recv().unwrap();
        StreamStep::Send
    });
    let script = move |_: &_| Reply { gate: Some(gate.clone()), ..Reply::text("hello") };
    let server = Server::start(script).unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| post_json(&server, "/v1/messages", &request_body()));
        for event in 0..EVENT_COUNT {
            assert_eq!(reaches.recv(), Ok(event));
            assert!(!client.is_finished());
            open.send(()).unwrap();
        }
        let response = client.join().unwrap();
        assert!(response.is_whole);
        assert_eq!(response.events().len(), EVENT_COUNT);
    });
}
