//! Ways in which something could get lost, doubled or mixed up, each of them once seen.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::config::DbConfig;
use serde_json::json;
use takeback_ledger::{
    CallRecord, EffectRecord, Event, ImportError, Ledger, ListOptions, MessageRecord, OpenError,
    Options, ParentKind, PruneOptions, Recorded, SessionRecord, Tokens, Transcript, UsageRecord,
    Which, repair,
};

use crate::support::{FOREVER, Fixture, again, at, message, random, raw, session, told};

fn current(ledger: &Ledger, session: &str) -> Vec<String> {
    let text = |message: MessageRecord| message.content.unwrap().as_str().unwrap().to_owned();
    ledger.messages(session, Which::Current).unwrap().into_iter().map(text).collect()
}

fn talk(fixture: &mut Fixture, session: &str, texts: &[&str]) {
    for (number, text) in texts.iter().enumerate() {
        fixture.say(session, if number % 2 == 0 { "user" } else { "assistant" }, text);
    }
}

/// Overwrites the page of an index: visible damage that costs no rows.
fn damage(path: &Path) {
    let connection = raw(path);
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'effects_workspace'";
    let root: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    drop(connection);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0xff; 4096], (root as u64 - 1) * 4096).unwrap();
}

/// A closed ledger with fifty messages in the database and one in the log.
fn closed() -> (tempfile::TempDir, PathBuf) {
    let mut fixture = Fixture::new();
    fixture.session("s");
    for number in 0..50 {
        fixture.say("s", "user", &format!("message {number} {}", "x".repeat(300)));
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.session("log");
    fixture.say("log", "user", "only in the log");
    let Fixture { directory, ledger } = fixture;
    drop(ledger);
    let path = directory.path().join("state.db");
    (directory, path)
}

#[test]
fn a_summary_after_an_undone_summary_sums_up_everything() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    talk(&mut fixture, "s", &["u1", "a1", "u2", "a2"]);
    fixture.ledger.compact("s", 2, &message("user", "sum1"), at(2)).unwrap();
    fixture.ledger.undo_turns("s", 1, at(3)).unwrap();
    assert_eq!(current(&fixture.ledger, "s"), ["u1", "a1"]);
    talk(&mut fixture, "s", &["u3", "a3"]);
    fixture.ledger.compact("s", 7, &message("user", "sum2"), at(4)).unwrap();
    assert_eq!(current(&fixture.ledger, "s"), ["sum2"]);
}

#[test]
fn the_last_turn_is_the_last_in_the_conversation() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    talk(&mut fixture, "s", &["u1", "a1"]);
    let early = fixture.ledger.transcript("s").unwrap();
    fixture.ledger.clear_messages("s").unwrap();
    talk(&mut fixture, "s", &["u2", "a2"]);
    fixture.ledger.import(&early, at(9)).unwrap();
    assert_eq!(current(&fixture.ledger, "s"), ["u1", "a1", "u2", "a2"]);
    fixture.ledger.undo_turns("s", 1, at(9)).unwrap();
    assert_eq!(current(&fixture.ledger, "s"), ["u1", "a1"]);
}

