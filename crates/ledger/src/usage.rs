//! Usage: tokens and cost, per session and model.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// The session itself.
    Session,
}

/// The usage of one model, day, workspace, source or session.
#[allow(missing_docs, reason = "the names are self-explanatory")]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UsageTotal {
    /// The name of the model, day, workspace or source, or the id of the session; empty if unknown.
    pub key: String,
    pub sessions: usize,
    /// The number of messages in the counted sessions. For a model, this includes all messages of
    /// the sessions that used it.
    pub messages: i64,
    pub tool_calls: i64,
    pub api_calls: i64,
    #[serde(flatten, with = "TokenColumns")]
    pub tokens: Tokens,
    /// The estimated cost of the sessions whose actual cost is unknown.
    pub estimated_cost_usd: f64,
    pub actual_cost_usd: f64,
    /// The number of sessions with tokens whose price is unknown. The total costs do not include
    /// these tokens.
    pub unpriced_sessions: usize,
}

impl UsageTotal {
    /// Returns the cost, as far as it is known.
    pub fn cost(&self) -> f64 {
        self.actual_cost_usd + self.estimated_cost_usd
    }
}

/// A function that returns the cost of a model's tokens, in US dollars, or `None` if the model's
/// prices are unknown.
pub type PriceFn<'p> = dyn Fn(&str, Tokens) -> Option<f64> + 'p;

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
    /// are sorted by their cost and then by their tokens, largest first. `day` returns the day that
    /// a time belongs to. `price` estimates a cost that no agent reported.
    ///
    /// ```
    /// use takeback_ledger::{
    ///     Ledger, LedgerOptions, SessionRecord, Time, Tokens, UsageBy, UsageRecord,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// let tokens = Tokens { input: 2_000_000, output: 100_000, ..Tokens::default() };
    /// let usage = UsageRecord { model: "small".into(), tokens, ..UsageRecord::default() };
    /// ledger.record_usage("mine:1", &usage, now)?;
    ///
    /// // One dollar per million tokens.
    /// let price = |_: &str, tokens: Tokens| Some(tokens.total() as f64 / 1e6);
    /// let totals = ledger.usage_by(UsageBy::Model, &Time::rfc3339, &price)?;
    /// assert_eq!(totals[0].key, "small");
    /// assert_eq!(totals[0].cost(), 2.1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn usage_by(
        &self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
        price: &PriceFn<'_>,
    ) -> Result<Vec<UsageTotal>, LedgerError> {
        let connection = self.database.reader()?;
        let mut models = read_model_usage(connection)?;
        let mut statement = connection.prepare_cached(
            "SELECT key, id, source, workspace, started_at, message_count, tool_call_count, model,
                    api_call_count, input_tokens, output_tokens, cache_read_tokens,
                    cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd
             FROM sessions",
        )?;
        let mut rows = statement.query([])?;
        let mut sum = UsageSum::new(by, day, price);
        while let Some(row) = rows.next()? {
            sum.add(&SessionUsage {
                id: row.get("id")?,
                source: row.get("source")?,
                workspace: row.get("workspace")?,
                started_at: row.get("started_at")?,
                messages: row.get("message_count")?,
                tool_calls: row.get("tool_call_count")?,
                own: ModelUsage::from_row(row)?,
                by_model: models.remove(&row.get("key")?).unwrap_or_default(),
            });
        }
        Ok(sum.finish())
    }
}

/// A session with its usage.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SessionUsage {
    pub id: String,
    pub source: String,
    pub workspace: Option<String>,
    pub started_at: Time,
    pub messages: i64,
    pub tool_calls: i64,
    /// The usage of the session as a whole.
    pub own: ModelUsage,
    pub by_model: Vec<ModelUsage>,
}

/// The usage of sessions, added up in groups.
pub struct UsageSum<'f> {
    by: UsageBy,
    day: &'f dyn Fn(Time) -> String,
    price: &'f PriceFn<'f>,
    totals: BTreeMap<String, UsageTotal>,
}

