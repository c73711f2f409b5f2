//! A store that has lost objects: the next checkpoint is complete, and the loss is reported.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, rows};
use crate::session::Session;

fn packs(session: &Session) -> Vec<PathBuf> {
    let directory = session.base().join(".takeback/checkpoints/store/objects/pack");
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect()
}

fn failures(session: &Session) -> String {
    let failures = session.json(&["checkpoints"])["failures"].clone();
    let message = |failure: &Value| failure["message"].as_str().unwrap_or_default().to_owned();
    failures.as_array().unwrap().iter().map(message).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_checkpoint_after_the_loss_of_all_packs_is_complete() {
    let session = Session::new();
    session.write("a", "mine");
    session.write("deep/b", "mine, too");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "c", "1");
    for pack in packs(&session) {
        fs::remove_file(pack.with_extension("idx")).unwrap();
        fs::remove_file(pack).unwrap();
    }
    agent.hears("two");
    agent.runs("rm -r a deep");
    assert!(failures(&session).contains("lost or damaged"), "{}", failures(&session));
    let newest = rows(&session)[0]["id"].as_str().unwrap().to_owned();
    session.json(&["rollback", &newest]);
    assert_eq!((session.read("a"), session.read("deep/b")), ("mine".into(), "mine, too".into()));
}

#[test]
fn a_manual_checkpoint_reports_that_a_part_of_the_store_was_lost() {
    let session = Session::new();
    session.write("a", "mine");
    session.output(&["checkpoint"]);
    packs(&session).iter().for_each(|pack| fs::remove_file(pack).unwrap());
    session.write("b", "new");
    let output = session.output(&["checkpoint"]);
    let said = crate::session::said(&output);
    assert!(output.status.success() && said.contains("lost or damaged"), "{said}");
    assert!(failures(&session).contains("lost or damaged"), "{}", failures(&session));
    // The older checkpoint is lost. A repair removes it from the list, and everything works again.
    session.output(&["checkpoints", "repair"]);
    assert!(session.output(&["checkpoints", "prune"]).status.success());
    assert!(session.output(&["checkpoint", "--reason", "all is well"]).status.success());
    let doctor = session.output(&["doctor"]);
    assert!(doctor.status.success(), "{}", crate::session::said(&doctor));
}

#[test]
fn flipped_bytes_are_found_and_repaired_after_a_turn() {
    let session = Session::new();
    session.write("a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "c", "1");
    // The largest pack contains the files of the first checkpoint.
    let pack = packs(&session).into_iter().max_by_key(|pack| pack.metadata().unwrap().len());
    let pack = pack.unwrap();
    let mut content = fs::read(&pack).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, content).unwrap();
    agent.hears("two");
    agent.writes("d", "2");
    agent.is_done();
    eventually("the damage is noted", || failures(&session).contains("damaged"));
    agent.hears("three");
    agent.runs("rm a");
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "mine");
}

#[test]
fn a_manual_checkpoint_retries_a_workspace_that_had_too_many_files() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 3\n");
    for path in ["a/1", "a/2", "b", "c"] {
        session.write(path, "1");
    }
    let is_taken = || session.output(&["checkpoint"]).status.success();
    assert!(!is_taken());
    let limit = session.workspace_directory().join("limit");
    assert!(limit.exists());
    fs::remove_file(session.project().join("a/2")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "make" }));
    assert!(agent.report(call.event("before_tool")).contains("more than 3 files"));
    assert!(is_taken());
    assert!(!limit.exists());
}

#[test]
fn a_database_captured_while_being_written_is_marked() {
    let session = Session::new();
    // The write-ahead log is too large to be captured, so the captured database is inconsistent.
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    let connection = Connection::open(session.project().join("app.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    connection.execute_batch("INSERT INTO t VALUES (randomblob(2000000))").unwrap();
    session.json(&["checkpoint"]);
    let list = session.json(&["rollback"]);
    assert_eq!(list["checkpoints"][0]["unsettled"], json!(["app.db"]), "{list}");
    let shown = |arguments: &[&str]| String::from_utf8(session.output(arguments).stdout).unwrap();
    let list = shown(&["rollback"]);
    assert!(list.contains("1 database captured while being written"), "{list}");
    drop(connection);
    let plan = shown(&["rollback", "1", "--dry-run"]);
    assert!(plan.contains("Captured while being written"), "{plan}");
}
