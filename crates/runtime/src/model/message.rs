//! Converting a reply to a message that the ledger can store.

use serde_json::{Value, json};
use takeback_ledger::MessageRecord;

use super::write::mark_origin;
use super::{ApiKind, AttemptEnd, Finish, Provider, Reply};

/// Converts a reply to the message that the ledger stores. The reasoning is stored in such a way
/// that later requests can contain it in the provider's form.
pub fn to_message(reply: &Reply, provider: &Provider, end: &AttemptEnd) -> MessageRecord {
    let calls = reply.calls.iter().map(|call| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    });
    let calls: Vec<Value> = calls.collect();
    let mut message = MessageRecord {
        role: "assistant".to_owned(),
        content: Some(reply.text.clone()).filter(|text| !text.is_empty()).map(Value::String),
        tool_calls: (!calls.is_empty()).then_some(Value::Array(calls)),
        token_count: reply.usage.map(|tokens| tokens.output + tokens.reasoning),
        finish_reason: Some(finish_reason(reply, end).to_owned()),
        reasoning: reply.reasoning.clone(),
        ..MessageRecord::default()
    };
    if let Some(details) = &reply.reasoning_details {
        store_details(&mut message, details, provider.kind);
        mark_origin(&mut message, provider);
    }
    message
}

fn store_details(message: &mut MessageRecord, details: &Value, kind: ApiKind) {
    match kind {
        ApiKind::Responses => message.codex_reasoning_items = Some(details.clone()),
        ApiKind::Anthropic => message.reasoning_details = Some(details.clone()),
        ApiKind::Openai => {
            let text = |field: &str| details.get(field).and_then(Value::as_str).map(str::to_owned);
            // The text of the reasoning has a field of its own, and is sent back under its original
            // name.
            message.reasoning = text("reasoning");
            message.reasoning_content = text("reasoning_content");
            message.reasoning_details = details.get("reasoning_details").cloned();
        }
    }
}

/// Returns the finish reason of a reply. A reply that was not finished is treated as interrupted.
fn finish_reason(reply: &Reply, end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Finished(Finish::Stop) if reply.calls.is_empty() => "stop",
        AttemptEnd::Finished(Finish::Stop) => "tool_calls",
        AttemptEnd::Finished(Finish::Length) => "length",
        AttemptEnd::Finished(Finish::Refused) => "content_filter",
        AttemptEnd::Failed(_) | AttemptEnd::Cancelled => "interrupted",
    }
}
