//! The rows of a session: writing them, and reading them back.

use rusqlite::{Row, Transaction, named_params, params};
use serde_json::Value;

use super::{head, parse_json, parse_map};
use crate::{LedgerError, ParentKind, SessionRecord, Time, Tokens, titles};

/// Creates a session, or fills in the empty fields of an existing one. Returns true if the session
/// is new.
pub(crate) fn upsert_session(
    transaction: &Transaction<'_>,
    session: &SessionRecord,
    now: Time,
) -> Result<bool, LedgerError> {
    let is_new = head(transaction, &session.id).is_err();
    upsert_columns(transaction, session, session.started_at.unwrap_or(now))?;
    let key = head(transaction, &session.id)?.key;
    upsert_texts(transaction, session, key)?;
    if let Some(title) = &session.title {
        titles::adopt_title(transaction, key, title)?;
    }
    Ok(is_new)
}

/// The statement that creates a session, or fills in the empty columns of an existing one.
const UPSERT_COLUMNS: &str = "
    INSERT INTO sessions (
        id, source, user_id, model, parent_session_id, parent_kind, started_at, ended_at,
        end_reason, api_call_count, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, reasoning_tokens, billing_provider, billing_base_url,
        billing_mode, estimated_cost_usd, actual_cost_usd, cost_status, cost_source,
        pricing_version, workspace, git_branch, archived, last_activity)
    VALUES (
        :id, :source, :user_id, :model, :parent_session_id, :parent_kind, :started_at,
        :ended_at, :end_reason, :api_call_count, :input_tokens, :output_tokens,
        :cache_read_tokens, :cache_write_tokens, :reasoning_tokens, :billing_provider,
        :billing_base_url, :billing_mode, :estimated_cost_usd, :actual_cost_usd,
        :cost_status, :cost_source, :pricing_version, :workspace, :git_branch, :archived,
        :started_at)
    ON CONFLICT (id) DO UPDATE SET
        source = CASE source WHEN '' THEN excluded.source ELSE source END,
        ended_at = ifnull(ended_at, excluded.ended_at),
        end_reason = ifnull(end_reason, excluded.end_reason),
        user_id = ifnull(user_id, excluded.user_id),
        model = ifnull(model, excluded.model),
        parent_session_id = ifnull(parent_session_id, excluded.parent_session_id),
        parent_kind = ifnull(parent_kind, excluded.parent_kind),
        billing_provider = ifnull(billing_provider, excluded.billing_provider),
        billing_base_url = ifnull(billing_base_url, excluded.billing_base_url),
        billing_mode = ifnull(billing_mode, excluded.billing_mode),
        estimated_cost_usd = ifnull(estimated_cost_usd, excluded.estimated_cost_usd),
        actual_cost_usd = ifnull(actual_cost_usd, excluded.actual_cost_usd),
        cost_status = ifnull(cost_status, excluded.cost_status),
        cost_source = ifnull(cost_source, excluded.cost_source),
        pricing_version = ifnull(pricing_version, excluded.pricing_version),
        workspace = ifnull(workspace, excluded.workspace),
        git_branch = ifnull(git_branch, excluded.git_branch)";

fn upsert_columns(
    transaction: &Transaction<'_>,
    session: &SessionRecord,
    started_at: Time,
) -> Result<(), LedgerError> {
    transaction.prepare_cached(UPSERT_COLUMNS)?.execute(named_params! {
        ":id": session.id,
        ":source": session.source,
        ":user_id": session.user_id,
        ":model": session.model,
        ":parent_session_id": session.parent_session_id,
        ":parent_kind": session.parent_kind.map(ParentKind::as_str),
        ":started_at": started_at,
        ":ended_at": session.ended_at,
        ":end_reason": session.end_reason,
        ":api_call_count": session.api_call_count,
        ":input_tokens": session.tokens.input,
        ":output_tokens": session.tokens.output,
        ":cache_read_tokens": session.tokens.cache_read,
        ":cache_write_tokens": session.tokens.cache_write,
        ":reasoning_tokens": session.tokens.reasoning,
        ":billing_provider": session.billing_provider,
        ":billing_base_url": session.billing_base_url,
        ":billing_mode": session.billing_mode,
        ":estimated_cost_usd": session.estimated_cost_usd,
        ":actual_cost_usd": session.actual_cost_usd,
        ":cost_status": session.cost_status,
        ":cost_source": session.cost_source,
        ":pricing_version": session.pricing_version,
        ":workspace": session.workspace,
        ":git_branch": session.git_branch,
        ":archived": session.archived,
    })?;
    Ok(())
}

fn upsert_texts(
    transaction: &Transaction<'_>,
    session: &SessionRecord,
    key: i64,
) -> Result<(), LedgerError> {
    let extra = (!session.extra.is_empty()).then(|| Value::from(session.extra.clone()).to_string());
    let model_config = session.model_config.as_ref().map(Value::to_string);
    if session.system_prompt.is_some() || model_config.is_some() || extra.is_some() {
        transaction
            .prepare_cached(
                "INSERT INTO session_texts (session, system_prompt, model_config, extra)
                 VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (session) DO UPDATE SET
                     system_prompt = ifnull(system_prompt, excluded.system_prompt),
                     model_config = ifnull(model_config, excluded.model_config),
                     extra = ifnull(extra, excluded.extra)",
            )?
            .execute(params![key, session.system_prompt, model_config, extra])?;
    }
    Ok(())
}

/// The query for sessions with all their columns. Callers append a condition.
pub(crate) const SELECT_SESSION: &str = "
    SELECT s.*, t.system_prompt, t.model_config, t.extra
    FROM sessions s LEFT JOIN session_texts t ON t.session = s.key";

/// Reads a row of [`SELECT_SESSION`].
pub(crate) fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let kind: Option<String> = row.get("parent_kind")?;
    let model_config: Option<String> = row.get("model_config")?;
    let extra: Option<String> = row.get("extra")?;
    Ok(SessionRecord {
        id: row.get("id")?,
        source: row.get("source")?,
        user_id: row.get("user_id")?,
        model: row.get("model")?,
        model_config: model_config.as_deref().map(parse_json),
        system_prompt: row.get("system_prompt")?,
        parent_session_id: row.get("parent_session_id")?,
        parent_kind: kind.as_deref().and_then(ParentKind::parse),
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        end_reason: row.get("end_reason")?,
        message_count: row.get("message_count")?,
        tool_call_count: row.get("tool_call_count")?,
        api_call_count: row.get("api_call_count")?,
        tokens: Tokens::from_row(row)?,
        billing_provider: row.get("billing_provider")?,
        billing_base_url: row.get("billing_base_url")?,
        billing_mode: row.get("billing_mode")?,
        estimated_cost_usd: row.get("estimated_cost_usd")?,
        actual_cost_usd: row.get("actual_cost_usd")?,
        cost_status: row.get("cost_status")?,
        cost_source: row.get("cost_source")?,
        pricing_version: row.get("pricing_version")?,
        title: row.get("title")?,
        workspace: row.get("workspace")?,
        git_branch: row.get("git_branch")?,
        archived: row.get("archived")?,
        extra: extra.as_deref().map(parse_map).unwrap_or_default(),
    })
}
