//! Creating and joining a fleet.

use std::fs;

use takeback_fleet::{Encrypt, FleetError, JoinOptions};

use crate::machine::Machine;
use crate::server::{PASSWORD, Server};

#[test]
fn a_fleet_is_created_once_and_joined_with_its_key() {
    let Some(server) = Server::start() else { return };
    let (mut first, key) = Machine::first(&server.address());
    assert!(key.starts_with("tkbk-"));
    let again = first.join(&JoinOptions::default()).unwrap();
    assert!(again.new_key.is_none() && !again.is_new_machine, "{again:?}");

    let mut second = Machine::new("second", &server.address());
    assert!(matches!(second.join(&JoinOptions::default()), Err(FleetError::NoKey)));
    let wrong = format!("tkbk-{}", "0".repeat(64));
    assert!(matches!(second.join_with(&wrong), Err(FleetError::WrongKey)));
    assert!(matches!(second.join_with("x"), Err(FleetError::WrongKey)));
    second.settings.name = Some("first".into());
    assert!(matches!(second.join_with(&key), Err(FleetError::NameTaken(_))));
    second.settings.name = Some("second".into());
    assert!(second.join_with(&key).unwrap().is_new_machine);

    let mut open = Machine::new("open", &server.address());
    open.settings.encrypt = Encrypt::Off;
    assert!(open.join(&JoinOptions::default()).unwrap().is_new_machine, "without a key");

    let machines = second.fleet().machines().unwrap();
    let names: Vec<_> = machines.iter().map(|machine| (&*machine.name, machine.is_this)).collect();
    assert_eq!(names, [("first", false), ("open", false), ("second", true)]);
    let everything = server.query("SELECT f.*, m.* FROM takeback.fleet f, takeback.machines m");
    let digits = key.strip_prefix("tkbk-").unwrap();
    assert!(!everything.contains(digits), "the key is not stored with the data");
}

#[test]
fn a_cut_off_creation_is_finished_with_the_same_key() {
    let Some(server) = Server::start() else { return };
    let (mut first, key) = Machine::first(&server.address());
    // The files are written before the transaction is committed. Simulate a crash in between, after
    // which the database has no fleet.
    server.query("DROP SCHEMA takeback CASCADE");
    first.say("claude:a", "user", "hello");
    let again = first.join(&JoinOptions::default()).unwrap();
    assert_eq!(again.new_key.as_ref(), Some(&key));
    first.sync().unwrap();
    assert_eq!(server.query("SELECT count(*) FROM takeback.messages"), "1");
}

#[test]
fn another_fleet_in_the_database_is_noticed() {
    let Some(server) = Server::start() else { return };
    let (mut first, _) = Machine::first(&server.address());
    server.query("UPDATE takeback.fleet SET id = 'other'");
    assert!(matches!(first.sync(), Err(FleetError::OtherFleet { .. })));
    assert!(matches!(first.join(&JoinOptions::default()), Err(FleetError::OtherFleet { .. })));
    let stranger = Machine::new("stranger", &server.address());
    assert!(matches!(stranger.fleet().machines(), Err(FleetError::NotJoined { .. })));
    let identity = fs::metadata(first.home().join("fleet/key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&identity.permissions()) & 0o777, 0o600);
}

#[test]
fn each_reason_for_a_refusal_has_its_own_error() {
    let Some(server) = Server::start() else { return };
    let try_address = |address: &str| {
        let error = Machine::new("m", address).join(&JoinOptions::default()).unwrap_err();
        let text = takeback_base::errors::error_messages(&error).join(": ");
        assert!(!text.contains("correct") && !text.contains("guess"), "{text}");
        error
    };
    let error = try_address(&server.tcp_address("guess", "fleet"));
    assert!(matches!(error, FleetError::Password { .. }), "{error:?}");
    let error = try_address(&server.tcp_address(PASSWORD, "absent"));
    assert!(matches!(error, FleetError::NoDatabase { .. }), "{error:?}");
    let error = try_address("postgres://takeback:guess@127.0.0.1:1/fleet");
    assert!(matches!(error, FleetError::Unreachable { .. }), "{error:?}");
    let error = try_address("mysql://127.0.0.1/fleet");
    assert!(matches!(error, FleetError::BadAddress(_)), "{error:?}");

    server
        .psql("postgres", "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
        .unwrap();
    let error = try_address(&server.tcp_address(PASSWORD, "ascii"));
    assert!(matches!(error, FleetError::Encoding { .. }), "{error:?}");

    server.psql("postgres", "CREATE USER weak PASSWORD 'guess'").unwrap();
    let weak = server.tcp_address("guess", "fleet").replace("takeback:", "weak:");
    let error = try_address(&weak);
    assert!(matches!(error, FleetError::Permission { .. }), "{error:?}");
    let mut allowed = Machine::new("m", &server.tcp_address(PASSWORD, "fleet"));
    allowed.join(&JoinOptions::default()).unwrap();
}
