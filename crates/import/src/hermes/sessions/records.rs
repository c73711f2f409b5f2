//! Converting rows of Hermes's tables to ledger records.

use takeback_ledger::{MessageRecord, ParentKind, SessionRecord, Time, Tokens, UsageRecord};

use super::row::RowFields;

/// Names of Hermes columns that have a different meaning in a [`SessionRecord`].
const SESSION_NAMES: &[&str] =
    &["workspace", "parent_kind", "messages", "usage", "calls", "effects"];

/// Names of Hermes columns that have a different meaning in a [`MessageRecord`].
const MESSAGE_NAMES: &[&str] = &["seq", "undone", "summarizes"];

/// Converts a session, except for `parent_kind`, which also depends on the row of the parent.
pub(super) fn session_record(mut row: RowFields) -> SessionRecord {
    SessionRecord {
        id: row.take_id("id").unwrap_or_default(),
        source: row.take_text("source").unwrap_or_else(default_source),
        user_id: row.take_text("user_id"),
        model: row.take_text("model"),
        model_config: row.take_json("model_config"),
        system_prompt: row.take_text("system_prompt"),
        parent_session_id: row.take_id("parent_session_id"),
        parent_kind: None,
        started_at: row.take_time("started_at"),
        ended_at: row.take_time("ended_at"),
        end_reason: row.take_text("end_reason"),
        message_count: row.take_count("message_count"),
        tool_call_count: row.take_count("tool_call_count"),
        api_call_count: row.take_count("api_call_count"),
        tokens: take_tokens(&mut row),
        billing_provider: row.take_text("billing_provider"),
        billing_base_url: row.take_text("billing_base_url"),
        billing_mode: row.take_text("billing_mode"),
        estimated_cost_usd: row.take_number("estimated_cost_usd"),
        actual_cost_usd: row.take_number("actual_cost_usd"),
        cost_status: row.take_text("cost_status"),
        cost_source: row.take_text("cost_source"),
        pricing_version: row.take_text("pricing_version"),
        title: row.take_text("title"),
        workspace: row.take_text("cwd"),
        git_branch: row.take_text("git_branch"),
        archived: row.take_flag("archived").unwrap_or(false),
        extra: row.into_rest(SESSION_NAMES),
    }
}

/// Creates a placeholder session for messages whose session is missing.
pub(super) fn missing_session(started_at: Option<Time>) -> SessionRecord {
    SessionRecord { source: default_source(), started_at, ..SessionRecord::default() }
}

fn default_source() -> String {
    "hermes".to_owned()
}

/// Determines the relation of a session to its parent, as far as the rows show it.
///
/// Hermes marks branches and delegated work in `model_config`. Old versions did not mark them, and
/// a compaction copies the mark of delegated work to the next session. Therefore, a mark that names
/// exactly this parent takes precedence. If there is no such mark, the relation follows from the
/// way in which the parent ended, if possible. Otherwise, a mark that names another session is
/// used. If none of this applies, the child is treated as delegated work, as in Hermes.
pub(super) fn parent_kind(
    session: &SessionRecord,
    parent: Option<&SessionRecord>,
) -> Option<ParentKind> {
    let parent_id = session.parent_session_id.as_deref()?;
    let mark = |name: &str| session.model_config.as_ref()?.get(name).filter(|mark| !mark.is_null());
    let names_parent = |name: &str| mark(name).is_some_and(|mark| mark == parent_id);
    if names_parent("_branched_from") {
        Some(ParentKind::Fork)
    } else if names_parent("_delegate_from") {
        Some(ParentKind::Subagent)
    } else if let Some(kind) = parent.and_then(|parent| kind_by_parent_end(session, parent)) {
        Some(kind)
    } else if mark("_branched_from").is_some() {
        Some(ParentKind::Fork)
    } else if mark("_delegate_from").is_some() || parent.is_some() {
        Some(ParentKind::Subagent)
    } else {
        None
    }
}

fn kind_by_parent_end(session: &SessionRecord, parent: &SessionRecord) -> Option<ParentKind> {
    match parent.end_reason.as_deref() {
        Some("compression") if session.source != "tool" => Some(ParentKind::Compaction),
        // A child that began before the parent ended was delegated before the user branched off.
        Some("branched") if session.started_at >= parent.ended_at => Some(ParentKind::Fork),
        _ => None,
    }
}

pub(super) fn message_record(mut row: RowFields, seq: i64) -> MessageRecord {
    // Neither id is needed: the message is part of its session, and `seq` gives the order.
    row.take_id("session_id");
    row.take_id("id");
    // Hermes clears `active` both when the user takes a message back and when the message is
    // summarized, and distinguishes the two cases by `compacted`. In old rows, `active` is null,
    // which means that the message is active.
    let active = row.take_flag("active").unwrap_or(true);
    let compacted = row.take_flag("compacted").unwrap_or(false);
    MessageRecord {
        seq,
        role: row.take_text("role").unwrap_or_else(|| "unknown".to_owned()),
        content: row.take_content("content"),
        tool_call_id: row.take_text("tool_call_id"),
        tool_calls: row.take_json("tool_calls"),
        tool_name: row.take_text("tool_name"),
        timestamp: row.take_time("timestamp"),
        token_count: row.take_integer("token_count"),
        finish_reason: row.take_text("finish_reason"),
        reasoning: row.take_text("reasoning"),
        reasoning_content: row.take_text("reasoning_content"),
        reasoning_details: row.take_json("reasoning_details"),
        codex_reasoning_items: row.take_json("codex_reasoning_items"),
        codex_message_items: row.take_json("codex_message_items"),
        undone: !active && !compacted,
        // A message that was summarized and then restored is sent to the model again.
        compacted: !active && compacted,
        summarizes: None,
        extra: row.into_rest(MESSAGE_NAMES),
    }
}

fn take_tokens(row: &mut RowFields) -> Tokens {
    Tokens {
        input: row.take_count("input_tokens"),
        output: row.take_count("output_tokens"),
        cache_read: row.take_count("cache_read_tokens"),
        cache_write: row.take_count("cache_write_tokens"),
        reasoning: row.take_count("reasoning_tokens"),
    }
}

pub(super) fn usage_record(mut row: RowFields) -> UsageRecord {
    row.take_id("session_id");
    UsageRecord {
        model: row.take_text("model").unwrap_or_else(|| "unknown".to_owned()),
        billing_provider: take_key_part(&mut row, "billing_provider"),
        billing_base_url: take_key_part(&mut row, "billing_base_url"),
        billing_mode: take_key_part(&mut row, "billing_mode"),
        api_call_count: row.take_count("api_call_count"),
        tokens: take_tokens(&mut row),
        estimated_cost_usd: row.take_number("estimated_cost_usd"),
        actual_cost_usd: row.take_number("actual_cost_usd"),
        cost_status: row.take_text("cost_status"),
        cost_source: row.take_text("cost_source"),
        pricing_version: row.take_text("pricing_version"),
        first_seen: row.take_time("first_seen"),
        last_seen: row.take_time("last_seen"),
        extra: row.into_rest(&[]),
    }
}

/// Takes a part of the primary key out of the row. An empty string is treated as null.
fn take_key_part(row: &mut RowFields, name: &str) -> Option<String> {
    row.take_text(name).filter(|text| !text.is_empty())
}
