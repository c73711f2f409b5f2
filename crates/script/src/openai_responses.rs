//! OpenAI's Responses API.

use serde_json::{Value, json};

use crate::event_stream::{StreamEvent, split_in_half};
use crate::reply::{Finish, Reply, ToolCall};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, content_text, list_items, parse_embedded,
    string_value,
};

/// Parses a request.
pub(crate) fn parse_request(body: Value) -> Request {
    let messages = match &body["input"] {
        Value::String(text) => vec![Message::of_text(Role::User, text.clone())],
        input => list_items(input).iter().filter_map(parse_item).collect(),
    };
    // Some tools are offered in the middle of the conversation.
    let later = list_items(&body["input"]).iter().filter(|item| item["type"] == "additional_tools");
    let offers = std::iter::once(&body).chain(later);
    let tools = offers.flat_map(|offer| list_items(&offer["tools"])).flat_map(tool_names).collect();
    Request {
        provider: Provider::Responses,
        model: string_value(&body["model"]),
        stream: body["stream"] == true,
        system: string_value(&body["instructions"]),
        messages,
        tools,
        body,
    }
}

/// Returns the name of a tool, or the names of all tools in a group.
fn tool_names(tool: &Value) -> Vec<String> {
    match tool.get("tools") {
        Some(group) => list_items(group).iter().flat_map(tool_names).collect(),
        // The provider's own tools have a type instead of a name.
        None => vec![string_value(tool.get("name").unwrap_or(&tool["type"]))],
    }
}

fn parse_item(item: &Value) -> Option<Message> {
    let call = |input: Value| Message {
        role: Role::Assistant,
        calls: vec![ToolCall {
            id: string_value(&item["call_id"]),
            name: string_value(&item["name"]),
            input,
        }],
        ..Message::default()
    };
    match item["type"].as_str() {
        Some("function_call") => Some(call(parse_embedded(&item["arguments"]))),
        Some("custom_tool_call") => Some(call(item["input"].clone())),
        Some("function_call_output" | "custom_tool_call_output") => {
            let text = content_text(&item["output"]);
            let result = ToolResult { call: string_value(&item["call_id"]), text };
            Some(Message { results: vec![result], ..Message::default() })
        }
        Some("message") | None => {
            let role = match item["role"].as_str() {
                Some("assistant") => Role::Assistant,
                Some("system" | "developer") => Role::System,
                _ => Role::User,
            };
            Some(Message::of_text(role, content_text(&item["content"])))
        }
        _ => None,
    }
}

/// Builds the items of a reply.
fn reply_items(id: &str, reply: &Reply) -> Vec<Value> {
    let reasoning = (!reply.reasoning.is_empty()).then(|| {
        json!({
            "type": "reasoning", "id": format!("rs_{id}"),
            "summary": [{ "type": "summary_text", "text": reply.reasoning }],
            "encrypted_content": format!("encrypted_{id}"),
        })
    });
    let content = json!([{ "type": "output_text", "text": reply.text, "annotations": [] }]);
    let text = json!({
        "type": "message", "id": format!("msg_{id}"), "status": "completed", "role": "assistant",
        "content": content,
    });
    let text = (!reply.text.is_empty()).then_some(text);
    let calls = reply.calls.iter().enumerate().map(|(index, call)| {
        let (kind, key, input) = match &call.input {
            // Calls to tools that do not take JSON have a separate type.
            Value::String(text) => ("custom_tool_call", "input", text.clone()),
            _ => ("function_call", "arguments", reply.input_text(index)),
        };
        let status = if reply.is_cut_off(index) { "incomplete" } else { "completed" };
        json!({
            "type": kind, "id": format!("item_{}", call.id), "status": status,
            "call_id": call.id, "name": call.name, key: input,
        })
    });
    reasoning.into_iter().chain(text).chain(calls).collect()
}

/// Returns the status of a reply, and the reason if it is incomplete.
fn reply_status(reply: &Reply) -> (&'static str, Value) {
    match reply.finish {
        Finish::Complete => ("completed", Value::Null),
        Finish::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        Finish::Refusal => ("incomplete", json!({ "reason": "content_filter" })),
    }
}

