//! Shippers that are killed at random points while the ledger is written to.

use std::process::{Command, Stdio};
use std::time::Duration;

use takeback_fleet::FleetSettings;

use crate::machine::{Machine, at, open_fleet, open_ledger, shipped_messages};
use crate::server::Server;

/// Ships until the test below kills this process. The variable `SHIPPER_HOME` names the home.
#[test]
fn ship_until_killed() {
    let Some(home) = std::env::var_os("SHIPPER_HOME") else { return };
    let settings = FleetSettings {
        name: Some("first".into()),
        postgres: std::env::var("SHIPPER_ADDRESS").ok(),
        ..FleetSettings::default()
    };
    let home = std::path::Path::new(&home);
    let mut ledger = open_ledger(&home.join("state.db"));
    loop {
        let _ = open_fleet(home, &settings).sync(&mut ledger, at(1), &|_| {});
    }
}

#[test]
fn everything_arrives_exactly_once_although_shippers_are_killed() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "kills::ship_until_killed", "--test-threads=1"]);
    child.env("SHIPPER_HOME", machine.home()).env("SHIPPER_ADDRESS", server.address());
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for round in 0..15_u64 {
        let mut shipper = child.spawn().unwrap();
        for number in 0..40 {
            let session = format!("claude:{}", number % 3);
            machine.say(
                &session,
                if number % 4 == 0 { "user" } else { "tool" },
                &format!("{round} {number}"),
            );
        }
        let _ = machine.ledger.rewind_turns("claude:0", 1, at(2));
        if round % 5 == 4 {
            machine.ledger.delete_session("claude:1").unwrap();
        }
        // The moment of the kill differs from round to round.
        std::thread::sleep(Duration::from_millis(round * 17 % 90));
        shipper.kill().unwrap();
        shipper.wait().unwrap();
    }
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
    assert_eq!(machine.waiting(), 0);
    let turns = server.query("SELECT count(*) FROM takeback.turns");
    let known = ["claude:0", "claude:1", "claude:2"]
        .map(|id| machine.ledger.turns(id).map_or(0, |it| it.len()));
    assert_eq!(turns, known.iter().sum::<usize>().to_string());
}
