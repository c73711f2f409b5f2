//! Stored messages of any form.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::MessageRecord;

/// Generates conversations, most of which no agent would store.
pub(super) fn any_conversation() -> impl Strategy<Value = Vec<MessageRecord>> {
    prop::collection::vec(any_message(), 0..12)
}

const ROLES: &[&str] = &[
    "user",
    "user",
    "assistant",
    "assistant",
    "assistant",
    "tool",
    "tool",
    "tool",
    "system",
    "developer",
    "function",
    "session_meta",
    "",
    "narrator",
];

fn any_message() -> impl Strategy<Value = MessageRecord> {
    let content = prop_oneof![
        2 => Just(None),
        4 => any_text().prop_map(|text| Some(Value::String(text))),
        4 => prop::collection::vec(any_block(), 0..4).prop_map(|blocks| Some(Value::Array(blocks))),
        1 => any_block().prop_map(Some),
        1 => any_junk().prop_map(Some),
    ];
    let calls = prop_oneof![
        3 => Just(None),
        3 => prop::collection::vec(any_call(), 0..4).prop_map(|calls| Some(Value::Array(calls))),
        1 => any_call().prop_map(Some),
        1 => any_call().prop_map(|call| Some(Value::String(call.to_string()))),
        1 => any_junk().prop_map(Some),
    ];
    let details =
        prop::option::of(prop::collection::vec(any_thinking(), 0..2).prop_map(Value::Array));
    let items =
        prop::option::of(prop::collection::vec(any_reasoning_item(), 0..3).prop_map(Value::Array));
    let names = (prop::option::of(any_id()), prop::option::of(any_tool()));
    (select(ROLES), content, calls, names, (details, items)).prop_map(
        |(role, content, tool_calls, (tool_call_id, tool_name), (reasoning_details, items))| {
            MessageRecord {
                role: role.to_owned(),
                content,
                tool_calls,
                tool_call_id,
                tool_name,
                reasoning_details,
                codex_reasoning_items: items,
                ..MessageRecord::default()
            }
        },
    )
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..10_000u32).prop_map(|number| format!("«{number}»")),
        1 => (0..10_000u32).prop_map(|number| format!("«{number}»\n ")),
        1 => select(&["", " ", "\n", "{}", "null", "[]"][..]).prop_map(str::to_owned),
    ]
}

/// Generates ids. There are only a few different ones, so that calls and results share some of
/// them.
fn any_id() -> impl Strategy<Value = String> {
    let long = "x".repeat(90);
    let ids = ["", "a", "b", "c.d", "c_d", "é", "call|fc"].map(str::to_owned);
    select([ids.to_vec(), vec![long.clone(), format!("{long}y")]].concat())
}

fn any_tool() -> impl Strategy<Value = String> {
    select(&["run", "read", "fs.read", "名前", "run it"][..]).prop_map(str::to_owned)
}

/// The keys of generated objects. `name` is left out, because a replay can change names.
const KEYS: &[&str] =
    &["type", "text", "id", "function", "input", "source", "content", "image_url"];

fn any_junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((select(KEYS), inner), 0..3).prop_map(|fields| {
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

fn any_call() -> impl Strategy<Value = Value> {
    let arguments = prop_oneof![
        2 => any_text().prop_map(|text| Value::String(json!({ "a": text }).to_string())),
        1 => any_text().prop_map(Value::String),
        1 => any_junk(),
    ];
    prop_oneof![
        6 => (any_id(), any_tool(), arguments).prop_map(|(id, name, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        }),
        1 => any_tool().prop_map(|name| json!({ "function": { "name": name } })),
        1 => any_text().prop_map(|text| json!({ "id": "a", "function": { "arguments": text } })),
        1 => any_junk(),
    ]
}

fn any_thinking() -> impl Strategy<Value = Value> {
    select(vec![
        json!({ "type": "thinking", "thinking": "hm", "signature": "s" }),
        json!({ "type": "thinking", "thinking": "hm" }),
        json!({ "type": "redacted_thinking", "data": "aGk=" }),
        json!({ "type": "reasoning.text", "text": "hm", "signature": "t", "format": "anthropic-claude-v1" }),
        json!({ "type": "reasoning.encrypted", "data": "aGk=", "format": "openai-responses-v1" }),
    ])
}

fn any_reasoning_item() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (0..5u32).prop_map(|number| json!({
            "type": "reasoning", "id": format!("rs_{number}"), "summary": [],
            "encrypted_content": format!("secret{number}"),
        })),
        1 => Just(json!({ "type": "reasoning", "id": "rs_1", "summary": [] })),
        1 => Just(json!({ "type": "reasoning", "summary": null, "encrypted_content": "secret" })),
        1 => any_junk(),
    ]
}

fn any_block() -> impl Strategy<Value = Value> {
    let image = select(vec![
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } }),
        json!({ "type": "image_url", "image_url": { "url": "http://example.org/a.png" } }),
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/bmp", "data": "aGk=" } }),
        json!({ "type": "image", "source": { "type": "url", "url": "https://example.org/a.png" } }),
        json!({ "type": "file", "file": { "file_data": "data:application/pdf;base64,aGk=" } }),
        json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "«d»" } }),
        json!({ "type": "input_audio", "input_audio": { "data": "aGk=", "format": "wav" } }),
    ]);
    let result =
        (any_id(), prop_oneof![any_junk(), any_text().prop_map(Value::from), image.clone()]);
    prop_oneof![
        3 => any_text().prop_map(|text| json!({ "type": "text", "text": text })),
        1 => image,
        2 => (any_id(), any_tool(), any_junk()).prop_map(|(id, name, input)| {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }),
        2 => (result, any::<bool>()).prop_map(|((id, content), is_error)| json!({
            "type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error,
        })),
        1 => any_thinking(),
        1 => any_junk(),
    ]
}
