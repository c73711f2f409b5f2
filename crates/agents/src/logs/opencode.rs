//! opencode: messages and their parts in a database, which is opened for reading only.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde_json::Value;
use takeback_ledger::{Bookmark, LogPage, Time};

use super::find::database_log;
use super::page::{At, Call, Facts, Outcome, Parts, Writer, text, tokens};
use super::state::{State, Tokens};
use super::{LogError, Read};

/// A part of the log has so many messages.
const PART: usize = 256;

/// How long to wait while the agent moves its log into the database.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sessions in a database.
pub(super) fn sessions(path: &Path) -> Result<Vec<String>, LogError> {
    list_sessions(path).map_err(|source| LogError::Database { path: path.to_owned(), source })
}

fn list_sessions(path: &Path) -> rusqlite::Result<Vec<String>> {
    let connection = open(path)?;
    let mut statement = connection.prepare("SELECT id FROM session ORDER BY time_created, id")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

pub(super) fn read(
    agent: &'static str,
    path: &Path,
    session: &str,
    from: Option<Bookmark>,
) -> Result<Read, LogError> {
    let failed = |source| LogError::Database { path: path.to_owned(), source };
    read_session(agent, path, session, from).map_err(failed)
}

fn read_session(
    agent: &'static str,
    path: &Path,
    session: &str,
    from: Option<Bookmark>,
) -> rusqlite::Result<Read> {
    let mut connection = open(path)?;
    // One state of the database for all that is read.
    let connection = connection.transaction()?;
    let mut state: State = from
        .as_ref()
        .and_then(|from| serde_json::from_value(from.state.clone()).ok())
        .unwrap_or_default();
    let mut out = Writer::new(agent);
    // Told each time: it gets its title late, perhaps when all has been said.
    if let Some((began, facts)) = facts(&connection, session)? {
        state.learn(&facts);
        out.session(session, Some(began), facts);
    }
    let mut statement = connection.prepare(
        "SELECT id, time_created, data FROM message
         WHERE session_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let after = state.last.clone().unwrap_or_default();
    let mut rows = statement.query(params![session, after, PART as i64])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let time = Time(row.get(1)?);
        let data = json(&row.get::<_, String>(2)?);
        let parts = parts(&connection, &id)?;
        if is_being_written(&connection, session, &id, &data, &parts)? {
            break;
        }
        let at = At { session: session.to_owned(), origin: id.clone(), time: Some(time) };
        message(&at, &data, &parts, &mut out);
        state.last = Some(id);
        count += 1;
    }
    let to = Bookmark {
        log: database_log(path, session),
        agent: agent.to_owned(),
        offset: from.as_ref().map_or(0, |from| from.offset) + count as u64,
        identity: String::new(),
        state: serde_json::to_value(&state).expect("plain data becomes JSON"),
    };
    let page = LogPage { from, to, entries: out.entries };
    Ok(Read { page, bad: Vec::new(), more: count == PART })
}

/// Whether more of a message is to come. One that was cut off gets no more once the agent has
/// answered again.
fn is_being_written(
    connection: &Connection,
    session: &str,
    id: &str,
    data: &Value,
    parts: &[Value],
) -> rusqlite::Result<bool> {
    let is_open = match data["role"].as_str() {
        Some("assistant") => data["time"]["completed"].is_null() && data["error"].is_null(),
        // First comes the message, then what it says.
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

fn facts(connection: &Connection, session: &str) -> rusqlite::Result<Option<(Time, Facts)>> {
    let sql = "SELECT directory, title, parent_id, time_created FROM session WHERE id = ?1";
    let row = connection.query_row(sql, [session], |row| {
        let title: Option<String> = row.get(1)?;
        let is_made_up = |title: &String| {
            title.starts_with("New session - ") || title.starts_with("Child session - ")
        };
        let facts = Facts {
            workspace: row.get(0)?,
            title: title.filter(|title| !is_made_up(title)),
            parent: row.get(2)?,
            ..Facts::default()
        };
        Ok((Time(row.get(3)?), facts))
    });
    row.optional()
}

fn parts(connection: &Connection, message: &str) -> rusqlite::Result<Vec<Value>> {
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let rows = statement.query_map([message], |row| row.get::<_, String>(0))?;
    rows.map(|row| row.map(|data| json(&data))).collect()
}

fn json(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_default()
}

fn message(at: &At, data: &Value, blocks: &[Value], out: &mut Writer) {
    let mut parts = Parts::default();
    for block in blocks.iter().filter(|block| block["synthetic"] != true) {
        match block["type"].as_str() {
            Some("text") => parts.texts.extend(text(block, "text")),
            Some("reasoning") => parts.thoughts.extend(text(block, "text")),
            Some("file") => parts.attachments.push(serde_json::json!({
                "type": "file", "filename": block["filename"], "media_type": block["mime"],
            })),
            Some("tool") => tool(block, &mut parts),
            _ => {}
        }
    }
    match data["role"].as_str() {
        Some("user") => out.user(at.clone(), &parts),
        Some("assistant") if data["summary"] == true => {
            out.summary(at.clone(), &parts.texts.join("\n"));
        }
        Some("assistant") => {
            out.assistant(at.clone(), &parts, text(data, "finish"));
            out.results(at, &parts.results);
        }
        _ => {}
    }
    let spent = &data["tokens"];
    let spent = Tokens {
        input: tokens(spent, "input"),
        output: tokens(spent, "output"),
        cache_read: tokens(&spent["cache"], "read"),
        cache_write: tokens(&spent["cache"], "write"),
        reasoning: tokens(spent, "reasoning"),
    };
    let usage = spent.usage(text(data, "modelID").as_deref(), 1).map(|mut usage| {
        usage.estimated_cost_usd = data["cost"].as_f64().filter(|cost| *cost > 0.0);
        usage
    });
    out.usage(at, usage);
}

fn tool(block: &Value, parts: &mut Parts) {
    let Some(call) = text(block, "callID") else { return };
    let (tool, state) = (text(block, "tool"), &block["state"]);
    let name = tool.clone().unwrap_or_default();
    parts.calls.push(Call { id: call.clone(), tool: name, input: state["input"].clone() });
    let exit = state["metadata"]["exit"].as_i64().map(|code| code == 0);
    let result = match state["status"].as_str() {
        Some("completed") => (text(state, "output"), exit.unwrap_or(true)),
        Some("error") => (text(state, "error"), false),
        _ => return,
    };
    let (output, succeeded) = result;
    let text = output.unwrap_or_default();
    parts.results.push(Outcome { call, tool, text, succeeded: Some(succeeded) });
}
