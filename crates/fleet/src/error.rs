//! The reasons why an operation on the fleet failed.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use postgres::error::SqlState;
use postgres::types::WrongType;
use takeback_ledger::LedgerError;

/// The reason why an operation on the fleet failed. The ledger on this machine is intact in any
/// case, and changes that could not be shipped stay in its outbox.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum FleetError {
    #[error("no fleet is configured")]
    NotConfigured,
    #[error("{0}")]
    BadAddress(String),
    #[error("{0:?} cannot be the name of a machine")]
    BadName(String),
    #[error("the database {target} cannot be reached")]
    Unreachable { target: String, source: postgres::Error },
    #[error("the database {target} offers no valid encryption")]
    Tls { target: String, source: io::Error },
    #[error("the database {target} cannot be trusted: {problem}")]
    Certificate { target: String, problem: &'static str, source: postgres::Error },
    #[error("the database {target} rejects the user name or the password")]
    Password { target: String, source: postgres::Error },
    #[error("the database {target} does not exist")]
    NoDatabase { target: String, source: postgres::Error },
    #[error("the user is not allowed to do this in the database {target}")]
    Permission { target: String, source: postgres::Error },
    #[error("the database {target} is full or cannot be written to")]
    NotWritable { target: String, source: postgres::Error },
    #[error("the database {target} took too long to answer")]
    Slow { target: String, source: postgres::Error },
    #[error("the database {target} stores text as {encoding}, not as UTF8")]
    Encoding { target: String, encoding: String },
    #[error("the database {target} holds no fleet")]
    NoFleet { target: String },
    #[error("the fleet's schema has version {found}, and this program needs {known}")]
    OlderSchema { found: i32, known: i32 },
    #[error("the fleet's schema has version {found}, and this program knows only {known}")]
    NewerSchema { found: i32, known: i32 },
    #[error("this machine does not belong to the fleet in the database {target}")]
    NotJoined { target: String },
    #[error("this machine belongs to a different fleet than the one in the database {target}")]
    OtherFleet { target: String },
    #[error("another machine of the fleet is called {0:?}")]
    NameTaken(String),
    #[error("the fleet's key is needed")]
    NoKey,
    #[error("this is not the fleet's key")]
    WrongKey,
    /// Another home with the same identity has shipped changes, or this ledger is an older copy.
    #[error("the fleet's last changes from this machine did not come from this ledger")]
    Diverged,
    #[error("another process is shipping")]
    Busy,
    #[error("cannot start a thread")]
    Thread { source: io::Error },
    #[error("a row in the fleet's database cannot be read: {0}")]
    BadRow(String),
    #[error("cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the database {target} reports an error")]
    Database { target: String, source: postgres::Error },
}

impl FleetError {
    /// Classifies an error of the database.
    pub(crate) fn from_postgres(source: postgres::Error, target: &str) -> FleetError {
        let target = target.to_owned();
        if let Some(problem) = crate::tls::explain(&source) {
            return FleetError::Certificate { target, problem, source };
        }
        let Some(code) = source.code().cloned() else {
            // An error without a code comes from the connection, unless a value has an unexpected
            // type.
            let is_of_value = |cause: &(dyn Error + 'static)| cause.is::<WrongType>();
            return match source.source().is_some_and(is_of_value) {
                true => FleetError::Database { target, source },
                false => FleetError::Unreachable { target, source },
            };
        };
        match code {
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                FleetError::Password { target, source }
            }
            SqlState::INVALID_CATALOG_NAME => FleetError::NoDatabase { target, source },
            SqlState::INSUFFICIENT_PRIVILEGE => FleetError::Permission { target, source },
            SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY | SqlState::READ_ONLY_SQL_TRANSACTION => {
                FleetError::NotWritable { target, source }
            }
            SqlState::TOO_MANY_CONNECTIONS
            | SqlState::CANNOT_CONNECT_NOW
            | SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN => FleetError::Unreachable { target, source },
            SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
                FleetError::Slow { target, source }
            }
            _ => FleetError::Database { target, source },
        }
    }
}
