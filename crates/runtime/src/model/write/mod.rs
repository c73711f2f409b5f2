//! Writing requests: the body that each API expects.

pub(super) mod block_order;
mod body;
mod own_reasoning;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_ledger::{MessageRecord, SessionRecord, replay};

pub use self::body::RequestBody;
pub(crate) use self::body::{BodyReader, ConversationPrefix};
pub(super) use self::own_reasoning::{mark_origin, with_own_reasoning};

use super::{ApiKind, ModelRequest, Provider};

/// Builds the body of a request. Equal requests have equal bodies.
pub fn build_request(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let Written { mut list, prompt } = write_messages(provider, request.session, request.messages);
    let mut body = write_frame(provider, request, prompt);
    mark_messages(provider.kind, &mut list);
    body.insert(list_name(provider.kind).to_owned(), list.into());
    Value::Object(body)
}

/// Returns the SHA-256 of a request's body, in hexadecimal.
pub fn request_digest(body: &Value) -> String {
    hex::encode(&Sha256::digest(body.to_string()))
}

/// Messages in the form that an API expects.
struct Written {
    list: Vec<Value>,
    /// The field with the system prompt, if the API keeps the prompt separate from the messages.
    prompt: Option<Value>,
}

/// Returns the name of the field with the messages.
fn list_name(kind: ApiKind) -> &'static str {
    match kind {
        ApiKind::Responses => "input",
        ApiKind::Openai | ApiKind::Anthropic => "messages",
    }
}

/// Writes the messages of a conversation.
fn write_messages(
    provider: &Provider,
    session: &SessionRecord,
    messages: &[MessageRecord],
) -> Written {
    let messages = with_own_reasoning(provider, messages);
    let mut body = match provider.kind {
        ApiKind::Openai => {
            let mut messages = replay::openai(session, &messages);
            for message in messages.as_array_mut().into_iter().flatten() {
                if let Value::Object(fields) = message {
                    // These fields belong to another API.
                    fields.retain(|field, _| !field.starts_with("codex_"));
                }
            }
            json!({ "messages": messages })
        }
        ApiKind::Responses => replay::responses(session, &messages),
        ApiKind::Anthropic => {
            let mut body = replay::anthropic(session, &messages);
            block_order::restore_order(&mut body["messages"], &messages);
            body
        }
    };
    let prompt_name = if provider.kind == ApiKind::Responses { "instructions" } else { "system" };
    let list = match body[list_name(provider.kind)].take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    Written { list, prompt: body.get_mut(prompt_name).map(Value::take) }
}

/// Writes everything except the messages.
fn write_frame(
    provider: &Provider,
    request: &ModelRequest<'_>,
    prompt: Option<Value>,
) -> Map<String, Value> {
    let mut body = match provider.kind {
        ApiKind::Openai => frame_chat(provider, request),
        ApiKind::Responses => frame_responses(provider, request, prompt),
        ApiKind::Anthropic => frame_anthropic(request, prompt),
    };
    body["model"] = provider.model.as_str().into();
    body["stream"] = true.into();
    match body {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn frame_chat(provider: &Provider, request: &ModelRequest<'_>) -> Value {
    let mut body = json!({
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

/// Returns the name of the parameter that limits the output. OpenAI's newer models reject the old
/// name, and other servers do not know the new one.
fn output_parameter(base_url: &str) -> &'static str {
    let host = base_url.split("://").last().unwrap_or_default();
    let host = host.split(['/', ':']).next().unwrap_or_default();
    let is_openai = ["openai.com", "openai.azure.com"].iter().any(|name| host.ends_with(name));
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

fn frame_responses(
    provider: &Provider,
    request: &ModelRequest<'_>,
    prompt: Option<Value>,
) -> Value {
    let mut body = json!({ "store": false, "max_output_tokens": request.max_output });
    if let Some(prompt) = prompt {
        body["instructions"] = prompt;
    }
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

/// True if the model may be able to reason. OpenAI rejects a request for reasoning from a model
/// that cannot reason.
fn can_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    !["gpt-3", "gpt-4", "chatgpt"].iter().any(|old| name.starts_with(old))
}

fn frame_anthropic(request: &ModelRequest<'_>, prompt: Option<Value>) -> Value {
    let mut body = json!({ "max_tokens": request.max_output });
    if let Some(prompt) = prompt {
        body["system"] = prompt;
    }
    let tools = request.tools.iter().map(|tool| {
        json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema })
    });
    let tools: Vec<Value> = tools.collect();
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    mark_prompt(&mut body);
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
/// the earlier mark finds the part that the previous request cached, and the later mark caches the
/// rest.
fn mark_messages(kind: ApiKind, messages: &mut [Value]) {
    if kind != ApiKind::Anthropic {
        return;
    }
    let users = messages.iter_mut().rev();
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
