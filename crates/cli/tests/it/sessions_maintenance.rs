//! `takeback sessions prune`, `delete`, `verify`, `repair`, `optimize`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::json;

use crate::session::Session;
use crate::sessions::{example_sessions, with_examples};

fn ledger_path(session: &Session) -> PathBuf {
    session.base().join(".takeback/state.db")
}

#[test]
fn old_sessions_are_pruned() {
    let mut session = with_examples();
    session.takeback(&["sessions", "prune", "--older-than", "2026-05-29", "--dry-run"]);
    session.takeback(&["sessions", "prune", "--older-than", "2026-05-29", "--source", "codex"]);
    session.takeback(&["sessions", "prune", "--older-than", "2026-05-29"]);
    session.takeback(&["sessions"]);
    session.assert(
        "
$ takeback sessions prune --older-than <date> --dry-run
Would delete 2 sessions:
  claude-code:77000000-sub
  claude-code:4f2a9c01-aaaa  Fix Docker Build
$ takeback sessions prune --older-than <date> --source codex
No session is that old.
$ takeback sessions prune --older-than <date>
Deleted 2 sessions:
  claude-code:77000000-sub
  claude-code:4f2a9c01-aaaa
$ takeback sessions
4f2b0000  <date> <time>  codex  1 message  “write a changelog”
",
    );
    let prune = ["sessions", "prune", "--older-than", "1d"];
    let found = json!({ "sessions": ["codex:4f2b0000-bbbb"], "open": [], "dry_run": true });
    assert_eq!(session.json(&[&prune[..], &["--dry-run"]].concat()), found);
    let gone = json!({ "sessions": ["codex:4f2b0000-bbbb"], "open": [], "dry_run": false });
    assert_eq!(session.json(&prune), gone);
    assert_eq!(session.json(&prune), json!({ "sessions": [], "open": [], "dry_run": false }));
}

#[test]
fn a_dry_run_names_subagents_that_would_be_deleted_too() {
    let session = Session::new();
    let mut all = example_sessions();
    // The subagent stayed active for another month.
    all[1]["ended_at"] = json!(null);
    all[1]["messages"][0]["timestamp"] = json!("2026-06-30T00:00:00Z");
    crate::sessions::import_sessions(&session, &all);
    let prune = |date| ["sessions", "prune", "--older-than", date, "--source", "claude-code"];
    let dry = |date| session.json(&[&prune(date)[..], &["--dry-run"]].concat())["sessions"].clone();
    assert_eq!(dry("2026-05-29"), json!([]), "at work");
    let both = json!(["claude-code:4f2a9c01-aaaa", "claude-code:77000000-sub"]);
    assert_eq!(dry("2026-07-01"), both);
    assert_eq!(session.json(&prune("2026-07-01"))["sessions"], both);
}

#[test]
fn one_session_is_deleted() {
    let mut session = with_examples();
    let fork = session.json(&["sessions", "fork", "4f2a", "--at", "1"])["session"].clone();
    session.takeback(&["sessions", "delete", "codex:4f2b", "--yes"]);
    session.takeback(&["sessions", "delete", "codex:4f2b"]);
    session.assert(
        "
$ takeback sessions delete codex:4f2b --yes
Deleted 1 session:
  codex:4f2b0000-bbbb
$ takeback sessions delete codex:4f2b
! error: no session \"codex:4f2b\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
",
    );
    assert_eq!(
        session.json(&["sessions", "delete", "claude-code:4f2a"]),
        json!({ "deleted": ["claude-code:4f2a9c01-aaaa", "claude-code:77000000-sub"] })
    );
    let list = session.json(&["sessions"]);
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(list["sessions"][0]["id"], fork);
}

#[test]
fn an_intact_ledger_passes_verification() {
    let mut session = with_examples();
    session.takeback(&["sessions", "verify"]);
    session.takeback(&["sessions", "repair"]);
    session.assert(
        "
$ takeback sessions verify
No problems found: 3 sessions, 7 messages.
$ takeback sessions repair
Nothing to repair: 3 sessions, 7 messages.
",
    );
    assert_eq!(
        session.json(&["sessions", "verify"]),
        json!({ "whole": true, "sessions": 3, "messages": 7, "problems": [] })
    );
    let repaired = session.json(&["sessions", "repair"]);
    assert_eq!((&repaired["backup"], &repaired["messages"]), (&json!(null), &json!(7)));
    let sizes = session.json(&["sessions", "optimize"]);
    assert!(sizes["bytes_before"].as_u64().unwrap() > 0 && sizes["bytes_after"].is_u64());
    let text = String::from_utf8(session.output(&["sessions", "optimize"]).stdout).unwrap();
    assert!(text.starts_with("Indexed all messages: "), "{text}");
    assert_eq!(session.json(&["sessions", "search", "chat-send"])["total"], 1);
}

