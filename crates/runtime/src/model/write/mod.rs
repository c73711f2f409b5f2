//! Writing requests: the body that each API expects.

pub(super) mod block_order;
mod own_reasoning;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_ledger::replay;

pub(super) use self::own_reasoning::{mark_origin, with_own_reasoning};

use super::{ApiKind, ModelRequest, Provider};

/// Builds the body of a request. Equal requests have equal bodies.
pub fn build_request(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let messages = with_own_reasoning(provider, request.messages);
    let request = ModelRequest { messages: &messages, ..*request };
    match provider.kind {
        ApiKind::Openai => write_chat(provider, &request),
        ApiKind::Responses => write_responses(provider, &request),
        ApiKind::Anthropic => write_anthropic(provider, &request),
    }
}

/// Returns the SHA-256 of a request's body, in hexadecimal.
pub fn request_digest(body: &Value) -> String {
    hex::encode(&Sha256::digest(body.to_string()))
}

fn write_chat(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let mut messages = replay::openai(request.session, request.messages);
    for message in messages.as_array_mut().into_iter().flatten() {
        if let Value::Object(fields) = message {
            // These belong to another API.
            fields.retain(|field, _| !field.starts_with("codex_"));
        }
    }
    let mut body = json!({
        "model": provider.model, "messages": messages, "stream": true,
        "stream_options": { "include_usage": true },
        output_parameter(&provider.base_url): request.max_output,
    });
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                let function = json!({
                    "name": tool.name, "description": tool.description, "parameters": tool.schema,
                });
                json!({ "type": "function", "function": function })
            })
            .collect();
    }
    body
}

/// Returns the name of the output limit. OpenAI's newer models reject the old name, and other
/// servers do not know the new one.
fn output_parameter(base_url: &str) -> &'static str {
    let host = base_url.split("://").last().unwrap_or_default();
    let host = host.split(['/', ':']).next().unwrap_or_default();
    let is_openai = ["openai.com", "openai.azure.com"].iter().any(|name| host.ends_with(name));
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

fn write_responses(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let mut body = replay::responses(request.session, request.messages);
    body["model"] = provider.model.as_str().into();
    body["stream"] = true.into();
    body["store"] = false.into();
    body["max_output_tokens"] = request.max_output.into();
    if can_reason(&provider.model) {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema, "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

/// True if the model may reason. OpenAI rejects a request for reasoning from a model that cannot.
fn can_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    !["gpt-3", "gpt-4", "chatgpt"].iter().any(|old| name.starts_with(old))
}

fn write_anthropic(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let mut body = replay::anthropic(request.session, request.messages);
    block_order::restore_order(&mut body["messages"], request.messages);
    body["model"] = provider.model.as_str().into();
    body["stream"] = true.into();
    body["max_tokens"] = request.max_output.into();
    let tools = request.tools.iter().map(|tool| {
        json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema })
    });
    let tools: Vec<Value> = tools.collect();
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    mark_prompt(&mut body);
    mark_messages(&mut body["messages"]);
    body
}

/// Asks the API to cache the tools and the system prompt, which are the same in every request.
fn mark_prompt(body: &mut Value) {
    if let Some(Value::String(text)) = body.get("system") {
        body["system"] = json!([{ "type": "text", "text": text }]);
        mark_block(&mut body["system"][0]);
    } else if let Some(last) = body.get_mut("tools").and_then(Value::as_array_mut) {
        last.last_mut().into_iter().for_each(mark_block);
    }
}

/// Asks the API to cache the conversation so far. The last two messages from the user are marked:
/// the first mark finds what the request before stored, the second one stores the rest.
fn mark_messages(messages: &mut Value) {
    let users = messages.as_array_mut().into_iter().flatten().rev();
    for message in users.filter(|message| message["role"] == "user").take(2) {
        if let Value::String(text) = &message["content"] {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
        let blocks = message["content"].as_array_mut();
        blocks.and_then(|blocks| blocks.last_mut()).into_iter().for_each(mark_block);
    }
}

fn mark_block(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}
