//! The journal of tasks in the fleet's database, and leases that are valid on all machines.
//!
//! One statement writes a record: it adds the record and advances the task's position, but only if
//! the task still has the epoch of the writer's lease. If another machine has taken over the lease,
//! the statement changes no row.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use postgres::Statement;
use serde::{Deserialize, Serialize};
use takeback_ledger::{LogContent, LogError, LogLease, LogRecord, LoggedTask, TaskLog, Time};

use crate::connection::Connection;
use crate::seal::{Place, Sealer};
use crate::{Fleet, FleetError};

/// The journal of the fleet's tasks, as one process uses it. The connection stays open.
pub struct FleetJournal(Arc<Shared>);

struct Shared {
    fleet: Fleet,
    sealer: Sealer,
    lease: Duration,
    session: Mutex<Option<Session>>,
    /// The leases that this process renews: the ids of the tasks, and the epochs.
    held: Mutex<BTreeMap<String, i64>>,
    /// Wakes the thread that renews the leases, because `held` has changed.
    changed: Condvar,
}

/// An open connection.
struct Session {
    connection: Connection,
    /// The key of this machine's row in the database.
    machine: i32,
    /// The prepared statement that writes a record.
    write: Statement,
}

/// The fields of a task that are shown in a list.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct TaskNote {
    session: String,
    workspace: Option<String>,
}

impl FleetJournal {
    /// Creates a journal without connecting to the database.
    pub fn new(fleet: Fleet) -> Result<FleetJournal, FleetError> {
        let shared = Arc::new(Shared {
            sealer: fleet.sealer()?,
            lease: Duration::from_secs(fleet.lease_seconds.into()),
            fleet,
            session: Mutex::default(),
            held: Mutex::default(),
            changed: Condvar::new(),
        });
        let renewed = Arc::downgrade(&shared);
        let renew = move || renew_leases(&renewed);
        let thread = thread::Builder::new().name("fleet-leases".to_owned()).spawn(renew);
        thread.map_err(|source| FleetError::Thread { source })?;
        Ok(FleetJournal(shared))
    }
}

