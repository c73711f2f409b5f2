//! Anthropic's Messages.

use serde_json::{Value, json};

use crate::reply::{Call, Reply};
use crate::request::{Message, Provider, Request, Role, ToolResult, list, string, text_of};
use crate::sse::{Event, halves};

pub(crate) fn read(body: Value) -> Request {
    let tools = list(&body["tools"]).iter().map(|tool| string(&tool["name"])).collect();
    Request {
        provider: Provider::Anthropic,
        model: string(&body["model"]),
        stream: body["stream"] == true,
        system: text_of(&body["system"]),
        messages: list(&body["messages"]).iter().map(message).collect(),
        tools,
        body,
    }
}

fn message(message: &Value) -> Message {
    let content = &message["content"];
    let blocks = |kind: &'static str| {
        list(content).iter().filter(move |block| block["type"].as_str() == Some(kind))
    };
    let calls = blocks("tool_use").map(|block| Call {
        id: string(&block["id"]),
        name: string(&block["name"]),
        input: block["input"].clone(),
    });
    let results = blocks("tool_result").map(|block| ToolResult {
        call: string(&block["tool_use_id"]),
        text: text_of(&block["content"]),
    });
    Message {
        role: match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        },
        text: text_of(content),
        calls: calls.collect(),
        results: results.collect(),
    }
}

/// A message without its content.
fn head(id: &str, model: &str, reply: &Reply) -> Value {
    json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": reply.usage.input, "output_tokens": 1,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "end_turn" } else { "tool_use" }
}

pub(crate) fn whole(id: &str, request: &Request, reply: &Reply) -> Value {
    let mut message = head(id, &request.model, reply);
    let text = (!reply.text.is_empty()).then(|| json!({ "type": "text", "text": reply.text }));
    let calls = reply.calls.iter().map(
        |call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.input }),
    );
    message["content"] = text.into_iter().chain(calls).collect();
    message["stop_reason"] = stop_reason(reply).into();
    message["usage"]["output_tokens"] = reply.usage.output.into();
    message
}

pub(crate) fn events(id: &str, request: &Request, reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |data: Value| events.push(Event::named(&data));
    add(json!({ "type": "message_start", "message": head(id, &request.model, reply) }));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        add(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            add(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        add(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    if !reply.text.is_empty() {
        let delta = |piece| json!({ "type": "text_delta", "text": piece });
        block(json!({ "type": "text", "text": "" }), halves(&reply.text).map(delta).collect());
    }
    for call in &reply.calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let delta = |piece| json!({ "type": "input_json_delta", "partial_json": piece });
        block(start, halves(&call.input.to_string()).map(delta).collect());
    }
    add(json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(reply), "stop_sequence": null },
        "usage": { "input_tokens": reply.usage.input, "output_tokens": reply.usage.output },
    }));
    add(json!({ "type": "message_stop" }));
    events
}
