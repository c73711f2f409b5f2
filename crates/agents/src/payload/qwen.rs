//! Hook payloads of Qwen Code: Claude Code's fields, with its own use of prompts.

use super::claude::read_shared_fields;
use super::{HookPayload, JsonObject};
use crate::agent::Signal;

/// Reads a payload of Qwen Code.
///
/// After each tool, Qwen Code reports an empty prompt, which does not begin a new turn. Its prompt
/// ids are numbers that start again when a session is resumed, so they do not identify turns.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let payload = read_shared_fields(object, signal);
    let is_blank = payload.prompt.as_deref().unwrap_or_default().trim().is_empty();
    (signal != Signal::TurnStart || !is_blank).then_some(payload)
}
