//! opencode logs: messages and their parts in a database, which takeback opens read-only.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde_json::Value;
use takeback_base::foreign;
use takeback_ledger::foreign_database::{
    ForeignDatabase, endless_database, limit_reason, oversized,
};
use takeback_ledger::{Bookmark, LogPage, Time, Tokens};

use super::entry_writer::{
    EntryRef, EntryWriter, LoggedCall, LoggedResult, MessageParts, SessionFacts, text_field,
    token_field,
};
use super::log_ref::database_log_name;
use super::reader_state::ReaderState;
use super::{LogError, ReadPage};

/// The maximum number of messages in a page.
const PAGE_SIZE: usize = 256;

/// The total size of messages and parts, in bytes, after which a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// The maximum size of a message together with its parts.
const MAX_MESSAGE: usize = 512 << 20;

/// The maximum length of a message id.
const MAX_ID: usize = 1_024;

/// The maximum time to wait while opencode is moving its write-ahead log into the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Lists the sessions in a database, oldest first.
pub(super) fn list_sessions(path: &Path) -> Result<Vec<String>, LogError> {
    query_sessions(path).map_err(|source| database_error(path, source))
}

fn query_sessions(path: &Path) -> rusqlite::Result<Vec<String>> {
    let database = open_database(path)?;
    let mut statement = database.prepare("SELECT id FROM session ORDER BY time_created, id")?;
    let mut rows = statement.query([])?;
    let (mut sessions, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        bytes += id.len() as u64;
        sessions.push(id);
        // In a damaged database, several rows can share the same bytes, so even a small file can
        // have more rows than fit into memory.
        if bytes > database.size() || sessions.len() as u64 > database.max_rows() {
            return Err(endless_database());
        }
    }
    Ok(sessions)
}

fn open_database(path: &Path) -> rusqlite::Result<ForeignDatabase> {
    let database = ForeignDatabase::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    let session = ["id", "directory", "title", "parent_id", "time_created"];
    database.require_columns("session", &session)?;
    database.require_columns("message", &["id", "session_id", "time_created", "data"])?;
    database.require_columns("part", &["id", "message_id", "data"])?;
    Ok(database)
}

fn database_error(path: &Path, source: rusqlite::Error) -> LogError {
    let path = path.to_owned();
    match limit_reason(&source) {
        Some(reason) => LogError::Malformed { path, reason },
        None => LogError::Database { path, source },
    }
}

/// Reads the next page of a session, after a bookmark or from the beginning.
pub(super) fn read_page(
    agent: &'static str,
    path: &Path,
    session: &str,
    from: Option<Bookmark>,
) -> Result<ReadPage, LogError> {
    read_session(agent, path, session, from).map_err(|source| database_error(path, source))
}

fn read_session(
    agent: &'static str,
    path: &Path,
    session: &str,
    from: Option<Bookmark>,
) -> rusqlite::Result<ReadPage> {
    let database = open_database(path)?;
    // All reads are in one transaction, so that they see the same state of the database.
    let connection = database.unchecked_transaction()?;
    let mut state = from.as_ref().map(ReaderState::from_bookmark).unwrap_or_default();
    let mut out = EntryWriter::new(agent);
    // Read the facts about the session for every page, because opencode sets the title late,
    // perhaps after the last message.
    if let Some((began, facts)) = query_facts(&connection, session)? {
        state.learn_facts(&facts);
        out.push_session(session, Some(began), facts);
    }
    let mut statement = connection.prepare(
        "SELECT id, time_created, data FROM message
         WHERE session_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let after = state.last.clone().unwrap_or_default();
    let mut rows = statement.query(params![session, after, PAGE_SIZE as i64 + 1])?;
    let (mut count, mut bytes) = (0, 0);
    let mut has_more = false;
    while let Some(row) = rows.next()? {
        has_more = count == PAGE_SIZE || bytes > PAGE_BYTES;
        if has_more {
            break;
        }
        let id: String = row.get(0)?;
        // The id is stored in the bookmark, so it must be short.
        if id.len() > MAX_ID {
            return Err(oversized("a message id is too long"));
        }
        let time = Time(row.get(1)?);
        let data: String = row.get(2)?;
        bytes += data.len();
        let data = parse_json(&data);
        let parts = query_parts(&connection, &id, &mut bytes)?;
        if is_being_written(&connection, session, &id, &data, &parts)? {
            break;
        }
        let entry = EntryRef { session: session.to_owned(), origin: id.clone(), time: Some(time) };
        push_message(&entry, &data, &parts, &mut out);
        state.last = Some(id);
        count += 1;
    }
    let to = Bookmark {
        log: database_log_name(path, session),
        agent: agent.to_owned(),
        offset: from.as_ref().map_or(0, |from| from.offset) + count as u64,
        identity: String::new(),
        state: state.to_json(),
    };
    let page = LogPage { from, to, entries: out.entries };
    Ok(ReadPage { page, bad_lines: Vec::new(), has_more })
}

/// True if opencode is still writing the message. A message that was cut off is treated as
/// complete once there is a later answer.
fn is_being_written(
    connection: &Connection,
    session: &str,
    id: &str,
    data: &Value,
    parts: &[Value],
) -> rusqlite::Result<bool> {
    let is_open = match data["role"].as_str() {
        Some("assistant") => data["time"]["completed"].is_null() && data["error"].is_null(),
        // opencode writes the message first and its parts later.
        _ => parts.is_empty(),
    };
    if !is_open {
        return Ok(false);
    }
    let mut later = connection.prepare_cached(
        "SELECT NOT EXISTS (SELECT 1 FROM message
         WHERE session_id = ?1 AND id > ?2 AND data ->> 'role' = 'assistant')",
    )?;
    later.query_row([session, id], |row| row.get(0))
}