impl Drop for FleetJournal {
    fn drop(&mut self) {
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Runs statements on the open connection. Connects first if no connection is open. A
    /// connection that fails is closed.
    fn run<T>(
        &self,
        statements: impl FnOnce(&mut Session) -> Result<T, FleetError>,
    ) -> Result<T, FleetError> {
        let mut slot = lock(&self.session);
        if slot.is_none() {
            *slot = Some(self.connect()?);
        }
        let session = slot.as_mut().expect("it was just opened");
        let result = statements(session);
        if matches!(result, Err(FleetError::Unreachable { .. } | FleetError::Slow { .. })) {
            *slot = None;
        }
        result
    }

    fn connect(&self) -> Result<Session, FleetError> {
        let (mut connection, identity) = self.fleet.connect()?;
        let sql = "SELECT key FROM takeback.machines WHERE id = $1";
        let row = connection.run(|client| client.query_opt(sql, &[&identity.machine]))?;
        match row {
            Some(row) => {
                let write = connection.run(|client| client.prepare(WRITE))?;
                Ok(Session { machine: row.get(0), connection, write })
            }
            None => Err(FleetError::NotJoined { target: connection.target }),
        }
    }

    fn encode<T: Serialize>(&self, value: &T, task: &str, position: i64) -> Vec<u8> {
        self.sealer.encode(value, place_of(task, position))
    }

    /// Determines why a statement changed nothing: an earlier attempt arrived and only its answer
    /// was lost, another machine has the lease, or the task is gone.
    fn explain(&self, lease: &LogLease, position: i64) -> Result<Refused, FleetError> {
        let sql = "SELECT t.epoch, t.position, m.name FROM takeback.tasks t
             JOIN takeback.machines m ON m.key = t.machine WHERE t.id = $1";
        let row = self.run(|session| {
            session.connection.run(|client| client.query_opt(sql, &[&lease.task]))
        })?;
        Ok(match row {
            None => Refused::Gone,
            Some(row) if (row.get(0), row.get(1)) == (lease.epoch, position) => Refused::Arrived,
            Some(row) => Refused::Fenced(row.get(2)),
        })
    }
}

enum Refused {
    Gone,
    Arrived,
    Fenced(String),
}

fn place_of(task: &str, position: i64) -> Place<'_> {
    Place { machine: "", session: task, table: "journal", row: (position, 0) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Classifies an error as temporary or permanent.
fn to_log_error(error: FleetError) -> LogError {
    match error {
        FleetError::Unreachable { .. }
        | FleetError::Slow { .. }
        | FleetError::NotWritable { .. } => LogError::Away(error.into()),
        error => LogError::Failed(error.into()),
    }
}

/// Renews the leases of this process until the journal is closed.
fn renew_leases(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let held = lock(&shared.held);
        let pause = shared.lease / 3;
        let (held, _) =
            shared.changed.wait_timeout(held, pause).unwrap_or_else(PoisonError::into_inner);
        let tasks: Vec<String> = held.keys().cloned().collect();
        let epochs: Vec<i64> = held.values().copied().collect();
        drop(held);
        if tasks.is_empty() {
            continue;
        }
        let seconds = shared.lease.as_secs_f64();
        // An error is ignored: if the lease is lost, the next write fails.
        let _ = shared.run(|session| {
            session.connection.run(|client| client.execute(RENEW, &[&tasks, &epochs, &seconds]))
        });
    }
}

const RENEW: &str = "
    UPDATE takeback.tasks t SET expires_at = clock_timestamp() + make_interval(secs => $3)
    FROM unnest($1::text[], $2::bigint[]) AS g (id, epoch)
    WHERE t.id = g.id AND t.epoch = g.epoch";

const TAKE: &str = "
    INSERT INTO takeback.tasks AS t (id, machine, epoch, expires_at)
    VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
    ON CONFLICT (id) DO UPDATE SET
        machine = excluded.machine, epoch = greatest(t.epoch + 1, excluded.epoch),
        expires_at = excluded.expires_at
    WHERE t.machine = excluded.machine OR t.expires_at IS NULL
        OR t.expires_at < clock_timestamp()
    RETURNING epoch, position, seq, entry_epoch, from_seq, from_epoch,
        (SELECT m.name FROM takeback.machines m WHERE m.key = t.writer AND m.key <> $2)";

const WRITE: &str = "
    WITH fenced AS (
        UPDATE takeback.tasks t SET
            position = $3, seq = $4, entry_epoch = $5, state = coalesce($6, state),
            record = coalesce($7, record), writer = $8, updated_at = clock_timestamp(),
            from_seq = CASE WHEN writer = $8 THEN from_seq ELSE seq END,
            from_epoch = CASE WHEN writer = $8 THEN from_epoch ELSE entry_epoch END,
            expires_at = clock_timestamp() + make_interval(secs => $9)
        WHERE id = $1 AND epoch = $2 AND position = $3::bigint - 1
        RETURNING key)
    INSERT INTO takeback.journal (task, position, is_base, record)
    SELECT key, $3, $10::boolean, $11::bytea FROM fenced";

const HELD: &str = "
    SELECT m.name, greatest(1, ceil(extract(epoch FROM t.expires_at - clock_timestamp())))::bigint
    FROM takeback.tasks t JOIN takeback.machines m ON m.key = t.machine WHERE t.id = $1";

const LIST: &str = "
    SELECT t.id, t.state, t.position, t.record, m.name, t.machine = $1 AS is_this,
        greatest(0, ceil(coalesce(
            extract(epoch FROM t.expires_at - clock_timestamp()), 0)))::bigint AS seconds,
        (extract(epoch FROM t.updated_at) * 1000)::bigint AS updated_at
    FROM takeback.tasks t JOIN takeback.machines m ON m.key = t.machine
    ORDER BY t.updated_at DESC, t.key DESC LIMIT 1000";

impl TaskLog for FleetJournal {
    fn take(&self, task: &str, epoch: i64) -> Result<LogLease, LogError> {
        let seconds = self.0.lease.as_secs_f64();
        let row = self.0.run(|session| {
            let machine = session.machine;
            session
                .connection
                .run(|client| client.query_opt(TAKE, &[&task, &machine, &epoch, &seconds]))
        });
        let Some(row) = row.map_err(to_log_error)? else {
            let held = self
                .0
                .run(|session| session.connection.run(|client| client.query_opt(HELD, &[&task])));
            let held = held.map_err(to_log_error)?;
            let held = held.ok_or_else(|| LogError::NoSuchTask(task.to_owned()))?;
            return Err(LogError::Held { machine: held.get(0), seconds: held.get(1) });
        };
        let lease = LogLease {
            task: task.to_owned(),
            epoch: row.get(0),
            position: row.get(1),
            seq: row.get(2),
            entry_epoch: row.get(3),
            from: (row.get(4), row.get(5)),
            written_by: row.get(6),
        };
        lock(&self.0.held).insert(lease.task.clone(), lease.epoch);
        Ok(lease)
    }

