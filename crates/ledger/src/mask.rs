//! Masking secrets in records that are written or exported.

use std::borrow::Cow;

use crate::{
    CallRecord, EffectRecord, MessageRecord, Redactor, SessionRecord, Transcript, UsageRecord,
};

/// Masks the secrets in a transcript.
pub fn mask_transcript(transcript: &mut Transcript) {
    mask_session(&mut transcript.session);
    transcript.messages.iter_mut().for_each(mask_message);
    transcript.usage.iter_mut().for_each(mask_usage);
    transcript.calls.iter_mut().for_each(mask_call);
    transcript.effects.iter_mut().for_each(mask_effect);
}

pub(crate) fn mask_session(session: &mut SessionRecord) {
    let redactor = Redactor::shared();
    [
        &mut session.system_prompt,
        &mut session.title,
        &mut session.end_reason,
        &mut session.billing_base_url,
    ]
    .into_iter()
    .flatten()
    .for_each(mask_text);
    session.model_config.iter_mut().for_each(|value| redactor.mask_json(value));
    session.extra.values_mut().for_each(|value| redactor.mask_json(value));
}

pub(crate) fn mask_message(message: &mut MessageRecord) {
    let redactor = Redactor::shared();
    message.reasoning.iter_mut().chain(&mut message.reasoning_content).for_each(mask_text);
    [
        &mut message.content,
        &mut message.tool_calls,
        &mut message.reasoning_details,
        &mut message.codex_reasoning_items,
        &mut message.codex_message_items,
    ]
    .into_iter()
    .flatten()
    .for_each(|value| redactor.mask_json(value));
    message.extra.values_mut().for_each(|value| redactor.mask_json(value));
}

pub(crate) fn mask_usage(usage: &mut UsageRecord) {
    usage.billing_base_url.iter_mut().for_each(mask_text);
    usage.extra.values_mut().for_each(|value| Redactor::shared().mask_json(value));
}

pub(crate) fn mask_call(call: &mut CallRecord) {
    call.outcome.iter_mut().for_each(mask_text);
    call.input.iter_mut().for_each(|value| Redactor::shared().mask_json(value));
}

pub(crate) fn mask_effect(effect: &mut EffectRecord) {
    mask_text(&mut effect.command);
}

pub(crate) fn mask_text(text: &mut String) {
    if let Cow::Owned(masked) = Redactor::shared().mask_text(text) {
        *text = masked;
    }
}
