//! What the tests have in common.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use takeback_ledger::{Ledger, MessageRecord, Options, SessionRecord, Time};
use tempfile::TempDir;

/// A ledger in a directory of its own.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) ledger: Ledger,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        let ledger = Ledger::open(&directory.path().join("state.db"), &Options::default()).unwrap();
        Fixture { directory, ledger }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("state.db")
    }

    /// The same database in another connection, as another process would have it.
    pub(crate) fn another(&self) -> Ledger {
        Ledger::open(&self.path(), &Options::default()).unwrap()
    }

    pub(crate) fn session(&mut self, id: &str) {
        self.ledger.create_session(&session(id), at(0)).unwrap();
    }

    pub(crate) fn say(&mut self, session: &str, role: &str, text: &str) -> i64 {
        self.ledger.append(session, &[message(role, text)], at(1)).unwrap()[0]
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

/// Longer than any test takes.
pub(crate) const FOREVER: Duration = Duration::from_secs(3_600);

/// A time so many seconds after some beginning.
pub(crate) fn at(seconds: i64) -> Time {
    Time((1_700_000_000 + seconds) * 1_000)
}

/// Runs one of these tests in a process of its own, with `CHILD` telling it which database.
pub(crate) fn again(test: &str, database: &Path, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("CHILD", database).env("CHILD_ARGUMENT", argument);
    command
}

/// What [`again`]'s caller said, if this process is the child.
pub(crate) fn told() -> Option<(PathBuf, String)> {
    let database = PathBuf::from(std::env::var_os("CHILD")?);
    Some((database, std::env::var("CHILD_ARGUMENT").unwrap()))
}

/// The database without the ledger, as another program would have it.
pub(crate) fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// A fast source of numbers that differ from run to run.
pub(crate) fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(()) % below
}
