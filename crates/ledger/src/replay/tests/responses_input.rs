//! The input for the Responses API.

use serde_json::{Value, json};

use super::{call, make_session, message, parse_messages, text, to_responses};
use crate::replay::responses;

#[test]
fn a_call_without_a_result_gets_a_note() {
    let stored = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "tool_calls": [call("c1", "run", "{}"), call("c1", "fs.read", "{\"a\": ")] },
        { "role": "tool", "tool_call_id": "c1", "content": "done" },
    ]);
    let wrapped = json!({ "arguments": "{\"a\": " }).to_string();
    assert_eq!(
        to_responses(stored),
        json!([
            message("user", "go"),
            { "type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}" },
            { "type": "function_call", "call_id": "c1_2", "name": "fs_read", "arguments": wrapped },
            { "type": "function_call_output", "call_id": "c1", "output": "done" },
            { "type": "function_call_output", "call_id": "c1_2", "output": "No result was recorded." },
        ])
    );
}

#[test]
fn images_from_a_tool_become_images_from_the_user() {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } });
    let stored = json!([
        { "role": "assistant", "tool_calls": [call("c1", "shot", "{}")] },
        { "role": "tool", "tool_call_id": "c1", "content": [text("a picture"), image] },
    ]);
    let input = to_responses(stored);
    assert_eq!(input[1]["output"], "a picture");
    assert_eq!(
        input[2],
        json!({ "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": "[from the result of shot]" },
            { "type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto" },
        ] })
    );
}

#[test]
fn only_system_messages_at_the_beginning_are_instructions() {
    let stored = parse_messages(json!([
        { "role": "developer", "content": "Mind the style." },
        { "role": "user", "content": "hi" },
        { "role": "system", "content": "It is late." },
    ]));
    assert_eq!(
        responses(&make_session(), &stored),
        json!({
            "instructions": "Be brief.\n\nMind the style.",
            "input": [message("user", "hi"), message("system", "It is late.")],
        })
    );
}

fn reasoning_item(number: u32) -> Value {
    json!({
        "type": "reasoning", "id": format!("rs_{number}"), "encrypted_content": format!("e{number}"),
        "summary": [{ "type": "summary_text", "text": "hm" }],
    })
}

#[test]
fn encrypted_reasoning_comes_before_the_text_that_it_led_to() {
    let with_status = |number| {
        let mut item = reasoning_item(number);
        item["status"] = Value::Null;
        item
    };
    let stored = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": "hello", "codex_reasoning_items": [
            with_status(1), { "type": "reasoning", "id": "rs_9", "summary": [] }, { "id": "rs_8" },
        ] },
        { "role": "assistant", "content": "", "codex_reasoning_items": [reasoning_item(2)] },
        { "role": "assistant", "tool_calls": [call("c1", "run", "{}")], "codex_reasoning_items": [
            reasoning_item(1), reasoning_item(3),
        ] },
    ]);
    let input = to_responses(stored);
    let kinds: Vec<&str> =
        input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    let expected =
        ["message", "reasoning", "message", "reasoning", "function_call", "function_call_output"];
    assert_eq!(kinds, expected);
    assert_eq!((&input[1], &input[3]), (&reasoning_item(1), &reasoning_item(3)));
}

#[test]
fn reasoning_from_other_apis_is_left_out() {
    let stored = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "reasoning_content": "secret thoughts",
          "content": [{ "type": "thinking", "thinking": "hm", "signature": "s" }, text("hello")],
          "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "s", "format": "anthropic-claude-v1" }] },
    ]);
    assert_eq!(to_responses(stored), json!([message("user", "hi"), message("assistant", "hello")]));
}
