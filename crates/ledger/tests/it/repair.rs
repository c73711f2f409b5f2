//! Repairing damaged ledgers from everything that can still be read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use takeback_ledger::{
    Ledger, LedgerOptions, ListOptions, MessageFilter, RepairError, SearchOptions, Transcript,
    repair_ledger,
};

use crate::support::{Fixture, at, child_arguments, message, open_raw, random_below, run_again};

const PAGE: u64 = 4096;

/// Creates three sessions with messages of all lengths. All of them are in the database file, and
/// none in its log.
fn make_sessions() -> (Fixture, BTreeMap<String, Transcript>) {
    let mut fixture = Fixture::new();
    for id in ["a", "b", "c"] {
        fixture.create_session(id);
        for number in 0..120 {
            let length = [5, 50, 300, 9_000][number % 4];
            let role = if number % 3 == 0 { "user" } else { "assistant" };
            fixture.say(id, role, &format!("{id}{number} {}", "some words ".repeat(length / 10)));
        }
        fixture.ledger.set_title(id, Some(&format!("Title {id}"))).unwrap();
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    let transcripts = ["a", "b", "c"]
        .map(|id| (id.to_owned(), fixture.ledger.transcript(id).unwrap()))
        .into_iter()
        .collect();
    (fixture, transcripts)
}

/// Overwrites a page with zeros.
fn wipe_page(path: &Path, page: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; PAGE as usize], page * PAGE).unwrap();
}

/// Asserts that the recovered messages equal the original ones, and that the ledger works. Returns
/// the number of recovered messages.
fn assert_sound(path: &Path, before: &BTreeMap<String, Transcript>) -> usize {
    let mut ledger = Ledger::open(path, &LedgerOptions::default()).unwrap();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    let mut messages = 0;
    for row in ledger.sessions(&ListOptions::default()).unwrap() {
        let now = ledger.transcript(&row.session.id).unwrap();
        messages += now.messages.len();
        for message in &now.messages {
            let text = message.content.as_ref().and_then(Value::as_str).unwrap();
            // If the row of a session was lost, the session has a new id, but the text of its
            // messages begins with the old id.
            let original = &before[&text[..1]].messages[message.seq as usize - 1];
            // If the last page of a long message is overwritten with zeros, SQLite reads the zeros
            // as part of the text.
            let is_wiped = text.ends_with('\0');
            assert!(
                message == original || is_wiped,
                "{} {}: {}",
                row.session.id,
                message.seq,
                describe_text(text)
            );
        }
        if let Some(before) = before.get(&row.session.id) {
            assert_eq!(now.session.title, before.session.title);
        }
        ledger.append(&row.session.id, &[message("user", "goes on")], at(999)).unwrap();
    }
    if messages > 0 {
        assert!(ledger.search("goes", &SearchOptions::default()).unwrap().total > 0);
    }
    messages
}

/// Describes text by its length and its end, to show how it differs from other text.
fn describe_text(text: &str) -> String {
    let end: String = text.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{} bytes, …{end:?}", text.len())
}

#[test]
fn an_intact_ledger_is_not_changed() {
    let (fixture, before) = make_sessions();
    drop(fixture.ledger);
    let path = fixture.directory.path().join("state.db");
    let report = repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    assert_eq!((report.backup, report.sessions, report.messages), (None, 3, 360));
    assert_eq!(assert_sound(&path, &before), 360);
}

#[test]
fn wrong_counts_and_a_wrong_index_are_corrected_in_place() {
    let (fixture, before) = make_sessions();
    let path = fixture.path();
    open_raw(&path)
        .execute_batch(
            "UPDATE sessions SET message_count = 7 WHERE id = 'a';
             INSERT INTO words (rowid, tokens) VALUES (1, 'nonsense');",
        )
        .unwrap();
    let found = fixture.ledger.verify(&|_, _| {}).unwrap();
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    drop(fixture.ledger);
    assert_eq!(repair_ledger(&path, at(5), &|_, _| {}).unwrap().backup, None);
    assert_eq!(assert_sound(&path, &before), 360);
}