#[test]
fn a_later_state_brings_its_undos_and_summaries_along() {
    let mut here = Fixture::new();
    here.session("undo");
    here.session("summary");
    talk(&mut here, "undo", &["u1", "a1"]);
    talk(&mut here, "summary", &["u1", "a1"]);
    let early = ["undo", "summary"].map(|id| here.ledger.transcript(id).unwrap());
    here.ledger.undo_turns("undo", 1, at(2)).unwrap();
    here.say("undo", "user", "u2");
    here.ledger.compact("summary", 2, &message("user", "sum"), at(2)).unwrap();
    let late = ["undo", "summary"].map(|id| here.ledger.transcript(id).unwrap());
    let mut there = Fixture::new();
    for transcript in early.iter().chain(&late) {
        there.ledger.import(transcript, at(3)).unwrap();
    }
    assert_eq!(current(&there.ledger, "undo"), ["u2"]);
    assert_eq!(current(&there.ledger, "summary"), ["sum"]);
    assert_eq!(there.ledger.transcript("undo").unwrap(), late[0]);
    assert!(there.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn an_older_copy_takes_nothing_back() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    talk(&mut fixture, "s", &["u1", "a1"]);
    fixture.ledger.undo_turns("s", 1, at(2)).unwrap();
    let undone = fixture.ledger.transcript("s").unwrap();
    fixture.ledger.redo("s", at(3)).unwrap();
    fixture.ledger.import(&undone, at(4)).unwrap();
    assert_eq!(current(&fixture.ledger, "s"), ["u1", "a1"]);
}

#[test]
fn other_tool_calls_are_another_message() {
    let calling = |name: &str| Transcript {
        session: session("s"),
        messages: vec![MessageRecord {
            role: "assistant".into(),
            tool_calls: Some(json!([{ "id": "1", "function": { "name": name } }])),
            ..MessageRecord::default()
        }],
        ..Transcript::default()
    };
    let mut fixture = Fixture::new();
    fixture.ledger.import(&calling("ls"), at(1)).unwrap();
    let refused = fixture.ledger.import(&calling("rm"), at(1));
    assert!(matches!(refused, Err(ImportError::Conflict { .. })), "{refused:?}");
}

#[test]
fn a_session_made_with_a_title_has_it() {
    let mut fixture = Fixture::new();
    let titled = SessionRecord { title: Some("T".into()), ..session("s") };
    fixture.ledger.create_session(&titled, at(0)).unwrap();
    assert_eq!(fixture.ledger.session("s").unwrap().title.as_deref(), Some("T"));
}

#[test]
fn every_write_masks_secrets() {
    let fixture = Fixture::new();
    let options = Options { redact: true, ..Options::default() };
    let mut ledger = Ledger::open(&fixture.path(), &options).unwrap();
    let secret = format!("ghp_{}", "x7Kq9LmZ2vB4".repeat(3));
    let prompt = SessionRecord { system_prompt: Some(format!("use {secret}")), ..session("s") };
    ledger.create_session(&prompt, at(0)).unwrap();
    ledger.append("s", &[message("user", &secret)], at(1)).unwrap();
    ledger.compact("s", 1, &message("user", &secret), at(1)).unwrap();
    ledger.set_title("s", Some(&secret)).unwrap();
    let call = CallRecord {
        call: "c".into(),
        input: Some(json!({ "a": secret })),
        ..CallRecord::default()
    };
    ledger.record_call("s", &call).unwrap();
    let effect = EffectRecord { command: format!("curl -H {secret}"), ..EffectRecord::default() };
    ledger.record_effect("s", &effect, at(1)).unwrap();
    ledger.add_notice("s", &json!({ "a": secret }), at(1)).unwrap();
    let transcript = serde_json::to_string(&ledger.transcript("s").unwrap()).unwrap();
    assert!(!transcript.contains(&secret), "{transcript}");
    assert!(!format!("{:?}", ledger.take_notices("s", at(2)).unwrap()).contains(&secret));
}

#[test]
fn what_is_deleted_is_gone_from_the_file() {
    let mut fixture = Fixture::new();
    fixture.session("keep");
    fixture.session("s");
    fixture.say("keep", "user", "hello");
    fixture.say("s", "user", &"SECRETMARKER zzz ".repeat(2_000));
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.ledger.delete_session("s").unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    raw(&fixture.path()).query_row(checkpoint, [], |_| Ok(())).unwrap();
    let bytes = fs::read(fixture.path()).unwrap();
    assert!(!bytes.windows(12).any(|window| window == b"SECRETMARKER"));
}

#[test]
fn pruning_spares_a_session_whose_subagent_is_at_work() {
    let mut fixture = Fixture::new();
    fixture.ledger.create_session(&session("old"), at(0)).unwrap();
    let subagent = SessionRecord {
        parent_session_id: Some("old".into()),
        parent_kind: Some(ParentKind::Subagent),
        ..session("sub")
    };
    fixture.ledger.create_session(&subagent, at(0)).unwrap();
    fixture.ledger.append("sub", &[message("user", "now")], at(1_000)).unwrap();
    let options = PruneOptions { inactive_since: at(500), ..PruneOptions::default() };
    assert!(fixture.ledger.prunable(&options).unwrap().is_empty());
    assert!(fixture.ledger.prune(&options).unwrap().is_empty());
}

#[test]
fn optimizing_does_not_hold_up_writers_because_of_a_reader() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let reader = raw(&fixture.path());
    reader.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM messages";
    reader.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap();
    fixture.say("s", "user", "y");
    fixture.ledger.set_wait(FOREVER);
    comes_back(move || fixture.ledger.optimize(&|_| {}).unwrap());
    drop(reader);
}

