//! Shared test helpers.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::config::DbConfig;
use serde_json::{Value, json};
use takeback_ledger::{
    Event, ImportReport, Ledger, LedgerOptions, MessageFilter, MessageRecord, Recorded,
    SearchOptions, SessionRecord, TaskRecord, Time,
};
use tempfile::TempDir;

/// A ledger in its own directory.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) ledger: Ledger,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("state.db");
        let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
        Fixture { directory, ledger }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("state.db")
    }

    /// Opens the database in a second connection, as another process would.
    pub(crate) fn open_another(&self) -> Ledger {
        Ledger::open(&self.path(), &LedgerOptions::default()).unwrap()
    }

    pub(crate) fn create_session(&mut self, id: &str) {
        self.ledger.create_session(&session(id), at(0)).unwrap();
    }

    /// Appends a message. Returns its number.
    pub(crate) fn say(&mut self, session: &str, role: &str, text: &str) -> i64 {
        self.ledger.append(session, &[message(role, text)], at(1)).unwrap()[0]
    }

    /// Appends messages, alternating between the user and the assistant.
    pub(crate) fn talk(&mut self, session: &str, texts: &[&str]) {
        for (number, text) in texts.iter().enumerate() {
            self.say(session, if number % 2 == 0 { "user" } else { "assistant" }, text);
        }
    }

    /// Creates the session `s` with three turns of two messages each. The second message of each
    /// turn has a tool call.
    pub(crate) fn with_three_turns() -> Fixture {
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        for turn in 1..=3 {
            let call = json!({ "id": "tool", "function": { "name": "tool", "arguments": "{}" } });
            let answer = MessageRecord {
                tool_calls: Some(json!([call])),
                ..message("assistant", &format!("answer{turn}"))
            };
            let messages = [message("user", &format!("ask{turn}")), answer];
            fixture.ledger.append("s", &messages, at(turn)).unwrap();
        }
        fixture
    }

    /// Creates the session `s` with the task `t`.
    pub(crate) fn with_task() -> Fixture {
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        fixture.ledger.create_task(&task("t"), at(0)).unwrap();
        fixture
    }

    /// Returns the text of each current message.
    pub(crate) fn current_texts(&self, session: &str) -> Vec<String> {
        current_texts(&self.ledger, session)
    }

    /// Returns the numbers of messages and tool calls recorded in the session's row.
    pub(crate) fn counts(&self, session: &str) -> (i64, i64) {
        let session = self.ledger.session(session).unwrap();
        (session.message_count, session.tool_call_count)
    }

    /// Searches the ledger. Returns the session and number of each message found.
    pub(crate) fn find(&mut self, query: &str) -> Vec<(String, i64)> {
        let found = self.ledger.search(query, &SearchOptions::default()).unwrap();
        found.results.into_iter().map(|hit| (hit.session, hit.message)).collect()
    }
}

pub(crate) fn session(id: &str) -> SessionRecord {
    SessionRecord { id: id.to_owned(), source: "test".to_owned(), ..SessionRecord::default() }
}

pub(crate) fn message(role: &str, text: &str) -> MessageRecord {
    MessageRecord {
        role: role.to_owned(),
        content: Some(Value::from(text)),
        ..MessageRecord::default()
    }
}

/// Builds a task in the session `s`.
pub(crate) fn task(id: &str) -> TaskRecord {
    TaskRecord {
        id: id.to_owned(),
        session: "s".to_owned(),
        kind: "chat".to_owned(),
        state: "running".to_owned(),
        ..TaskRecord::default()
    }
}

/// Builds an event for a user message.
pub(crate) fn prompt_event(session: &str, text: &str) -> Event {
    Event::Messages { session: session.to_owned(), messages: vec![message("user", text)] }
}

/// Records an event that must not go to the spool.
pub(crate) fn record_event(ledger: &mut Ledger, event: Event, now: Time) {
    assert_eq!(ledger.record(&[event], FOREVER, now).unwrap(), Recorded::Written);
}

/// Returns the text of each current message.
pub(crate) fn current_texts(ledger: &Ledger, session: &str) -> Vec<String> {
    texts(&ledger.messages(session, MessageFilter::Current).unwrap())
}

/// Returns the text of each message.
pub(crate) fn all_texts(ledger: &Ledger, session: &str) -> Vec<String> {
    texts(&ledger.messages(session, MessageFilter::All).unwrap())
}

fn texts(messages: &[MessageRecord]) -> Vec<String> {
    let text = |message: &MessageRecord| message.content.as_ref()?.as_str().map(str::to_owned);
    messages.iter().map(|message| text(message).unwrap()).collect()
}

/// Exports a session as a line of JSON.
pub(crate) fn export_line(ledger: &Ledger, id: &str) -> String {
    serde_json::to_string(&ledger.transcript(id).unwrap()).unwrap() + "\n"
}

/// Imports lines of JSON.
pub(crate) fn import_lines(ledger: &mut Ledger, lines: &str) -> ImportReport {
    ledger.import_lines(&mut lines.as_bytes(), at(100), &|_| {}).unwrap()
}

/// Returns options with which a write does not wait for other processes.
pub(crate) fn impatient() -> LedgerOptions {
    LedgerOptions { wait: Duration::ZERO, ..LedgerOptions::default() }
}

/// Returns options that mask secrets.
pub(crate) fn masking() -> LedgerOptions {
    LedgerOptions { redact: true, ..LedgerOptions::default() }
}

/// A time longer than any test takes.
pub(crate) const FOREVER: Duration = Duration::from_secs(3_600);

/// Returns the time `seconds` seconds after a fixed point in time.
pub(crate) fn at(seconds: i64) -> Time {
    Time((1_700_000_000 + seconds) * 1_000)
}

/// Prepares a child process that runs the given test again. In the child, [`child_arguments`]
/// returns the database and the argument.
pub(crate) fn run_again(test: &str, database: &Path, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("CHILD", database).env("CHILD_ARGUMENT", argument);
    command
}

/// Returns the database and the argument that were passed to [`run_again`], or `None` if this
/// process is not a child.
pub(crate) fn child_arguments() -> Option<(PathBuf, String)> {
    let database = PathBuf::from(std::env::var_os("CHILD")?);
    Some((database, std::env::var("CHILD_ARGUMENT").unwrap()))
}

/// Opens the database without the ledger, as another program would.
pub(crate) fn open_raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// Returns the number of messages that are not indexed.
pub(crate) fn tail_length(path: &Path) -> i64 {
    let sql = "SELECT (SELECT max(id) FROM messages) - indexed FROM search_state";
    open_raw(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Counts the rows of a table.
pub(crate) fn count_rows(path: &Path, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    open_raw(path).query_row(&sql, [], |row| row.get(0)).unwrap()
}

/// Overwrites the root page of an index. This damage is noticed, but no rows are lost.
pub(crate) fn damage_index_page(path: &Path) {
    let connection = open_raw(path);
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'effects_workspace'";
    let root: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    drop(connection);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0xff; 4096], (root as u64 - 1) * 4096).unwrap();
}

/// Asserts that `work` finishes within a minute.
pub(crate) fn assert_ends(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    let hung = wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout);
    assert!(!hung, "the work waits for a process that does not end");
    worker.join().unwrap();
}

/// Returns a random number below a limit. The number differs from run to run.
pub(crate) fn random_below(limit: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(()) % limit
}