impl<'f> UsageSum<'f> {
    /// Begins a sum; see [`Ledger::usage_by`].
    pub fn new(
        by: UsageBy,
        day: &'f dyn Fn(Time) -> String,
        price: &'f PriceFn<'f>,
    ) -> UsageSum<'f> {
        UsageSum { by, day, price, totals: BTreeMap::new() }
    }

    /// Adds a session.
    pub fn add(&mut self, session: &SessionUsage) {
        let SessionUsage { own, by_model, .. } = session;
        // A session without usage by model may still have usage of its own.
        let parts = if by_model.is_empty() { std::slice::from_ref(own) } else { by_model };
        let key = match self.by {
            UsageBy::Model => return self.add_by_model(session, parts),
            UsageBy::Day => (self.day)(session.started_at),
            UsageBy::Workspace => session.workspace.clone().unwrap_or_default(),
            UsageBy::Session => session.id.clone(),
            UsageBy::Source => session.source.clone(),
        };
        let total = find_total(&mut self.totals, key);
        total.add_session(session);
        total.add_tokens(own);
        total.add_cost(Some(own), parts.iter(), self.price);
    }

    fn add_by_model(&mut self, session: &SessionUsage, parts: &[ModelUsage]) {
        let named: BTreeSet<&str> = parts.iter().map(|part| part.model.as_str()).collect();
        for model in named {
            let parts = parts.iter().filter(|part| part.model == model);
            let total = find_total(&mut self.totals, model.to_owned());
            total.add_session(session);
            parts.clone().for_each(|part| total.add_tokens(part));
            total.add_cost(None, parts, self.price);
        }
    }

    /// Returns the totals in the order that [`Ledger::usage_by`] describes.
    pub fn finish(self) -> Vec<UsageTotal> {
        let mut totals: Vec<UsageTotal> = self.totals.into_values().collect();
        match self.by {
            UsageBy::Day => totals.reverse(),
            _ => totals.sort_by(|a, b| {
                let tokens = |total: &UsageTotal| total.tokens.input + total.tokens.output;
                b.cost().total_cmp(&a.cost()).then(tokens(b).cmp(&tokens(a)))
            }),
        }
        totals
    }
}

fn find_total(totals: &mut BTreeMap<String, UsageTotal>, key: String) -> &mut UsageTotal {
    let new = UsageTotal { key: key.clone(), ..UsageTotal::default() };
    totals.entry(key).or_insert(new)
}

/// The usage of a session, or of one model in a session.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ModelUsage {
    pub model: String,
    pub api_calls: i64,
    pub tokens: Tokens,
    /// The estimated cost in US dollars, if one was reported.
    pub estimated: Option<f64>,
    /// The cost in US dollars, if it was reported.
    pub actual: Option<f64>,
}

impl ModelUsage {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<ModelUsage> {
        Ok(ModelUsage {
            model: row.get::<_, Option<String>>("model")?.unwrap_or_default(),
            api_calls: row.get("api_call_count")?,
            tokens: Tokens::from_row(row)?,
            estimated: row.get("estimated_cost_usd")?,
            actual: row.get("actual_cost_usd")?,
        })
    }
}

/// Reads the usage of all sessions. Returns, for the key of each session, the session's usage by
/// model.
fn read_model_usage(connection: &Connection) -> Result<HashMap<i64, Vec<ModelUsage>>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT * FROM usage ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut models: HashMap<i64, Vec<ModelUsage>> = HashMap::new();
    while let Some(row) = rows.next()? {
        models.entry(row.get("session")?).or_default().push(ModelUsage::from_row(row)?);
    }
    Ok(models)
}

impl UsageTotal {
    /// Counts a session, with its messages and calls.
    fn add_session(&mut self, session: &SessionUsage) {
        self.sessions += 1;
        self.messages += session.messages;
        self.tool_calls += session.tool_calls;
    }

    fn add_tokens(&mut self, usage: &ModelUsage) {
        self.api_calls += usage.api_calls;
        self.tokens += usage.tokens;
    }

    /// Adds the cost that was reported for a session as a whole. If none was reported, adds the
    /// reported or estimated cost of each model in the session.
    fn add_cost<'u>(
        &mut self,
        whole: Option<&ModelUsage>,
        parts: impl Iterator<Item = &'u ModelUsage>,
        price: &PriceFn<'_>,
    ) {
        if let Some(actual) = whole.and_then(|whole| whole.actual) {
            self.actual_cost_usd += actual;
            return;
        }
        let (mut estimated, mut is_complete) = (0.0, true);
        for part in parts {
            let is_used = part.tokens.total() > 0;
            let estimate =
                || part.estimated.or_else(|| price(&part.model, part.tokens).filter(|_| is_used));
            match (part.actual, estimate()) {
                (Some(actual), _) => self.actual_cost_usd += actual,
                (None, Some(cost)) => estimated += cost,
                (None, None) => is_complete &= !is_used,
            }
        }
        // The session's own estimate may be known even if the estimate for one of its models is
        // not.
        let known = whole.and_then(|whole| whole.estimated).filter(|_| !is_complete);
        self.estimated_cost_usd += estimated.max(known.unwrap_or(0.0));
        self.unpriced_sessions += usize::from(!is_complete && known.is_none());
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
