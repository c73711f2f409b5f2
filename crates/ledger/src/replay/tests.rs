//! Stored conversations, and the requests that are made from them.

mod responses_input;

use serde_json::{Value, json};

use super::{anthropic, openai, responses};
use crate::{MessageRecord, SessionRecord};

fn make_session() -> SessionRecord {
    SessionRecord { system_prompt: Some("Be brief.".to_owned()), ..SessionRecord::default() }
}

fn parse_messages(messages: Value) -> Vec<MessageRecord> {
    serde_json::from_value(messages).unwrap()
}

fn to_openai(stored: Value) -> Value {
    openai(&SessionRecord::default(), &parse_messages(stored))
}

fn to_anthropic(stored: Value) -> Value {
    let mut request = anthropic(&SessionRecord::default(), &parse_messages(stored));
    assert_eq!(request.get("system"), None);
    request["messages"].take()
}

fn to_responses(stored: Value) -> Value {
    let mut request = responses(&SessionRecord::default(), &parse_messages(stored));
    assert_eq!(request.get("instructions"), None);
    request["input"].take()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn tool_use(id: &str, name: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

fn tool_result(id: &str, content: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": content })
}

fn message(role: &str, content: &str) -> Value {
    json!({ "type": "message", "role": role, "content": content })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn a_conversation_with_a_tool_is_replayed() {
    let stored = parse_messages(json!([
        { "role": "user", "content": "What is in a.txt?" },
        { "role": "assistant", "content": "I look.", "tool_calls": [call("c1", "read", "{\"path\": \"a.txt\"}")] },
        { "role": "tool", "tool_call_id": "c1", "tool_name": "read", "content": "hello" },
        { "role": "assistant", "content": "It says hello." },
    ]));
    assert_eq!(
        openai(&make_session(), &stored),
        json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "What is in a.txt?" },
            { "role": "assistant", "content": "I look.", "tool_calls": [call("c1", "read", "{\"path\": \"a.txt\"}")] },
            { "role": "tool", "tool_call_id": "c1", "content": "hello" },
            { "role": "assistant", "content": "It says hello." },
        ])
    );
    assert_eq!(
        anthropic(&make_session(), &stored),
        json!({ "system": "Be brief.", "messages": [
            { "role": "user", "content": "What is in a.txt?" },
            { "role": "assistant", "content": [text("I look."), tool_use("c1", "read", &json!({ "path": "a.txt" }))] },
            { "role": "user", "content": [tool_result("c1", "hello")] },
            { "role": "assistant", "content": "It says hello." },
        ] })
    );
    assert_eq!(
        responses(&make_session(), &stored),
        json!({ "instructions": "Be brief.", "input": [
            message("user", "What is in a.txt?"),
            message("assistant", "I look."),
            { "type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\": \"a.txt\"}" },
            { "type": "function_call_output", "call_id": "c1", "output": "hello" },
            message("assistant", "It says hello."),
        ] })
    );
}

#[test]
fn the_system_prompt_is_not_repeated() {
    let stored = parse_messages(json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "hi" },
        { "role": "system", "content": "It is late." },
    ]));
    let roles: Vec<Value> = openai(&make_session(), &stored)
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["system", "user", "system"]);
    assert_eq!(
        anthropic(&make_session(), &stored),
        json!({ "system": "Be brief.", "messages": [
            { "role": "user", "content": [text("hi"), text("[system]"), text("It is late.")] },
        ] })
    );
}

#[test]
fn a_call_without_a_result_gets_a_note() {
    let stored = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": null, "tool_calls": [call("c1", "run", "{}"), call("c2", "run", "{\"a\": ")] },
        { "role": "tool", "tool_call_id": "c1", "content": "done" },
        { "role": "user", "content": "go on" },
    ]);
    let wrapped = json!({ "arguments": "{\"a\": " });
    assert_eq!(
        to_openai(stored.clone()),
        json!([
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": null, "tool_calls": [
                call("c1", "run", "{}"), call("c2", "run", &wrapped.to_string()),
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "done" },
            { "role": "tool", "tool_call_id": "c2", "content": "No result was recorded." },
            { "role": "user", "content": "go on" },
        ])
    );
    assert_eq!(
        to_anthropic(stored),
        json!([
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": [tool_use("c1", "run", &json!({})), tool_use("c2", "run", &wrapped)] },
            { "role": "user", "content": [
                tool_result("c1", "done"), tool_result("c2", "No result was recorded."), text("go on"),
            ] },
        ])
    );
}

