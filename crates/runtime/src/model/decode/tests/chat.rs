//! Replies of Chat Completions APIs.

use serde_json::{Value, json};
use takeback_ledger::Tokens;

use super::super::super::{ApiKind, FailureKind, Finish};
use super::{Decoded, decode_events, decode_text, tokens};

fn delta(delta: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "system_fingerprint": null,
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }],
    })
}

fn finish(reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "usage": null,
        "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }],
    })
}

fn call(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    delta(
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] }),
    )
}

fn arguments(index: u64, piece: &str) -> Value {
    delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }))
}

fn decode(events: &[Value]) -> Decoded {
    decode_events(ApiKind::Openai, events)
}

#[test]
fn all_parts_of_a_reply_are_joined() {
    let usage = json!({
        "choices": [], "usage": {
            "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
            "prompt_tokens_details": { "cached_tokens": 60, "audio_tokens": 0 },
            "completion_tokens_details": { "reasoning_tokens": 10 },
        },
    });
    let decoded = decode(&[
        delta(json!({ "role": "assistant", "content": "", "refusal": null })),
        delta(json!({ "content": "Let me " })),
        delta(json!({ "content": "look." })),
        call(0, "call_a", "read", ""),
        arguments(0, "{\"path\""),
        arguments(0, ": \"a\"}"),
        call(1, "call_b", "list", "{}"),
        finish("tool_calls"),
        usage,
    ]);
    assert_eq!(decoded.finish(), &Finish::Stop);
    assert_eq!(decoded.pieces, ["Let me ", "look.", "read!", "list!"]);
    let expected = [("call_a", "read", "{\"path\": \"a\"}"), ("call_b", "list", "{}")];
    assert_eq!(decoded.calls(), expected);
    let expected = Tokens { input: 40, output: 20, cache_read: 60, cache_write: 0, reasoning: 10 };
    assert_eq!(decoded.attempt.reply.usage, Some(expected));
}

#[test]
fn whole_calls_are_kept_apart_regardless_of_their_indexes() {
    let whole = |name: &str| json!({ "function": { "name": name, "arguments": "{\"a\":1}" } });
    let numbered =
        |name: &str| json!({ "index": 0, "function": { "name": name, "arguments": "{\"a\":1}" } });
    let with_id = |id: &str, name: &str| json!({ "index": 0, "id": id, "function": { "name": name, "arguments": {} } });
    let lists = [
        json!([whole("x"), whole("y")]),
        json!([whole("x"), whole("x")]),
        json!([numbered("x"), numbered("y")]),
        json!([numbered("x"), numbered("x")]),
        json!([with_id("1", "x"), with_id("2", "x")]),
    ];
    for list in lists {
        for events in [
            vec![delta(json!({ "tool_calls": list }))],
            vec![
                delta(json!({ "tool_calls": [list[0]] })),
                delta(json!({ "tool_calls": [list[1]] })),
            ],
        ] {
            let decoded = decode(&[events, vec![finish("stop")]].concat());
            assert_eq!(decoded.calls().len(), 2, "{list}");
            assert!(decoded.calls().iter().all(|(_, _, arguments)| arguments.ends_with('}')));
        }
    }
}

#[test]
fn a_name_and_an_id_may_be_repeated_or_arrive_late() {
    let decoded = decode(&[
        call(0, "c", "run", "{\"a\""),
        call(0, "c", "run", ":1"),
        call(0, "c", "run", "}"),
        finish("tool_calls"),
    ]);
    assert_eq!(decoded.calls(), [("c", "run", "{\"a\":1}")]);
    let decoded = decode(&[
        arguments(0, ""),
        call(0, "", "run", "{\"a\""),
        call(0, "c", "", ":1}"),
        finish("tool_calls"),
    ]);
    assert_eq!(decoded.calls(), [("c", "run", "{\"a\":1}")]);
    assert_eq!(decoded.pieces, ["run!"]);
}

#[test]
fn the_last_call_of_a_cut_reply_is_not_complete() {
    let events = [call(0, "a", "run", "{}"), call(1, "b", "run", "{\"x\": 1}")];
    for end in [vec![], vec![finish("length")], vec![json!({ "error": { "message": "no" } })]] {
        let decoded = decode(&[events.to_vec(), end].concat());
        assert_eq!(decoded.calls(), [("a", "run", "{}")]);
        assert_eq!(decoded.attempt.reply.cut_calls, 1);
    }
    // The first call is also cut off: its JSON is incomplete, even though another call follows.
    let decoded = decode(&[call(0, "a", "run", "{\"x"), call(1, "b", "run", "{}")]);
    assert_eq!((decoded.calls().len(), decoded.attempt.reply.cut_calls), (0, 2));
}

