//! Shipping while `chat`, `serve` or `rpc` runs.
//!
//! A thread checks once per second whether the ledger's files have changed, which costs almost
//! nothing. After a change, the thread opens the ledger, ships, and closes the ledger again, so a
//! repair of the ledger need not wait until the process ends. The connection to the database stays
//! open. The process itself never waits for the thread, and can end at any time: the next process
//! ships the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use takeback_fleet::{FleetError, Shipper};
use takeback_ledger::{Ledger, LedgerOptions};

use super::{make_fleet, read_settings};
use crate::context::Context;

/// The time between two checks of the ledger's files.
const LOOK: Duration = Duration::from_secs(1);

/// The longest time between two attempts while the database cannot be used.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The thread that ships. It ends when this value is dropped, after its current batch.
pub(crate) struct ResidentShipper {
    _stop: Sender<()>,
}

impl ResidentShipper {
    /// Starts the thread if this machine belongs to a fleet.
    pub(crate) fn start(context: &Context) -> Option<ResidentShipper> {
        let settings = read_settings(context).ok()??;
        let shipper = Shipper::new(make_fleet(&settings, context).ok()?);
        let context = context.in_directory(&context.directory);
        let path = context.opened().ok()?.ledger_path();
        let (stop, stopped) = channel();
        let ship = move || ship_changes(shipper, &path, &context, &stopped);
        thread::Builder::new().name("fleet-shipper".to_owned()).spawn(ship).ok()?;
        Some(ResidentShipper { _stop: stop })
    }
}

/// Ships whenever the ledger has changed, until the other end of the channel is dropped.
fn ship_changes(mut shipper: Shipper, path: &Path, context: &Context, stopped: &Receiver<()>) {
    let mut seen = None;
    let mut wait = LOOK;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let stamp = Stamp::read(path);
        if seen.as_ref() == Some(&stamp) {
            continue;
        }
        match ship_once(&mut shipper, path, context) {
            Ok(true) => (seen, wait) = (Some(stamp), LOOK),
            // Look again soon: the ledger may have changed again, and another process that was
            // shipping may have missed the latest changes.
            Ok(false) | Err(FleetError::Busy) => wait = LOOK,
            // `takeback fleet status` shows the failure.
            Err(_) => wait = (wait * 2).min(LONGEST_WAIT),
        }
    }
}

/// Ships the changes in the ledger. Returns true if there was nothing to ship.
fn ship_once(shipper: &mut Shipper, path: &Path, context: &Context) -> Result<bool, FleetError> {
    if !path.exists() {
        return Ok(true);
    }
    let mut ledger = Ledger::open(path, &LedgerOptions::default())
        .map_err(|error| FleetError::Ledger(error.into()))?;
    if ledger.outbox_length()?.unwrap_or(0) == 0 {
        return Ok(true);
    }
    shipper.ship(&mut ledger, context.now())?;
    Ok(false)
}

/// The lengths and modification times of the ledger's database and write-ahead log. An empty log
/// counts as missing, because opening and closing the ledger creates and removes an empty log.
#[derive(PartialEq, Eq)]
struct Stamp([Option<(u64, SystemTime)>; 2]);

impl Stamp {
    fn read(path: &Path) -> Stamp {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let stamp = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            (metadata.len() > 0).then_some((metadata.len(), metadata.modified().ok()?))
        };
        Stamp([stamp(path), stamp(&PathBuf::from(log))])
    }
}
