//! Anthropic's Messages API.

use serde_json::{Value, json};
use takeback_ledger::Tokens;

use super::super::super::{ApiKind, FailureKind, Finish};
use super::{Decoded, decode_events, decode_text, tokens};

fn start() -> Value {
    json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m",
        "stop_reason": null, "stop_sequence": null, "usage": {
            "input_tokens": 25, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 900,
            "output_tokens": 1, "service_tier": "standard",
        },
    } })
}

fn begin(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn text(index: u64, text: &str) -> Value {
    delta(index, json!({ "type": "text_delta", "text": text }))
}

fn input(index: u64, piece: &str) -> Value {
    delta(index, json!({ "type": "input_json_delta", "partial_json": piece }))
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    [
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 15 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn tool_use(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "read", "input": {} })
}

fn decode(events: &[Value]) -> Decoded {
    decode_events(ApiKind::Anthropic, events)
}

#[test]
fn all_parts_of_a_reply_are_joined() {
    let thinking = json!({ "type": "thinking", "thinking": "", "signature": "" });
    let events = [
        vec![
            start(),
            begin(0, thinking),
            json!({ "type": "ping" }),
            delta(0, json!({ "type": "thinking_delta", "thinking": "let me " })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "see" })),
            delta(0, json!({ "type": "signature_delta", "signature": "Eq" })),
            delta(0, json!({ "type": "signature_delta", "signature": "Bl" })),
            stop(0),
            begin(1, json!({ "type": "redacted_thinking", "data": "Em" })),
            stop(1),
            begin(2, json!({ "type": "text", "text": "" })),
            text(2, "I "),
            text(2, "look."),
            stop(2),
            begin(3, tool_use("toolu_1")),
            input(3, ""),
            input(3, "{\"path\": "),
            input(3, "\"a\"}"),
            stop(3),
            begin(4, tool_use("toolu_2")),
            stop(4),
        ],
        end("tool_use").to_vec(),
    ]
    .concat();
    let decoded = decode(&events);
    assert_eq!(decoded.finish(), &Finish::Stop);
    assert_eq!(decoded.pieces, ["(let me )", "(see)", "I ", "look.", "read!", "read!"]);
    let expected = [("toolu_1", "read", "{\"path\": \"a\"}"), ("toolu_2", "read", "{}")];
    assert_eq!(decoded.calls(), expected);
    let reply = &decoded.attempt.reply;
    assert_eq!(
        reply.reasoning_details,
        Some(json!([
            { "type": "thinking", "thinking": "let me see", "signature": "EqBl" },
            { "type": "redacted_thinking", "data": "Em" },
        ]))
    );
    let expected = Tokens { cache_read: 900, cache_write: 100, ..tokens(25, 15) };
    assert_eq!(reply.usage, Some(expected));
}

#[test]
fn reasoning_between_calls_keeps_its_place() {
    let thinking =
        |signature: &str| json!({ "type": "thinking", "thinking": "", "signature": signature });
    let mut events = vec![start()];
    let blocks = [thinking("one"), tool_use("a"), thinking("two"), tool_use("b")];
    for (index, block) in (0..).zip(blocks) {
        events.extend([begin(index, block), stop(index)]);
    }
    events.extend(end("tool_use"));
    let decoded = decode(&events);
    assert_eq!(
        decoded.attempt.reply.reasoning_details,
        Some(json!([
            thinking("one"),
            { "type": "call_marker", "call": 0 },
            thinking("two"),
            { "type": "call_marker", "call": 1 },
        ]))
    );
}

#[test]
fn only_the_last_event_ends_a_reply() {
    let events = [start(), begin(0, json!({ "type": "text", "text": "hi" })), stop(0)];
    let [delta, stop] = end("end_turn");
    let without = decode(&[events.to_vec(), vec![delta.clone()]].concat());
    assert_eq!(without.failure().kind, FailureKind::Connection);
    assert_eq!(without.attempt.reply.text, "hi");
    assert_eq!(without.attempt.reply.usage.unwrap().output, 15, "the cost is known");
    assert_eq!(decode(&[events.to_vec(), vec![delta, stop]].concat()).finish(), &Finish::Stop);
}

#[test]
fn a_cut_call_is_not_run_and_cut_reasoning_is_not_sent_back() {
    let decoded = decode(&[
        start(),
        begin(0, json!({ "type": "thinking", "thinking": "hm", "signature": "" })),
        begin(1, tool_use("a")),
        stop(1),
        begin(2, tool_use("b")),
        input(2, "{\"x\": 1}"),
    ]);
    assert_eq!(decoded.calls(), [("a", "read", "{}")]);
    let reply = &decoded.attempt.reply;
    assert_eq!((reply.cut_calls, &reply.reasoning_details), (1, &None));
    assert_eq!(reply.reasoning.as_deref(), Some("hm"));
    // The API also ends the block of a call that it cuts off.
    let events = [
        start(),
        begin(0, tool_use("a")),
        stop(0),
        begin(1, tool_use("b")),
        input(1, "{\"x"),
        stop(1),
    ];
    let decoded = decode(&[events.to_vec(), end("max_tokens").to_vec()].concat());
    assert_eq!(decoded.finish(), &Finish::Length);
    assert_eq!((decoded.calls().len(), decoded.attempt.reply.cut_calls), (1, 1));
}

#[test]
fn each_stop_reason_is_understood() {
    let cases = [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("refusal", Finish::Refused),
    ];
    for (reason, expected) in cases {
        assert_eq!(decode(&end(reason)).finish(), &expected, "{reason}");
    }
    let decoded = decode(&end("model_context_window_exceeded"));
    assert_eq!(decoded.failure().kind, FailureKind::Overflow);
}

#[test]
fn an_error_event_ends_the_reply() {
    let error = json!({ "type": "overloaded_error", "message": "Overloaded" });
    let error = json!({ "type": "error", "error": error, "request_id": "req_1" });
    let decoded = decode(&[start(), begin(0, json!({ "type": "text", "text": "hi" })), error]);
    assert_eq!(decoded.failure().kind, FailureKind::Overloaded);
    assert_eq!(decoded.attempt.reply.text, "hi");
    assert_eq!(decoded.attempt.reply.usage.unwrap().input, 25);
}

#[test]
fn blocks_of_text_are_separated() {
    let block =
        |index, text: &str| [begin(index, json!({ "type": "text", "text": text })), stop(index)];
    let events = [block(0, "One."), block(1, "Two.\n"), block(2, "Three.")].concat();
    let decoded = decode(&[events, end("end_turn").to_vec()].concat());
    assert_eq!(decoded.attempt.reply.text, "One.\n\nTwo.\n\nThree.");
    assert_eq!(decoded.pieces.concat(), decoded.attempt.reply.text);
}

#[test]
fn a_message_in_one_piece_is_understood() {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "id": "t", "name": "read", "input": { "path": "a" } },
        ],
        "stop_reason": "tool_use", "usage": { "input_tokens": 3, "output_tokens": 4 },
    });
    let decoded = decode_text(ApiKind::Anthropic, &message.to_string());
    assert_eq!(decoded.finish(), &Finish::Stop);
    assert_eq!(decoded.calls(), [("t", "read", "{\"path\":\"a\"}")]);
    assert_eq!(decoded.attempt.reply.text, "I look.");
    assert_eq!(decoded.attempt.reply.usage, Some(tokens(3, 4)));
    assert_eq!(decoded.attempt.reply.reasoning.as_deref(), Some("hm"));
}