/// Builds a reply that is not streamed.
pub(crate) fn build_reply(id: &str, request: &Request, reply: &Reply) -> Value {
    let total = reply.usage.input + reply.usage.output;
    let (status, reason) = reply_status(reply);
    let usage = json!({
        "input_tokens": reply.usage.input, "output_tokens": reply.usage.output,
        "total_tokens": total, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens_details": { "reasoning_tokens": 0 },
    });
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 0, "status": status,
        "incomplete_details": reason, "model": request.model, "output": reply_items(id, reply),
        "error": null, "usage": if reply.hides_usage { Value::Null } else { usage },
    })
}

/// Builds a reply as the events of a stream.
pub(crate) fn build_events(id: &str, request: &Request, reply: &Reply) -> Vec<StreamEvent> {
    let mut all = Vec::new();
    let mut add = |mut data: Value| {
        data["sequence_number"] = all.len().into();
        all.push(StreamEvent::with_name(&data));
    };
    let whole = build_reply(id, request, reply);
    let mut begun = whole.clone();
    begun["status"] = "in_progress".into();
    begun["incomplete_details"] = Value::Null;
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    add(json!({ "type": "response.created", "response": begun }));
    for (index, item) in reply_items(id, reply).iter().enumerate() {
        let mut empty = item.clone();
        empty["status"] = "in_progress".into();
        let pieces = match item["type"].as_str() {
            Some("reasoning") => {
                empty["summary"] = json!([]);
                empty["encrypted_content"] = "".into();
                reasoning_events(item, index)
            }
            Some("message") => {
                empty["content"] = json!([]);
                text_events(item, index)
            }
            Some("function_call") => {
                empty["arguments"] = "".into();
                input_events("function_call_arguments", &item["arguments"], item, index)
            }
            _ => {
                empty["input"] = "".into();
                input_events("custom_tool_call_input", &item["input"], item, index)
            }
        };
        add(json!({ "type": "response.output_item.added", "output_index": index, "item": empty }));
        pieces.into_iter().for_each(&mut add);
        add(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    let (status, _) = reply_status(reply);
    add(json!({ "type": format!("response.{status}"), "response": whole }));
    all
}

fn reasoning_events(item: &Value, index: usize) -> Vec<Value> {
    let part = &item["summary"][0];
    let event = |kind: &str, key: &str, value: Value| {
        json!({
            "type": format!("response.reasoning_summary_{kind}"), "item_id": item["id"],
            "output_index": index, "summary_index": 0, key: value,
        })
    };
    let empty = json!({ "type": "summary_text", "text": "" });
    let text = string_value(&part["text"]);
    let mut events = vec![event("part.added", "part", empty)];
    events.extend(split_in_half(&text).map(|piece| event("text.delta", "delta", piece.into())));
    events.push(event("text.done", "text", part["text"].clone()));
    events.push(event("part.done", "part", part.clone()));
    events
}

fn text_events(item: &Value, index: usize) -> Vec<Value> {
    let part = &item["content"][0];
    let text = string_value(&part["text"]);
    let event = |kind: &str, key: &str, value: Value| {
        json!({
            "type": format!("response.{kind}"), "item_id": item["id"], "output_index": index,
            "content_index": 0, key: value,
        })
    };
    let empty = json!({ "type": "output_text", "text": "", "annotations": [] });
    let mut events = vec![event("content_part.added", "part", empty)];
    events.extend(
        split_in_half(&text).map(|piece| event("output_text.delta", "delta", piece.into())),
    );
    events.push(event("output_text.done", "text", part["text"].clone()));
    events.push(event("content_part.done", "part", part.clone()));
    events
}

fn input_events(kind: &str, input: &Value, item: &Value, index: usize) -> Vec<Value> {
    let event = |step: &str, key: &str, value: Value| {
        json!({
            "type": format!("response.{kind}.{step}"), "item_id": item["id"],
            "output_index": index, key: value,
        })
    };
    let text = string_value(input);
    let mut events: Vec<Value> =
        split_in_half(&text).map(|piece| event("delta", "delta", piece.into())).collect();
    let key = if kind.ends_with("arguments") { "arguments" } else { "input" };
    events.push(event("done", key, input.clone()));
    events
}