#[test]
fn reading_does_not_wait_for_a_writer_because_of_the_spool() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let writer = raw(&fixture.path());
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let event = Event::Messages { session: "s".into(), messages: vec![message("user", "later")] };
    let impatient = Options { wait: Duration::ZERO, ..Options::default() };
    Ledger::record_in(&fixture.path(), &impatient, &[event], at(1)).unwrap();
    let path = fixture.path();
    comes_back(move || {
        let patient = Options { wait: FOREVER, ..Options::default() };
        let ledger = Ledger::open(&path, &patient).unwrap();
        assert!(current(&ledger, "s").is_empty());
    });
    drop(writer);
    assert_eq!(current(&fixture.another(), "s"), ["later"]);
}

/// Fails if something waits forever.
fn comes_back(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    let hung = wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout);
    assert!(!hung, "it waits for somebody who does not come");
    worker.join().unwrap();
}

#[test]
fn large_messages_of_any_form_are_indexed_at_once() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let text = "lorem ipsum dolor ".repeat(4_000);
    let structured = MessageRecord {
        content: Some(json!([{ "type": "tool_result", "content": text }])),
        ..message("user", "")
    };
    let calling = MessageRecord { tool_calls: Some(json!([{ "x": text }])), ..message("user", "") };
    let indexed = |path: &Path| -> i64 {
        raw(path).query_row("SELECT indexed FROM search_state", [], |row| row.get(0)).unwrap()
    };
    fixture.ledger.append("s", std::slice::from_ref(&structured), at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 1);
    fixture.ledger.append("s", &[calling], at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 2);
    let event = Event::Messages { session: "s".into(), messages: vec![structured] };
    fixture.ledger.record(&[event], FOREVER, at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 3);
}

#[test]
fn numbers_from_outside_do_no_harm() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let far = Transcript {
        session: session("far"),
        messages: vec![MessageRecord { seq: i64::MAX, ..message("user", "x") }],
        ..Transcript::default()
    };
    assert!(matches!(fixture.ledger.import(&far, at(1)), Err(ImportError::Malformed(_))));
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: i64::MAX, ..Tokens::default() },
        ..UsageRecord::default()
    };
    for _ in 0..3 {
        fixture.ledger.record_usage("s", &usage, at(1)).unwrap();
    }
    fixture.ledger.set_title("s", Some("x #18446744073709551615")).unwrap();
    fixture.ledger.next_title("x").unwrap();
    assert_eq!(fixture.ledger.sessions(&ListOptions::default()).unwrap().len(), 1);
}

#[test]
fn costs_come_back_to_the_last_digit() {
    let mut cost = 0.1_f64;
    for number in 0..2_000 {
        cost = (cost * 1.618_033 + 0.377_1).fract() * 10_f64.powi(number % 20 - 10) + 1e-12;
        let session = SessionRecord { estimated_cost_usd: Some(cost), ..session("s") };
        let json = serde_json::to_string(&session).unwrap();
        let read: SessionRecord = serde_json::from_str(&json).unwrap();
        assert_eq!(read.estimated_cost_usd, Some(cost), "{json}");
    }
}

