//! Many processes, and processes that die.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use takeback_ledger::{Ledger, LedgerError, Options, SearchOptions, Which};

use crate::support::{Fixture, again, at, message, random, raw, session, told};

/// Appends messages to a session and says each time that it is done, until it is killed or has
/// written as many as were asked for.
fn write_and_tell(path: &Path, argument: &str) {
    let (id, count) = argument.split_once(' ').unwrap();
    let mut ledger = Ledger::open(path, &Options::default()).unwrap();
    ledger.create_session(&session(id), at(0)).unwrap();
    let first = ledger.session(id).unwrap().message_count;
    for number in first..first + count.parse::<i64>().unwrap() {
        let text = format!("{id} number{number} {}", "words of all kinds ".repeat(20));
        let seq = ledger.append(id, &[message("user", &text)], at(number)).unwrap()[0];
        // A pipe that nobody reads any more: the parent has seen enough.
        if writeln!(std::io::stdout(), "\nacknowledged {seq}").is_err() {
            return;
        }
    }
}

fn spawn(test: &str, path: &Path, argument: &str) -> Child {
    again(test, path, argument).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads what the child says until it has acknowledged so many, or is done; gives the last one.
fn acknowledged(child: &mut Child, count: u64) -> i64 {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut last = 0;
    let seqs = lines.map_while(Result::ok).filter_map(|line| {
        line.strip_prefix("acknowledged ").map(|seq| seq.parse::<i64>().unwrap())
    });
    for (seen, seq) in (1..).zip(seqs) {
        last = seq;
        if seen == count {
            break;
        }
    }
    last
}

fn assert_complete(ledger: &Ledger, id: &str, at_least: i64) {
    let messages = ledger.messages(id, Which::All).unwrap();
    assert!(messages.len() as i64 >= at_least, "{} of {at_least}", messages.len());
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(message.seq, number as i64 + 1);
        let text = message.content.as_ref().and_then(Value::as_str).unwrap();
        assert!(text.starts_with(&format!("{id} number{number} ")), "{text}");
    }
}

#[test]
fn what_was_acknowledged_survives_kill() {
    if let Some((path, argument)) = told() {
        return write_and_tell(&path, &argument);
    }
    let fixture = Fixture::new();
    let path = fixture.path();
    drop(fixture.another());
    let mut last = 0;
    for _ in 0..12 {
        let mut child = spawn("processes::what_was_acknowledged_survives_kill", &path, "k 1000000");
        last = acknowledged(&mut child, 1 + random(300)).max(last);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_complete(&fixture.ledger, "k", last);
    }
    let mut ledger = fixture.another();
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    let found = ledger.search("number0", &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 1);
}

#[test]
fn eight_writers_lose_nothing_while_some_are_killed() {
    if let Some((path, argument)) = told() {
        return write_and_tell(&path, &argument);
    }
    const TEST: &str = "processes::eight_writers_lose_nothing_while_some_are_killed";
    let fixture = Fixture::new();
    let path = fixture.path();
    let ids: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
    let mut children: Vec<Child> =
        ids.iter().map(|id| spawn(TEST, &path, &format!("{id} 250"))).collect();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (child, id) in children.iter_mut().zip(&ids).take(3) {
        last.insert(id, acknowledged(child, 20 + random(60)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (child, id) in children.iter_mut().zip(&ids).skip(3) {
        last.insert(id, acknowledged(child, u64::MAX));
        assert!(child.wait().unwrap().success(), "{id} failed");
    }
    for (id, last) in last {
        assert_complete(&fixture.ledger, id, last);
        assert!(last >= 20);
    }
    assert_eq!(fixture.ledger.session("w7").unwrap().message_count, 250);
    assert!(tail(&path) < 700, "{} messages are not indexed", tail(&path));
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn readers_do_not_wait_for_a_writer() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    fixture.say("s", "user", "before");
    fixture.ledger.set_wait(Duration::ZERO);
    let other = raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM messages;").unwrap();
    assert_eq!(fixture.ledger.messages("s", Which::All).unwrap().len(), 1);
    let found = fixture.ledger.search("before", &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 1);
    // A process that starts now gets in, too.
    let options = Options { wait: Duration::ZERO, ..Options::default() };
    let late = Ledger::open(&fixture.path(), &options).unwrap();
    assert_eq!(late.messages("s", Which::All).unwrap().len(), 1);
}

#[test]
fn a_write_that_does_not_get_its_turn_fails_loudly() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let other = raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    fixture.ledger.set_wait(Duration::from_millis(30));
    let refused = fixture.ledger.append("s", &[message("user", "late")], at(1));
    assert!(matches!(refused, Err(LedgerError::Busy { waited }) if waited.as_millis() == 30));
    other.execute_batch("ROLLBACK").unwrap();
    fixture.say("s", "user", "in time");
    assert_eq!(fixture.ledger.session("s").unwrap().message_count, 1);
}

#[test]
fn a_write_waits_for_its_turn() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let path = fixture.path();
    let (begun, wait) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let other = raw(&path);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        begun.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        other.execute_batch("COMMIT").unwrap();
    });
    wait.recv().unwrap();
    fixture.say("s", "user", "patient");
    other.join().unwrap();
}

/// How many messages are not indexed.
fn tail(path: &Path) -> i64 {
    let sql = "SELECT (SELECT max(id) FROM messages) - indexed FROM search_state";
    raw(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn the_unindexed_tail_stays_short() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    for number in 0..600 {
        fixture.say("s", "user", &format!("text {number}"));
        assert!(tail(&fixture.path()) <= 140, "{number}: {}", tail(&fixture.path()));
    }
    let many: Vec<_> =
        (0..3_000).map(|number| message("user", &format!("more {number}"))).collect();
    fixture.ledger.append("s", &many, at(2)).unwrap();
    assert!(tail(&fixture.path()) <= 140, "{}", tail(&fixture.path()));
    fixture.say("s", "user", &"large ".repeat(10_000));
    assert_eq!(tail(&fixture.path()), 0, "a large message is not left to every search");
}

#[test]
fn little_text_is_left_to_every_search() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    for number in 0..40 {
        fixture.say("s", "user", &format!("{number} {}", "words ".repeat(1_000)));
        assert!(tail(&fixture.path()) <= 6, "{number}: {}", tail(&fixture.path()));
    }
}
