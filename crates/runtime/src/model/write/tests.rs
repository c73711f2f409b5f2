//! The bodies of requests.

#![allow(clippy::needless_pass_by_value, reason = "the values are written in place")]

use serde_json::{Value, json};
use takeback_ledger::{MessageRecord, SessionRecord};

use super::super::{
    ApiKind, AttemptEnd, Finish, ModelRequest, Provider, Reply, RequestedCall, ToolSpec, to_message,
};
use super::{block_order, build_request, request_digest};

fn provider(kind: ApiKind) -> Provider {
    Provider {
        name: "p".to_owned(),
        kind,
        base_url: "http://127.0.0.1:8080/v1".to_owned(),
        key: Some("sk-secret-key".to_owned()),
        model: "m".to_owned(),
        context_window: 1_000,
        max_output: 100,
        prices: None,
    }
}

fn parse_messages(messages: Value) -> Vec<MessageRecord> {
    serde_json::from_value(messages).unwrap()
}

fn build(provider: &Provider, prompt: Option<&str>, messages: Value, has_tools: bool) -> Value {
    let system_prompt = prompt.map(str::to_owned);
    let session = SessionRecord { system_prompt, ..SessionRecord::default() };
    let schema = json!({ "type": "object" });
    let tool = ToolSpec { name: "t".to_owned(), description: "d".to_owned(), schema };
    let request = ModelRequest {
        session: &session,
        messages: &parse_messages(messages),
        tools: if has_tools { std::slice::from_ref(&tool) } else { &[] },
        max_output: 64,
    };
    build_request(provider, &request)
}

#[test]
fn a_chat_request_has_the_expected_form() {
    let hi = json!([{ "role": "user", "content": "hi" }]);
    let function = json!({ "name": "t", "description": "d", "parameters": { "type": "object" } });
    assert_eq!(
        build(&provider(ApiKind::Openai), Some("Be brief."), hi.clone(), true),
        json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": 64, "tools": [{ "type": "function", "function": function }],
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "hi" }],
        })
    );
    for (url, name) in [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://x.openai.azure.com:443/openai", "max_completion_tokens"),
        ("https://openai.example.org/v1", "max_tokens"),
    ] {
        let provider = Provider { base_url: url.to_owned(), ..provider(ApiKind::Openai) };
        let body = build(&provider, None, hi.clone(), false);
        assert_eq!((&body[name], body.get("tools")), (&json!(64), None), "{url}");
    }
}

#[test]
fn a_responses_request_has_the_expected_form() {
    let hi = json!([{ "role": "user", "content": "hi" }]);
    let mut provider = provider(ApiKind::Responses);
    assert_eq!(
        build(&provider, Some("Be brief."), hi.clone(), true),
        json!({
            "model": "m", "stream": true, "store": false, "max_output_tokens": 64,
            "include": ["reasoning.encrypted_content"], "instructions": "Be brief.",
            "tools": [{
                "type": "function", "name": "t", "description": "d", "strict": false,
                "parameters": { "type": "object" },
            }],
            "input": [{ "type": "message", "role": "user", "content": "hi" }],
        })
    );
    provider.model = "openai/gpt-4.1".to_owned();
    assert_eq!(build(&provider, None, hi, false).get("include"), None);
}

#[test]
fn an_anthropic_request_marks_what_can_be_cached() {
    let cached = json!({ "type": "ephemeral" });
    let block = |text: &str| json!({ "type": "text", "text": text, "cache_control": cached });
    let stored = json!([
        { "role": "user", "content": "one" },
        { "role": "assistant", "content": "1" },
        { "role": "user", "content": "two" },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "function": { "name": "t", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "c", "content": "2" },
    ]);
    let provider = provider(ApiKind::Anthropic);
    assert_eq!(
        build(&provider, Some("Be brief."), stored.clone(), true),
        json!({
            "model": "m", "stream": true, "max_tokens": 64, "system": [block("Be brief.")],
            "tools": [{ "name": "t", "description": "d", "input_schema": { "type": "object" } }],
            "messages": [
                { "role": "user", "content": "one" },
                { "role": "assistant", "content": "1" },
                { "role": "user", "content": [block("two")] },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "t", "input": {} }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "c", "content": "2", "cache_control": cached },
                ] },
            ],
        })
    );
    // Without a system prompt, only the tools are the same in every request.
    let body = build(&provider, None, stored.clone(), true);
    assert_eq!(body["tools"][0]["cache_control"], cached);
    let body = build(&provider, None, stored, false);
    assert_eq!((body.get("system"), body.get("tools")), (None, None));
}

