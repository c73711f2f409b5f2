//! Gemini's `generateContent`.

use serde_json::{Value, json};

use crate::reply::{Call, Reply};
use crate::request::{Message, Provider, Request, Role, ToolResult, list, string, text_of};
use crate::sse::{Event, halves};

/// The model, and whether the answer is to come in pieces, are in the address.
pub(crate) fn read(model: &str, stream: bool, body: Value) -> Request {
    let declared = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let tools = declared.map(|function| string(&function["name"])).collect();
    Request {
        provider: Provider::Gemini,
        model: model.to_owned(),
        stream,
        system: text_of(&body["systemInstruction"]["parts"]),
        messages: list(&body["contents"]).iter().map(message).collect(),
        tools,
        body,
    }
}

fn message(content: &Value) -> Message {
    let parts = list(&content["parts"]);
    let calls = parts.iter().filter_map(|part| part.get("functionCall")).map(|call| Call {
        id: string(&call["id"]),
        name: string(&call["name"]),
        input: call["args"].clone(),
    });
    let results = parts.iter().filter_map(|part| part.get("functionResponse")).map(|result| {
        let call = result["id"].as_str().or(result["name"].as_str()).unwrap_or_default();
        ToolResult { call: call.to_owned(), text: readable(&result["response"]) }
    });
    Message {
        role: if content["role"] == "model" { Role::Assistant } else { Role::User },
        text: text_of(&content["parts"]),
        calls: calls.collect(),
        results: results.collect(),
    }
}

/// What a tool answers is an object; its texts are what the model reads.
fn readable(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields.values().map(readable).collect::<Vec<_>>().join("\n"),
        Value::Array(values) => values.iter().map(readable).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

fn chunk(id: &str, request: &Request, parts: &Value, end: Option<&Reply>) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    let mut chunk = json!({
        "responseId": id, "modelVersion": request.model,
        "candidates": [{ "index": 0, "content": content }],
    });
    if let Some(reply) = end {
        chunk["candidates"][0]["finishReason"] = "STOP".into();
        chunk["usageMetadata"] = json!({
            "promptTokenCount": reply.usage.input, "candidatesTokenCount": reply.usage.output,
            "totalTokenCount": reply.usage.input + reply.usage.output,
        });
    }
    chunk
}

fn call(call: &Call) -> Value {
    json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.input } })
}

pub(crate) fn whole(id: &str, request: &Request, reply: &Reply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({ "text": reply.text }));
    let parts = text.into_iter().chain(reply.calls.iter().map(call)).collect();
    chunk(id, request, &parts, Some(reply))
}

pub(crate) fn events(id: &str, request: &Request, reply: &Reply) -> Vec<Event> {
    let texts = halves(&reply.text).map(|piece| json!([{ "text": piece }]));
    let calls = reply.calls.iter().map(|wanted| json!([call(wanted)]));
    let mut pieces: Vec<Value> = texts.chain(calls).collect();
    if pieces.is_empty() {
        // Who has nothing to say still says that this is all.
        pieces.push(json!([{ "text": "" }]));
    }
    let last = pieces.len() - 1;
    let events = pieces.iter().enumerate().map(|(number, parts)| {
        let end = (number == last).then_some(reply);
        Event::plain(&chunk(id, request, parts, end))
    });
    events.collect()
}
