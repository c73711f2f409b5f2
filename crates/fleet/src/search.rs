//! Searching the messages of all machines. The index in the database proposes messages; the ledger's
//! own function decides which of them match.

use std::collections::HashMap;

use postgres::Row;
use postgres::types::ToSql;
use takeback_ledger::{
    IndexQuery, MessageRecord, SearchCollector, SearchHit, SearchOptions, SessionRecord, Time,
    beginning_of,
};

use crate::connection::Connection;
use crate::seal::{Place, Sealer};
use crate::{Fleet, FleetError};

/// The number of messages that are read first. Each subsequent page is larger, up to a limit,
/// because the database looks up the query again for each page.
const FIRST_PAGE: i64 = 200;
const LARGEST_PAGE: i64 = 6_400;

/// A search first covers only this many of the newest messages.
const RECENT: i64 = 20_000;

/// The results of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetResults {
    /// The best matches, best first. Equally good matches are sorted newest first.
    pub hits: Vec<FleetHit>,
    /// The number of matching messages that the search counted.
    pub total: usize,
    /// True if counting stopped early.
    pub more: bool,
    /// True if the caller stopped the search.
    pub stopped: bool,
}

/// A message that matches, and the name of its machine.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FleetHit {
    pub machine: String,
    pub hit: SearchHit,
}

/// The position of a message in the order of a search: its time, the key of its session, and its
/// number.
type Position = (i64, i64, i64);

const NEWEST: Position = (i64::MAX, i64::MAX, i64::MAX);
const OLDEST: Position = (i64::MIN, i64::MIN, i64::MIN);

/// A range of messages that remain to be searched.
struct Part {
    /// All of these messages come before this position.
    before: Position,
    /// The position of the oldest message.
    from: Position,
    /// True if few of these messages are likely to match, judging by the messages that were
    /// searched before.
    is_rare: bool,
}

impl Fleet {
    /// Searches the messages of all machines, newest first. Calls `is_over` after each page of
    /// messages, and stops with the results found so far when `is_over` returns true.
    pub fn search(
        &self,
        query: &str,
        options: &SearchOptions,
        is_over: &dyn Fn() -> bool,
    ) -> Result<FleetResults, FleetError> {
        let mut collector = SearchCollector::new(query, options.limit);
        if collector.is_empty() {
            return Ok(FleetResults::default());
        }
        let (connection, _) = self.connect()?;
        let mut search =
            Search { connection, sealer: self.sealer()?, options, workspaces: HashMap::new() };
        let stopped = search.collect(&mut collector, is_over)?;
        let (total, more) = (collector.count(), collector.is_full() || stopped);
        let mut hits = Vec::new();
        for position in collector.take_best() {
            hits.extend(search.read_hit(position, &collector)?);
        }
        Ok(FleetResults { hits, total, more, stopped })
    }
}

struct Search<'o> {
    connection: Connection,
    sealer: Sealer,
    options: &'o SearchOptions,
    /// The decrypted directories of sessions, by the keys of the sessions.
    workspaces: HashMap<i64, Option<String>>,
}

