//! Sessions: made, ended, found, listed, deleted.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde_json::{Map, Value};

use crate::{Ledger, LedgerError, ParentKind, SessionRecord, Time, Tokens, mask, titles};

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only of these sources; empty: of all.
    pub sources: Vec<String>,
    /// Only of this workspace.
    pub workspace: Option<String>,
    /// Archived ones, too.
    pub archived: bool,
    /// At most so many.
    pub limit: Option<usize>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionRecord,
    /// The beginning of the first thing that the user said: at most 63 characters.
    pub preview: String,
    /// When something last happened in it.
    pub last_activity: Time,
}

/// Which sessions [`Ledger::prune`] deletes.
#[derive(Clone, Debug, Default)]
pub struct PruneOptions {
    /// Without activity since then, whether they ended or not.
    pub inactive_since: Time,
    /// Only of these sources; empty: of all.
    pub sources: Vec<String>,
    /// Only those in this state.
    pub state: Option<SessionState>,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Not ended.
    Open,
    /// Ended.
    Ended,
    /// Put away.
    Archived,
}

/// The row of a session that appends need.
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) last_seq: i64,
    pub(crate) last_turn: i64,
}

pub(crate) fn head(connection: &Connection, id: &str) -> Result<Head, LedgerError> {
    connection
        .prepare_cached("SELECT key, last_seq, last_turn FROM sessions WHERE id = ?1")?
        .query_row([id], |row| {
            Ok(Head { key: row.get(0)?, last_seq: row.get(1)?, last_turn: row.get(2)? })
        })
        .optional()?
        .ok_or_else(|| LedgerError::NoSuchSession(id.to_owned()))
}

impl Ledger {
    /// Makes a session. If it exists, only what is empty there is filled in.
    pub fn create_session(
        &mut self,
        session: &SessionRecord,
        now: Time,
    ) -> Result<(), LedgerError> {
        let mut session = session.clone();
        if self.redact {
            mask::session(&mut session);
        }
        self.database.write(|transaction| upsert(transaction, &session, now).map(|_| ()))
    }

    /// Ends a session. The first reason wins: `false` if it had ended before.
    pub fn end_session(&mut self, id: &str, reason: &str, now: Time) -> Result<bool, LedgerError> {
        self.database.write(|transaction| end(transaction, id, reason, now))
    }

