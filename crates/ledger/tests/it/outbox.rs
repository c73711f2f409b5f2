//! The outbox: every change is shipped, no matter when a shipper is killed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use takeback_ledger::{
    Announced, CallRecord, Change, EffectRecord, Event, Ledger, MessageRecord, OutboxBatch,
    SessionChange, Time, Tokens, Turn, UsageRecord,
};

use crate::support::{Fixture, at, count_rows, message, open_raw, record_event, session};

/// A copy of the ledger, made only from shipped batches.
#[derive(Default)]
struct Copy {
    sessions: BTreeMap<String, SessionCopy>,
    receipt: Option<String>,
    batches: usize,
}

#[derive(Default)]
struct SessionCopy {
    change: Option<SessionChange>,
    messages: BTreeMap<i64, MessageRecord>,
    turns: BTreeMap<i64, Turn>,
    calls: BTreeMap<String, CallRecord>,
    effects: BTreeMap<i64, Vec<EffectRecord>>,
    usage: Vec<UsageRecord>,
}

impl Copy {
    /// Ships one batch of about `rows` rows. If `is_killed` is true, the shipper dies before it
    /// learns that the batch has arrived. Returns false if there was nothing left to ship.
    fn ship(&mut self, ledger: &mut Ledger, rows: usize, is_killed: bool) -> bool {
        self.batches += 1;
        let receipt = self.batches.to_string();
        let announced = ledger.announce_batch(self.receipt.as_deref(), &receipt).unwrap();
        assert_eq!(announced, Announced::Accepted);
        let batch = ledger.read_batch(rows, usize::MAX).unwrap();
        if batch.is_empty() {
            return false;
        }
        self.add(&batch);
        self.receipt = Some(receipt.clone());
        if !is_killed {
            ledger.confirm_batch(&batch, &receipt).unwrap();
        }
        true
    }

    fn ship_all(&mut self, ledger: &mut Ledger) {
        while self.ship(ledger, 7, false) {}
    }

    fn add(&mut self, batch: &OutboxBatch) {
        for id in &batch.deleted {
            self.sessions.remove(id);
        }
        for change in &batch.changes {
            self.add_change(change.clone());
        }
    }

    fn add_change(&mut self, change: Change) {
        match change {
            Change::Session(change) => {
                let copy = self.sessions.entry(change.session.id.clone()).or_default();
                copy.change = Some(change);
            }
            Change::Message(change) => {
                let copy = self.rows_of(&change.session);
                match change.message {
                    Some(row) => copy.messages.insert(change.seq, row.message),
                    None => copy.messages.remove(&change.seq),
                };
            }
            Change::Turn(change) => {
                let copy = self.rows_of(&change.session);
                match change.turn {
                    Some(turn) => copy.turns.insert(change.number, turn),
                    None => copy.turns.remove(&change.number),
                };
            }
            Change::Call(change) => {
                let copy = self.rows_of(&change.session);
                match change.call {
                    Some(call) => copy.calls.insert(change.id, call),
                    None => copy.calls.remove(&change.id),
                };
            }
            Change::Effects(change) => {
                let copy = self.rows_of(&change.session);
                match change.effects.is_empty() {
                    true => copy.effects.remove(&change.turn),
                    false => copy.effects.insert(change.turn, change.effects),
                };
            }
            Change::Usage(change) => self.rows_of(&change.session).usage = change.usage,
        }
    }

    fn rows_of(&mut self, id: &str) -> &mut SessionCopy {
        self.sessions.get_mut(id).expect("a session comes before its rows")
    }

    /// Asserts that the copy has exactly what the ledger has.
    fn assert_complete(&self, ledger: &Ledger) {
        let ids: Vec<&String> = self.sessions.keys().collect();
        let mut known = ledger.session_ids(&[]).unwrap();
        known.sort();
        assert_eq!(ids, known.iter().collect::<Vec<_>>());
        for (id, copy) in &self.sessions {
            let whole = ledger.transcript(id).unwrap();
            assert_eq!(copy.change.as_ref().map(|change| &change.session), Some(&whole.session));
            assert_eq!(copy.messages.values().cloned().collect::<Vec<_>>(), whole.messages);
            assert_eq!(copy.turns.values().cloned().collect::<Vec<_>>(), ledger.turns(id).unwrap());
            let calls = whole.calls.into_iter().map(|call| (call.call.clone(), call));
            assert_eq!(copy.calls, calls.collect::<BTreeMap<_, _>>());
            let mut effects: BTreeMap<i64, Vec<EffectRecord>> = BTreeMap::new();
            for effect in whole.effects {
                effects.entry(effect.turn).or_default().push(effect);
            }
            assert_eq!(copy.effects, effects);
            assert_eq!(copy.usage, whole.usage);
        }
    }
}

