//! Shipping the changes in the ledgers of machines.

use std::fs;
use std::sync::Mutex;

use takeback_base::durable::FileLock;
use takeback_fleet::{Encrypt, FleetError, JoinOptions};
use takeback_ledger::{
    CallRecord, EffectRecord, Event, MessageRecord, SessionRecord, Tokens, UsageRecord,
};

use crate::machine::{Machine, at, open_ledger, open_waiting, shipped_messages};
use crate::server::Server;

#[test]
fn changes_and_rewinds_and_deletions_are_shipped() {
    let Some(server) = Server::start() else { return };
    let mut machine = Machine::new("m", &server.address());
    machine.say("claude:old", "user", "from before the fleet");
    machine.join(&JoinOptions::default()).unwrap();
    machine.say("claude:a", "user", "one");
    machine.say("claude:a", "assistant", "two");
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());

    machine.ledger.rewind_turns("claude:a", 1, at(2)).unwrap();
    machine.say("claude:b", "user", "three");
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
    assert!(machine.messages().contains("claude:a|1|user|t|one"));

    machine.ledger.delete_session("claude:old").unwrap();
    machine.ledger.clear_messages("claude:a").unwrap();
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
    assert_eq!(
        server.query("SELECT string_agg(id, ' ' ORDER BY id) FROM takeback.sessions"),
        "claude:a claude:b"
    );
    assert_eq!(machine.sync().unwrap().rows, 0, "nothing has changed");
}

/// The lock that another process holds while it is shipping.
static HELD: Mutex<Option<FileLock>> = Mutex::new(None);

#[test]
fn a_shipment_waits_until_another_process_has_shipped() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    machine.say("claude:a", "user", "one");
    let path = machine.home().join("fleet/lock");
    *HELD.lock().unwrap() = FileLock::try_exclusive(&path).unwrap();
    // The other process finishes as soon as this process has to wait.
    let on_wait = |_| drop(HELD.lock().unwrap().take());
    let fleet = open_waiting(machine.home(), &machine.settings, on_wait);
    fleet.sync(&mut machine.ledger, at(1_000), &|_| {}).unwrap();
    assert!(HELD.lock().unwrap().is_none(), "the shipment did not wait");
    assert_eq!(shipped_messages(&server), machine.messages());
}

#[test]
fn turns_and_calls_and_effects_and_usage_arrive() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    machine.say("claude:a", "user", "one");
    let session = || "claude:a".to_owned();
    let call = CallRecord {
        call: "c1".into(),
        tool: "bash".into(),
        input: Some(serde_json::json!({ "command": "curl \0 x" })),
        ..CallRecord::default()
    };
    let effect =
        EffectRecord { kind: "network".into(), command: "curl".into(), ..EffectRecord::default() };
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: 7, ..Tokens::default() },
        actual_cost_usd: Some(0.5),
        ..UsageRecord::default()
    };
    let events = [
        Event::Call { session: session(), call },
        Event::Effect { session: session(), effect },
        Event::Usage { session: session(), usage },
        Event::TurnEnd { session: session() },
    ];
    machine.ledger.record(&events, std::time::Duration::from_secs(60), at(3)).unwrap();
    for _ in 0..2 {
        machine.sync().unwrap();
        let row = "SELECT (SELECT count(*) FROM takeback.calls WHERE call = 'c1'),
            (SELECT count(*) FROM takeback.effects),
            (SELECT count(*) FROM takeback.turns WHERE ended_at IS NOT NULL),
            (SELECT sum(input_tokens) FROM takeback.usage), (SELECT sum(actual_cost_usd) FROM takeback.sessions)";
        assert_eq!(server.query(row), "1|1|1|7|0.5");
        machine.ledger.restart_outbox().unwrap();
    }
}