#[test]
fn files_that_cannot_be_taken_in_do_not_replace_each_other() {
    let fixture = Fixture::new();
    let spool = fixture.directory.path().join("spool");
    let options = Options { wait: Duration::ZERO, ..Options::default() };
    for text in ["one", "two"] {
        let other = raw(&fixture.path());
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let lost =
            Event::Messages { session: "unknown".into(), messages: vec![message("user", text)] };
        let recorded = Ledger::record_in(&fixture.path(), &options, &[lost], at(1)).unwrap();
        assert!(matches!(recorded, Recorded::Spooled { .. }));
        drop(other);
        drop(fixture.another());
    }
    let bad = fs::read_dir(&spool).unwrap().flatten().map(|entry| entry.path());
    assert_eq!(
        bad.filter(|path| path.extension().is_some_and(|ending| ending == "bad")).count(),
        2
    );
}

#[test]
fn a_spool_that_cannot_be_read_does_not_lose_what_comes_later() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    // Whatever it is, it is no file.
    let odd = fixture.directory.path().join("spool/00000000000000000001.json");
    fs::create_dir_all(&odd).unwrap();
    let event = Event::Messages { session: "s".into(), messages: vec![message("user", "kept")] };
    let recorded =
        Ledger::record_in(&fixture.path(), &Options::default(), &[event], at(1)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }));
    fs::remove_dir(odd).unwrap();
    assert_eq!(current(&fixture.another(), "s"), ["kept"]);
}

#[test]
fn a_ledger_behind_a_link_is_repaired_with_its_log() {
    let (_directory, path) = closed();
    damage(&path);
    let elsewhere = tempfile::TempDir::new().unwrap();
    let link = elsewhere.path().join("state.db");
    symlink(&path, &link).unwrap();
    assert!(repair(&link, at(99), &|_, _| {}).unwrap().backup.is_some());
    let ledger = Ledger::open(&link, &Options::default()).unwrap();
    assert_eq!(current(&ledger, "log"), ["only in the log"]);
    assert!(link.is_symlink());
}

#[test]
fn a_repair_that_was_cut_off_is_finished() {
    let (directory, path) = closed();
    damage(&path);
    // As a repair leaves it that dies after the new database is complete and the old log is gone.
    let copy = tempfile::TempDir::new_in(directory.path()).unwrap();
    for name in ["state.db", "state.db-wal"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    repair(&copy.path().join("state.db"), at(1), &|_, _| {}).unwrap();
    fs::rename(copy.path().join("state.db"), directory.path().join("state.db.ready")).unwrap();
    fs::remove_file(directory.path().join("state.db-wal")).unwrap();

    let refused = Ledger::open(&path, &Options::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Unfinished { .. }), "{refused}");
    let event =
        [Event::Messages { session: "log".into(), messages: vec![message("user", "more")] }];
    let recorded = Ledger::record_in(&path, &Options::default(), &event, at(2)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }));
    repair(&path, at(3), &|_, _| {}).unwrap();
    let ledger = Ledger::open(&path, &Options::default()).unwrap();
    assert_eq!(current(&ledger, "log"), ["only in the log", "more"]);
}