#[test]
fn a_result_that_follows_user_text_is_moved_to_its_call() {
    let stored = json!([
        { "role": "assistant", "tool_calls": [call("c1", "run", "")] },
        { "role": "user", "content": "hurry" },
        { "role": "tool", "tool_call_id": "c1", "content": "done" },
        { "role": "tool", "tool_call_id": "c1", "content": "done" },
    ]);
    assert_eq!(
        to_openai(stored.clone()),
        json!([
            { "role": "assistant", "content": null, "tool_calls": [call("c1", "run", "{}")] },
            { "role": "tool", "tool_call_id": "c1", "content": "done" },
            { "role": "user", "content": "hurry" },
        ])
    );
    assert_eq!(
        to_anthropic(stored),
        json!([
            { "role": "user", "content": "[The conversation begins with the assistant.]" },
            { "role": "assistant", "content": [tool_use("c1", "run", &json!({}))] },
            { "role": "user", "content": [tool_result("c1", "done"), text("hurry")] },
        ])
    );
}

#[test]
fn results_without_a_call_become_text() {
    let stored = json!([
        { "role": "tool", "tool_call_id": "c0", "tool_name": "run", "content": "lost" },
        { "role": "assistant", "tool_calls": [call("c1", "run", "{}")] },
        { "role": "tool", "tool_call_id": "c1", "content": "one" },
        { "role": "tool", "tool_call_id": "c1", "content": "another" },
    ]);
    let note = "[result of a tool call that is not part of this conversation, call c0, tool run]";
    let again = "[result of a tool call that is not part of this conversation, call c1]";
    assert_eq!(
        to_openai(stored),
        json!([
            { "role": "user", "content": format!("{note}\n\nlost") },
            { "role": "assistant", "content": null, "tool_calls": [call("c1", "run", "{}")] },
            { "role": "tool", "tool_call_id": "c1", "content": "one" },
            { "role": "user", "content": format!("{again}\n\nanother") },
        ])
    );
}

#[test]
fn calls_without_ids_get_results_in_order() {
    let stored = json!([
        { "role": "assistant", "tool_calls": [
            { "function": { "name": "read", "arguments": "{}" } },
            { "function": { "name": "run", "arguments": "{}" } },
        ] },
        { "role": "function", "tool_name": "run", "content": "ran" },
        { "role": "tool", "content": "read it" },
    ]);
    assert_eq!(
        to_openai(stored),
        json!([
            { "role": "assistant", "content": null, "tool_calls": [call("call", "read", "{}"), call("call_2", "run", "{}")] },
            { "role": "tool", "tool_call_id": "call", "content": "read it" },
            { "role": "tool", "tool_call_id": "call_2", "content": "ran" },
        ])
    );
}

#[test]
fn repeated_and_odd_ids_become_valid() {
    let turn = |id: &str, result: &str| {
        [
            json!({ "role": "assistant", "tool_calls": [call(id, "fs.read", "{}")] }),
            json!({ "role": "tool", "tool_call_id": id, "content": result }),
        ]
    };
    let stored: Vec<Value> =
        [turn("call.0", "a"), turn("call.0", "b"), turn("call_0", "c")].concat();
    let ids: Vec<String> = to_anthropic(Value::Array(stored.clone()))
        .as_array()
        .unwrap()
        .iter()
        .skip(2)
        .step_by(2)
        .map(|message| {
            let block = &message["content"][0];
            format!(
                "{}={}",
                block["tool_use_id"].as_str().unwrap(),
                block["content"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(ids, ["call_0=a", "call_0_2=b", "call_0_3=c"]);
    let written = to_openai(Value::Array(stored));
    assert_eq!(written[2]["tool_calls"][0], call("call.0", "fs_read", "{}"));
}

#[test]
fn anthropic_blocks_become_valid_for_openai() {
    let stored = json!([
        { "role": "user", "content": [
            text("Look"),
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } },
        ] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            text("I look."),
            tool_use("t1", "shot", &json!({ "x": 1 })),
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t1", "content": [
                text("a picture"),
                { "type": "image", "source": { "type": "url", "url": "https://example.org/a.png" } },
            ] },
            text("and?"),
        ] },
    ]);
    assert_eq!(
        to_openai(stored.clone()),
        json!([
            { "role": "user", "content": [
                text("Look"),
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
            ] },
            { "role": "assistant", "content": "I look.", "tool_calls": [call("t1", "shot", "{\"x\":1}")] },
            { "role": "tool", "tool_call_id": "t1", "content": "a picture" },
            { "role": "user", "content": [
                text("[from the result of shot]"),
                { "type": "image_url", "image_url": { "url": "https://example.org/a.png" } },
            ] },
            { "role": "user", "content": "and?" },
        ])
    );
    // Anthropic gets the stored messages back unchanged.
    assert_eq!(to_anthropic(stored.clone()), stored);
}

