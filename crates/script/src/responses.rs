//! OpenAI's Responses.

use serde_json::{Value, json};

use crate::reply::{Call, Reply};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, list, string, text_of, unpacked,
};
use crate::sse::{Event, halves};

pub(crate) fn read(body: Value) -> Request {
    let messages = match &body["input"] {
        Value::String(text) => vec![Message::saying(Role::User, text.clone())],
        input => list(input).iter().filter_map(item).collect(),
    };
    // Some tools are offered amid the conversation.
    let amid = list(&body["input"]).iter().filter(|item| item["type"] == "additional_tools");
    let offers = std::iter::once(&body).chain(amid);
    let tools = offers.flat_map(|offer| list(&offer["tools"])).flat_map(names).collect();
    Request {
        provider: Provider::Responses,
        model: string(&body["model"]),
        stream: body["stream"] == true,
        system: string(&body["instructions"]),
        messages,
        tools,
        body,
    }
}

/// The names of a tool, or of those in a group of them.
fn names(tool: &Value) -> Vec<String> {
    match tool.get("tools") {
        Some(group) => list(group).iter().flat_map(names).collect(),
        // Tools of the provider itself have a kind instead of a name.
        None => vec![string(tool.get("name").unwrap_or(&tool["type"]))],
    }
}

fn item(item: &Value) -> Option<Message> {
    let call = |input: Value| Message {
        role: Role::Assistant,
        calls: vec![Call { id: string(&item["call_id"]), name: string(&item["name"]), input }],
        ..Message::default()
    };
    match item["type"].as_str() {
        Some("function_call") => Some(call(unpacked(&item["arguments"]))),
        Some("custom_tool_call") => Some(call(item["input"].clone())),
        Some("function_call_output" | "custom_tool_call_output") => {
            let text = text_of(&item["output"]);
            let result = ToolResult { call: string(&item["call_id"]), text };
            Some(Message { results: vec![result], ..Message::default() })
        }
        Some("message") | None => {
            let role = match item["role"].as_str() {
                Some("assistant") => Role::Assistant,
                Some("system" | "developer") => Role::System,
                _ => Role::User,
            };
            Some(Message::saying(role, text_of(&item["content"])))
        }
        _ => None,
    }
}

/// What the answer consists of.
fn items(id: &str, reply: &Reply) -> Vec<Value> {
    let content = json!([{ "type": "output_text", "text": reply.text, "annotations": [] }]);
    let text = json!({
        "type": "message", "id": format!("msg_{id}"), "status": "completed", "role": "assistant",
        "content": content,
    });
    let text = (!reply.text.is_empty()).then_some(text);
    let calls = reply.calls.iter().map(|call| {
        let (kind, key, input) = match &call.input {
            // Tools that take no JSON have a form of their own.
            Value::String(text) => ("custom_tool_call", "input", text.clone()),
            input => ("function_call", "arguments", input.to_string()),
        };
        json!({
            "type": kind, "id": format!("item_{}", call.id), "status": "completed",
            "call_id": call.id, "name": call.name, key: input,
        })
    });
    text.into_iter().chain(calls).collect()
}

pub(crate) fn whole(id: &str, request: &Request, reply: &Reply) -> Value {
    let total = reply.usage.input + reply.usage.output;
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 0, "status": "completed",
        "model": request.model, "output": items(id, reply), "error": null,
        "usage": {
            "input_tokens": reply.usage.input, "output_tokens": reply.usage.output,
            "total_tokens": total, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens_details": { "reasoning_tokens": 0 },
        },
    })
}

pub(crate) fn events(id: &str, request: &Request, reply: &Reply) -> Vec<Event> {
    let mut all = Vec::new();
    let mut add = |mut data: Value| {
        data["sequence_number"] = all.len().into();
        all.push(Event::named(&data));
    };
    let whole = whole(id, request, reply);
    let mut begun = whole.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    add(json!({ "type": "response.created", "response": begun }));
    for (index, item) in items(id, reply).iter().enumerate() {
        let mut empty = item.clone();
        empty["status"] = "in_progress".into();
        let pieces = match item["type"].as_str() {
            Some("message") => {
                empty["content"] = json!([]);
                pieces_of_text(item, index)
            }
            Some("function_call") => {
                empty["arguments"] = "".into();
                pieces_of_input("function_call_arguments", &item["arguments"], item, index)
            }
            _ => {
                empty["input"] = "".into();
                pieces_of_input("custom_tool_call_input", &item["input"], item, index)
            }
        };
        add(json!({ "type": "response.output_item.added", "output_index": index, "item": empty }));
        pieces.into_iter().for_each(&mut add);
        add(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    add(json!({ "type": "response.completed", "response": whole }));
    all
}

fn pieces_of_text(item: &Value, index: usize) -> Vec<Value> {
    let part = &item["content"][0];
    let text = string(&part["text"]);
    let event = |kind: &str, key: &str, value: Value| {
        json!({
            "type": format!("response.{kind}"), "item_id": item["id"], "output_index": index,
            "content_index": 0, key: value,
        })
    };
    let empty = json!({ "type": "output_text", "text": "", "annotations": [] });
    let mut events = vec![event("content_part.added", "part", empty)];
    events.extend(halves(&text).map(|piece| event("output_text.delta", "delta", piece.into())));
    events.push(event("output_text.done", "text", part["text"].clone()));
    events.push(event("content_part.done", "part", part.clone()));
    events
}

fn pieces_of_input(kind: &str, input: &Value, item: &Value, index: usize) -> Vec<Value> {
    let event = |step: &str, key: &str, value: Value| {
        json!({
            "type": format!("response.{kind}.{step}"), "item_id": item["id"],
            "output_index": index, key: value,
        })
    };
    let text = string(input);
    let mut events: Vec<Value> =
        halves(&text).map(|piece| event("delta", "delta", piece.into())).collect();
    let key = if kind.ends_with("arguments") { "arguments" } else { "input" };
    events.push(event("done", key, input.clone()));
    events
}