impl Search<'_> {
    /// Reads the messages that the index proposes, page by page, and collects those that match.
    /// Returns true if the caller stopped the search.
    fn collect(
        &mut self,
        collector: &mut SearchCollector<Position>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, FleetError> {
        let index_query = collector.index_query().map(|query| to_tsquery(&query));
        // The database does not know how often words occur together. If it mistakes a rare
        // combination for a frequent one, it searches all messages in order. Therefore, the newest
        // messages are searched first: they show whether matches are rare.
        let from = match index_query {
            Some(_) => self.find_recent()?,
            None => OLDEST,
        };
        let (mut part, mut size, mut proposed) =
            (Part { before: NEWEST, from, is_rare: false }, FIRST_PAGE, 0);
        loop {
            let rows = self.read_page(&part, size, index_query.as_deref())?;
            for row in &rows {
                let position: Position = (row.get("time"), row.get("session"), row.get("seq"));
                part.before = position;
                if !self.is_in_workspace(row)? {
                    continue;
                }
                let message = self.decode_message(row)?;
                if collector.consider(position, Time(position.0), &message) {
                    return Ok(false);
                }
            }
            proposed += rows.len();
            if (rows.len() as i64) < size {
                if part.from == OLDEST {
                    return Ok(false);
                }
                let is_rare = proposed < FIRST_PAGE as usize;
                part = Part { before: part.from, from: OLDEST, is_rare };
            }
            // If few of the proposed messages match, as is usual for phrases, most of them will have
            // to be read.
            let is_likely_to_match = collector.count() * 4 >= proposed;
            size = if is_likely_to_match { (size * 4).min(LARGEST_PAGE) } else { LARGEST_PAGE };
            if is_over() {
                return Ok(true);
            }
        }
    }

    /// Returns the position at which the newest messages begin.
    fn find_recent(&mut self) -> Result<Position, FleetError> {
        let sql = "SELECT time, session, seq FROM takeback.messages
            ORDER BY time DESC, session DESC, seq DESC OFFSET $1 LIMIT 1";
        let found = self.connection.run(|client| client.query_opt(sql, &[&RECENT]))?;
        Ok(found.map_or(OLDEST, |row| (row.get(0), row.get(1), row.get(2))))
    }

    fn read_page(
        &mut self,
        part: &Part,
        size: i64,
        index_query: Option<&str>,
    ) -> Result<Vec<Row>, FleetError> {
        let SearchOptions { sources, exclude_sources, roles, workspace, since, undone, .. } =
            self.options;
        let since = since.map_or(i64::MIN, |Time(since)| since);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![
            &part.before.0,
            &part.before.1,
            &part.before.2,
            undone,
            &since,
            roles,
            sources,
            exclude_sources,
            &size,
            workspace,
            &part.from.0,
            &part.from.1,
            &part.from.2,
        ];
        // The database cannot use the index by time to sort by an expression, so for a rare query
        // it uses the index of words.
        let order = if part.is_rare { "m.time + 0" } else { "m.time" };
        // With `IS TRUE`, the database cannot use the index of words, so it reads the newest
        // messages in order. These are so few that reading them is faster than looking up the
        // matches among all messages.
        let is_match = match part.from {
            OLDEST => "m.words @@ $14::text::tsquery",
            _ => "(m.words @@ $14::text::tsquery) IS TRUE",
        };
        let page = |condition: &str| {
            format!(
                "(SELECT {COLUMNS} FROM takeback.messages m
                  JOIN takeback.sessions s ON s.key = m.session
                  JOIN takeback.machines h ON h.key = s.machine
                  WHERE {condition} AND {FILTER}
                  ORDER BY {order} DESC, m.session DESC, m.seq DESC LIMIT $9)"
            )
        };
        let sql = match &index_query {
            None => page("true"),
            Some(query) => {
                values.push(query);
                format!(
                    "{} UNION ALL {} ORDER BY time DESC, session DESC, seq DESC LIMIT $9",
                    page(is_match),
                    page("m.words IS NULL"),
                )
            }
        };
        self.connection.run(|client| client.query(&sql, &values))
    }

    /// True if the message's session worked in the directory that the user asks for. The directory
    /// is compared here only if it is encrypted, because otherwise the database has already
    /// compared it.
    fn is_in_workspace(&mut self, row: &Row) -> Result<bool, FleetError> {
        let wanted = &self.options.workspace;
        if wanted.is_none() || row.get::<_, Option<&str>>("workspace").is_some() {
            return Ok(true);
        }
        let key: i64 = row.get("session");
        if let Some(known) = self.workspaces.get(&key) {
            return Ok(known == wanted);
        }
        let sql = "SELECT record FROM takeback.sessions WHERE key = $1";
        let Some(found) = self.connection.run(|client| client.query_opt(sql, &[&key]))? else {
            return Ok(false);
        };
        let (machine, session) = (row.get("machine"), row.get("id"));
        let place = Place { machine, session, table: "sessions", row: (0, 0) };
        let record: SessionRecord = self.sealer.decode(found.get(0), place)?;
        let is_wanted = record.workspace == *wanted;
        self.workspaces.insert(key, record.workspace);
        Ok(is_wanted)
    }

    fn decode_message(&self, row: &Row) -> Result<MessageRecord, FleetError> {
        let place = Place {
            machine: row.get("machine"),
            session: row.get("id"),
            table: "messages",
            row: (row.get("seq"), 0),
        };
        self.sealer.decode(row.get("record"), place)
    }

    /// Reads a match with its session and the messages around it. Returns `None` if the message has
    /// been deleted in the meantime.
    fn read_hit(
        &mut self,
        (_, session, seq): Position,
        collector: &SearchCollector<Position>,
    ) -> Result<Option<FleetHit>, FleetError> {
        let undone = self.options.undone;
        let sql = format!(
            "SELECT {COLUMNS}, h.name, s.record AS session_record, s.source, s.model, s.started_at
             FROM takeback.messages m JOIN takeback.sessions s ON s.key = m.session
             JOIN takeback.machines h ON h.key = s.machine
             WHERE m.session = $1 AND (m.seq = $2
                 OR m.seq = (SELECT max(seq) FROM takeback.messages
                             WHERE session = $1 AND seq < $2 AND ($3 OR NOT undone))
                 OR m.seq = (SELECT min(seq) FROM takeback.messages
                             WHERE session = $1 AND seq > $2 AND ($3 OR NOT undone)))
             ORDER BY m.seq"
        );
        let rows = self.connection.run(|client| client.query(&sql, &[&session, &seq, &undone]))?;
        let (mut before, mut after, mut hit) = (None, None, None);
        for row in &rows {
            let message = self.decode_message(row)?;
            match row.get::<_, i64>("seq").cmp(&seq) {
                std::cmp::Ordering::Less => before = Some(beginning_of(&message)),
                std::cmp::Ordering::Greater => after = Some(beginning_of(&message)),
                std::cmp::Ordering::Equal => hit = Some((row, message)),
            }
        }
        let Some((row, message)) = hit else { return Ok(None) };
        let place = Place {
            machine: row.get("machine"),
            session: row.get("id"),
            table: "sessions",
            row: (0, 0),
        };
        let record: SessionRecord = self.sealer.decode(row.get("session_record"), place)?;
        let hit = SearchHit {
            message: seq,
            time: Time(row.get("time")),
            snippet: collector.snippet(&message),
            role: message.role,
            before,
            after,
            session: record.id,
            source: record.source,
            model: record.model,
            title: record.title,
            session_started: Time(row.get("started_at")),
        };
        Ok(Some(FleetHit { machine: row.get("name"), hit }))
    }
}