    /// Opens a session that had ended.
    pub fn reopen_session(&mut self, id: &str) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            head(transaction, id)?;
            transaction.execute(
                "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1",
                [id],
            )?;
            Ok(())
        })
    }

    /// Puts a session away, or takes it out again.
    pub fn archive_session(&mut self, id: &str, archived: bool) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            head(transaction, id)?;
            transaction.execute(
                "UPDATE sessions SET archived = ?2 WHERE id = ?1",
                params![id, archived],
            )?;
            Ok(())
        })
    }

    /// The session of exactly this id.
    pub fn session(&self, id: &str) -> Result<SessionRecord, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!("{SELECT} WHERE s.id = ?1");
        let found = connection.prepare_cached(&sql)?.query_row([id], read).optional()?;
        found.ok_or_else(|| LedgerError::NoSuchSession(id.to_owned()))
    }

    /// The id that somebody means: an id, a title, or the beginning of an id (with or without the
    /// agent's name before it) that fits no other session.
    pub fn resolve(&self, typed: &str) -> Result<String, LedgerError> {
        let connection = self.database.reader()?;
        if head(connection, typed).is_ok() {
            return Ok(typed.to_owned());
        }
        if let Some(id) = self.resolve_title(typed)? {
            return Ok(id);
        }
        if typed.is_empty() {
            return Err(LedgerError::NoSuchSession(typed.to_owned()));
        }
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE substr(id, 1, length(?1)) = ?1
                OR substr(id, instr(id, ':') + 1, length(?1)) = ?1
             ORDER BY last_activity DESC LIMIT 6",
        )?;
        let mut candidates =
            statement.query_map([typed], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        match candidates.len() {
            0 => Err(LedgerError::NoSuchSession(typed.to_owned())),
            1 => Ok(candidates.remove(0)),
            _ => Err(LedgerError::Ambiguous { typed: typed.to_owned(), candidates }),
        }
    }

    /// Sessions, the one with the latest activity first.
    pub fn sessions(&self, options: &ListOptions) -> Result<Vec<SessionSummary>, LedgerError> {
        let sql = format!(
            "{SELECT}
             WHERE (?1 = '[]' OR s.source IN (SELECT value FROM json_each(?1)))
               AND (?2 IS NULL OR s.workspace = ?2)
               AND (?3 OR NOT s.archived)
             ORDER BY s.last_activity DESC, s.key DESC
             LIMIT ?4"
        );
        let sources = Value::from(options.sources.clone()).to_string();
        let limit = options.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        self.database.snapshot(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement
                .query_map(params![sources, options.workspace, options.archived, limit], |row| {
                    Ok((row.get("key")?, row.get("last_activity")?, read(row)?))
                })?;
            let mut list = Vec::new();
            for row in rows {
                let (key, last_activity, session) = row?;
                let preview = preview(connection, key)?;
                list.push(SessionSummary { session, preview, last_activity });
            }
            Ok(list)
        })
    }

    /// The ids of all sessions of these sources (none: of all), the one that began first first.
    pub fn session_ids(&self, sources: &[String]) -> Result<Vec<String>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE ?1 = '[]' OR source IN (SELECT value FROM json_each(?1))
             ORDER BY started_at, key",
        )?;
        let rows =
            statement.query_map([Value::from(sources.to_vec()).to_string()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The sessions with the most text, largest first: id and bytes.
    pub fn largest_sessions(&self, limit: usize) -> Result<Vec<(String, i64)>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT s.id, sum(
                ifnull(octet_length(content), 0) + ifnull(octet_length(tool_calls), 0)
                + ifnull(octet_length(reasoning), 0) + ifnull(octet_length(reasoning_content), 0)
                + ifnull(octet_length(reasoning_details), 0)
                + ifnull(octet_length(codex_reasoning_items), 0)
                + ifnull(octet_length(codex_message_items), 0)
                + ifnull(octet_length(m.extra), 0)) AS bytes
             FROM messages m JOIN sessions s ON s.key = m.session
             GROUP BY m.session ORDER BY bytes DESC LIMIT ?1",
        )?;
        let rows = statement.query_map([limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Deletes a session with its messages, and those of its subagents. Forks and continuations
    /// stay, without a parent. Gives the ids that are gone.
    pub fn delete_session(&mut self, id: &str) -> Result<Vec<String>, LedgerError> {
        self.database.erase(|transaction| {
            head(transaction, id)?;
            let doomed = doomed(transaction, id)?;
            delete(transaction, &doomed)
        })
    }

    /// Deletes the messages of a session, and all that belongs to them, but not the session.
    pub fn clear_messages(&mut self, id: &str) -> Result<usize, LedgerError> {
        self.database.erase(|transaction| {
            let head = head(transaction, id)?;
            let cleared = clear(transaction, head.key)?;
            transaction.execute(
                "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE key = ?1",
                [head.key],
            )?;
            Ok(cleared)
        })
    }

    /// The sessions that [`Ledger::prune`] would delete: those that nothing happened in for long.
    pub fn prunable(&self, options: &PruneOptions) -> Result<Vec<String>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE max(last_activity, ifnull(ended_at, 0)) < ?1
               AND (?2 = '[]' OR source IN (SELECT value FROM json_each(?2)))
               AND CASE ?3 WHEN 'open' THEN ended_at IS NULL WHEN 'ended' THEN ended_at IS NOT NULL
                           WHEN 'archived' THEN archived ELSE 1 END
             ORDER BY last_activity, key",
        )?;
        let sources = Value::from(options.sources.clone()).to_string();
        let state = options.state.map(|state| match state {
            SessionState::Open => "open",
            SessionState::Ended => "ended",
            SessionState::Archived => "archived",
        });
        let rows = statement
            .query_map(params![options.inactive_since, sources, state], |row| row.get(0))?;
        let mut prunable = Vec::new();
        for id in rows {
            let id: String = id?;
            if !is_active(&doomed(connection, &id)?, options.inactive_since) {
                prunable.push(id);
            }
        }
        Ok(prunable)
    }

    /// Deletes old sessions, each in a transaction of its own, and gives the ids that are gone.
    pub fn prune(&mut self, options: &PruneOptions) -> Result<Vec<String>, LedgerError> {
        let mut gone = Vec::new();
        for id in self.prunable(options)? {
            gone.extend(self.database.erase(|transaction| {
                // It may have gone along with one before it, or somebody may have gone on with it.
                let doomed = doomed(transaction, &id)?;
                match is_active(&doomed, options.inactive_since) {
                    true => Ok(Vec::new()),
                    false => delete(transaction, &doomed),
                }
            })?);
        }
        Ok(gone)
    }
}

pub(crate) fn end(
    transaction: &Transaction<'_>,
    id: &str,
    reason: &str,
    now: Time,
) -> Result<bool, LedgerError> {
    head(transaction, id)?;
    let changed = transaction.execute(
        "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND ended_at IS NULL",
        params![id, now, reason],
    )?;
    Ok(changed == 1)
}

