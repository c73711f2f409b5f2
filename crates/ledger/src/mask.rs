//! Masking secrets in what is written or exported.

use std::borrow::Cow;

use crate::{CallRecord, EffectRecord, MessageRecord, Redactor, SessionRecord, Transcript};

/// Everything in a transcript.
pub fn transcript(transcript: &mut Transcript) {
    session(&mut transcript.session);
    transcript.messages.iter_mut().for_each(message);
    transcript.calls.iter_mut().for_each(call);
    transcript.effects.iter_mut().for_each(effect);
}

pub(crate) fn session(session: &mut SessionRecord) {
    let redactor = Redactor::shared();
    session.system_prompt.iter_mut().chain(&mut session.title).for_each(text);
    session.model_config.iter_mut().for_each(|value| redactor.json(value));
    session.extra.values_mut().for_each(|value| redactor.json(value));
}

pub(crate) fn message(message: &mut MessageRecord) {
    let redactor = Redactor::shared();
    message.reasoning.iter_mut().chain(&mut message.reasoning_content).for_each(text);
    [
        &mut message.content,
        &mut message.tool_calls,
        &mut message.reasoning_details,
        &mut message.codex_reasoning_items,
        &mut message.codex_message_items,
    ]
    .into_iter()
    .flatten()
    .for_each(|value| redactor.json(value));
    message.extra.values_mut().for_each(|value| redactor.json(value));
}

pub(crate) fn call(call: &mut CallRecord) {
    call.input.iter_mut().for_each(|value| Redactor::shared().json(value));
}

pub(crate) fn effect(effect: &mut EffectRecord) {
    text(&mut effect.command);
}

fn text(text: &mut String) {
    if let Cow::Owned(masked) = Redactor::shared().text(text) {
        *text = masked;
    }
}
