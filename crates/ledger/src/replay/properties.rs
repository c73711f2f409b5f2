//! Both APIs accept a replay of any stored messages, and the replay contains every text.

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{anthropic, openai};
use crate::{MessageRecord, SessionRecord};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn openai_accepts_any_replay(messages in any_conversation(), prompt in any::<bool>()) {
        let session = make_session(prompt);
        let written = openai(&session, &messages);
        check_openai(&written);
        check_texts(&messages, &written);
        prop_assert_eq!(&written, &openai(&session, &messages));
    }

    #[test]
    fn anthropic_accepts_any_replay(messages in any_conversation(), prompt in any::<bool>()) {
        let session = make_session(prompt);
        let written = anthropic(&session, &messages);
        check_anthropic(&written);
        check_texts(&messages, &written);
        prop_assert_eq!(&written, &anthropic(&session, &messages));
    }

    #[test]
    fn a_replay_is_replayed_unchanged(messages in any_conversation()) {
        let session = SessionRecord::default();
        let once = openai(&session, &messages);
        let again: Vec<MessageRecord> = serde_json::from_value(once.clone()).unwrap();
        prop_assert_eq!(openai(&session, &again), once);
        let once = anthropic(&session, &messages)["messages"].take();
        let again: Vec<MessageRecord> = serde_json::from_value(once.clone()).unwrap();
        prop_assert_eq!(anthropic(&session, &again)["messages"].take(), once);
    }
}

fn make_session(prompt: bool) -> SessionRecord {
    let system_prompt = prompt.then(|| "«system prompt»".to_owned());
    SessionRecord { system_prompt, ..SessionRecord::default() }
}

/// Checks the rules of chat completions.
fn check_openai(written: &Value) {
    let messages = written.as_array().unwrap();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            assert_eq!(open.remove(0), message["tool_call_id"].as_str().unwrap());
            assert!(message["content"].is_string());
            continue;
        }
        assert!(open.is_empty(), "{open:?} without results");
        match role {
            "system" | "developer" => assert!(is_text(&message["content"])),
            "user" => check_openai_user(&message["content"]),
            "assistant" => open = check_openai_assistant(message),
            role => panic!("role {role}"),
        }
    }
    assert!(open.is_empty(), "{open:?} without results");
}

fn check_openai_user(content: &Value) {
    let Value::Array(blocks) = content else { return assert!(is_text(content)) };
    assert!(!blocks.is_empty());
    for block in blocks {
        match block["type"].as_str().unwrap() {
            "text" => assert!(is_text(&block["text"])),
            "image_url" => {
                let url = block["image_url"]["url"].as_str().unwrap();
                assert!(url.starts_with("http") || url.starts_with("data:image/"));
            }
            "file" => assert!(block["file"].is_object()),
            "input_audio" => assert!(block["input_audio"]["data"].is_string()),
            kind => panic!("block {kind}"),
        }
    }
}

fn check_openai_assistant(message: &Value) -> Vec<&str> {
    let Some(calls) = message.get("tool_calls") else {
        assert!(is_text(&message["content"]));
        return Vec::new();
    };
    assert!(message["content"].is_null() || is_text(&message["content"]));
    let ids: Vec<&str> = calls.as_array().unwrap().iter().map(check_openai_call).collect();
    assert!(!ids.is_empty());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{ids:?}");
    ids
}

fn check_openai_call(call: &Value) -> &str {
    assert_eq!(call["type"], "function");
    assert!(is_plain(&call["function"]["name"], 64));
    let arguments = call["function"]["arguments"].as_str().unwrap();
    serde_json::from_str::<Map<String, Value>>(arguments).unwrap();
    let id = call["id"].as_str().unwrap();
    assert!((1..=40).contains(&id.len()));
    id
}