#[test]
fn a_reply_is_complete_exactly_if_it_has_a_finish_reason() {
    let hello = delta(json!({ "content": "hello" }));
    assert_eq!(decode(&[hello.clone(), finish("stop")]).finish(), &Finish::Stop);
    for end in ["", "data: [DONE]\n\n"] {
        let decoded = decode_text(ApiKind::Openai, &format!("data: {hello}\n\n{end}"));
        assert_eq!(decoded.failure().kind, FailureKind::Connection);
        assert_eq!(decoded.attempt.reply.text, "hello");
    }
    assert_eq!(decode(&[hello, finish("")]).failure().kind, FailureKind::Connection);
}

#[test]
fn each_finish_reason_is_understood() {
    let cases = [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::Stop),
        ("eos", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Refused),
    ];
    for (reason, expected) in cases {
        assert_eq!(decode(&[finish(reason)]).finish(), &expected, "{reason}");
    }
    let mut event = finish("error");
    assert_eq!(decode(&[event.clone()]).failure().message, "the server stopped the reply: error");
    event["choices"][0]["error"] = json!({ "code": 502, "message": "upstream is gone" });
    let decoded = decode(&[event]);
    assert_eq!(decoded.failure().message, "upstream is gone");
    assert_eq!(decoded.failure().kind, FailureKind::Server);
}

#[test]
fn reasoning_is_kept_under_its_original_name() {
    for name in ["reasoning", "reasoning_content"] {
        let decoded = decode(&[
            delta(json!({ name: "let me " })),
            delta(json!({ name: "think" })),
            delta(json!({ "content": "hi", name: null })),
            finish("stop"),
        ]);
        assert_eq!(decoded.attempt.reply.reasoning.as_deref(), Some("let me think"));
        assert_eq!(decoded.attempt.reply.reasoning_details, Some(json!({ name: "let me think" })));
        assert_eq!(decoded.pieces, ["(let me )", "(think)", "hi"]);
    }
}

#[test]
fn the_pieces_of_a_gateways_reasoning_are_joined() {
    let detail =
        |piece: Value| delta(json!({ "reasoning": piece["text"], "reasoning_details": [piece] }));
    let decoded = decode(&[
        detail(
            json!({ "type": "reasoning.text", "index": 0, "text": "let ", "format": "f", "signature": null }),
        ),
        detail(json!({ "type": "reasoning.text", "index": 0, "text": "me" })),
        detail(json!({ "type": "reasoning.text", "index": 0, "signature": "s" })),
        detail(json!({ "type": "reasoning.encrypted", "index": 1, "data": "x" })),
        finish("stop"),
    ]);
    let details = decoded.attempt.reply.reasoning_details.unwrap();
    assert_eq!(details["reasoning"], "let me");
    assert_eq!(
        details["reasoning_details"],
        json!([
            { "type": "reasoning.text", "index": 0, "text": "let me", "format": "f", "signature": "s" },
            { "type": "reasoning.encrypted", "index": 1, "data": "x" },
        ])
    );
}

#[test]
fn refusals_and_content_in_blocks_are_understood() {
    let thinking = json!({ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] });
    let decoded = decode(&[
        delta(json!({ "content": [thinking] })),
        delta(json!({ "content": [{ "type": "text", "text": "hi" }] })),
        finish("stop"),
    ]);
    assert_eq!(decoded.pieces, ["(hm)", "hi"]);
    let decoded =
        decode(&[delta(json!({ "content": null, "refusal": "I will not." })), finish("stop")]);
    assert_eq!(
        (decoded.finish(), decoded.attempt.reply.text.as_str()),
        (&Finish::Refused, "I will not.")
    );
}

#[test]
fn usage_is_read_from_every_place_and_the_last_count_wins() {
    let mut event = finish("stop");
    event["choices"][0]["usage"] = json!({ "prompt_tokens": 5, "completion_tokens": 2 });
    assert_eq!(decode(&[event.clone()]).attempt.reply.usage, Some(tokens(5, 2)));
    event["usage"] =
        json!({ "prompt_tokens": 6, "completion_tokens": 3, "prompt_cache_hit_tokens": 4 });
    let expected = Tokens { cache_read: 4, ..tokens(2, 3) };
    assert_eq!(decode(&[event]).attempt.reply.usage, Some(expected));
    // This provider does not count reasoning as output.
    let usage = json!({
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22,
        "completion_tokens_details": { "reasoning_tokens": 7 },
    });
    let decoded = decode(&[finish("stop"), json!({ "choices": [], "usage": usage })]);
    assert_eq!(decoded.attempt.reply.usage, Some(Tokens { reasoning: 7, ..tokens(10, 5) }));
    let absurd = json!({ "prompt_tokens": -5, "completion_tokens": 1e30 });
    let decoded = decode(&[finish("stop"), json!({ "choices": [], "usage": absurd })]);
    assert_eq!(decoded.attempt.reply.usage, None);
}
