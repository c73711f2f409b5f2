//! Hints for errors of the ledger, and for errors in reading the logs of other agents.

use takeback_agents::LogError;
use takeback_import::hermes::HermesError;
use takeback_ledger::{ExchangeError, LedgerError, OpenError, RepairError, TitleError};

use super::task::hint_task;
use super::{BUSY, SPACE};
use crate::failure::Failure;

const REPAIR_LEDGER: &str =
    "`takeback sessions repair` recovers what is readable and keeps the damaged file";

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            OpenError::Io { .. } | OpenError::Sqlite { .. } => failure.hint(SPACE),
            OpenError::TooNew { .. } => failure.hint("nothing was changed; update takeback"),
            OpenError::Foreign { .. } => failure
                .hint("move that file out of the way, or choose another directory with --home"),
            OpenError::Damaged { .. } => failure.hint(REPAIR_LEDGER),
            OpenError::Unfinished { .. } => failure.hint("`takeback sessions repair` finishes it"),
            OpenError::Network { .. } => failure.hint(
                "stop the other takeback processes and retry, or choose a local directory with \
                 --home",
            ),
        }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            LedgerError::Busy { .. } => failure.hint(BUSY),
            LedgerError::NoSuchSession(_) => {
                failure.hint("`takeback sessions list` lists the sessions")
            }
            LedgerError::Ambiguous { .. } => failure.hint("give more of the id"),
            LedgerError::NoSuchMessage { session, .. } => failure.hint(format!(
                "`takeback sessions show {session}` shows the numbers of its messages"
            )),
            LedgerError::Title(TitleError::Taken { .. }) => {
                failure.hint("choose another title, or rename the other session first")
            }
            LedgerError::WentOn(_) => {
                failure.hint("`takeback sessions show` still shows them, marked as undone")
            }
            LedgerError::Open(error) => error.into(),
            LedgerError::Damaged(_) => failure.hint(REPAIR_LEDGER),
            LedgerError::Sqlite(_) => failure.hint(SPACE),
            error => hint_task(failure, &error),
        }
    }
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Failure {
        match error {
            ExchangeError::Ledger(error) => error.into(),
            ExchangeError::Io(_) | ExchangeError::LongLine => Failure::of(&error),
        }
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Failure {
        match error {
            RepairError::Open(error) => error.into(),
            RepairError::Ledger(error) => error.into(),
            RepairError::InUse => {
                Failure::of(&error).hint("stop the agents that use it, then try again")
            }
            RepairError::Io { .. } => Failure::of(&error).hint(SPACE),
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        match error {
            LogError::Ledger(error) => error.into(),
            error => Failure::of(&error),
        }
    }
}

impl From<HermesError> for Failure {
    fn from(error: HermesError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            HermesError::Missing { .. } => failure
                .hint("name Hermes's directory: `takeback sessions import --from hermes DIR`"),
            HermesError::Copy { .. } | HermesError::Refused { .. } | HermesError::Sqlite { .. } => {
                failure.hint("nothing was imported; check where the file comes from")
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_error_for_a_busy_ledger_says_what_to_do() {
        let failure = Failure::from(LedgerError::Busy { waited: Duration::from_secs(60) });
        assert_eq!(failure.message, "other processes kept the ledger locked for 60s");
        assert_eq!(failure.hint.as_deref(), Some(BUSY));
    }
}
