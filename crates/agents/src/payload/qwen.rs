//! Qwen Code hook payloads: Claude Code's fields, but the prompt can be empty.

use super::claude::read_shared_fields;
use super::{HookPayload, JsonObject};
use crate::agent::Signal;

/// Reads a Qwen Code payload.
///
/// After each tool call, Qwen Code reports an empty prompt, which does not begin a new turn. The
/// prompt ids are numbers that restart when a session is resumed, so they do not identify turns.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let payload = read_shared_fields(object, signal);
    let is_blank = payload.prompt.as_deref().unwrap_or_default().trim().is_empty();
    (signal != Signal::TurnStart || !is_blank).then_some(payload)
}
