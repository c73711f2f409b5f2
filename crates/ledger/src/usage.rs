//! Usage: tokens and cost, per session and model.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Row, Transaction, named_params, params};
use serde::Serialize;
use serde_json::Value;

use crate::records::TokenColumns;
use crate::sessions::{head, parse_map};
use crate::{Ledger, LedgerError, Time, Tokens, UsageRecord, mask};

/// The property by which usage is grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum UsageBy {
    Model,
    /// The day on which the session began.
    Day,
    Workspace,
    /// The agent or platform.
    Source,
}

/// Usage of one model, day, workspace or source.
#[allow(missing_docs, reason = "the names are self-explanatory")]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UsageTotal {
    /// The model, day, workspace or source; empty if unknown.
    pub key: String,
    pub sessions: usize,
    /// The number of messages in these sessions. For a model, this includes all messages of the
    /// sessions that used it.
    pub messages: i64,
    pub tool_calls: i64,
    pub api_calls: i64,
    #[serde(flatten, with = "TokenColumns")]
    pub tokens: Tokens,
    pub estimated_cost_usd: f64,
    pub actual_cost_usd: f64,
}

impl Ledger {
    /// Adds the tokens and cost of requests to their session, and to the session's row for the
    /// model.
    pub fn record_usage(
        &mut self,
        session: &str,
        usage: &UsageRecord,
        now: Time,
    ) -> Result<(), LedgerError> {
        let mut usage = usage.clone();
        if self.redact {
            mask::mask_usage(&mut usage);
        }
        self.database.write(|transaction| record_usage(transaction, session, &usage, now))
    }

    /// Adds up the usage of all sessions. Days are sorted by date, latest first; all other totals
    /// are sorted by their input and output tokens, largest first. `day` returns the day that a
    /// time belongs to.
    pub fn usage_by(
        &self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
    ) -> Result<Vec<UsageTotal>, LedgerError> {
        let connection = self.database.reader()?;
        // For sessions without usage rows, the columns of the session itself are used.
        let sql = "
            SELECT s.key, s.source, s.workspace, s.started_at, s.message_count, s.tool_call_count,
                   u.model, u.api_call_count, u.input_tokens, u.output_tokens,
                   u.cache_read_tokens, u.cache_write_tokens, u.reasoning_tokens,
                   u.estimated_cost_usd, u.actual_cost_usd
            FROM sessions s JOIN usage u ON u.session = s.key WHERE ?1
            UNION ALL
            SELECT s.key, s.source, s.workspace, s.started_at, s.message_count, s.tool_call_count,
                   s.model, s.api_call_count, s.input_tokens, s.output_tokens,
                   s.cache_read_tokens, s.cache_write_tokens, s.reasoning_tokens,
                   s.estimated_cost_usd, s.actual_cost_usd
            FROM sessions s
            WHERE NOT ?1 OR NOT EXISTS (SELECT 1 FROM usage u WHERE u.session = s.key)";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([by == UsageBy::Model])?;
        let mut totals: BTreeMap<String, UsageTotal> = BTreeMap::new();
        let mut seen: HashSet<(i64, String)> = HashSet::new();
        while let Some(row) = rows.next()? {
            let key = match by {
                UsageBy::Model => row.get::<_, Option<String>>("model")?.unwrap_or_default(),
                UsageBy::Day => day(row.get("started_at")?),
                UsageBy::Workspace => {
                    row.get::<_, Option<String>>("workspace")?.unwrap_or_default()
                }
                UsageBy::Source => row.get("source")?,
            };
            let is_new_session = seen.insert((row.get("key")?, key.clone()));
            let total = totals
                .entry(key.clone())
                .or_insert_with(|| UsageTotal { key, ..UsageTotal::default() });
            total.add_row(row, is_new_session)?;
        }
        let mut totals: Vec<UsageTotal> = totals.into_values().collect();
        match by {
            UsageBy::Day => totals.reverse(),
            _ => totals.sort_by_key(|total| -(total.tokens.input + total.tokens.output)),
        }
        Ok(totals)
    }
}