const COLUMNS: &str = "m.time, m.session, m.seq, m.record, s.id, s.workspace, h.id AS machine";

/// Selects messages by the options of the search, as the ledger's own search does. A message that a
/// fork has in common with its parent is found only in the parent, unless it has been taken back
/// there.
const FILTER: &str = "
    (m.time, m.session, m.seq) < ($1, $2, $3) AND (m.time, m.session, m.seq) >= ($11, $12, $13)
    AND ($4 OR NOT m.undone) AND m.time >= $5
    AND (m.seq > s.inherited OR NOT EXISTS (
        SELECT 1 FROM takeback.sessions p JOIN takeback.messages pm
            ON pm.session = p.key AND pm.seq = m.seq
        WHERE p.machine = s.machine AND p.id = s.parent AND ($4 OR NOT pm.undone)))
    AND (cardinality($6::text[]) = 0 OR m.role = ANY ($6))
    AND (cardinality($7::text[]) = 0 OR s.source = ANY ($7))
    AND s.source <> ALL ($8::text[])
    AND ($10::text IS NULL OR s.workspace IS NULL OR s.workspace = $10)";

/// Formats a query for the index as a `tsquery`.
fn to_tsquery(query: &IndexQuery) -> String {
    query.format(" & ", " | ", &|token, is_prefix| {
        let token = token.replace('\\', "\\\\").replace('\'', "''");
        format!("'{token}'{}", if is_prefix { ":*" } else { "" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_translated_into_a_tsquery() {
        let query = |typed| SearchCollector::<i64>::new(typed, 1).index_query();
        assert_eq!(to_tsquery(&query("a b* OR c").unwrap()), "(('a' & 'b':*) | ('c'))");
        assert_eq!(query("*x*"), None);
    }
}
