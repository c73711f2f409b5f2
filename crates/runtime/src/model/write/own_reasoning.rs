//! Sending reasoning back only to the model that wrote it.
//!
//! Signatures and encrypted reasoning are valid for one provider only, and many servers reject
//! fields that they do not know. So a stored message names the origin of its reasoning.

use std::borrow::Cow;

use takeback_ledger::MessageRecord;

use super::super::Provider;

/// The field of a message that names the provider and the model of its reasoning.
const ORIGIN: &str = "reasoning_origin";

/// Records that the reasoning of a message comes from this provider.
pub(in super::super) fn mark_origin(message: &mut MessageRecord, provider: &Provider) {
    message.extra.insert(ORIGIN.to_owned(), name_origin(provider).into());
}

/// Removes the reasoning that another model wrote, or that has no known origin.
pub(in super::super) fn with_own_reasoning<'a>(
    provider: &Provider,
    messages: &'a [MessageRecord],
) -> Cow<'a, [MessageRecord]> {
    let origin = name_origin(provider);
    let is_foreign = |message: &MessageRecord| {
        has_reasoning(message)
            && message.extra.get(ORIGIN).and_then(|origin| origin.as_str()) != Some(&origin)
    };
    if !messages.iter().any(is_foreign) {
        return Cow::Borrowed(messages);
    }
    let without = |message: &MessageRecord| match is_foreign(message) {
        true => MessageRecord {
            reasoning: None,
            reasoning_content: None,
            reasoning_details: None,
            codex_reasoning_items: None,
            ..message.clone()
        },
        false => message.clone(),
    };
    Cow::Owned(messages.iter().map(without).collect())
}

fn name_origin(provider: &Provider) -> String {
    format!("{}/{}", provider.name, provider.model)
}

fn has_reasoning(message: &MessageRecord) -> bool {
    message.reasoning.is_some()
        || message.reasoning_content.is_some()
        || message.reasoning_details.is_some()
        || message.codex_reasoning_items.is_some()
}
