//! Droid hook payloads: Claude Code's fields, without ids for turns or calls.

use super::claude::read_shared_fields;
use super::{HookPayload, JsonObject};
use crate::agent::Signal;

/// Reads a Droid payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    Some(read_shared_fields(object, signal))
}
