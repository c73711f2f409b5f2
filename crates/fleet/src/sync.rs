//! Shipping: the changes in the outbox go to the fleet's database, in batches.
//!
//! Each batch is one transaction that begins by locking the machine's row, so batches of one
//! machine arrive one after the other. The batch of a process that was killed cannot be committed
//! after a later batch has begun. Rows are read after the lock is taken, so a batch that arrives
//! later has newer rows.

use postgres::Transaction;
use postgres::error::SqlState;
use takeback_base::durable::FileLock;
use takeback_base::errors::error_messages;
use takeback_base::hex;
use takeback_base::lock_wait::LockWait;
use takeback_ledger::{Announced, Ledger, Time};

use crate::apply::apply_batch;
use crate::connection::Connection;
use crate::identity::Identity;
use crate::seal::Sealer;
use crate::status::write_last_sync;
use crate::{Fleet, FleetError};

/// The number of rows, and of bytes of text, after which a batch is full.
const BATCH_ROWS: usize = 2_000;
const BATCH_BYTES: usize = 8 << 20;

/// The result of shipping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SyncReport {
    /// The number of rows that arrived, including deleted rows.
    pub rows: u64,
    pub batches: u64,
}

/// The result of one batch.
enum Shipped {
    Rows(usize),
    /// Nothing was left to ship.
    Nothing,
    /// The machine's row is missing.
    NotJoined,
    Diverged,
}

/// The reason why a batch was not shipped.
enum BatchError {
    Database(postgres::Error),
    Fleet(FleetError),
}

impl From<postgres::Error> for BatchError {
    fn from(error: postgres::Error) -> BatchError {
        BatchError::Database(error)
    }
}

impl<E: Into<FleetError>> From<E> for BatchError {
    fn from(error: E) -> BatchError {
        BatchError::Fleet(error.into())
    }
}

impl Fleet {
    /// Ships everything that has changed since the last time. `progress` is called with the number
    /// of rows that have arrived. Fails with [`FleetError::Busy`] if another process does not
    /// finish shipping in time.
    pub fn sync(
        &self,
        ledger: &mut Ledger,
        now: Time,
        progress: &dyn Fn(u64),
    ) -> Result<SyncReport, FleetError> {
        self.ship_alone(Some(&self.lock_wait), now, || {
            let (mut connection, identity) = self.connect()?;
            let sealer = self.sealer()?;
            self.ship_all((&mut connection, &identity), &sealer, ledger, progress)
        })
    }

    /// Ships while no other process of this machine is shipping, and writes down the result.
    pub(crate) fn ship_alone(
        &self,
        wait: Option<&LockWait>,
        now: Time,
        ship: impl FnOnce() -> Result<SyncReport, FleetError>,
    ) -> Result<SyncReport, FleetError> {
        let path = self.files.path_in_new("lock")?;
        let lock = match wait {
            Some(wait) => FileLock::exclusive_within(&path, wait),
            None => FileLock::try_exclusive(&path),
        };
        let lock =
            lock.map_err(|source| FleetError::File { path, source })?.ok_or(FleetError::Busy)?;
        let result = ship();
        let failure = result.as_ref().err().map(|error| error_messages(error).join(": "));
        write_last_sync(&self.files, failure, now);
        drop(lock);
        result
    }

    /// Ships over an open connection.
    pub(crate) fn ship_all(
        &self,
        (connection, identity): (&mut Connection, &Identity),
        sealer: &Sealer,
        ledger: &mut Ledger,
        progress: &dyn Fn(u64),
    ) -> Result<SyncReport, FleetError> {
        ledger.start_outbox()?;
        let mut report = SyncReport::default();
        loop {
            let target = connection.target.clone();
            let shipped = match connection.client.transaction() {
                Ok(transaction) => self.ship_batch(transaction, identity, sealer, ledger),
                Err(error) => Err(error.into()),
            };
            match shipped {
                Ok(Shipped::Rows(rows)) => {
                    report.rows += rows as u64;
                    report.batches += 1;
                    progress(report.rows);
                }
                Ok(Shipped::Nothing) => return Ok(report),
                Ok(Shipped::NotJoined) => return Err(FleetError::NotJoined { target }),
                Ok(Shipped::Diverged) => return Err(FleetError::Diverged),
                Err(BatchError::Fleet(error)) => return Err(error),
                Err(BatchError::Database(error)) if is_taken_name(&error) => {
                    return Err(FleetError::NameTaken(self.name.clone()));
                }
                Err(BatchError::Database(error)) => {
                    return Err(FleetError::from_postgres(error, &target));
                }
            }
        }
    }

    fn ship_batch(
        &self,
        mut transaction: Transaction<'_>,
        identity: &Identity,
        sealer: &Sealer,
        ledger: &mut Ledger,
    ) -> Result<Shipped, BatchError> {
        let machine = transaction.query_opt(
            "SELECT key, receipt FROM takeback.machines WHERE id = $1 FOR UPDATE",
            &[&identity.machine],
        )?;
        let Some(machine) = machine else { return Ok(Shipped::NotJoined) };
        let (key, last): (i32, Option<String>) = (machine.get(0), machine.get(1));
        let receipt = hex::random_digits(32);
        if ledger.announce_batch(last.as_deref(), &receipt)? == Announced::Foreign {
            return Ok(Shipped::Diverged);
        }
        let batch = ledger.read_batch(BATCH_ROWS, BATCH_BYTES)?;
        let receipt_there = if batch.is_empty() { last.as_deref() } else { Some(receipt.as_str()) };
        apply_batch(&mut transaction, &batch, (key, &identity.machine), sealer)?;
        transaction.execute(
            "UPDATE takeback.machines SET receipt = $2, name = $3, version = $4, seen_at = now()
             WHERE key = $1",
            &[&key, &receipt_there, &self.name, &self.version],
        )?;
        transaction.commit()?;
        if batch.is_empty() {
            return Ok(Shipped::Nothing);
        }
        ledger.confirm_batch(&batch, &receipt)?;
        Ok(Shipped::Rows(batch.len()))
    }
}

fn is_taken_name(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
        && error.as_db_error().and_then(|error| error.constraint()) == Some("machines_name")
}