#[test]
fn the_ledger_is_private() {
    let session = with_examples();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(session.base().join(".takeback")), 0o700);
    assert_eq!(mode(ledger_path(&session)), 0o600);
    // Another home has its own ledger.
    let home = session.base().join("other");
    let list = session.json(&["--home", home.to_str().unwrap(), "sessions"]);
    assert_eq!(list, json!({ "sessions": [] }));
}

#[test]
fn damage_is_reported_and_repaired() {
    let mut session = Session::new();
    fs::create_dir(session.base().join(".takeback")).unwrap();
    fs::write(
        ledger_path(&session),
        "not a database at all, but long enough to be read".repeat(100),
    )
    .unwrap();
    session.takeback(&["sessions"]);
    session.takeback(&["sessions", "verify"]);
    session.assert(
        "
$ takeback sessions
! error: the ledger ~/.takeback/state.db is damaged
!   because: file is not a database
! hint: `takeback sessions repair` recovers what is readable and keeps the damaged file
[exit Some(1)]
$ takeback sessions verify
! error: the ledger ~/.takeback/state.db is damaged
!   because: file is not a database
! hint: `takeback sessions repair` recovers what is readable and keeps the damaged file
[exit Some(1)]
",
    );
    let report = session.json(&["sessions", "repair"]);
    let backup = PathBuf::from(report["backup"].as_str().unwrap());
    assert!(fs::read_to_string(backup).unwrap().starts_with("not a database"));
    assert_eq!(session.json(&["sessions", "verify"])["whole"], true);
    session.takeback(&["sessions"]);
    session.assert(
        "
$ takeback sessions
No sessions yet. Run `takeback install AGENT` to record new ones, or `takeback sessions import` to import old ones.
",
    );
}

#[test]
fn wrong_counts_are_corrected() {
    let mut session = with_examples();
    let ledger = Connection::open(ledger_path(&session)).unwrap();
    ledger.execute("UPDATE sessions SET message_count = 99 WHERE source = 'codex'", []).unwrap();
    drop(ledger);
    session.takeback(&["sessions", "verify"]);
    session.takeback(&["sessions", "repair"]);
    session.takeback(&["sessions", "verify"]);
    session.assert(
        "
$ takeback sessions verify
Problem: session codex:4f2b0000-bbbb claims 99 messages and 0 tool calls, but has 1 and 0
Run `takeback sessions repair` to fix what can be fixed.
[exit Some(1)]
$ takeback sessions repair
Note: repaired: session codex:4f2b0000-bbbb claims 99 messages and 0 tool calls, but has 1 and 0
Rebuilt the counts and the search index of 3 sessions, 7 messages.
$ takeback sessions verify
No problems found: 3 sessions, 7 messages.
",
    );
}

#[test]
fn rows_outside_a_damaged_page_are_recovered() {
    let session = with_examples();
    for number in 0..200 {
        let text = format!("message number {number} {}", "x".repeat(500));
        let message = json!({ "role": "user", "content": text });
        let id = format!("many:{number}");
        let one = json!({ "id": id, "source": "s", "messages": [message] });
        let path = crate::sessions::write_file(&session, "one", &one.to_string());
        session.output(&["sessions", "import", path.to_str().unwrap()]);
    }
    session.output(&["sessions", "optimize"]);
    let path = ledger_path(&session);
    let mut bytes = fs::read(&path).unwrap();
    let place = |bytes: &[u8], text: &str| {
        bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
    };
    let page = place(&bytes, "message number 100 ") / 4096 * 4096;
    bytes[page..page + 64].fill(0xff);
    fs::write(&path, bytes).unwrap();

    let found = session.output(&["sessions", "verify", "--json"]);
    assert_eq!(found.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["whole"], false);
    let report = session.output(&["sessions", "repair"]);
    let said = String::from_utf8(report.stdout).unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    assert!(said.contains("Recovered 203 sessions, "), "{said}");
    assert!(said.contains("Kept the damaged ledger as "), "{said}");
    assert_eq!(session.json(&["sessions", "verify"])["whole"], true);
    assert_eq!(session.json(&["sessions", "search", "chat-send"])["total"], 1);
}

