//! Many processes that work at the same time, and processes that die.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use takeback_ledger::{Ledger, LedgerError, LedgerOptions, MessageFilter, SearchOptions};

use crate::support::{
    FOREVER, Fixture, assert_ends, at, child_arguments, impatient, message, open_raw, random_below,
    run_again, session, tail_length,
};

/// Appends messages to a session and acknowledges each one, until the process is killed or has
/// written as many messages as the argument says.
fn append_and_acknowledge(path: &Path, argument: &str) {
    let (id, count) = argument.split_once(' ').unwrap();
    let mut ledger = Ledger::open(path, &LedgerOptions::default()).unwrap();
    ledger.create_session(&session(id), at(0)).unwrap();
    let first = ledger.session(id).unwrap().message_count;
    for number in first..first + count.parse::<i64>().unwrap() {
        let text = format!("{id} number{number} {}", "words of all kinds ".repeat(20));
        let seq = ledger.append(id, &[message("user", &text)], at(number)).unwrap()[0];
        // The parent has read enough, and has closed the pipe.
        if writeln!(std::io::stdout(), "\nacknowledged {seq}").is_err() {
            return;
        }
    }
}

fn start_writer(test: &str, path: &Path, argument: &str) -> Child {
    run_again(test, path, argument).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads until the child has acknowledged `count` messages or has ended. Returns the last number
/// that it acknowledged.
fn read_acknowledged(child: &mut Child, count: u64) -> i64 {
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
    let messages = ledger.messages(id, MessageFilter::All).unwrap();
    assert!(messages.len() as i64 >= at_least, "{} of {at_least}", messages.len());
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(message.seq, number as i64 + 1);
        let text = message.content.as_ref().and_then(Value::as_str).unwrap();
        assert!(text.starts_with(&format!("{id} number{number} ")), "{text}");
    }
}

#[test]
fn acknowledged_messages_survive_a_kill() {
    if let Some((path, argument)) = child_arguments() {
        return append_and_acknowledge(&path, &argument);
    }
    let fixture = Fixture::new();
    let path = fixture.path();
    drop(fixture.open_another());
    let mut last = 0;
    for _ in 0..12 {
        let mut child =
            start_writer("processes::acknowledged_messages_survive_a_kill", &path, "k 1000000");
        last = read_acknowledged(&mut child, 1 + random_below(300)).max(last);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_complete(&fixture.ledger, "k", last);
    }
    let mut ledger = fixture.open_another();
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    let found = ledger.search("number0", &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 1);
}

#[test]
fn killing_some_of_eight_writers_loses_no_message() {
    if let Some((path, argument)) = child_arguments() {
        return append_and_acknowledge(&path, &argument);
    }
    const TEST: &str = "processes::killing_some_of_eight_writers_loses_no_message";
    let fixture = Fixture::new();
    let path = fixture.path();
    let ids: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
    let mut children: Vec<Child> =
        ids.iter().map(|id| start_writer(TEST, &path, &format!("{id} 250"))).collect();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (child, id) in children.iter_mut().zip(&ids).take(3) {
        last.insert(id, read_acknowledged(child, 20 + random_below(60)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (child, id) in children.iter_mut().zip(&ids).skip(3) {
        last.insert(id, read_acknowledged(child, u64::MAX));
        assert!(child.wait().unwrap().success(), "{id} failed");
    }
    for (id, last) in last {
        assert_complete(&fixture.ledger, id, last);
        assert!(last >= 20);
    }
    assert_eq!(fixture.ledger.session("w7").unwrap().message_count, 250);
    assert!(tail_length(&path) < 700, "{} messages are not indexed", tail_length(&path));
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn readers_do_not_wait_for_a_writer() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "before");
    fixture.ledger.set_wait(Duration::ZERO);
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM messages;").unwrap();
    assert_eq!(fixture.ledger.messages("s", MessageFilter::All).unwrap().len(), 1);
    let found = fixture.ledger.search("before", &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 1);
    // A process that opens the ledger only now can read it, too.
    let options = impatient();
    let late = Ledger::open(&fixture.path(), &options).unwrap();
    assert_eq!(late.messages("s", MessageFilter::All).unwrap().len(), 1);
}

#[test]
fn a_write_that_waits_too_long_fails() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    fixture.ledger.set_wait(Duration::from_millis(30));
    let refused = fixture.ledger.append("s", &[message("user", "late")], at(1));
    assert!(matches!(refused, Err(LedgerError::Busy { waited }) if waited.as_millis() == 30));
    other.execute_batch("ROLLBACK").unwrap();
    fixture.say("s", "user", "in time");
    assert_eq!(fixture.ledger.session("s").unwrap().message_count, 1);
}

#[test]
fn a_write_waits_until_another_is_done() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let path = fixture.path();
    let (begun, wait) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let other = open_raw(&path);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        begun.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        other.execute_batch("COMMIT").unwrap();
    });
    wait.recv().unwrap();
    fixture.say("s", "user", "patient");
    other.join().unwrap();
}

#[test]
fn optimizing_does_not_wait_for_a_reader() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let reader = open_raw(&fixture.path());
    reader.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM messages";
    reader.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap();
    fixture.say("s", "user", "y");
    fixture.ledger.set_wait(FOREVER);
    assert_ends(move || fixture.ledger.optimize(&|_| {}).unwrap());
    drop(reader);
}
