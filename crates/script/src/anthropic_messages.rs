//! Anthropic's Messages API.

use serde_json::{Value, json};

use crate::event_stream::{StreamEvent, split_in_half};
use crate::reply::{Finish, Reply, ToolCall};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, content_text, list_items, string_value,
};

/// Parses a request.
pub(crate) fn parse_request(body: Value) -> Request {
    let tools = list_items(&body["tools"]).iter().map(|tool| string_value(&tool["name"])).collect();
    Request {
        provider: Provider::Anthropic,
        model: string_value(&body["model"]),
        stream: body["stream"] == true,
        system: content_text(&body["system"]),
        messages: list_items(&body["messages"]).iter().map(parse_message).collect(),
        tools,
        body,
    }
}

fn parse_message(message: &Value) -> Message {
    let content = &message["content"];
    let blocks = |kind: &'static str| {
        list_items(content).iter().filter(move |block| block["type"].as_str() == Some(kind))
    };
    let calls = blocks("tool_use").map(|block| ToolCall {
        id: string_value(&block["id"]),
        name: string_value(&block["name"]),
        input: block["input"].clone(),
    });
    let results = blocks("tool_result").map(|block| ToolResult {
        call: string_value(&block["tool_use_id"]),
        text: content_text(&block["content"]),
    });
    Message {
        role: match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        },
        text: content_text(content),
        calls: calls.collect(),
        results: results.collect(),
    }
}

/// Builds the message without its content.
fn empty_message(id: &str, model: &str, reply: &Reply) -> Value {
    let mut message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if !reply.hides_usage {
        message["usage"] = json!({
            "input_tokens": reply.usage.input, "output_tokens": 1,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        });
    }
    message
}

/// Returns the signature of the reply's reasoning.
fn signature(id: &str) -> String {
    format!("signature_{id}")
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Complete if reply.calls.is_empty() => "end_turn",
        Finish::Complete => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Refusal => "refusal",
    }
}

/// Builds a reply that is not streamed.
pub(crate) fn build_reply(id: &str, request: &Request, reply: &Reply) -> Value {
    let mut message = empty_message(id, &request.model, reply);
    let text = (!reply.text.is_empty()).then(|| json!({ "type": "text", "text": reply.text }));
    let thinking = (!reply.reasoning.is_empty()).then(
        || json!({ "type": "thinking", "thinking": reply.reasoning, "signature": signature(id) }),
    );
    let calls = reply.calls.iter().enumerate().map(|(index, call)| {
        // The API cannot represent a truncated object.
        let input = if reply.is_cut_off(index) { json!({}) } else { call.input.clone() };
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
    });
    message["content"] = thinking.into_iter().chain(text).chain(calls).collect();
    message["stop_reason"] = stop_reason(reply).into();
    if !reply.hides_usage {
        message["usage"]["output_tokens"] = reply.usage.output.into();
    }
    message
}

/// Builds a reply as the events of a stream.
pub(crate) fn build_events(id: &str, request: &Request, reply: &Reply) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    let mut add = |data: Value| events.push(StreamEvent::with_name(&data));
    add(json!({ "type": "message_start", "message": empty_message(id, &request.model, reply) }));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        add(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            add(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        add(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    if !reply.reasoning.is_empty() {
        let delta = |piece| json!({ "type": "thinking_delta", "thinking": piece });
        let end = json!({ "type": "signature_delta", "signature": signature(id) });
        block(
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            split_in_half(&reply.reasoning).map(delta).chain([end]).collect(),
        );
    }
    if !reply.text.is_empty() {
        let delta = |piece| json!({ "type": "text_delta", "text": piece });
        block(
            json!({ "type": "text", "text": "" }),
            split_in_half(&reply.text).map(delta).collect(),
        );
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let delta = |piece| json!({ "type": "input_json_delta", "partial_json": piece });
        block(start, split_in_half(&reply.input_text(index)).map(delta).collect());
    }
    let mut last = json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(reply), "stop_sequence": null },
    });
    if !reply.hides_usage {
        last["usage"] =
            json!({ "input_tokens": reply.usage.input, "output_tokens": reply.usage.output });
    }
    add(last);
    add(json!({ "type": "message_stop" }));
    events
}