    fn write(&self, lease: &mut LogLease, record: &LogRecord) -> Result<(), LogError> {
        let position = lease.position + 1;
        let (is_base, last, state, note) = describe_record(lease, record);
        let note = note.map(|note| self.0.encode(&note, &lease.task, 0));
        let bytes = self.0.encode(record, &lease.task, position);
        let seconds = self.0.lease.as_secs_f64();
        let written = self.0.run(|session| {
            let machine = session.machine;
            let write = session.write.clone();
            session.connection.run(|client| {
                client.execute(
                    &write,
                    &[
                        &lease.task,
                        &lease.epoch,
                        &position,
                        &last.0,
                        &last.1,
                        &state,
                        &note,
                        &machine,
                        &seconds,
                        &is_base,
                        &bytes,
                    ],
                )
            })
        });
        if written.map_err(to_log_error)? == 0 {
            match self.0.explain(lease, position).map_err(to_log_error)? {
                Refused::Arrived => {}
                Refused::Gone => return Err(LogError::NoSuchTask(lease.task.clone())),
                Refused::Fenced(machine) => {
                    lock(&self.0.held).remove(&lease.task);
                    return Err(LogError::Fenced { machine });
                }
            }
        }
        (lease.position, lease.seq, lease.entry_epoch) = (position, last.0, last.1);
        lease.written_by = None;
        if is_base {
            self.discard_before(lease);
        }
        Ok(())
    }

    fn release(&self, lease: &LogLease) {
        lock(&self.0.held).remove(&lease.task);
        let sql = "UPDATE takeback.tasks SET expires_at = NULL WHERE id = $1 AND epoch = $2";
        // If this fails, the lease expires on its own.
        let _ = self.0.run(|session| {
            session.connection.run(|client| client.execute(sql, &[&lease.task, &lease.epoch]))
        });
    }

    fn read(&self, task: &str) -> Result<Vec<LogRecord>, LogError> {
        let sql = "SELECT j.position, j.record FROM takeback.journal j
             JOIN takeback.tasks t ON t.key = j.task
             WHERE t.id = $1 AND j.position >= (
                 SELECT max(b.position) FROM takeback.journal b WHERE b.task = t.key AND b.is_base)
             ORDER BY j.position";
        let rows = self
            .0
            .run(|session| session.connection.run(|client| client.query(sql, &[&task])))
            .map_err(to_log_error)?;
        if rows.is_empty() {
            return Err(LogError::NoSuchTask(task.to_owned()));
        }
        let decode = |row: &postgres::Row| {
            self.0.sealer.decode(row.get(1), place_of(task, row.get(0))).map_err(to_log_error)
        };
        rows.iter().map(decode).collect()
    }

    fn list(&self) -> Result<Vec<LoggedTask>, LogError> {
        let rows = self.0.run(|session| {
            let machine = session.machine;
            session.connection.run(|client| client.query(LIST, &[&machine]))
        });
        let view = |row: &postgres::Row| {
            let id: String = row.get("id");
            let note = row.get::<_, Option<&[u8]>>("record");
            let note = note.map(|note| self.0.sealer.decode::<TaskNote>(note, place_of(&id, 0)));
            let note = note.transpose().map_err(to_log_error)?.unwrap_or_default();
            let lease_seconds: i64 = row.get("seconds");
            let state: String = row.get("state");
            Ok(LoggedTask {
                session: note.session,
                workspace: note.workspace,
                state: match state.as_str() {
                    "running" if lease_seconds == 0 => "interrupted".to_owned(),
                    _ => state,
                },
                machine: row.get("name"),
                is_this: row.get("is_this"),
                lease_seconds,
                updated_at: Time(row.get("updated_at")),
                id,
            })
        };
        rows.map_err(to_log_error)?.iter().map(view).collect()
    }
}

impl FleetJournal {
    /// Deletes the records before a base. If this fails, the old records remain, which does no
    /// harm.
    fn discard_before(&self, lease: &LogLease) {
        let sql = "DELETE FROM takeback.journal j USING takeback.tasks t
             WHERE t.key = j.task AND t.id = $1 AND t.epoch = $2 AND j.position < $3";
        let _ = self.0.run(|session| {
            session
                .connection
                .run(|client| client.execute(sql, &[&lease.task, &lease.epoch, &lease.position]))
        });
    }
}

/// Returns the columns that describe a record: whether the record is a base, the number and epoch
/// of the last entry, the task's new state, and the fields that are shown in a list.
fn describe_record(
    lease: &LogLease,
    record: &LogRecord,
) -> (bool, (i64, i64), Option<String>, Option<TaskNote>) {
    match &record.content {
        LogContent::Base(base) => {
            let session = base.sessions.last().map(|session| session.session.id.clone());
            let note = TaskNote {
                session: session.unwrap_or_default(),
                workspace: base.workspace.clone(),
            };
            (true, (base.seq, base.epoch), Some(base.state.clone()), Some(note))
        }
        LogContent::Step(step) => {
            let last = step.entries.last();
            let last = last.map_or((lease.seq, lease.entry_epoch), |last| (last.seq, last.epoch));
            (false, last, step.state.clone(), None)
        }
    }
}
