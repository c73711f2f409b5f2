//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use crate::reply::{Call, Reply};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, list, string, text_of, unpacked,
};
use crate::sse::{Event, halves};

pub(crate) fn read(body: Value) -> Request {
    let is_system = |message: &&Value| role(message) == Role::System;
    let all = list(&body["messages"]);
    let system = all.iter().filter(is_system).map(|message| text_of(&message["content"]));
    let messages = all.iter().filter(|message| !is_system(message)).map(message).collect();
    let tools = list(&body["tools"]).iter();
    Request {
        provider: Provider::Chat,
        model: string(&body["model"]),
        stream: body["stream"] == true,
        system: system.collect::<Vec<_>>().join("\n"),
        messages,
        tools: tools.map(|tool| string(&tool["function"]["name"])).collect(),
        body,
    }
}

fn role(message: &Value) -> Role {
    match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some("system" | "developer") => Role::System,
        _ => Role::User,
    }
}

fn message(message: &Value) -> Message {
    let text = text_of(&message["content"]);
    if message["role"] == "tool" {
        let result = ToolResult { call: string(&message["tool_call_id"]), text };
        return Message { results: vec![result], ..Message::default() };
    }
    let calls = list(&message["tool_calls"]).iter().map(|call| Call {
        id: string(&call["id"]),
        name: string(&call["function"]["name"]),
        input: unpacked(&call["function"]["arguments"]),
    });
    Message { role: role(message), text, calls: calls.collect(), results: Vec::new() }
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(reply: &Reply) -> Value {
    let total = reply.usage.input + reply.usage.output;
    json!({
        "prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output,
        "total_tokens": total,
    })
}

pub(crate) fn whole(id: &str, request: &Request, reply: &Reply) -> Value {
    let mut message = json!({ "role": "assistant", "content": reply.text });
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.input.to_string() });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 0,
        "model": request.model, "usage": usage(reply),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(reply) }],
    })
}

pub(crate) fn events(id: &str, request: &Request, reply: &Reply) -> Vec<Event> {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0,
            "model": request.model, "choices": choices,
        })
    };
    let delta = |delta: Value| {
        Event::plain(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }])))
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }))];
    events.extend(halves(&reply.text).map(|piece| delta(json!({ "content": piece }))));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let start =
            json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(delta(json!({ "tool_calls": [start] })));
        events.extend(halves(&call.input.to_string()).map(|piece| {
            delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }))
        }));
    }
    let last = json!([{ "index": 0, "delta": {}, "finish_reason": finish_reason(reply) }]);
    events.push(Event::plain(&chunk(last)));
    let mut end = chunk(json!([]));
    end["usage"] = usage(reply);
    events.extend([Event::plain(&end), Event::done()]);
    events
}