#[test]
fn openai_images_become_valid_for_anthropic() {
    let stored = json!([{ "role": "user", "content": [
        { "type": "image_url", "image_url": { "url": "data:image/jpg;base64,aGk=", "detail": "low" } },
        { "type": "image_url", "image_url": { "url": "http://example.org/a.png" } },
        { "type": "image_url", "image_url": { "url": "data:image/svg+xml;base64,aGk=" } },
    ] }]);
    let written = to_anthropic(stored.clone());
    assert_eq!(
        written[0]["content"][0],
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/jpeg", "data": "aGk=" } })
    );
    assert_eq!(written[0]["content"][1], text("[image: http://example.org/a.png]"));
    assert_eq!(written[0]["content"][2]["type"], "text");
    assert_eq!(to_openai(stored)[0]["content"][0]["image_url"]["detail"], "low");
}

#[test]
fn reasoning_is_passed_on_where_the_api_accepts_it() {
    let signed = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let stored = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": [{ "type": "thinking", "thinking": "unsigned" }, text("hello")],
          "reasoning_content": "hm", "codex_reasoning_items": [{ "id": "rs_1" }],
          "reasoning_details": [
              { "type": "reasoning.text", "text": "hm", "signature": "s", "format": "anthropic-claude-v1" },
              { "type": "reasoning.summary", "summary": "…" },
          ] },
        { "role": "user", "content": "more" },
        { "role": "assistant", "content": [signed] },
    ]);
    assert_eq!(
        to_anthropic(stored.clone()),
        json!([
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": [signed, text("hello")] },
            { "role": "user", "content": "more" },
        ])
    );
    let written = to_openai(stored.clone());
    assert_eq!(written.as_array().unwrap().len(), 3, "reasoning alone is not a message");
    assert_eq!(written[1]["content"], "hello");
    for field in ["reasoning_content", "reasoning_details", "codex_reasoning_items"] {
        assert_eq!(written[1][field], stored[1][field]);
    }
}

#[test]
fn a_call_that_is_stored_twice_appears_only_once_in_a_replay() {
    let stored = json!([
        { "role": "assistant", "content": [tool_use("t1", "run", &json!({ "a": 1 }))],
          "tool_calls": [call("t1", "run", "{ \"a\": 1 }")] },
        { "role": "tool", "tool_call_id": "t1", "content": "done" },
    ]);
    assert_eq!(to_openai(stored)[0]["tool_calls"].as_array().unwrap().len(), 1);
}

#[test]
fn messages_with_other_roles_get_a_known_role() {
    let stored = json!([
        { "role": "session_meta", "content": "tools and such" },
        { "role": "developer", "content": "Mind the style." },
        { "role": "narrator", "content": "Meanwhile" },
        { "role": "assistant", "content": "  " },
    ]);
    assert_eq!(
        to_openai(stored.clone()),
        json!([
            { "role": "developer", "content": "Mind the style." },
            { "role": "user", "content": "[narrator]\n\nMeanwhile" },
        ])
    );
    assert_eq!(
        anthropic(&SessionRecord::default(), &parse_messages(stored)),
        json!({ "system": "Mind the style.", "messages": [
            { "role": "user", "content": [text("[narrator]"), text("Meanwhile")] },
        ] })
    );
}

#[test]
fn long_binary_data_does_not_become_text() {
    let data = "QUJD".repeat(1_000);
    let stored = json!([{ "role": "user", "content": [
        { "type": "input_audio", "input_audio": { "data": data, "format": "wav" } },
    ] }]);
    assert_eq!(to_openai(stored.clone())[0]["content"], stored[0]["content"]);
    assert!(to_anthropic(stored).to_string().len() < 300);
}
