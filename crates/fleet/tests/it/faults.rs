//! A database that is down, cut off, or of another version.

use takeback_fleet::FleetError;

use crate::machine::{Machine, at, shipped_messages};
use crate::server::Server;

#[test]
fn a_database_that_is_down_costs_only_time() {
    let Some(mut server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    machine.say("claude:a", "user", "one");
    server.kill();
    let error = machine.sync().unwrap_err();
    assert!(matches!(error, FleetError::Unreachable { .. }), "{error:?}");
    machine.say("claude:a", "user", "two");
    assert!(machine.waiting() >= 3);
    let status = machine.fleet().status(Some(&machine.ledger)).unwrap();
    assert_eq!(status.last.failed_at, Some(at(1_000)));
    assert!(status.last.error.unwrap().contains("cannot be reached"));
    assert!(matches!(status.server, Err(FleetError::Unreachable { .. })));

    server.resume();
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
    let status = machine.fleet().status(Some(&machine.ledger)).unwrap();
    assert_eq!((status.waiting, status.last.error), (Some(0), None));
}

#[test]
fn an_older_and_a_newer_schema_are_refused() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    machine.say("claude:a", "user", "one");
    for (version, is_newer) in [(99, true), (0, false)] {
        server.query(&format!("UPDATE takeback.fleet SET schema = {version}"));
        let error = machine.sync().unwrap_err();
        match is_newer {
            true => assert!(matches!(error, FleetError::NewerSchema { .. }), "{error:?}"),
            false => assert!(matches!(error, FleetError::OlderSchema { .. }), "{error:?}"),
        }
    }
    assert_eq!(machine.waiting(), 3);
    server.query("UPDATE takeback.fleet SET schema = 2");
    machine.sync().unwrap();
    assert_eq!(machine.waiting(), 0);
}

#[test]
fn nothing_is_lost_if_the_connection_is_cut_during_any_statement() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    // A trigger in the database ends the connection at the n-th row.
    server.query(
        "CREATE SEQUENCE cuts;
         CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('cuts') % 10 = 0 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER cut AFTER INSERT OR UPDATE ON takeback.machines EXECUTE FUNCTION cut();
         CREATE TRIGGER cut AFTER INSERT OR UPDATE ON takeback.sessions EXECUTE FUNCTION cut();
         CREATE TRIGGER cut AFTER INSERT OR UPDATE ON takeback.messages EXECUTE FUNCTION cut();
         CREATE TRIGGER cut AFTER INSERT OR UPDATE ON takeback.turns EXECUTE FUNCTION cut();",
    );
    let mut failures = 0;
    for number in 0..12 {
        machine.say("claude:a", "user", &number.to_string());
        while let Err(error) = machine.sync() {
            assert!(matches!(error, FleetError::Unreachable { .. }), "{error:?}");
            failures += 1;
            assert!(failures < 100, "no attempt succeeds");
        }
        assert_eq!(shipped_messages(&server), machine.messages());
    }
    assert!(failures > 3, "{failures}");
}