#[test]
fn no_text_is_too_odd_to_be_shipped() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    let many = (0..200_000).map(|number| format!("w{number}")).collect::<Vec<_>>().join(" ");
    let odd = ["nul \0 in text", "it's a \\ 'quote'", "\u{1F600} 漢字 ก", "", &many];
    for text in odd {
        machine.say("claude:a", "user", text);
    }
    let id = format!("odd:\0{}", "x".repeat(5_000));
    let record = SessionRecord {
        id: id.clone(),
        source: "o\0dd".into(),
        title: Some("t\0".into()),
        workspace: Some("/w\0".into()),
        ..SessionRecord::default()
    };
    machine.ledger.create_session(&record, at(0)).unwrap();
    let message = MessageRecord { role: "r\0".into(), ..MessageRecord::default() };
    machine.ledger.append(&id, &[message], at(1)).unwrap();
    machine.sync().unwrap();
    assert_eq!(server.query("SELECT count(*) FROM takeback.messages"), "6");
    assert_eq!(server.query("SELECT count(*) FROM takeback.messages WHERE words IS NULL"), "1");
    machine.ledger.delete_session(&id).unwrap();
    machine.sync().unwrap();
    assert_eq!(server.query("SELECT count(*) FROM takeback.sessions"), "1");
}

#[test]
fn with_encryption_of_everything_nothing_leaves_the_machine_in_readable_form() {
    let Some(server) = Server::start() else { return };
    let mut machine = Machine::new("m", &server.address());
    machine.settings.encrypt = Encrypt::All;
    machine.join(&JoinOptions::default()).unwrap();
    machine.say("claude:a", "user", "pineapple");
    machine.ledger.set_title("claude:a", Some("coconut")).unwrap();
    machine.sync().unwrap();
    let all = server.query(
        "SELECT s.*, m.*, encode(s.record, 'escape'), encode(m.record, 'escape')
         FROM takeback.sessions s, takeback.messages m",
    );
    for word in ["pineapple", "coconut", "/work"] {
        assert!(!all.contains(word), "{all}");
    }
}

#[test]
fn a_copied_home_and_an_older_ledger_are_noticed_and_repaired() {
    let Some(server) = Server::start() else { return };
    let (mut machine, key) = Machine::first(&server.address());
    machine.say("claude:a", "user", "one");
    machine.sync().unwrap();
    let mut copied = Machine::new("first", &server.address());
    fs::create_dir(copied.home().join("fleet")).unwrap();
    for name in ["identity.json", "key"] {
        let [from, to] = [&machine, &copied].map(|it| it.home().join("fleet").join(name));
        fs::copy(from, to).unwrap();
    }
    machine.ledger.copy_to(&copied.path()).unwrap();
    copied.ledger = open_ledger(&copied.path());
    machine.say("claude:a", "user", "two");
    machine.sync().unwrap();

    copied.say("claude:a", "user", "other");
    assert!(matches!(copied.sync(), Err(FleetError::Diverged)));
    assert_eq!(shipped_messages(&server), machine.messages(), "nothing was overwritten");
    copied.settings.name = Some("copy".into());
    let options = JoinOptions { as_new_machine: true, ..JoinOptions::default() };
    copied.join(&options).unwrap();
    copied.sync().unwrap();
    assert_eq!(server.query("SELECT count(*) FROM takeback.messages"), "4");
    machine.say("claude:a", "user", "three");
    machine.sync().unwrap();

    // Simulate a database that was restored from a backup older than the first shipment.
    server.query("DELETE FROM takeback.sessions");
    server.query("UPDATE takeback.machines SET receipt = NULL");
    assert!(matches!(machine.sync(), Err(FleetError::Diverged)));
    let options = JoinOptions { resend: true, key: Some(key), ..JoinOptions::default() };
    machine.join(&options).unwrap();
    machine.sync().unwrap();
    assert_eq!(shipped_messages(&server), machine.messages());
}

#[test]
fn each_row_is_shipped_once() {
    let Some(server) = Server::start() else { return };
    let mut machine = Machine::new("m", &server.address());
    machine.say("claude:old", "user", "from before the fleet");
    machine.join(&JoinOptions::default()).unwrap();
    // These rows are the session, its message, its turn and possibly its usage.
    let old = machine.sync().unwrap().rows;
    assert!((3..=4).contains(&old), "{old}");
    for number in 0..10 {
        machine.say("claude:new", "user", &number.to_string());
    }
    let report = machine.sync().unwrap();
    assert_eq!((report.rows, report.batches), (1 + 10 + 10, 1));
    machine.say("claude:new", "assistant", "done");
    assert_eq!(machine.sync().unwrap().rows, 2, "the session and its message");
}
