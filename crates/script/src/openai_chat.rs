//! OpenAI's Chat Completions API.

use serde_json::{Value, json};

use crate::event_stream::{StreamEvent, split_in_half};
use crate::reply::{Finish, Reply, ToolCall};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, content_text, list_items, parse_embedded,
    string_value,
};

/// Parses a request.
pub(crate) fn parse_request(body: Value) -> Request {
    let is_system = |message: &&Value| parse_role(message) == Role::System;
    let all = list_items(&body["messages"]);
    let system = all.iter().filter(is_system).map(|message| content_text(&message["content"]));
    let messages = all.iter().filter(|message| !is_system(message)).map(parse_message).collect();
    let tools = list_items(&body["tools"]).iter();
    Request {
        provider: Provider::Chat,
        model: string_value(&body["model"]),
        stream: body["stream"] == true,
        system: system.collect::<Vec<_>>().join("\n"),
        messages,
        tools: tools.map(|tool| string_value(&tool["function"]["name"])).collect(),
        body,
    }
}

fn parse_role(message: &Value) -> Role {
    match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some("system" | "developer") => Role::System,
        _ => Role::User,
    }
}

fn parse_message(message: &Value) -> Message {
    let text = content_text(&message["content"]);
    if message["role"] == "tool" {
        let result = ToolResult { call: string_value(&message["tool_call_id"]), text };
        return Message { results: vec![result], ..Message::default() };
    }
    let calls = list_items(&message["tool_calls"]).iter().map(|call| ToolCall {
        id: string_value(&call["id"]),
        name: string_value(&call["function"]["name"]),
        input: parse_embedded(&call["function"]["arguments"]),
    });
    Message { role: parse_role(message), text, calls: calls.collect(), results: Vec::new() }
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Complete if reply.calls.is_empty() => "stop",
        Finish::Complete => "tool_calls",
        Finish::Length => "length",
        Finish::Refusal => "content_filter",
    }
}

fn usage_json(reply: &Reply) -> Value {
    if reply.hides_usage {
        return Value::Null;
    }
    let total = reply.usage.input + reply.usage.output;
    json!({
        "prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output,
        "total_tokens": total,
    })
}

/// Builds a reply that is not streamed.
pub(crate) fn build_reply(id: &str, request: &Request, reply: &Reply) -> Value {
    let mut message = json!({ "role": "assistant", "content": reply.text });
    if !reply.reasoning.is_empty() {
        message["reasoning_content"] = reply.reasoning.as_str().into();
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().enumerate().map(|(index, call)| {
            let function = json!({ "name": call.name, "arguments": reply.input_text(index) });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 0,
        "model": request.model, "usage": usage_json(reply),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(reply) }],
    })
}

/// Builds a reply as the events of a stream.
pub(crate) fn build_events(id: &str, request: &Request, reply: &Reply) -> Vec<StreamEvent> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0,
            "model": request.model, "choices": choices,
        })
    };
    let delta = |delta: Value| {
        StreamEvent::without_name(&chunk(
            json!([{ "index": 0, "delta": delta, "finish_reason": null }]),
        ))
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }))];
    events.extend(
        split_in_half(&reply.reasoning).map(|piece| delta(json!({ "reasoning_content": piece }))),
    );
    events.extend(split_in_half(&reply.text).map(|piece| delta(json!({ "content": piece }))));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let start =
            json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(delta(json!({ "tool_calls": [start] })));
        events.extend(split_in_half(&reply.input_text(index)).map(|piece| {
            delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }))
        }));
    }
    let last = json!([{ "index": 0, "delta": {}, "finish_reason": finish_reason(reply) }]);
    events.push(StreamEvent::without_name(&chunk(last)));
    if !reply.hides_usage {
        let mut end = chunk(json!([]));
        end["usage"] = usage_json(reply);
        events.push(StreamEvent::without_name(&end));
    }
    events.push(StreamEvent::end_of_chat());
    events
}
