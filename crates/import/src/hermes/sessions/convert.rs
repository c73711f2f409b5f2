//! Rows of Hermes as records.

use super::fields::Fields;
use takeback_ledger::{MessageRecord, ParentKind, SessionRecord, Time, UsageRecord};

/// Names that mean something else in a session of ours.
const SESSION_NAMES: &[&str] =
    &["workspace", "parent_kind", "messages", "usage", "calls", "effects"];
const MESSAGE_NAMES: &[&str] = &["seq", "undone", "summarizes"];

/// A session, but for `parent_kind`, which takes two.
pub(super) fn session(mut row: Fields) -> SessionRecord {
    SessionRecord {
        id: row.id("id").unwrap_or_default(),
        source: row.text("source").unwrap_or_else(hermes),
        user_id: row.text("user_id"),
        model: row.text("model"),
        model_config: row.json("model_config"),
        system_prompt: row.text("system_prompt"),
        parent_session_id: row.id("parent_session_id"),
        parent_kind: None,
        started_at: row.time("started_at"),
        ended_at: row.time("ended_at"),
        end_reason: row.text("end_reason"),
        message_count: row.count("message_count"),
        tool_call_count: row.count("tool_call_count"),
        api_call_count: row.count("api_call_count"),
        input_tokens: row.count("input_tokens"),
        output_tokens: row.count("output_tokens"),
        cache_read_tokens: row.count("cache_read_tokens"),
        cache_write_tokens: row.count("cache_write_tokens"),
        reasoning_tokens: row.count("reasoning_tokens"),
        billing_provider: row.text("billing_provider"),
        billing_base_url: row.text("billing_base_url"),
        billing_mode: row.text("billing_mode"),
        estimated_cost_usd: row.number("estimated_cost_usd"),
        actual_cost_usd: row.number("actual_cost_usd"),
        cost_status: row.text("cost_status"),
        cost_source: row.text("cost_source"),
        pricing_version: row.text("pricing_version"),
        title: row.text("title"),
        workspace: row.text("cwd"),
        git_branch: row.text("git_branch"),
        archived: row.flag("archived").unwrap_or(false),
        extra: row.rest(SESSION_NAMES),
    }
}

/// The session of messages that have none.
pub(super) fn made_up_session(started_at: Option<Time>) -> SessionRecord {
    SessionRecord { source: hermes(), started_at, ..SessionRecord::default() }
}

fn hermes() -> String {
    "hermes".to_owned()
}

/// How `session` came out of its parent, as far as the rows tell.
///
/// Hermes marks branches and delegated work in `model_config`, but not always did so, and a
/// compaction takes the mark of delegated work over to the next session. So a mark that names this
/// very parent decides; then how the parent ended; and then any mark. A child that nothing speaks
/// for is delegated work, for Hermes itself takes it for that.
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
    } else if let Some(kind) = parent.and_then(|parent| kind_by_end(session, parent)) {
        Some(kind)
    } else if mark("_branched_from").is_some() {
        Some(ParentKind::Fork)
    } else if mark("_delegate_from").is_some() || parent.is_some() {
        Some(ParentKind::Subagent)
    } else {
        None
    }
}

fn kind_by_end(session: &SessionRecord, parent: &SessionRecord) -> Option<ParentKind> {
    match parent.end_reason.as_deref() {
        Some("compression") if session.source != "tool" => Some(ParentKind::Compaction),
        // What began earlier was handed out before the user branched off.
        Some("branched") if session.started_at >= parent.ended_at => Some(ParentKind::Fork),
        _ => None,
    }
}

pub(super) fn message(mut row: Fields, seq: i64) -> MessageRecord {
    // The session knows the one, and the order shows the other.
    row.id("session_id");
    row.id("id");
    // Hermes clears `active` both when the user takes a message back and when it is summed up, and
    // tells them apart by `compacted`. Unset it means active: a column that was added later.
    let active = row.flag("active").unwrap_or(true);
    let compacted = row.flag("compacted").unwrap_or(false);
    MessageRecord {
        seq,
        role: row.text("role").unwrap_or_else(|| "unknown".to_owned()),
        content: row.content("content"),
        tool_call_id: row.text("tool_call_id"),
        tool_calls: row.json("tool_calls"),
        tool_name: row.text("tool_name"),
        timestamp: row.time("timestamp"),
        token_count: row.integer("token_count"),
        finish_reason: row.text("finish_reason"),
        reasoning: row.text("reasoning"),
        reasoning_content: row.text("reasoning_content"),
        reasoning_details: row.json("reasoning_details"),
        codex_reasoning_items: row.json("codex_reasoning_items"),
        codex_message_items: row.json("codex_message_items"),
        undone: !active && !compacted,
        // One that was summed up and then brought back is sent to the model again.
        compacted: !active && compacted,
        summarizes: None,
        extra: row.rest(MESSAGE_NAMES),
    }
}

pub(super) fn usage(mut row: Fields) -> UsageRecord {
    row.id("session_id");
    UsageRecord {
        model: row.text("model").unwrap_or_else(|| "unknown".to_owned()),
        billing_provider: key_part(&mut row, "billing_provider"),
        billing_base_url: key_part(&mut row, "billing_base_url"),
        billing_mode: key_part(&mut row, "billing_mode"),
        api_call_count: row.count("api_call_count"),
        input_tokens: row.count("input_tokens"),
        output_tokens: row.count("output_tokens"),
        cache_read_tokens: row.count("cache_read_tokens"),
        cache_write_tokens: row.count("cache_write_tokens"),
        reasoning_tokens: row.count("reasoning_tokens"),
        estimated_cost_usd: row.number("estimated_cost_usd"),
        actual_cost_usd: row.number("actual_cost_usd"),
        cost_status: row.text("cost_status"),
        cost_source: row.text("cost_source"),
        pricing_version: row.text("pricing_version"),
        first_seen: row.time("first_seen"),
        last_seen: row.time("last_seen"),
        extra: row.rest(&[]),
    }
}

/// Part of the primary key, where an empty text stands for none.
fn key_part(row: &mut Fields, name: &str) -> Option<String> {
    row.text(name).filter(|text| !text.is_empty())
}