/// Checks the rules of the Messages API.
fn check_anthropic(written: &Value) {
    assert!(written.get("system").is_none_or(is_text));
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let messages = written["messages"].as_array().unwrap();
    for (place, message) in messages.iter().enumerate() {
        let expected = if place % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], expected);
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            other => panic!("content {other}"),
        };
        assert!(!blocks.is_empty());
        match expected {
            "user" => check_anthropic_user(&blocks, &mut open),
            _ => {
                open = check_anthropic_assistant(&blocks);
                assert!(open.iter().all(|id| ids.insert(id.clone())), "{open:?} again");
            }
        }
    }
    assert!(open.is_empty(), "{open:?} without results");
    if let Some(last) = messages.last().filter(|last| last["role"] == "assistant") {
        let block = last["content"].as_array().and_then(|blocks| blocks.last()?.get("text"));
        let text = block.unwrap_or(&last["content"]).as_str().unwrap();
        assert_eq!(text, text.trim_end());
    }
}

fn check_anthropic_user(blocks: &[Value], open: &mut Vec<String>) {
    for (place, block) in blocks.iter().enumerate() {
        if block["type"] != "tool_result" {
            assert!(open.is_empty(), "{open:?} without results");
            check_anthropic_block(block);
            continue;
        }
        assert!(place == 0 || blocks[place - 1]["type"] == "tool_result");
        assert_eq!(open.remove(0), block["tool_use_id"].as_str().unwrap());
        match &block["content"] {
            Value::Null => assert!(block.get("content").is_none()),
            Value::Array(inner) => inner.iter().for_each(check_anthropic_block),
            content => assert!(is_text(content)),
        }
    }
    assert!(open.is_empty(), "{open:?} without results");
}

fn check_anthropic_block(block: &Value) {
    match block["type"].as_str().unwrap() {
        "text" => assert!(is_text(&block["text"])),
        "image" if block["source"]["type"] == "url" => {
            assert!(block["source"]["url"].as_str().unwrap().starts_with("https://"));
        }
        "image" | "document" => assert!(is_text(&block["source"]["data"])),
        kind => panic!("block {kind}"),
    }
}

fn check_anthropic_assistant(blocks: &[Value]) -> Vec<String> {
    let mut open = Vec::new();
    for block in blocks {
        match block["type"].as_str().unwrap() {
            "text" => assert!(is_text(&block["text"])),
            "thinking" => assert!(is_text(&block["signature"])),
            "redacted_thinking" => assert!(is_text(&block["data"])),
            "tool_use" => {
                assert!(is_plain(&block["name"], 64) && is_plain(&block["id"], 64));
                assert!(block["input"].is_object());
                open.push(block["id"].as_str().unwrap().to_owned());
            }
            kind => panic!("block {kind}"),
        }
    }
    let last = blocks.last().unwrap()["type"].as_str().unwrap();
    assert!(!last.ends_with("thinking"));
    open
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_plain(value: &Value, longest: usize) -> bool {
    let text = value.as_str().unwrap();
    (1..=longest).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Checks that every stored text is in the written request. The generated texts are in quotation
/// marks that are used for nothing else.
fn check_texts(messages: &[MessageRecord], written: &Value) {
    let written = written.to_string();
    for message in messages.iter().filter(|message| message.role != "session_meta") {
        let stored = json!([message.content, message.tool_calls]).to_string();
        for text in stored.split('«').skip(1).filter_map(|rest| rest.split('»').next()) {
            assert!(written.contains(&format!("«{text}»")), "«{text}» is lost in {written}");
        }
    }
}

fn any_conversation() -> impl Strategy<Value = Vec<MessageRecord>> {
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
    let names = (prop::option::of(any_id()), prop::option::of(any_tool()));
    (select(ROLES), content, calls, names, details).prop_map(
        |(role, content, tool_calls, (tool_call_id, tool_name), reasoning_details)| MessageRecord {
            role: role.to_owned(),
            content,
            tool_calls,
            tool_call_id,
            tool_name,
            reasoning_details,
            ..MessageRecord::default()
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

/// Generates ids. There are few, so that calls and results share some.
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
