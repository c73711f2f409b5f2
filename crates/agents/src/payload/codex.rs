//! Codex hook payloads: Claude Code's fields, and an id for each turn.

use takeback_undo::TurnId;

use super::claude::read_shared_fields;
use super::{HookPayload, JsonObject};
use crate::agent::Signal;

/// Reads a Codex payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let turn = object.nonempty_text("turn_id").map(TurnId::Name);
    Some(HookPayload { turn, ..read_shared_fields(object, signal) })
}
