//! The sessions of all machines, and their cost.

use std::collections::HashMap;

use postgres::Row;
use takeback_ledger::{
    ListOptions, MessageRecord, ModelUsage, PriceFn, SessionRecord, SessionSummary, SessionUsage,
    Time, Tokens, UsageBy, UsageSum, UsageTotal, preview_of,
};

use crate::seal::{Place, Sealer};
use crate::{Fleet, FleetError};

/// The number of sessions that are read at a time.
const PAGE: usize = 200;

/// A session in a list, and the name of its machine.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FleetSession {
    pub machine: String,
    pub summary: SessionSummary,
}

impl Fleet {
    /// Lists the sessions of all machines, starting with the one that was active last.
    pub fn sessions(&self, options: &ListOptions) -> Result<Vec<FleetSession>, FleetError> {
        let (mut connection, _) = self.connect()?;
        let sealer = self.sealer()?;
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut before = (i64::MAX, i64::MAX);
        while found.len() < limit {
            let rows = connection.run(|client| {
                client.query(
                    LIST,
                    &[
                        &before.0,
                        &before.1,
                        &options.sources,
                        &options.workspace,
                        &options.archived,
                        &(PAGE as i64),
                    ],
                )
            })?;
            for row in &rows {
                before = (row.get("last_activity"), row.get("key"));
                let session = read_summary(row, &sealer)?;
                // The database cannot compare an encrypted directory, so directories are compared
                // here as well.
                let workspace = &session.summary.session.workspace;
                if options.workspace.is_none() || *workspace == options.workspace {
                    found.push(session);
                }
            }
            if rows.len() < PAGE {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Adds up the usage of all sessions of all machines, as the ledger does for its own sessions.
    pub fn usage_by(
        &self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
        price: &PriceFn<'_>,
    ) -> Result<Vec<UsageTotal>, FleetError> {
        let (mut connection, _) = self.connect()?;
        let sealer = self.sealer()?;
        let sql = "SELECT * FROM takeback.usage ORDER BY session, position";
        let mut models: HashMap<i64, Vec<ModelUsage>> = HashMap::new();
        for row in connection.run(|client| client.query(sql, &[]))? {
            models.entry(row.get("session")).or_default().push(read_usage(&row));
        }
        let sql = "SELECT s.*, h.id AS machine_id FROM takeback.sessions s
                   JOIN takeback.machines h ON h.key = s.machine";
        let mut sum = UsageSum::new(by, day, price);
        for row in connection.run(|client| client.query(sql, &[]))? {
            let mut workspace: Option<String> = row.get("workspace");
            if by == UsageBy::Workspace && workspace.is_none() {
                workspace = decode_session(&row, row.get("machine_id"), &sealer)?.workspace;
            }
            sum.add(&SessionUsage {
                id: row.get("id"),
                source: row.get("source"),
                workspace,
                started_at: Time(row.get("started_at")),
                messages: row.get("message_count"),
                tool_calls: row.get("tool_call_count"),
                own: read_usage(&row),
                by_model: models.remove(&row.get("key")).unwrap_or_default(),
            });
        }
        Ok(sum.finish())
    }
}

const LIST: &str = "
    SELECT s.key, s.id, s.last_activity, s.record, h.id AS machine, h.name,
           first.seq, first.record AS prompt
    FROM takeback.sessions s JOIN takeback.machines h ON h.key = s.machine
    LEFT JOIN LATERAL (
        SELECT m.seq, m.record FROM takeback.messages m
        WHERE m.session = s.key AND m.role = 'user' AND NOT m.undone
        ORDER BY m.seq LIMIT 1) first ON true
    WHERE (s.last_activity, s.key) < ($1, $2)
      AND (cardinality($3::text[]) = 0 OR s.source = ANY ($3))
      AND ($4::text IS NULL OR s.workspace IS NULL OR s.workspace = $4)
      AND ($5 OR NOT s.archived)
    ORDER BY s.last_activity DESC, s.key DESC LIMIT $6";

fn decode_session(row: &Row, machine: &str, sealer: &Sealer) -> Result<SessionRecord, FleetError> {
    let place = Place { machine, session: row.get("id"), table: "sessions", row: (0, 0) };
    sealer.decode(row.get("record"), place)
}

fn read_summary(row: &Row, sealer: &Sealer) -> Result<FleetSession, FleetError> {
    let session = decode_session(row, row.get("machine"), sealer)?;
    let preview = match row.get::<_, Option<&[u8]>>("prompt") {
        None => String::new(),
        Some(record) => {
            let place = Place {
                machine: row.get("machine"),
                session: row.get("id"),
                table: "messages",
                row: (row.get("seq"), 0),
            };
            let prompt: MessageRecord = sealer.decode(record, place)?;
            prompt.content.as_ref().map(preview_of).unwrap_or_default()
        }
    };
    let last_activity = Time(row.get("last_activity"));
    let summary = SessionSummary { session, preview, last_activity };
    Ok(FleetSession { machine: row.get("name"), summary })
}

/// Reads the usage of a session, or of one model in a session. The columns have the same names in
/// both cases.
fn read_usage(row: &Row) -> ModelUsage {
    ModelUsage {
        model: row.get::<_, Option<String>>("model").unwrap_or_default(),
        api_calls: row.get("api_call_count"),
        tokens: Tokens {
            input: row.get("input_tokens"),
            output: row.get("output_tokens"),
            cache_read: row.get("cache_read_tokens"),
            cache_write: row.get("cache_write_tokens"),
            reasoning: row.get("reasoning_tokens"),
        },
        estimated: row.get("estimated_cost_usd"),
        actual: row.get("actual_cost_usd"),
    }
}
