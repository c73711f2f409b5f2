//! Connections to the fleet's database.

use std::net::IpAddr;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};

use crate::settings::{Address, parse_address};
use crate::tls::Rustls;
use crate::{FleetError, schema};

/// The time limit for connecting, unless the address sets another one.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The time after which a connection is considered lost if the other side is silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Time limits for each statement, and for a transaction whose client is silent, for example
/// because its machine is asleep.
///
/// Just-in-time compilation is off, because compiling a search takes ten times as long as the
/// search itself.
const LIMITS: &str = "SET statement_timeout = '120s';
    SET idle_in_transaction_session_timeout = '120s';
    SET jit = off;
    SET client_min_messages = warning";

/// An open connection.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The host and the name of the database, without user and password.
    pub(crate) target: String,
}

impl Connection {
    /// Connects to the database at this address.
    ///
    /// A connection to another machine is encrypted and the server's certificate is checked, unless
    /// the address says `sslmode=disable`. `sslrootcert` names a file with the certificate
    /// authorities to trust in place of the system's.
    pub(crate) fn open(address: &str) -> Result<Connection, FleetError> {
        let Address { mut config, root_certificates } =
            parse_address(address).map_err(FleetError::BadAddress)?;
        config.application_name("takeback");
        config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        let target = name_target(&config);
        let is_open = match config.get_ssl_mode() {
            SslMode::Disable => true,
            SslMode::Prefer => {
                root_certificates.is_none() && config.get_hosts().iter().all(is_here)
            }
            _ => false,
        };
        let connected = if is_open {
            config.ssl_mode(SslMode::Disable).connect(NoTls)
        } else {
            let tls = Rustls::new(root_certificates.as_deref())
                .map_err(|source| FleetError::Tls { target: target.clone(), source })?;
            config.ssl_mode(SslMode::Require).connect(tls)
        };
        let client = connected.map_err(|error| FleetError::from_postgres(error, &target))?;
        let mut connection = Connection { client, target };
        connection.run(|client| client.batch_execute(LIMITS))?;
        Ok(connection)
    }

    /// Connects to a fleet's database. Fails if the database holds no fleet, or if its schema does
    /// not have the version that this program knows.
    pub(crate) fn open_fleet(address: &str) -> Result<(Connection, schema::FleetRow), FleetError> {
        let mut connection = Connection::open(address)?;
        let fleet = schema::read_fleet(&mut connection)?;
        match fleet {
            None => Err(FleetError::NoFleet { target: connection.target }),
            Some(fleet) => {
                schema::check_version(fleet.schema)?;
                Ok((connection, fleet))
            }
        }
    }

    /// Runs statements. Turns a failure into a `FleetError` that tells the kinds of failures apart.
    pub(crate) fn run<T>(
        &mut self,
        statements: impl FnOnce(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, FleetError> {
        statements(&mut self.client).map_err(|error| FleetError::from_postgres(error, &self.target))
    }
}

/// True if the host is this machine itself.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

fn name_target(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().map(|port| format!(":{port}")).unwrap_or_default();
    let name = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{host}{port}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_database_contains_no_password() {
        let config = parse_address("postgres://me:secret@db.example:5433/fleet").unwrap().config;
        assert_eq!(name_target(&config), "db.example:5433/fleet");
    }

    #[test]
    fn only_connections_within_this_machine_are_unencrypted() {
        for (address, here) in [
            ("postgres:///d?host=/run/postgresql", true),
            ("postgres://127.0.0.1/d", true),
            ("postgres://[::1]/d", true),
            ("postgres://localhost/d", true),
            ("postgres://db.example/d", false),
            ("postgres://10.0.0.1/d", false),
        ] {
            let config = parse_address(address).unwrap().config;
            assert_eq!(config.get_hosts().iter().all(is_here), here, "{address}");
        }
    }
}
