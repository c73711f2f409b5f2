//! Replies that fail in the same ways as those of real servers.

use serde_json::{Value, json};
use takeback_script::{Fault, Finish, Reply, Server};

use crate::client::{post_json, send_bytes};

/// The path of each API, and the request field that holds the conversation.
const APIS: [(&str, &str); 3] = [
    ("/v1/chat/completions", "messages"),
    ("/v1/responses", "input"),
    ("/v1/messages", "messages"),
];

fn request_body(field: &str) -> Value {
    json!({ "model": "m", "stream": true, field: [{ "role": "user", "content": "hi" }] })
}

fn start_server(reply: Reply) -> Server {
    Server::start(move |_| reply.clone()).unwrap()
}

#[test]
fn a_status_with_headers_can_replace_the_reply() {
    let headers = vec![("retry-after".to_owned(), "3".to_owned())];
    let fault = Fault::Response { status: 429, headers, body: "slow down".to_owned() };
    let server = start_server(Reply::fault(fault));
    let response = post_json(&server, "/v1/messages", &request_body("messages"));
    assert!(response.head.starts_with("HTTP/1.1 429 "), "{}", response.head);
    assert!(response.head.contains("\r\nretry-after: 3\r\n"), "{}", response.head);
    assert_eq!(response.body, "slow down");
}

#[test]
fn a_stream_can_end_with_an_error() {
    for (path, field) in APIS {
        let whole = start_server(Reply::text("hello"));
        let events = post_json(&whole, path, &request_body(field)).events();
        let fault = Fault::ErrorEvent {
            after: 2,
            kind: "overloaded_error".to_owned(),
            message: "busy".to_owned(),
        };
        let server = start_server(Reply { fault: Some(fault), ..Reply::text("hello") });
        let response = post_json(&server, path, &request_body(field));
        assert!(response.is_whole);
        assert_eq!(response.events()[..2], events[..2]);
        let last = response.events().pop().unwrap().to_string();
        assert!(last.contains("overloaded_error") && last.contains("busy"), "{last}");
        assert_eq!(response.events().len(), 3);
    }
}

#[test]
fn a_response_can_be_cut_at_any_byte() {
    let reply = Reply { text: "hé".into(), ..Reply::call("bash", json!({})) };
    let body = request_body("messages");
    let whole = send_bytes(&start_server(reply.clone()), "/v1/messages", &body);
    for count in (0..whole.len()).step_by(7).chain([whole.len()]) {
        let fault = Some(Fault::CutAtByte(count));
        let server = start_server(Reply { fault, ..reply.clone() });
        assert_eq!(send_bytes(&server, "/v1/messages", &body), whole[..count]);
    }
}

#[test]
fn a_reply_can_come_in_one_piece_although_the_client_asks_for_a_stream() {
    let server = start_server(Reply { fault: Some(Fault::NoStream), ..Reply::text("hello") });
    let reply = post_json(&server, "/v1/messages", &request_body("messages")).json();
    assert_eq!(reply["content"][0]["text"], "hello");
}

#[test]
fn the_output_limit_cuts_off_the_last_call() {
    let reply =
        Reply { finish: Finish::Length, ..Reply::call("bash", json!({ "command": "list-all" })) };
    for (path, field) in APIS {
        let server = start_server(reply.clone());
        let text = post_json(&server, path, &request_body(field)).body;
        assert!(["\"length\"", "max_tokens", "max_output_tokens"].iter().any(|w| text.contains(w)));
        assert!(!text.contains("list-all"), "{text}");
    }
}

#[test]
fn usage_can_be_left_out() {
    for (path, field) in APIS {
        let reply = Reply { hides_usage: true, ..Reply::text("hello") };
        let text = post_json(&start_server(reply), path, &request_body(field)).body;
        assert!(!text.contains("_tokens"), "{text}");
        let text = post_json(&start_server(Reply::text("hello")), path, &request_body(field)).body;
        assert!(text.contains("_tokens"), "{text}");
    }
}

#[test]
fn reasoning_has_the_form_that_the_api_uses() {
    let reply = Reply { reasoning: "let me think".into(), ..Reply::text("hello") };
    let signs = ["reasoning_content", "\"encrypted_content\":\"encrypted_", "signature_delta"];
    for ((path, field), sign) in APIS.into_iter().zip(signs) {
        let text = post_json(&start_server(reply.clone()), path, &request_body(field)).body;
        assert!(text.contains(sign), "{text}");
    }
}