fn query_facts(
    connection: &Connection,
    session: &str,
) -> rusqlite::Result<Option<(Time, SessionFacts)>> {
    let sql = "SELECT directory, title, parent_id, time_created FROM session WHERE id = ?1";
    let row = connection.query_row(sql, [session], |row| {
        let title: Option<String> = row.get(1)?;
        let is_placeholder = |title: &String| {
            title.starts_with("New session - ") || title.starts_with("Child session - ")
        };
        let facts = SessionFacts {
            workspace: row.get(0)?,
            title: title.filter(|title| !is_placeholder(title)),
            parent: row.get(2)?,
            ..SessionFacts::default()
        };
        Ok((Time(row.get(3)?), facts))
    });
    row.optional()
}

/// Reads the parts of a message. Adds their size to `bytes`.
fn query_parts(
    connection: &Connection,
    message: &str,
    bytes: &mut usize,
) -> rusqlite::Result<Vec<Value>> {
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([message])?;
    let (mut parts, mut values) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let data: String = row.get(0)?;
        *bytes += data.len();
        values += foreign::count_json_values(data.as_bytes());
        if *bytes > PAGE_BYTES + MAX_MESSAGE || values > foreign::MAX_JSON_VALUES {
            return Err(oversized(&format!("message {message} is too large")));
        }
        parts.push(parse_json(&data));
    }
    Ok(parts)
}

/// Parses JSON. Returns null for invalid JSON, and for JSON that could exhaust memory.
fn parse_json(data: &str) -> Value {
    if foreign::has_too_many_values(data.as_bytes()) {
        return Value::Null;
    }
    serde_json::from_str(data).unwrap_or_default()
}

fn push_message(entry: &EntryRef, data: &Value, blocks: &[Value], out: &mut EntryWriter) {
    let mut parts = MessageParts::default();
    for block in blocks.iter().filter(|block| block["synthetic"] != true) {
        match block["type"].as_str() {
            Some("text") => parts.texts.extend(text_field(block, "text")),
            Some("reasoning") => parts.thoughts.extend(text_field(block, "text")),
            Some("file") => parts.attachments.push(serde_json::json!({
                "type": "file", "filename": block["filename"], "media_type": block["mime"],
            })),
            Some("tool") => add_tool(block, &mut parts),
            _ => {}
        }
    }
    match data["role"].as_str() {
        Some("user") => out.push_user(entry.clone(), &parts),
        Some("assistant") if data["summary"] == true => {
            out.push_summary(entry.clone(), &parts.texts.join("\n"));
        }
        Some("assistant") => {
            out.push_assistant(entry.clone(), &parts, text_field(data, "finish"));
            out.push_results(entry, &parts.results);
        }
        _ => {}
    }
    let spent = &data["tokens"];
    let spent = Tokens {
        input: token_field(spent, "input"),
        output: token_field(spent, "output"),
        cache_read: token_field(&spent["cache"], "read"),
        cache_write: token_field(&spent["cache"], "write"),
        reasoning: token_field(spent, "reasoning"),
    };
    let usage = spent.to_usage(text_field(data, "modelID").as_deref(), 1).map(|mut usage| {
        usage.estimated_cost_usd = data["cost"].as_f64().filter(|cost| *cost > 0.0);
        usage
    });
    out.push_usage(entry, usage);
}

fn add_tool(block: &Value, parts: &mut MessageParts) {
    let Some(call) = text_field(block, "callID") else { return };
    let (tool, state) = (text_field(block, "tool"), &block["state"]);
    let name = tool.clone().unwrap_or_default();
    parts.calls.push(LoggedCall { id: call.clone(), tool: name, input: state["input"].clone() });
    let exit = state["metadata"]["exit"].as_i64().map(|code| code == 0);
    let result = match state["status"].as_str() {
        Some("completed") => (text_field(state, "output"), exit.unwrap_or(true)),
        Some("error") => (text_field(state, "error"), false),
        _ => return,
    };
    let (output, succeeded) = result;
    let text = output.unwrap_or_default();
    parts.results.push(LoggedResult { call, tool, text, succeeded: Some(succeeded) });
}