#[test]
fn only_the_models_own_reasoning_is_sent() {
    let stored = |origin: Value| {
        json!([
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": "hello", "reasoning_content": "hm",
              "reasoning_details": [{ "type": "thinking", "thinking": "hm", "signature": "s" }],
              "codex_reasoning_items": [{ "type": "reasoning", "summary": [], "encrypted_content": "e" }],
              "reasoning_origin": origin },
            { "role": "user", "content": "more" },
        ])
    };
    let signs = [
        (ApiKind::Openai, "reasoning_content"),
        (ApiKind::Responses, "encrypted_content\":\"e"),
        (ApiKind::Anthropic, "signature"),
    ];
    for (kind, sign) in signs {
        let provider = provider(kind);
        let sent = build(&provider, None, stored("p/m".into()), false).to_string();
        assert!(sent.contains(sign) && !sent.contains("codex"), "{sent}");
        for origin in [json!("p/other"), Value::Null, json!(5)] {
            let sent = build(&provider, None, stored(origin), false).to_string();
            assert!(!sent.contains(sign), "{sent}");
        }
    }
}

#[test]
fn a_digest_depends_on_the_request_alone() {
    let hi = json!([{ "role": "user", "content": "hi" }]);
    let digest = |kind, messages| request_digest(&build(&provider(kind), None, messages, true));
    let first = digest(ApiKind::Openai, hi.clone());
    assert_eq!(first.len(), 64);
    assert_eq!(first, digest(ApiKind::Openai, hi.clone()));
    assert_ne!(first, digest(ApiKind::Anthropic, hi));
    assert_ne!(first, digest(ApiKind::Openai, json!([{ "role": "user", "content": "ho" }])));
}

#[test]
fn a_reply_goes_back_to_its_model_unchanged() {
    let thinking = |name: &str| json!({ "type": "thinking", "thinking": "", "signature": name });
    let calls = ["a", "b"].map(|id| RequestedCall {
        id: id.into(),
        name: "t".into(),
        arguments: "{}".into(),
    });
    let blocks = vec![
        thinking("one"),
        block_order::text_marker("First."),
        block_order::call_marker(0),
        thinking("two"),
        block_order::call_marker(1),
    ];
    let reply = Reply {
        text: "First.".into(),
        reasoning_details: Some(block_order::describe_order(blocks).into()),
        calls: calls.to_vec(),
        ..Reply::default()
    };
    let provider = provider(ApiKind::Anthropic);
    let message = to_message(&reply, &provider, &AttemptEnd::Finished(Finish::Stop));
    let result = |id: &str| MessageRecord {
        role: "tool".into(),
        tool_call_id: Some(id.into()),
        content: Some("done".into()),
        ..MessageRecord::default()
    };
    let prompt = MessageRecord {
        role: "user".into(),
        content: Some("go".into()),
        ..MessageRecord::default()
    };
    let request = ModelRequest {
        session: &SessionRecord::default(),
        messages: &[prompt, message, result("a"), result("b")],
        tools: &[],
        max_output: 64,
    };
    let use_of = |id: &str| json!({ "type": "tool_use", "id": id, "name": "t", "input": {} });
    let text = json!({ "type": "text", "text": "First." });
    assert_eq!(
        build_request(&provider, &request)["messages"][1]["content"],
        json!([thinking("one"), text, use_of("a"), thinking("two"), use_of("b")])
    );
    // The request does not force the model to think or to call a tool, because some models reject
    // that.
    let body = build_request(&provider, &request);
    for field in ["thinking", "tool_choice", "temperature", "top_p"] {
        assert_eq!(body.get(field), None);
    }
}
