//! Gemini's `generateContent` API.

use serde_json::{Value, json};

use crate::event_stream::{StreamEvent, split_in_half};
use crate::reply::{Finish, Reply, ToolCall};
use crate::request::{
    Message, Provider, Request, Role, ToolResult, content_text, list_items, string_value,
};

/// Parses a request. The path of the request names the model and the streaming mode.
pub(crate) fn parse_request(model: &str, stream: bool, body: Value) -> Request {
    let declared = list_items(&body["tools"])
        .iter()
        .flat_map(|tool| list_items(&tool["functionDeclarations"]));
    let tools = declared.map(|function| string_value(&function["name"])).collect();
    Request {
        provider: Provider::Gemini,
        model: model.to_owned(),
        stream,
        system: content_text(&body["systemInstruction"]["parts"]),
        messages: list_items(&body["contents"]).iter().map(parse_message).collect(),
        tools,
        body,
    }
}

fn parse_message(content: &Value) -> Message {
    let parts = list_items(&content["parts"]);
    let calls = parts.iter().filter_map(|part| part.get("functionCall")).map(|call| ToolCall {
        id: string_value(&call["id"]),
        name: string_value(&call["name"]),
        input: call["args"].clone(),
    });
    let results = parts.iter().filter_map(|part| part.get("functionResponse")).map(|result| {
        let call = result["id"].as_str().or(result["name"].as_str()).unwrap_or_default();
        ToolResult { call: call.to_owned(), text: response_text(&result["response"]) }
    });
    Message {
        role: if content["role"] == "model" { Role::Assistant } else { Role::User },
        text: content_text(&content["parts"]),
        calls: calls.collect(),
        results: results.collect(),
    }
}

/// Returns all strings in a tool's response. They are the part that the model reads.
fn response_text(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields.values().map(response_text).collect::<Vec<_>>().join("\n"),
        Value::Array(values) => values.iter().map(response_text).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

fn build_chunk(id: &str, request: &Request, parts: &Value, end: Option<&Reply>) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    let mut chunk = json!({
        "responseId": id, "modelVersion": request.model,
        "candidates": [{ "index": 0, "content": content }],
    });
    if let Some(reply) = end {
        let reason = match reply.finish {
            Finish::Complete => "STOP",
            Finish::Length => "MAX_TOKENS",
            Finish::Refusal => "SAFETY",
        };
        chunk["candidates"][0]["finishReason"] = reason.into();
        if !reply.hides_usage {
            chunk["usageMetadata"] = json!({
                "promptTokenCount": reply.usage.input, "candidatesTokenCount": reply.usage.output,
                "totalTokenCount": reply.usage.input + reply.usage.output,
            });
        }
    }
    chunk
}

fn thought_json(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

fn call_json(call: &ToolCall) -> Value {
    json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.input } })
}

/// Builds a reply that is not streamed.
pub(crate) fn build_reply(id: &str, request: &Request, reply: &Reply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({ "text": reply.text }));
    let thought = (!reply.reasoning.is_empty()).then(|| thought_json(&reply.reasoning));
    let parts = thought.into_iter().chain(text).chain(reply.calls.iter().map(call_json)).collect();
    build_chunk(id, request, &parts, Some(reply))
}

/// Builds a reply as the events of a stream.
pub(crate) fn build_events(id: &str, request: &Request, reply: &Reply) -> Vec<StreamEvent> {
    let thoughts = split_in_half(&reply.reasoning).map(|piece| json!([thought_json(piece)]));
    let texts = split_in_half(&reply.text).map(|piece| json!([{ "text": piece }]));
    let calls = reply.calls.iter().map(|wanted| json!([call_json(wanted)]));
    let mut pieces: Vec<Value> = thoughts.chain(texts).chain(calls).collect();
    if pieces.is_empty() {
        // An empty reply still needs an event that ends it.
        pieces.push(json!([{ "text": "" }]));
    }
    let last = pieces.len() - 1;
    let events = pieces.iter().enumerate().map(|(number, parts)| {
        let end = (number == last).then_some(reply);
        StreamEvent::without_name(&build_chunk(id, request, parts, end))
    });
    events.collect()
}