fn use_tokens(session: &str, input: i64) -> Event {
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input, ..Tokens::default() },
        ..UsageRecord::default()
    };
    Event::Usage { session: session.into(), usage }
}

fn call(session: &str, id: &str, outcome: Option<&str>) -> Event {
    let call = CallRecord {
        call: id.into(),
        tool: "bash".into(),
        outcome: outcome.map(str::to_owned),
        ..CallRecord::default()
    };
    Event::Call { session: session.into(), call }
}

fn effect(session: &str, command: &str) -> Event {
    let effect =
        EffectRecord { kind: "network".into(), command: command.into(), ..EffectRecord::default() };
    Event::Effect { session: session.into(), effect }
}

/// Makes one of several kinds of changes to one of three sessions.
fn change_something(ledger: &mut Ledger, kind: u8, which: u8, now: Time) {
    let id = ["a", "b", "c"][usize::from(which) % 3];
    if ledger.session(id).is_err() {
        return ledger.create_session(&session(id), now).unwrap();
    }
    let number = now.0.to_string();
    // Some changes are impossible in some states, for example a rewind of an empty conversation.
    match kind % 14 {
        0..=2 => drop(ledger.append(id, &[message("user", &number)], now).unwrap()),
        3 | 4 => drop(ledger.append(id, &[message("assistant", &number)], now).unwrap()),
        5 => drop(ledger.rewind_turns(id, 1, now)),
        6 => drop(ledger.unrewind(id, now)),
        7 => drop(ledger.delete_session(id).unwrap()),
        8 => drop(ledger.clear_messages(id).unwrap()),
        9 => record_event(ledger, call(id, &number, None), now),
        10 => record_event(ledger, effect(id, &number), now),
        11 => record_event(ledger, use_tokens(id, now.0 % 100), now),
        12 => record_event(ledger, Event::TurnEnd { session: id.into() }, now),
        _ => drop(ledger.compact(id, 1, &message("user", &number), now)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_whenever_the_shipper_is_killed(
        before in prop::collection::vec((any::<u8>(), any::<u8>()), 0..30),
        steps in prop::collection::vec((any::<u8>(), any::<u8>(), 0_u8..6), 0..80),
    ) {
        let mut fixture = Fixture::new();
        for (now, (kind, which)) in (1..).zip(before) {
            change_something(&mut fixture.ledger, kind, which, at(now));
        }
        fixture.ledger.start_outbox().unwrap();
        let mut copy = Copy::default();
        for (now, (kind, which, ship)) in (100..).zip(steps) {
            change_something(&mut fixture.ledger, kind, which, at(now));
            if ship < 2 {
                copy.ship(&mut fixture.ledger, 3, ship == 0);
            }
        }
        copy.ship_all(&mut fixture.ledger);
        copy.assert_complete(&fixture.ledger);
        prop_assert_eq!(fixture.ledger.outbox_length().unwrap(), Some(0));
    }
}

#[test]
fn a_row_that_changes_while_it_is_shipped_is_shipped_again() {
    let mut fixture = Fixture::new();
    fixture.ledger.start_outbox().unwrap();
    fixture.create_session("s");
    fixture.say("s", "user", "one");
    let mut copy = Copy::default();
    fixture.ledger.announce_batch(None, "r").unwrap();
    let batch = fixture.ledger.read_batch(100, usize::MAX).unwrap();
    fixture.ledger.rewind_turns("s", 1, at(2)).unwrap();
    fixture.ledger.confirm_batch(&batch, "r").unwrap();
    copy.add(&batch);
    copy.receipt = Some("r".into());
    assert!(!copy.sessions["s"].messages[&1].undone);

    copy.ship_all(&mut fixture.ledger);
    assert!(copy.sessions["s"].messages[&1].undone);
    copy.assert_complete(&fixture.ledger);
}

#[test]
fn a_row_that_changes_often_is_shipped_once() {
    let mut fixture = Fixture::new();
    fixture.ledger.start_outbox().unwrap();
    fixture.create_session("s");
    for number in 0..50 {
        fixture.ledger.set_title("s", Some(&number.to_string())).unwrap();
    }
    assert_eq!(fixture.ledger.outbox_length().unwrap(), Some(1));
}

#[test]
fn without_an_outbox_nothing_is_marked() {
    let mut fixture = Fixture::with_three_turns();
    assert_eq!(fixture.ledger.outbox_length().unwrap(), None);
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'outbox%' OR type = 'trigger'";
    let path = fixture.path();
    let count = || open_raw(&path).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(), 0);
    fixture.ledger.start_outbox().unwrap();
    assert!(count() > 0);
    fixture.ledger.stop_outbox().unwrap();
    assert_eq!(count(), 0, "after the machine has left its fleet");
}

#[test]
fn secrets_are_masked_when_they_are_shipped_but_stay_in_the_ledger() {
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let mut fixture = Fixture::new();
    fixture.ledger.start_outbox().unwrap();
    fixture.create_session("s");
    fixture.say("s", "user", &format!("the token is {secret}"));
    let batch = fixture.ledger.read_batch(100, usize::MAX).unwrap();
    let shipped = format!("{batch:?}").to_lowercase();
    assert!(!shipped.contains(&secret.to_lowercase()), "{shipped}");
    assert!(fixture.current_texts("s")[0].contains(&secret), "the ledger keeps it");
}

#[test]
fn an_older_copy_of_the_ledger_is_noticed() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.start_outbox().unwrap();
    let mut copy = Copy::default();
    copy.ship(&mut fixture.ledger, 100, false);
    let older = fixture.directory.path().join("older.db");
    fixture.ledger.copy_to(&older).unwrap();
    fixture.say("s", "user", "more");
    copy.ship_all(&mut fixture.ledger);

    let options = takeback_ledger::LedgerOptions::default();
    let mut older = Ledger::open(&older, &options).unwrap();
    older.append("s", &[message("user", "other")], at(9)).unwrap();
    let announced = older.announce_batch(copy.receipt.as_deref(), "x").unwrap();
    assert_eq!(announced, Announced::Foreign);
    // The user decides to ship everything again.
    older.restart_outbox().unwrap();
    copy.ship_all(&mut older);
    copy.assert_complete(&older);
}