impl UsageTotal {
    fn add_row(&mut self, row: &Row<'_>, is_new_session: bool) -> rusqlite::Result<()> {
        if is_new_session {
            self.sessions += 1;
            self.messages += row.get::<_, i64>("message_count")?;
            self.tool_calls += row.get::<_, i64>("tool_call_count")?;
        }
        self.api_calls += row.get::<_, i64>("api_call_count")?;
        self.tokens += Tokens::from_row(row)?;
        self.estimated_cost_usd += row.get::<_, Option<f64>>("estimated_cost_usd")?.unwrap_or(0.0);
        self.actual_cost_usd += row.get::<_, Option<f64>>("actual_cost_usd")?.unwrap_or(0.0);
        Ok(())
    }
}

/// Adds the tokens and cost of requests to their session, and to the session's row for the model.
pub(crate) fn record_usage(
    transaction: &Transaction<'_>,
    session: &str,
    usage: &UsageRecord,
    now: Time,
) -> Result<(), LedgerError> {
    let key = head(transaction, session)?.key;
    let usage = &limit_counts(usage);
    let first_seen = usage.first_seen.unwrap_or(now);
    let last_seen = usage.last_seen.unwrap_or(now);
    let usage =
        UsageRecord { first_seen: Some(first_seen), last_seen: Some(last_seen), ..usage.clone() };
    add_to_model(transaction, key, &usage)?;
    transaction
        .prepare_cached(
            "UPDATE sessions SET
                 api_call_count = api_call_count + ?2, input_tokens = input_tokens + ?3,
                 output_tokens = output_tokens + ?4,
                 cache_read_tokens = cache_read_tokens + ?5,
                 cache_write_tokens = cache_write_tokens + ?6,
                 reasoning_tokens = reasoning_tokens + ?7,
                 estimated_cost_usd = CASE WHEN ?8 IS NULL THEN estimated_cost_usd
                     ELSE ifnull(estimated_cost_usd, 0) + ?8 END,
                 actual_cost_usd = CASE WHEN ?9 IS NULL THEN actual_cost_usd
                     ELSE ifnull(actual_cost_usd, 0) + ?9 END,
                 model = ifnull(model, nullif(?10, '')),
                 billing_provider = ifnull(billing_provider, ?11),
                 billing_base_url = ifnull(billing_base_url, ?12),
                 billing_mode = ifnull(billing_mode, ?13),
                 cost_status = ifnull(?14, cost_status),
                 cost_source = ifnull(?15, cost_source),
                 pricing_version = ifnull(?16, pricing_version),
                 last_activity = max(last_activity, ?17)
             WHERE key = ?1",
        )?
        .execute(params![
            key,
            usage.api_call_count,
            usage.tokens.input,
            usage.tokens.output,
            usage.tokens.cache_read,
            usage.tokens.cache_write,
            usage.tokens.reasoning,
            usage.estimated_cost_usd,
            usage.actual_cost_usd,
            usage.model,
            usage.billing_provider,
            usage.billing_base_url,
            usage.billing_mode,
            usage.cost_status,
            usage.cost_source,
            usage.pricing_version,
            last_seen,
        ])?;
    Ok(())
}

/// Limits counts so that they can be added up: SQLite turns a sum that is too large for an integer
/// into a floating-point number.
fn limit_counts(usage: &UsageRecord) -> UsageRecord {
    let count = |number: i64| number.clamp(0, 1 << 50);
    UsageRecord {
        api_call_count: count(usage.api_call_count),
        tokens: usage.tokens.map(count),
        ..usage.clone()
    }
}

