//! Messages that an agent logs again with more content.

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use crate::messages::{self, mask_copy};
use crate::{LedgerError, MessageRecord};

/// Extends the stored message when its entry is logged again. A message that was taken back does
/// not change.
pub(super) fn grow_message(
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
    let Some(stored) = messages::read_one(transaction, key, seq)? else { return Ok(()) };
    match merge_later(&stored, later) {
        Some(grown) if !stored.undone => messages::replace_message(transaction, key, &grown),
        _ => Ok(()),
    }
}

/// Merges a later version of a message into the first version, by taking every part that is at
/// least as long in the later version. Returns `None` if that changes nothing. Shorter parts are
/// ignored, because agents shorten messages to send less to their models. A prompt never changes,
/// because agents extend it only for their models.
pub(super) fn merge_later(first: &MessageRecord, later: &MessageRecord) -> Option<MessageRecord> {
    if first.role == "user" || first.role != later.role {
        return None;
    }
    let mut grown = first.clone();
    grown.content = choose_longer(&first.content, &later.content, json_length);
    grown.tool_calls = choose_longer(&first.tool_calls, &later.tool_calls, json_length);
    grown.reasoning = choose_longer(&first.reasoning, &later.reasoning, String::len);
    grown.finish_reason = later.finish_reason.clone().or(grown.finish_reason);
    grown.tool_name = grown.tool_name.or_else(|| later.tool_name.clone());
    // A secret that was masked must not reappear.
    (grown != *first && mask_copy(&grown) != *first).then_some(grown)
}

fn choose_longer<T: Clone>(
    first: &Option<T>,
    later: &Option<T>,
    length: fn(&T) -> usize,
) -> Option<T> {
    let is_longer = later.as_ref().map(length) >= first.as_ref().map(length);
    if is_longer { later.clone() } else { first.clone() }
}

fn json_length(value: &Value) -> usize {
    value.to_string().len()
}
