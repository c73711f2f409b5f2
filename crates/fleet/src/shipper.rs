//! Shipping by a long-running process: it keeps its connection open, so that it need not connect
//! again for each batch.

use takeback_ledger::{Ledger, Time};

use crate::connection::Connection;
use crate::identity::Identity;
use crate::seal::Sealer;
use crate::{Fleet, FleetError, SyncReport};

/// Ships changes over a connection that stays open.
pub struct Shipper {
    fleet: Fleet,
    open: Option<(Connection, Identity, Sealer)>,
}

impl Shipper {
    /// Creates a shipper without connecting to the database.
    pub fn new(fleet: Fleet) -> Shipper {
        Shipper { fleet, open: None }
    }

    /// Ships everything that has changed since the last time, as [`Fleet::sync`] does. If the
    /// connection has been cut since then, opens a new one.
    pub fn ship(&mut self, ledger: &mut Ledger, now: Time) -> Result<SyncReport, FleetError> {
        let Shipper { fleet, open } = self;
        let was_open = open.is_some();
        fleet.ship_alone(None, now, || {
            let result = ship_over(fleet, open, ledger);
            match result {
                Err(FleetError::Unreachable { .. }) if was_open => ship_over(fleet, open, ledger),
                result => result,
            }
        })
    }
}

fn ship_over(
    fleet: &Fleet,
    open: &mut Option<(Connection, Identity, Sealer)>,
    ledger: &mut Ledger,
) -> Result<SyncReport, FleetError> {
    // After a failure, nothing is known about the connection, so it is closed.
    let (mut connection, identity, sealer) = match open.take() {
        Some(open) => open,
        None => {
            let (connection, identity) = fleet.connect()?;
            (connection, identity, fleet.sealer()?)
        }
    };
    let report = fleet.ship_all((&mut connection, &identity), &sealer, ledger, &|_| {})?;
    *open = Some((connection, identity, sealer));
    Ok(report)
}