/// Adds usage to a session's row for a model, creating the row if necessary.
fn add_to_model(connection: &Connection, key: i64, usage: &UsageRecord) -> Result<(), LedgerError> {
    let updated = connection
        .prepare_cached(
            "UPDATE usage SET
                 api_call_count = api_call_count + :api_call_count,
                 input_tokens = input_tokens + :input_tokens,
                 output_tokens = output_tokens + :output_tokens,
                 cache_read_tokens = cache_read_tokens + :cache_read_tokens,
                 cache_write_tokens = cache_write_tokens + :cache_write_tokens,
                 reasoning_tokens = reasoning_tokens + :reasoning_tokens,
                 estimated_cost_usd = CASE WHEN :estimated_cost_usd IS NULL THEN estimated_cost_usd
                     ELSE ifnull(estimated_cost_usd, 0) + :estimated_cost_usd END,
                 actual_cost_usd = CASE WHEN :actual_cost_usd IS NULL THEN actual_cost_usd
                     ELSE ifnull(actual_cost_usd, 0) + :actual_cost_usd END,
                 cost_status = ifnull(:cost_status, cost_status),
                 cost_source = ifnull(:cost_source, cost_source),
                 pricing_version = ifnull(:pricing_version, pricing_version),
                 first_seen = min(ifnull(first_seen, :first_seen), :first_seen),
                 last_seen = max(ifnull(last_seen, :last_seen), :last_seen)
             WHERE session = :session AND model = :model AND billing_provider IS :billing_provider
               AND billing_base_url IS :billing_base_url AND billing_mode IS :billing_mode",
        )?
        .execute(named_params! {
            ":session": key,
            ":model": usage.model,
            ":billing_provider": usage.billing_provider,
            ":billing_base_url": usage.billing_base_url,
            ":billing_mode": usage.billing_mode,
            ":api_call_count": usage.api_call_count,
            ":input_tokens": usage.tokens.input,
            ":output_tokens": usage.tokens.output,
            ":cache_read_tokens": usage.tokens.cache_read,
            ":cache_write_tokens": usage.tokens.cache_write,
            ":reasoning_tokens": usage.tokens.reasoning,
            ":estimated_cost_usd": usage.estimated_cost_usd,
            ":actual_cost_usd": usage.actual_cost_usd,
            ":cost_status": usage.cost_status,
            ":cost_source": usage.cost_source,
            ":pricing_version": usage.pricing_version,
            ":first_seen": usage.first_seen,
            ":last_seen": usage.last_seen,
        })?;
    if updated == 0 { insert_usage(connection, key, usage) } else { Ok(()) }
}

/// Creates a session's row for a model.
pub(crate) fn insert_usage(
    connection: &Connection,
    key: i64,
    usage: &UsageRecord,
) -> Result<(), LedgerError> {
    let extra = (!usage.extra.is_empty()).then(|| Value::from(usage.extra.clone()).to_string());
    connection
        .prepare_cached(
            "INSERT INTO usage (
                 session, model, billing_provider, billing_base_url, billing_mode, api_call_count,
                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                 reasoning_tokens, estimated_cost_usd, actual_cost_usd, cost_status, cost_source,
                 pricing_version, first_seen, last_seen, extra)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19)",
        )?
        .execute(params![
            key,
            usage.model,
            usage.billing_provider,
            usage.billing_base_url,
            usage.billing_mode,
            usage.api_call_count,
            usage.tokens.input,
            usage.tokens.output,
            usage.tokens.cache_read,
            usage.tokens.cache_write,
            usage.tokens.reasoning,
            usage.estimated_cost_usd,
            usage.actual_cost_usd,
            usage.cost_status,
            usage.cost_source,
            usage.pricing_version,
            usage.first_seen,
            usage.last_seen,
            extra,
        ])?;
    Ok(())
}

/// Reads the usage of a session, by model.
pub(crate) fn read_usage(
    connection: &Connection,
    key: i64,
) -> Result<Vec<UsageRecord>, LedgerError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM usage WHERE session = ?1 ORDER BY id")?;
    let rows = statement.query_map([key], |row| {
        let extra: Option<String> = row.get("extra")?;
        Ok(UsageRecord {
            model: row.get("model")?,
            billing_provider: row.get("billing_provider")?,
            billing_base_url: row.get("billing_base_url")?,
            billing_mode: row.get("billing_mode")?,
            api_call_count: row.get("api_call_count")?,
            tokens: Tokens::from_row(row)?,
            estimated_cost_usd: row.get("estimated_cost_usd")?,
            actual_cost_usd: row.get("actual_cost_usd")?,
            cost_status: row.get("cost_status")?,
            cost_source: row.get("cost_source")?,
            pricing_version: row.get("pricing_version")?,
            first_seen: row.get("first_seen")?,
            last_seen: row.get("last_seen")?,
            extra: extra.as_deref().map(parse_map).unwrap_or_default(),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
