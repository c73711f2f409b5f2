//! opencode: all sessions are in one database, which only opencode writes to. To make a copy,
//! takeback builds a document with the messages to keep, under new ids, which opencode imports.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};
use takeback_base::{durable, hex};
use takeback_ledger::LogPage;
use takeback_ledger::foreign_database::ForeignDatabase;

use super::check::{check_pages, read_pages};
use super::{PreparedCopy, RewindError, RewindRequest};
use crate::logs::{LogError, LogFormat, LogRef};

/// The longest time that opencode may take to import or delete a session.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of random characters to replace at the end of an id. The characters before them
/// determine the order of the ids.
const TAIL: usize = 6;

/// A session that opencode is to import.
#[derive(Debug)]
pub(super) struct Import {
    document: Value,
    /// The directory that the session works in. opencode is started there, because it assigns an
    /// imported session to its own working directory.
    directory: PathBuf,
    own_directory: PathBuf,
}

/// Makes the document with the messages to keep, and checks it.
pub(super) fn prepare(
    format: &LogFormat,
    request: &RewindRequest<'_>,
    new: String,
) -> Result<PreparedCopy, RewindError> {
    let path = &request.log.path;
    let failed = |source| LogError::Database { path: path.clone(), source };
    let tail = hex::random_digits(TAIL);
    let (document, origins) = read_document(request, &new, &tail).map_err(failed)?;
    let document = document.ok_or(RewindError::UnknownFormat("it has no such session"))?;
    let mut pages = read_document_pages(format, &document, request.own_directory)?;
    check_pages(&pages, request.kept, &origins)?;
    let old = document["info"]["directory"].as_str().unwrap_or_default();
    let directory = request.moved.map_or_else(|| old.to_owned(), |moved| moved.map(old)).into();
    let own_directory = request.own_directory.to_owned();
    let import = Import { document, directory, own_directory };
    let log = LogRef { path: path.clone(), session: Some(new.clone()) };
    for page in &mut pages {
        page.to.log = log.name();
    }
    Ok(PreparedCopy::of_import(new, log, origins, pages, import))
}

/// Reads a session up to the first message to leave out. Returns the session in opencode's export
/// format, but with new ids. Also returns a map from the new id of each message to its old id.
fn read_document(
    request: &RewindRequest<'_>,
    new: &str,
    tail: &str,
) -> rusqlite::Result<(Option<Value>, BTreeMap<String, String>)> {
    let database = ForeignDatabase::open(&request.log.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let connection = database.unchecked_transaction()?;
    let sql = "SELECT slug, project_id, directory, title, version, time_created
               FROM session WHERE id = ?1";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([request.session])?;
    let Some(row) = rows.next()? else { return Ok(Default::default()) };
    let text = |index: usize| row.get::<_, String>(index);
    let created: i64 = row.get(5)?;
    let info = json!({
        "id": new, "slug": text(0)?, "projectID": text(1)?, "directory": text(2)?,
        "title": text(3)?, "version": text(4)?,
        // `opencode --continue` continues the session that was updated last.
        "time": { "created": created, "updated": request.now.0 },
    });
    let sql = "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY id";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([request.session])?;
    let gone = request.gone.map(|gone| gone.origin.split('/').next().unwrap_or_default());
    let (mut messages, mut origins) = (Vec::new(), BTreeMap::new());
    while let Some(row) = rows.next()? {
        let (id, data): (String, String) = (row.get(0)?, row.get(1)?);
        if gone == Some(id.as_str()) {
            break;
        }
        let mut info: Value = serde_json::from_str(&data).unwrap_or_default();
        let message = rename(&id, tail);
        if let Some(parent) = info["parentID"].as_str().map(|parent| rename(parent, tail)) {
            info["parentID"] = json!(parent);
        }
        info["id"] = json!(message);
        info["sessionID"] = json!(new);
        let parts = read_parts(&connection, &id, &message, new, tail)?;
        messages.push(json!({ "info": info, "parts": parts }));
        origins.insert(message, id);
    }
    Ok((Some(json!({ "info": info, "messages": messages })), origins))
}

fn read_parts(
    connection: &Connection,
    message: &str,
    new_message: &str,
    session: &str,
    tail: &str,
) -> rusqlite::Result<Vec<Value>> {
    let sql = "SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([message], |row| {
        let (id, data): (String, String) = (row.get(0)?, row.get(1)?);
        let mut part: Value = serde_json::from_str(&data).unwrap_or_default();
        part["id"] = json!(rename(&id, tail));
        part["sessionID"] = json!(session);
        part["messageID"] = json!(new_message);
        Ok(part)
    })?;
    rows.collect()
}