/// Makes a session or fills in what is empty. `true` if it was made.
pub(crate) fn upsert(
    transaction: &Transaction<'_>,
    session: &SessionRecord,
    now: Time,
) -> Result<bool, LedgerError> {
    let started_at = session.started_at.unwrap_or(now);
    let existed = head(transaction, &session.id).is_ok();
    transaction
        .prepare_cached(
            "INSERT INTO sessions (
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
                 git_branch = ifnull(git_branch, excluded.git_branch)",
        )?
        .execute(named_params! {
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
    let key = head(transaction, &session.id)?.key;
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
    if let Some(title) = &session.title {
        titles::adopt(transaction, key, title)?;
    }
    Ok(!existed)
}

/// A session that is to be deleted.
struct Doomed {
    key: i64,
    id: String,
    last_activity: Time,
}

fn is_active(doomed: &[Doomed], since: Time) -> bool {
    doomed.iter().any(|session| session.last_activity >= since)
}

/// A session and its subagents, theirs included.
fn doomed(connection: &Connection, id: &str) -> Result<Vec<Doomed>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE doomed (key, id) AS (
             SELECT key, id FROM sessions WHERE id = ?1
             UNION
             SELECT s.key, s.id FROM sessions s JOIN doomed d ON s.parent_session_id = d.id
             WHERE s.parent_kind = 'subagent')
         SELECT d.key, d.id, max(s.last_activity, ifnull(s.ended_at, 0))
         FROM doomed d JOIN sessions s ON s.key = d.key",
    )?;
    let rows = statement.query_map([id], |row| {
        Ok(Doomed { key: row.get(0)?, id: row.get(1)?, last_activity: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Everything of these sessions. Gives their ids.
fn delete(transaction: &Transaction<'_>, doomed: &[Doomed]) -> Result<Vec<String>, LedgerError> {
    for Doomed { key, id, .. } in doomed {
        clear(transaction, *key)?;
        for table in ["session_texts", "usage", "notices"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [key])?;
        }
        transaction.execute(
            "UPDATE sessions SET parent_session_id = NULL, parent_kind = NULL
             WHERE parent_session_id = ?1",
            [id],
        )?;
        transaction.execute("DELETE FROM sessions WHERE key = ?1", [key])?;
    }
    Ok(doomed.iter().map(|session| session.id.clone()).collect())
}

/// A session's messages and all that belongs to them.
fn clear(transaction: &Transaction<'_>, key: i64) -> Result<usize, LedgerError> {
    crate::search::forget_session(transaction, key)?;
    let cleared = transaction.execute("DELETE FROM messages WHERE session = ?1", [key])?;
    for table in ["turns", "calls", "effects", "undos", "origins"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [key])?;
    }
    Ok(cleared)
}

/// The beginning of the first thing that the user said.
fn preview(connection: &Connection, key: i64) -> Result<String, LedgerError> {
    const LENGTH: usize = 63;
    let mut statement = connection.prepare_cached(
        "SELECT content, structured FROM messages
         WHERE session = ?1 AND role = 'user' AND NOT undone AND content IS NOT NULL
         ORDER BY seq LIMIT 1",
    )?;
    let first = statement
        .query_row([key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))
        .optional()?;
    let text = match first {
        Some((json, true)) => crate::messages::text_of(&parse(&json)),
        Some((text, false)) => text,
        None => return Ok(String::new()),
    };
    let line = text.split_whitespace().take(LENGTH).collect::<Vec<_>>().join(" ");
    Ok(match line.char_indices().nth(LENGTH) {
        None => line,
        Some(_) => line.chars().take(LENGTH - 1).chain(['…']).collect(),
    })
}

pub(crate) const SELECT: &str = "
    SELECT s.*, t.system_prompt, t.model_config, t.extra
    FROM sessions s LEFT JOIN session_texts t ON t.session = s.key";

/// A row of [`SELECT`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let kind: Option<String> = row.get("parent_kind")?;
    let model_config: Option<String> = row.get("model_config")?;
    let extra: Option<String> = row.get("extra")?;
    Ok(SessionRecord {
        id: row.get("id")?,
        source: row.get("source")?,
        user_id: row.get("user_id")?,
        model: row.get("model")?,
        model_config: model_config.as_deref().map(parse),
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

/// A JSON column. One that is not JSON, which only others could have written, is taken as text.
pub(crate) fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::from(json))
}

pub(crate) fn parse_map(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}