#[test]
fn opening_while_it_is_repaired_waits_for_the_new_one() {
    if let Some((path, _)) = told() {
        // Refused, while the new database is being put in its place, is as good as waiting.
        let mut ledger = loop {
            match Ledger::open(&path, &Options::default()) {
                Err(OpenError::Unfinished { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        ledger.create_session(&session("child"), at(5)).unwrap();
        for number in 0..50 {
            ledger.append("child", &[message("user", &format!("{number}"))], at(5)).unwrap();
        }
        return;
    }
    let mut fixture = Fixture::new();
    fixture.session("s");
    let many: Vec<_> = (0..2_000).map(|n| message("user", &format!("message {n}"))).collect();
    fixture.ledger.append("s", &many, at(1)).unwrap();
    fixture.ledger.optimize(&|_| {}).unwrap();
    let path = fixture.path();
    let Fixture { directory: _directory, ledger } = fixture;
    drop(ledger);
    damage(&path);
    let child: RefCell<Option<Child>> = RefCell::default();
    repair(&path, at(99), &|saved, _| {
        if saved == 100 {
            let test = "losses::opening_while_it_is_repaired_waits_for_the_new_one";
            let spawned = again(test, &path, "").stdout(Stdio::null()).spawn().unwrap();
            *child.borrow_mut() = Some(spawned);
            // Time to run into the lock; without it the test is easier, not wrong.
            std::thread::sleep(Duration::from_millis(300));
        }
    })
    .unwrap();
    let mut ledger = Ledger::open(&path, &Options::default()).unwrap();
    for number in 0..20 {
        ledger.append("s", &[message("user", &format!("parent {number}"))], at(5)).unwrap();
    }
    assert!(child.into_inner().unwrap().wait().unwrap().success());
    drop(ledger);
    let ledger = Ledger::open(&path, &Options::default()).unwrap();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    assert_eq!(ledger.session("child").unwrap().message_count, 50);
    assert_eq!(ledger.session("s").unwrap().message_count, 2_020);
}

#[test]
fn many_processes_make_it_at_once() {
    if let Some((directory, rounds)) = told() {
        for round in 0..rounds.parse().unwrap() {
            let place = directory.join(format!("{round}"));
            while !place.exists() {
                std::hint::spin_loop();
            }
            Ledger::open(&place.join("state.db"), &Options::default()).unwrap();
        }
        return;
    }
    let directory = tempfile::TempDir::new().unwrap();
    let rounds = 60;
    let spawn = |_| {
        let test = "losses::many_processes_make_it_at_once";
        let mut command = again(test, directory.path(), &rounds.to_string());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..5).map(spawn).collect();
    for round in 0..rounds {
        let place = directory.path().join(format!("{round}"));
        fs::create_dir(&place).unwrap();
        // The children are all behind this place when it has a database.
        while !place.join("state.db-wal").exists() {
            std::thread::yield_now();
        }
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn whatever_is_done_copies_agree() {
    for _ in 0..25 {
        let mut fixture = Fixture::new();
        fixture.session("s");
        let mut done = Vec::new();
        for step in 0..12 {
            match random(8) {
                0..=2 => talk(&mut fixture, "s", &[&format!("u{step}"), &format!("a{step}")]),
                3 => drop(fixture.ledger.undo_turns("s", 1 + random(2) as usize, at(1))),
                4 => drop(fixture.ledger.redo("s", at(1))),
                5 => {
                    let messages = fixture.ledger.messages("s", Which::Current).unwrap();
                    let own = messages.iter().filter(|message| message.summarizes.is_none());
                    if let Some(upto) = own.map(|message| message.seq).max() {
                        let summary = message("user", &format!("sum{step}"));
                        fixture.ledger.compact("s", upto, &summary, at(1)).unwrap();
                    }
                }
                6 if random(4) == 0 => drop(fixture.ledger.clear_messages("s").unwrap()),
                _ => {}
            }
            let here = current(&fixture.ledger, "s");
            done.push(format!("{here:?}"));
            assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole, "{done:?}");
            let transcript = fixture.ledger.transcript("s").unwrap();
            let mut other = Fixture::new();
            other.ledger.import(&transcript, at(2)).unwrap();
            assert_eq!(current(&other.ledger, "s"), here, "{done:?}");
            assert_eq!(other.ledger.transcript("s").unwrap(), transcript, "{done:?}");
            let last = transcript.messages.iter().rfind(|message| !message.undone);
            if let Some(last) = last {
                fixture.ledger.fork("s", last.seq, "fork", at(3)).unwrap();
                assert_eq!(current(&fixture.ledger, "fork"), here, "{done:?}");
                fixture.ledger.delete_session("fork").unwrap();
            }
        }
    }
}
