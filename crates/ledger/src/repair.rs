//! Repairing a ledger: what can be put right in place is; a damaged database is kept beside and
//! made anew from the rows that can still be read.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params, params_from_iter};
use rustix::fs::{FlockOperation, fcntl_lock};
use takeback_salvage::{self as salvage, DamagedDatabase, SalvagedRow};

use crate::verify::PARTS;
use crate::{Ledger, LedgerError, OpenError, Options, Time, turns};

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Where the damaged database is now; none if it could be repaired in place.
    pub backup: Option<PathBuf>,
    /// How many sessions there are now.
    pub sessions: u64,
    /// How many messages.
    pub messages: u64,
    /// How many rows of other kinds came back.
    pub other_rows: u64,
    /// How many pages could not be read.
    pub unreadable_pages: u64,
    /// How many rows came back from pages that nothing led to any more.
    pub orphans: u64,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// Why a ledger was not repaired. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// It cannot be opened for another reason than damage.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Other processes have it open.
    #[error("other processes use the ledger")]
    InUse,
    /// Files.
    #[error("cannot repair the ledger {path}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Making the new database failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Repairs a ledger. Tells how many rows it has saved, of how many that is not known yet.
///
/// Other ledgers of the same process must not have it open: locks are between processes.
pub fn repair(
    path: &Path,
    now: Time,
    progress: &dyn Fn(u64, u64),
) -> Result<RepairReport, RepairError> {
    let path = &match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RepairReport::default()),
        canonical => {
            canonical.map_err(|source| RepairError::Io { path: path.to_owned(), source })?
        }
    };
    finish(path)?;
    // Events in the spool are safer there until the ledger is whole.
    match Ledger::open_alone(path, &Options::default()) {
        Ok(mut ledger) => {
            let found = ledger.verify(&|_, _| {})?;
            if !found.is_damaged {
                return Ok(put_right(&mut ledger, found.problems)?);
            }
        }
        Err(OpenError::Damaged { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    make_anew(path, now, progress)
}

/// Whether a repair has made a new database and was cut off before it was in its place.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    ready(path).exists()
}

/// The new database when it is complete.
fn ready(path: &Path) -> PathBuf {
    beside(path, "ready")
}

/// Goes on where a repair was cut off.
fn finish(path: &Path) -> Result<(), RepairError> {
    if !is_unfinished(path) {
        return Ok(());
    }
    let failed = |source| RepairError::Io { path: path.to_owned(), source };
    let _lock = lock(path).map_err(failed)?.ok_or(RepairError::InUse)?;
    replace(path).map_err(failed)
}

/// Counts and the index, from the messages.
fn put_right(ledger: &mut Ledger, problems: Vec<String>) -> Result<RepairReport, LedgerError> {
    if !problems.is_empty() {
        ledger.database.write(complete)?;
        ledger.rebuild_index(&|_| {})?;
    }
    let now = ledger.verify(&|_, _| {})?;
    let mark = |problem: String| match now.problems.contains(&problem) {
        true => format!("not repaired: {problem}"),
        false => format!("repaired: {problem}"),
    };
    Ok(RepairReport {
        sessions: now.sessions,
        messages: now.messages,
        notes: problems.into_iter().map(mark).collect(),
        ..RepairReport::default()
    })
}

fn make_anew(
    path: &Path,
    now: Time,
    progress: &dyn Fn(u64, u64),
) -> Result<RepairReport, RepairError> {
    let failed = |source| RepairError::Io { path: path.to_owned(), source };
    // Every connection holds a lock on the file, so that this one is had only if there is none,
    // and keeps others out. It would be lost if this process opened and closed the file once
    // more: what is read from here on is the copy.
    let mut lock = lock(path).map_err(failed)?.ok_or(RepairError::InUse)?;
    let backup = back_up(path, &mut lock, now).map_err(failed)?;
    let fresh = beside(path, "repaired");
    remove(&fresh).map_err(failed)?;

    let damaged = DamagedDatabase::open(&backup).map_err(failed)?;
    let mut ledger = Ledger::open_alone(&fresh, &Options::default())?;
    let mut report = ledger.database.write(|transaction| {
        let report = refill(transaction, &damaged, progress)?;
        complete(transaction)?;
        Ok::<_, LedgerError>(report)
    })?;
    ledger.optimize(&|_| {})?;
    report.sessions = number(ledger.database.reader()?, "SELECT count(*) FROM sessions")?;
    report.messages = number(ledger.database.reader()?, "SELECT count(*) FROM messages")?;
    drop(ledger);

    make_ready(path, &fresh).map_err(failed)?;
    replace(path).map_err(failed)?;
    report.backup = Some(backup);
    Ok(report)
}

/// How long a repair waits for other processes to close the ledger. Hooks have it open for
/// milliseconds, and a server closes it when no request comes for a moment.
const PATIENCE: Duration = Duration::from_secs(3);

/// Takes a lock that no open connection allows; `None` if there is one all the time.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let start = Instant::now();
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        if start.elapsed() > PATIENCE {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// `state.db` → `state.db.<what>`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the database and its log, durably.
fn back_up(path: &Path, locked: &mut File, now: Time) -> io::Result<PathBuf> {
    let mut backup = beside(path, &format!("damaged-{}", now.0));
    let mut number = 1;
    while backup.try_exists()? {
        number += 1;
        backup = beside(path, &format!("damaged-{}-{number}", now.0));
    }
    copy(locked, &backup)?;
    for suffix in ["-wal", "-journal"] {
        let log = with_suffix(path, suffix);
        if log.try_exists()? {
            copy(&mut File::open(&log)?, &with_suffix(&backup, suffix))?;
        }
    }
    Ok(backup)
}

fn copy(from: &mut File, to: &Path) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(from, &mut out)?;
    out.sync_all()
}

fn remove(database: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(with_suffix(database, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// From here on, the new database counts.
fn make_ready(path: &Path, fresh: &Path) -> io::Result<()> {
    let log = with_suffix(fresh, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(io::Error::other("the new database is not complete without its log"));
    }
    File::open(fresh)?.sync_all()?;
    fs::rename(fresh, ready(path))?;
    remove(fresh)?;
    sync_directory(path)
}

/// Puts the new database in place. The old log goes first: it must never meet the new database.
fn replace(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_directory(path)?;
    fs::rename(ready(path), path)?;
    sync_directory(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// A table as this version makes it.
struct Table {
    name: String,
    /// Declared types, in order; whether NULL is allowed.
    columns: Vec<(String, String, bool)>,
}

/// Writes every row that can be read into the new database.
fn refill(
    transaction: &Transaction<'_>,
    damaged: &DamagedDatabase,
    progress: &dyn Fn(u64, u64),
) -> Result<RepairReport, LedgerError> {
    let tables = tables(transaction)?;
    let mut report = RepairReport::default();
    let mut unknown = 0_u64;
    let mut rows = damaged.rows();
    let mut saved = 0;
    // Rows that a table's own tree leads to come first, so that old copies of them lose.
    for row in rows.by_ref() {
        if row.table.as_deref() == Some("spooled") {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO spooled (id) VALUES (?1)")?
                .execute(params_from_iter(row.values.into_iter().take(1).map(sql_value)))?;
            continue;
        }
        let table = match &row.table {
            Some(name) => tables.iter().find(|table| table.name == *name),
            None => fitting(&tables, &row),
        };
        let Some(table) = table else {
            unknown += u64::from(row.table.is_none());
            continue;
        };
        let is_orphan = row.table.is_none();
        if insert(transaction, table, row)? {
            saved += 1;
            report.orphans += u64::from(is_orphan);
            report.other_rows += u64::from(!matches!(table.name.as_str(), "sessions" | "messages"));
            progress(saved, 0);
        }
    }
    let read = rows.report();
    report.unreadable_pages = u64::from(read.unreadable_pages);
    if unknown > 0 {
        report.notes.push(format!("{unknown} rows of unknown kind were left in the backup"));
    }
    if read.skipped_cells > 0 {
        report.notes.push(format!("{} rows could not be read", read.skipped_cells));
    }
    if report.orphans > 0 && !read.freelist_whole {
        report.notes.push("rows that had been deleted may have come back".to_owned());
    }
    if !read.header_readable || !read.schema_whole {
        report.notes.push("the head of the database was damaged".to_owned());
    }
    Ok(report)
}

fn tables(connection: &Connection) -> Result<Vec<Table>, LedgerError> {
    let mut tables = Vec::new();
    for name in PARTS.iter().chain(&["sessions", "bookmarks"]) {
        let mut statement = connection.prepare(&format!("PRAGMA table_info({name})"))?;
        let columns = statement
            .query_map([], |row| Ok((row.get(1)?, row.get(2)?, !row.get::<_, bool>(3)?)))?
            .collect::<Result<_, _>>()?;
        tables.push(Table { name: (*name).to_owned(), columns });
    }
    Ok(tables)
}

/// The only table that a row without one can belong to, by number and types of its values.
fn fitting<'t>(tables: &'t [Table], row: &SalvagedRow) -> Option<&'t Table> {
    let fits = |table: &&Table| {
        table.columns.len() == row.values.len()
            && table.columns.iter().zip(&row.values).skip(1).all(
                |((_, declared, nullable), value)| match (declared.as_str(), value) {
                    (_, salvage::Value::Null) => *nullable,
                    ("TEXT", salvage::Value::Text(_)) => true,
                    ("INTEGER", salvage::Value::Integer(_)) => true,
                    ("REAL", salvage::Value::Integer(_) | salvage::Value::Real(_)) => true,
                    _ => false,
                },
            )
    };
    let mut fitting = tables.iter().filter(fits);
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Inserts a row, unless there is one of the same identity. The first column is the rowid.
fn insert(
    transaction: &Transaction<'_>,
    table: &Table,
    row: SalvagedRow,
) -> Result<bool, LedgerError> {
    let values = row.values.into_iter().take(table.columns.len());
    let mut values: Vec<Value> = values.map(sql_value).collect();
    let Some(first) = values.first_mut() else { return Ok(false) };
    *first = Value::Integer(row.rowid);
    let names: Vec<&str> =
        table.columns.iter().take(values.len()).map(|(name, ..)| name.as_str()).collect();
    let marks = vec!["?"; values.len()].join(", ");
    let sql =
        format!("INSERT OR IGNORE INTO {} ({}) VALUES ({marks})", table.name, names.join(", "));
    Ok(transaction.prepare_cached(&sql)?.execute(params_from_iter(values))? == 1)
}

fn sql_value(value: salvage::Value) -> Value {
    match value {
        salvage::Value::Null => Value::Null,
        salvage::Value::Integer(number) => Value::Integer(number),
        salvage::Value::Real(number) => Value::Real(number),
        salvage::Value::Text(text) => Value::Text(text),
        salvage::Value::Blob(bytes) => Value::Blob(bytes),
    }
}

/// Makes the parts fit together: sessions for messages that have none, turns, counts.
fn complete(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    let mut lost: HashMap<i64, i64> = HashMap::new();
    for table in PARTS {
        let time = if *table == "messages" { "ifnull(min(timestamp), 0)" } else { "0" };
        let mut statement = transaction.prepare(&format!(
            "SELECT session, {time} FROM {table}
             WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let earliest = lost.entry(key).or_insert(time);
            *earliest = (*earliest).max(time);
        }
    }
    for (key, time) in lost {
        transaction.execute(
            "INSERT INTO sessions (key, id, source, started_at, last_activity)
             VALUES (?1, 'recovered:' || ?1, 'recovered', ?2, ?2)",
            params![key, time],
        )?;
    }
    transaction.execute_batch(
        "INSERT OR IGNORE INTO turns (session, turn, first_seq, started_at, undone)
             SELECT session, turn, min(seq), min(timestamp), min(undone) FROM messages
             WHERE turn > 0 GROUP BY session, turn;
         UPDATE sessions SET
             last_seq = max(last_seq, ifnull((SELECT max(seq) FROM messages WHERE session = key), 0)),
             last_turn = max(last_turn, ifnull((SELECT max(turn) FROM messages WHERE session = key), 0)),
             last_activity = max(last_activity,
                 ifnull((SELECT max(timestamp) FROM messages WHERE session = key), 0));",
    )?;
    let mut statement = transaction.prepare("SELECT key FROM sessions")?;
    let keys = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    keys.into_iter().try_for_each(|key| turns::recount(transaction, key))
}

fn number(connection: &Connection, sql: &str) -> Result<u64, LedgerError> {
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}
