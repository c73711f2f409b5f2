//! Hints for the errors of the fleet.

use takeback_fleet::FleetError;

use crate::failure::Failure;

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Failure {
        let hint = match &error {
            FleetError::NotConfigured => {
                "run `takeback config set fleet.postgres postgres://…`, or set TAKEBACK_FLEET_POSTGRES"
            }
            FleetError::BadAddress(_) => {
                "fix `fleet.postgres` in config.toml, or TAKEBACK_FLEET_POSTGRES"
            }
            FleetError::BadName(_) | FleetError::NameTaken(_) => {
                "choose another name with `takeback config set fleet.name NAME`"
            }
            FleetError::Unreachable { .. } | FleetError::Slow { .. } => {
                "nothing is lost: unshipped changes stay in the ledger until the database answers"
            }
            FleetError::Tls { .. } => "check the file that `sslrootcert` names in the address",
            FleetError::Certificate { .. } => {
                "nothing was sent; use the server's name from its certificate, and make the system \
                 trust the authority that issued it, or add `?sslrootcert=FILE` to the address"
            }
            FleetError::Password { .. } | FleetError::NoDatabase { .. } => {
                "check `fleet.postgres` in config.toml, or TAKEBACK_FLEET_POSTGRES"
            }
            FleetError::Permission { .. } => {
                "`takeback fleet init` needs a user who may create a schema in the database"
            }
            FleetError::NotWritable { .. } => {
                "nothing is lost: unshipped changes stay in the ledger; make room in the database"
            }
            FleetError::Encoding { .. } => {
                "create another database with `createdb --encoding UTF8`"
            }
            FleetError::NoFleet { .. } | FleetError::NotJoined { .. } => {
                "run `takeback fleet init`"
            }
            FleetError::OlderSchema { .. } => "`takeback fleet init` brings it up to date",
            FleetError::NewerSchema { .. } => "nothing was changed; update takeback",
            FleetError::OtherFleet { .. } => {
                "check the address; to move to that fleet, remove the directory `fleet` in \
                 takeback's home and run `takeback fleet init`"
            }
            FleetError::NoKey => {
                "set TAKEBACK_FLEET_KEY, or pass --key-file FILE to `takeback fleet init`; \
                 the machine that created the fleet keeps the key in `fleet/key` in its home"
            }
            FleetError::WrongKey => "the key begins with tkbk- and has 64 digits after that",
            FleetError::Diverged => {
                "run `takeback fleet init --new-machine` if this home is a copy of another \
                 machine's, or `takeback fleet init --resend` if this ledger, or the database, is \
                 an older copy"
            }
            FleetError::Busy => "try again when that process is done",
            FleetError::BadRow(_) | FleetError::Database { .. } => {
                "the ledger of this machine is intact"
            }
            FleetError::File { .. } => {
                "check the permissions and the free space of takeback's directory"
            }
            FleetError::Thread { .. } | FleetError::Ledger(_) => "",
        };
        match error {
            FleetError::Ledger(error) => error.into(),
            error => Failure::of(&error).hint(hint),
        }
    }
}
