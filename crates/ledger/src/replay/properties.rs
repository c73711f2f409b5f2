//! Every API accepts a replay of any stored messages, and the replay contains all of their text.

mod generators;

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use self::generators::any_conversation;
use super::{anthropic, openai, responses};
use crate::{MessageRecord, SessionRecord};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_chat_completions_api_accepts_any_replay(messages in any_conversation(), prompt in any::<bool>()) {
        let session = make_session(prompt);
        let written = openai(&session, &messages);
        check_openai(&written);
        check_texts(&messages, &written);
        prop_assert_eq!(&written, &openai(&session, &messages));
    }

    #[test]
    fn the_messages_api_accepts_any_replay(messages in any_conversation(), prompt in any::<bool>()) {
        let session = make_session(prompt);
        let written = anthropic(&session, &messages);
        check_anthropic(&written);
        check_texts(&messages, &written);
        prop_assert_eq!(&written, &anthropic(&session, &messages));
    }

    #[test]
    fn the_responses_api_accepts_any_replay(messages in any_conversation(), prompt in any::<bool>()) {
        let session = make_session(prompt);
        let written = responses(&session, &messages);
        check_responses(&written);
        check_texts(&messages, &written);
        prop_assert_eq!(&written, &responses(&session, &messages));
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

/// Checks the rules of the Responses API.
fn check_responses(written: &Value) {
    assert!(written.get("instructions").is_none_or(is_text));
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let mut has_reasoning = false;
    for item in written["input"].as_array().unwrap() {
        let kind = item["type"].as_str().unwrap();
        let is_output = kind == "function_call_output";
        assert!(is_output || kind == "function_call" || open.is_empty(), "{open:?} before {item}");
        match kind {
            "reasoning" => {
                assert!(is_text(&item["encrypted_content"]) && item["summary"].is_array());
                assert!(ids.insert(item["encrypted_content"].as_str().unwrap()), "{item} again");
            }
            "message" => check_responses_message(item, has_reasoning),
            "function_call" => {
                let id = check_responses_call(item);
                assert!(ids.insert(id), "{id} again");
                open.push(id);
            }
            "function_call_output" => {
                assert_eq!(open.remove(0), item["call_id"].as_str().unwrap());
                assert!(item["output"].is_string());
            }
            kind => panic!("item {kind}"),
        }
        has_reasoning = kind == "reasoning";
    }
    assert!(open.is_empty(), "{open:?} without results");
    assert!(!has_reasoning, "reasoning at the end");
}

fn check_responses_message(item: &Value, has_reasoning: bool) {
    let role = item["role"].as_str().unwrap();
    assert!(!has_reasoning || role == "assistant", "reasoning before {item}");
    match (role, &item["content"]) {
        ("user", Value::Array(blocks)) => blocks.iter().for_each(check_responses_block),
        ("user" | "assistant" | "system" | "developer", content) => assert!(is_text(content)),
        (role, _) => panic!("role {role}"),
    }
}

fn check_responses_block(block: &Value) {
    match block["type"].as_str().unwrap() {
        "input_text" => assert!(is_text(&block["text"])),
        "input_image" => {
            let url = block["image_url"].as_str().unwrap();
            assert!(url.starts_with("http") || url.starts_with("data:image/"));
            assert!(["auto", "low", "high"].contains(&block["detail"].as_str().unwrap()));
        }
        "input_file" => assert!(is_text(&block["filename"]) && is_text(&block["file_data"])),
        kind => panic!("block {kind}"),
    }
}

fn check_responses_call(item: &Value) -> &str {
    assert!(is_plain(&item["name"], 64));
    serde_json::from_str::<Map<String, Value>>(item["arguments"].as_str().unwrap()).unwrap();
    let id = item["call_id"].as_str().unwrap();
    assert!((1..=64).contains(&id.len()));
    id
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_plain(value: &Value, longest: usize) -> bool {
    let text = value.as_str().unwrap();
    (1..=longest).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Checks that every stored string is in the written request. The generated strings are in
/// quotation marks that are used for nothing else.
fn check_texts(messages: &[MessageRecord], written: &Value) {
    let written = written.to_string();
    for message in messages.iter().filter(|message| message.role != "session_meta") {
        let stored = json!([message.content, message.tool_calls]).to_string();
        for text in stored.split('«').skip(1).filter_map(|rest| rest.split('»').next()) {
            assert!(written.contains(&format!("«{text}»")), "«{text}» is lost in {written}");
        }
    }
}
