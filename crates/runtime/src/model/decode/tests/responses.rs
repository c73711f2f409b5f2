//! OpenAI's Responses API.

use serde_json::{Value, json};
use takeback_ledger::Tokens;

use super::super::super::{ApiKind, FailureKind, Finish};
use super::{Decoded, decode_events, decode_text, tokens};

fn response(status: &str, output: Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": status, "error": null,
        "incomplete_details": null, "output": output, "usage": {
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60 },
            "output_tokens": 50, "output_tokens_details": { "reasoning_tokens": 20 },
            "total_tokens": 150,
        },
    })
}

fn completed(output: Value) -> Value {
    json!({ "type": "response.completed", "response": response("completed", output) })
}

fn incomplete(reason: &str) -> Value {
    let mut response = response("incomplete", json!([]));
    response["incomplete_details"] = json!({ "reason": reason });
    json!({ "type": "response.incomplete", "response": response })
}

fn added(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn delta(kind: &str, index: u64, piece: &str) -> Value {
    json!({
        "type": format!("response.{kind}.delta"), "output_index": index, "item_id": "i", "delta": piece,
    })
}

fn call(id: &str, arguments: &str, status: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read",
        "arguments": arguments, "status": status,
    })
}

fn message(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content })
}

fn reasoning() -> Value {
    json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{ "type": "summary_text", "text": "let me" }, { "type": "summary_text", "text": "see" }],
    })
}

fn decode(events: &[Value]) -> Decoded {
    decode_events(ApiKind::Responses, events)
}

#[test]
fn all_parts_of_a_reply_are_joined() {
    let part = json!({ "type": "response.reasoning_summary_part.added", "output_index": 0 });
    let output = json!([reasoning(), message("I look."), call("c", "{\"a\":1}", "completed")]);
    let decoded = decode(&[
        json!({ "type": "response.created", "response": response("in_progress", json!([])) }),
        added(0, &json!({ "type": "reasoning", "id": "rs_1", "summary": [] })),
        part.clone(),
        delta("reasoning_summary_text", 0, "let me"),
        part,
        delta("reasoning_summary_text", 0, "see"),
        done(0, &reasoning()),
        added(1, &json!({ "type": "message", "content": [] })),
        delta("output_text", 1, "I "),
        delta("output_text", 1, "look."),
        json!({ "type": "response.output_text.done", "output_index": 1, "text": "I look." }),
        done(1, &message("I look.")),
        added(2, &call("c", "", "in_progress")),
        delta("function_call_arguments", 2, "{\"a\""),
        delta("function_call_arguments", 2, ":1}"),
        json!({ "type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"a\":1}" }),
        done(2, &call("c", "{\"a\":1}", "completed")),
        completed(output),
    ]);
    assert_eq!(decoded.finish(), &Finish::Stop);
    assert_eq!(decoded.pieces, ["(let me)", "(\n\n)", "(see)", "I ", "look.", "read!"]);
    assert_eq!(decoded.calls(), [("c", "read", "{\"a\":1}")]);
    let reply = &decoded.attempt.reply;
    assert_eq!(reply.text, "I look.");
    assert_eq!(reply.reasoning_details, Some(json!([reasoning()])));
    let expected = Tokens { cache_read: 60, reasoning: 20, ..tokens(40, 30) };
    assert_eq!(reply.usage, Some(expected));
}

#[test]
fn items_that_come_only_at_the_end_are_understood() {
    let items = [reasoning(), message("hi"), call("c", "{}", "completed")];
    let last = completed(json!(items));
    let whole = response("completed", json!(items)).to_string();
    let dones = [done(0, &items[0]), done(1, &items[1]), done(2, &items[2]), last.clone()];
    // The items have different positions in the stream and in the final list.
    let shifted =
        [done(4, &items[0]), delta("output_text", 5, "hi"), added(6, &items[2]), last.clone()];
    for decoded in
        [decode(&[last]), decode(&dones), decode(&shifted), decode_text(ApiKind::Responses, &whole)]
    {
        assert_eq!(decoded.finish(), &Finish::Stop);
        assert_eq!(decoded.attempt.reply.text, "hi");
        assert_eq!(decoded.attempt.reply.reasoning.as_deref(), Some("let me\n\nsee"));
        assert_eq!(decoded.attempt.reply.reasoning_details, Some(json!([reasoning()])));
        assert_eq!(decoded.calls(), [("c", "read", "{}")]);
        assert_eq!(decoded.attempt.reply.cut_calls, 0);
    }
}

#[test]
fn a_call_is_complete_when_its_item_has_ended() {
    let events = [
        added(0, &call("a", "", "in_progress")),
        done(0, &call("a", "{}", "completed")),
        added(1, &call("b", "", "in_progress")),
        delta("function_call_arguments", 1, "{}"),
        json!({ "type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{}" }),
    ];
    let decoded = decode(&events);
    assert_eq!(decoded.failure().kind, FailureKind::Connection);
    assert_eq!((decoded.calls(), decoded.attempt.reply.cut_calls), (vec![("a", "read", "{}")], 1));
    for status in ["incomplete", "completed"] {
        let end = [done(1, &call("b", "{\"x\": 1}", status)), incomplete("max_output_tokens")];
        let decoded = decode(&[events.as_slice(), &end].concat());
        assert_eq!(decoded.finish(), &Finish::Length);
        assert_eq!((decoded.calls().len(), decoded.attempt.reply.cut_calls), (1, 1), "{status}");
    }
}

#[test]
fn an_incomplete_response_has_a_reason() {
    let text = delta("output_text", 0, "hi");
    let decoded = decode(&[text.clone(), incomplete("max_output_tokens")]);
    assert_eq!((decoded.finish(), decoded.attempt.reply.text.as_str()), (&Finish::Length, "hi"));
    assert_eq!(decode(&[text, incomplete("content_filter")]).finish(), &Finish::Refused);
    let decoded = decode(&[delta("refusal", 0, "No."), completed(json!([]))]);
    assert_eq!((decoded.finish(), decoded.attempt.reply.text.as_str()), (&Finish::Refused, "No."));
}

#[test]
fn a_failed_response_and_an_error_event_are_classified() {
    let failed = |code: &str, message: &str| {
        let mut response = response("failed", json!([]));
        response["error"] = json!({ "code": code, "message": message });
        json!({ "type": "response.failed", "response": response })
    };
    let error =
        |code: &str| json!({ "type": "error", "code": code, "message": "no", "param": null });
    let nested = json!({ "type": "error", "error": {
        "type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long",
    } });
    let cases = [
        (failed("server_error", "try again"), FailureKind::Server),
        (failed("rate_limit_exceeded", "try again in 2s"), FailureKind::RateLimited),
        (failed("insufficient_quota", "no money"), FailureKind::Rejected),
        (failed("context_length_exceeded", "too long"), FailureKind::Overflow),
        (error("server_is_overloaded"), FailureKind::Overloaded),
        (error("invalid_prompt"), FailureKind::Rejected),
        (nested, FailureKind::Overflow),
    ];
    for (event, expected) in cases {
        let decoded = decode(&[delta("output_text", 0, "hi"), event.clone()]);
        assert_eq!(decoded.failure().kind, expected, "{event}");
        assert_eq!(decoded.attempt.reply.text, "hi");
    }
    let decoded = decode(&[failed("rate_limit_exceeded", "try again in 2s")]);
    assert_eq!(decoded.failure().retry_after, Some(std::time::Duration::from_secs(2)));
}