#[test]
fn a_message_that_the_index_lacks_is_noticed() {
    let (fixture, _) = make_sessions();
    open_raw(&fixture.path())
        .execute_batch("UPDATE messages SET content = 'a4 other' WHERE seq = 5 AND session = 1")
        .unwrap();
    assert!(!fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn a_ledger_survives_the_loss_of_any_page() {
    let (fixture, before) = make_sessions();
    drop(fixture.ledger);
    let whole = fs::read(fixture.directory.path().join("state.db")).unwrap();
    let pages = whole.len() as u64 / PAGE;
    let mut least = usize::MAX;
    // Testing all pages would take minutes, so each run tests a different subset, which always
    // includes the first pages.
    let step = 1 + random_below(9) as usize;
    for page in (0..pages).filter(|page| *page < 4 || *page % 9 == step as u64 % 9) {
        let scratch = tempfile::TempDir::new().unwrap();
        let path = scratch.path().join("state.db");
        fs::write(&path, &whole).unwrap();
        wipe_page(&path, page);
        let report = repair_ledger(&path, at(5), &|_, _| {}).unwrap();
        let messages = assert_sound(&path, &before);
        least = least.min(messages);
        if let Some(backup) = report.backup {
            let mut damaged = whole.clone();
            damaged[(page * PAGE) as usize..((page + 1) * PAGE) as usize].fill(0);
            assert!(fs::read(backup).unwrap() == damaged, "the backup is the damaged database");
        }
    }
    assert!(least >= 300, "one page cost {} messages", 360 - least);
}

#[test]
fn rows_of_a_truncated_database_are_recovered() {
    let (fixture, before) = make_sessions();
    drop(fixture.ledger);
    let path = fixture.directory.path().join("state.db");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let report = repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    assert!(report.backup.is_some());
    assert!(assert_sound(&path, &before) > 50);
}

#[test]
fn a_repair_after_random_damage_adds_no_rows_that_did_not_exist() {
    let (fixture, before) = make_sessions();
    drop(fixture.ledger);
    let whole = fs::read(fixture.directory.path().join("state.db")).unwrap();
    for _ in 0..6 {
        let scratch = tempfile::TempDir::new().unwrap();
        let path = scratch.path().join("state.db");
        let mut bytes = whole.clone();
        // Only the headers of b-tree pages are damaged, because SQLite does not protect the content
        // of rows.
        let heads: Vec<usize> = (0..whole.len() / PAGE as usize)
            .map(|page| page * PAGE as usize + if page == 0 { 100 } else { 0 })
            .filter(|at| [2, 5, 10, 13].contains(&whole[*at]))
            .collect();
        for _ in 0..4 {
            let head = heads[random_below(heads.len() as u64) as usize];
            bytes[head + random_below(8) as usize] ^= 1 + random_below(255) as u8;
        }
        fs::write(&path, &bytes).unwrap();
        repair_ledger(&path, at(5), &|_, _| {}).unwrap();
        assert_sound(&path, &before);
    }
}

#[test]
fn messages_that_are_only_in_the_log_are_recovered() {
    let (mut fixture, _) = make_sessions();
    fixture.say("a", "user", "only in the log");
    let path = fixture.path();
    // The ledger stays open, so its log is not moved into the database. The copied files are
    // therefore like those after a power failure. No process has the copies open.
    let scratch = tempfile::TempDir::new().unwrap();
    let copy = scratch.path().join("state.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(path.with_file_name("state.db-wal"), scratch.path().join("state.db-wal")).unwrap();
    wipe_page(&copy, 2);
    let report = repair_ledger(&copy, at(5), &|_, _| {}).unwrap();
    assert!(report.backup.is_some());
    let mut ledger = Ledger::open(&copy, &LedgerOptions::default()).unwrap();
    assert_eq!(ledger.search("\"only in the log\"", &SearchOptions::default()).unwrap().total, 1);
}

#[test]
fn a_ledger_in_use_is_not_replaced() {
    if let Some((path, _)) = child_arguments() {
        let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
        ledger.messages("a", MessageFilter::All).unwrap();
        writeln!(std::io::stdout(), "\nopen").unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let (fixture, _) = make_sessions();
    drop(fixture.ledger);
    let path = fixture.directory.path().join("state.db");
    let mut child = run_again("repair::a_ledger_in_use_is_not_replaced", &path, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    while !said.contains("open\n") {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(byte[0] as char);
    }
    let pages = fs::metadata(&path).unwrap().len() / PAGE;
    (pages / 2..pages).for_each(|page| wipe_page(&path, page));
    let before = fs::read(&path).unwrap();
    let refused = repair_ledger(&path, at(5), &|_, _| {});
    assert!(matches!(refused, Err(RepairError::InUse)), "{refused:?}");
    assert!(fs::read(&path).unwrap() == before);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(repair_ledger(&path, at(5), &|_, _| {}).unwrap().backup.is_some());
}
