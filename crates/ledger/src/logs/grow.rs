//! Messages that an agent writes again when more of them is known.

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use crate::messages::{self, masked};
use crate::{LedgerError, MessageRecord};

/// A message that is here is told again. One that was taken back stays as it was then.
pub(super) fn grow(
    transaction: &Transaction<'_>,
    key: i64,
    origin: &str,
    later: &MessageRecord,
) -> Result<(), LedgerError> {
    let seq: Option<Option<i64>> = transaction
        .prepare_cached("SELECT seq FROM origins WHERE session = ?1 AND origin = ?2")?
        .query_row(params![key, origin], |row| row.get(0))
        .optional()?;
    let Some(seq) = seq.flatten() else { return Ok(()) };
    let Some(here) = messages::read_one(transaction, key, seq)? else { return Ok(()) };
    match grown(&here, later) {
        Some(grown) if !here.undone => messages::replace(transaction, key, &grown),
        _ => Ok(()),
    }
}

/// A message with all that is longer in a later version of it; `None` if that is nothing. What an
/// agent shortens, to send its model less, stays whole. What the user said does not become more:
/// what agents add to it is for their models.
pub(super) fn grown(here: &MessageRecord, later: &MessageRecord) -> Option<MessageRecord> {
    if here.role == "user" || here.role != later.role {
        return None;
    }
    let mut grown = here.clone();
    grown.content = longer(&here.content, &later.content, size);
    grown.tool_calls = longer(&here.tool_calls, &later.tool_calls, size);
    grown.reasoning = longer(&here.reasoning, &later.reasoning, String::len);
    grown.finish_reason = later.finish_reason.clone().or(grown.finish_reason);
    grown.tool_name = grown.tool_name.or_else(|| later.tool_name.clone());
    // What has been masked comes back neither.
    (grown != *here && masked(&grown) != *here).then_some(grown)
}

fn longer<T: Clone>(here: &Option<T>, later: &Option<T>, size: fn(&T) -> usize) -> Option<T> {
    let is_longer = later.as_ref().map(size) >= here.as_ref().map(size);
    if is_longer { later.clone() } else { here.clone() }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}