#[test]
fn foreign_databases_are_not_changed() {
    let mut session = with_examples();
    let path = ledger_path(&session);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let output = session.output(&["sessions", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["hint"], "nothing was changed; update takeback");
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(path.with_file_name(name));
    }
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    drop(theirs);
    session.takeback(&["sessions"]);
    session.assert(
        "
$ takeback sessions
! error: ~/.takeback/state.db is another program's database, not takeback's ledger
! hint: move that file out of the way, or choose another directory with --home
[exit Some(1)]
",
    );
}

#[test]
fn pruning_spares_recent_sessions_that_never_ended() {
    let session = Session::new();
    for name in ["open", "ended"] {
        let mut agent = crate::agent::Agent::new(&session, name);
        agent.turn("hello", "a", name);
    }
    crate::agent::Agent::new(&session, "ended").tell(json!({ "event": "session_end" }));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let soon = jiff::Timestamp::from_second(now as i64 + 3_600).unwrap().to_string();
    let pruned = session.json(&["sessions", "prune", "--older-than", &soon, "--dry-run"]);
    assert_eq!(pruned["sessions"], json!(["mine:ended"]));
    assert_eq!(pruned["open"], json!(["mine:open"]));
    // The open session can be pruned once it has been ended by hand, or inactive for a week.
    session.output(&["sessions", "end", "open"]);
    let pruned = session.json(&["sessions", "prune", "--older-than", &soon, "--dry-run"]);
    assert_eq!(pruned["sessions"].as_array().unwrap().len(), 2);
    session.output(&["sessions", "reopen", "open"]);
    let week_ago = (now as i64 - 8 * 86_400) * 1_000;
    let ledger = crate::agent::ledger(&session);
    ledger.execute("UPDATE sessions SET last_activity = ?1", [week_ago]).unwrap();
    let pruned = session.json(&["sessions", "prune", "--older-than", "1d", "--dry-run"]);
    assert!(pruned["sessions"].as_array().unwrap().contains(&json!("mine:open")), "{pruned}");
}

#[test]
fn a_session_can_be_ended_and_reopened_and_archived_and_cleared() {
    let mut session = Session::new();
    crate::agent::Agent::new(&session, "s1").turn("hello", "a", "1");
    session.takeback(&["sessions", "end", "s1", "--reason", "merged"]);
    session.takeback(&["sessions", "end", "s1"]);
    let record = session.json(&["sessions", "show", "s1"]);
    assert_eq!(record["end_reason"], "merged");
    session.takeback(&["sessions", "reopen", "s1"]);
    let reopened = session.json(&["sessions", "reopen", "s1"]);
    assert_eq!((&reopened["ended_at"], &reopened["archived"]), (&json!(null), &json!(false)));
    session.takeback(&["sessions", "archive", "s1"]);
    assert_eq!(session.json(&["sessions"])["sessions"], json!([]));
    session.takeback(&["sessions", "unarchive", "s1"]);
    assert_eq!(session.json(&["sessions"])["sessions"].as_array().unwrap().len(), 1);
    session.takeback(&["sessions", "clear", "s1"]);
    assert_eq!(session.json(&["sessions", "show", "s1"])["messages"], json!([]));
    session.assert(
        "$ takeback sessions end s1 --reason merged
Session mine:s1 has ended.
$ takeback sessions end s1
Session mine:s1 had already ended (merged).
$ takeback sessions reopen s1
Session mine:s1 is open.
$ takeback sessions archive s1
Session mine:s1 is archived.
$ takeback sessions unarchive s1
Session mine:s1 is no longer archived.
$ takeback sessions clear s1
Deleted 1 message of mine:s1.
",
    );
}

#[test]
fn a_title_that_is_taken_gets_the_next_number_on_request() {
    let session = Session::new();
    for name in ["s1", "s2"] {
        crate::agent::Agent::new(&session, name).turn("hello", "a", name);
    }
    let title = |name: &str, more: &[&str]| {
        session.json(&[&["sessions", "title", name, "Fix it"], more].concat())
    };
    assert_eq!(title("s1", &["--next"])["title"], "Fix it");
    assert!(title("s2", &[])["error"]["message"].is_string());
    assert_eq!(title("s2", &["--next"])["title"], "Fix it #2");
    assert_eq!(title("s1", &["--next"])["title"], "Fix it", "the session already has this title");
}