#[test]
fn a_fleet_that_has_forgotten_what_was_shipped_is_noticed() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.start_outbox().unwrap();
    Copy::default().ship_all(&mut fixture.ledger);
    let announced = fixture.ledger.announce_batch(None, "x").unwrap();
    assert_eq!(announced, Announced::Foreign);
}

#[test]
fn a_batch_is_bounded_but_never_empty() {
    let mut fixture = Fixture::new();
    fixture.ledger.start_outbox().unwrap();
    fixture.create_session("s");
    for _ in 0..5 {
        fixture.say("s", "user", &"word ".repeat(1000));
    }
    fixture.ledger.announce_batch(None, "r").unwrap();
    let batch = fixture.ledger.read_batch(100, 1).unwrap();
    let messages = batch.changes.iter().filter(|change| matches!(change, Change::Message(_)));
    assert!(messages.count() <= 1 && !batch.is_empty());
}

#[test]
fn a_repaired_ledger_ships_everything_again_and_deletes_nothing() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.start_outbox().unwrap();
    let mut copy = Copy::default();
    copy.ship_all(&mut fixture.ledger);
    let path = fixture.path();
    let Fixture { directory: _directory, ledger } = fixture;
    drop(ledger);
    takeback_ledger::repair_ledger(&path, at(9), &|_, _| {}).unwrap();

    let mut repaired = Ledger::open(&path, &takeback_ledger::LedgerOptions::default()).unwrap();
    repaired.start_outbox().unwrap();
    copy.ship_all(&mut repaired);
    copy.assert_complete(&repaired);
    assert_eq!(count_rows(&path, "outbox"), 0);
}

/// The length of an outbox of an earlier version tells callers that there is something to ship.
/// The new outbox gets the marks of deletions from the old one, because they exist nowhere else.
#[test]
fn an_outbox_of_an_earlier_version_is_created_again_without_forgetting_deletions() {
    let mut fixture = Fixture::with_three_turns();
    let mut copy = Copy::default();
    fixture.ledger.start_outbox().unwrap();
    copy.ship_all(&mut fixture.ledger);
    assert_eq!(fixture.ledger.outbox_length().unwrap(), Some(0));
    fixture.create_session("deleted");
    copy.ship_all(&mut fixture.ledger);
    fixture.ledger.delete_session("deleted").unwrap();
    let earlier = "ALTER TABLE outbox_state DROP COLUMN until; UPDATE outbox_state SET version = 1";
    open_raw(&fixture.path()).execute_batch(earlier).unwrap();
    assert!(fixture.ledger.outbox_length().unwrap() > Some(0));

    fixture.ledger.start_outbox().unwrap();
    copy.ship_all(&mut fixture.ledger);
    assert_eq!(fixture.ledger.outbox_length().unwrap(), Some(0));
    assert!(!copy.sessions.contains_key("deleted"));
    copy.assert_complete(&fixture.ledger);
}