/// Generates a new id that sorts in the same position as the old one.
fn rename(id: &str, tail: &str) -> String {
    let kept = id.chars().count().saturating_sub(TAIL);
    id.chars().take(kept).chain(tail.chars()).collect()
}

/// Writes a document to a temporary database, and reads it with the code that reads opencode's own
/// database.
fn read_document_pages(
    format: &LogFormat,
    document: &Value,
    own_directory: &Path,
) -> Result<Vec<LogPage>, RewindError> {
    let path = own_directory.join("copy");
    let file = durable::with_directory(&path, || durable::Temporary::create_beside(&path))?;
    let failed = |source| LogError::Database { path: file.path().to_owned(), source };
    fill_database(file.path(), document).map_err(failed)?;
    let session = document["info"]["id"].as_str().map(str::to_owned);
    read_pages(format, &LogRef { path: file.path().to_owned(), session })
}

fn fill_database(path: &Path, document: &Value) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "CREATE TABLE session (id, directory, title, parent_id, time_created);
         CREATE TABLE message (id, session_id, time_created, data);
         CREATE TABLE part (id, message_id, data);",
    )?;
    let info = &document["info"];
    transaction.execute(
        "INSERT INTO session VALUES (?1, ?2, ?3, NULL, ?4)",
        params![
            info["id"].as_str(),
            info["directory"].as_str(),
            info["title"].as_str(),
            info["time"]["created"].as_i64()
        ],
    )?;
    for message in document["messages"].as_array().into_iter().flatten() {
        let about = &message["info"];
        let (id, time) = (about["id"].as_str(), about["time"]["created"].as_i64());
        transaction.execute(
            "INSERT INTO message VALUES (?1, ?2, ?3, ?4)",
            params![id, info["id"].as_str(), time.unwrap_or(0), about.to_string()],
        )?;
        for part in message["parts"].as_array().into_iter().flatten() {
            transaction.execute(
                "INSERT INTO part VALUES (?1, ?2, ?3)",
                params![part["id"].as_str(), id, part.to_string()],
            )?;
        }
    }
    transaction.commit()
}

impl Import {
    /// Has opencode import the document.
    pub(super) fn run(&self) -> Result<(), RewindError> {
        let path = self.own_directory.join("import");
        let mut file = durable::with_directory(&path, || durable::Temporary::create_beside(&path))?;
        file.write_all(self.document.to_string().as_bytes())?;
        let path = file.path().display().to_string();
        // The import needs no plugins, and takeback's own plugin would only slow it down.
        run_opencode(&["import", "--pure", &path], &self.directory)
    }
}

/// Has opencode delete a session.
pub(super) fn remove_session(session: &str) -> Result<(), RewindError> {
    run_opencode(&["session", "delete", "--pure", session], Path::new("/"))
}

/// Runs opencode and waits until it exits.
fn run_opencode(words: &[&str], directory: &Path) -> Result<(), RewindError> {
    let failed = |reason: String| RewindError::Program("opencode", reason);
    let mut child = Command::new("opencode")
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    match wait(&mut child) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(format!("`opencode {}` failed", words[0]))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Waits for a process, and kills it if it takes too long. Returns true if the process succeeds.
fn wait(child: &mut Child) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}
