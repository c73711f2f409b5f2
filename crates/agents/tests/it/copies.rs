//! Copies of agents' own conversations, and processes that are killed while they make one.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::{Value, json};
use takeback_agents::{continue_session, fault, finish_copies, list_copies, log_format};
use takeback_undo::{OpenOptions, Opened, OwnConversations, Resume};
use tempfile::TempDir;

use crate::rewind::Session;

/// The environment variables that pass the directory, the session, and the number of the fault
/// point to a child process.
const DIRECTORY: &str = "TAKEBACK_COPY_DIRECTORY";
const SESSION: &str = "TAKEBACK_COPY_SESSION";
const POINT: &str = "TAKEBACK_COPY_POINT";

/// Opens a takeback home in a directory that holds an agent's sessions.
pub(crate) fn open(directory: &Path, agent: &str) -> Opened {
    open_typed_in(directory, agent, None)
}

/// Opens a takeback home for a command that the user may have typed in a session of the agent.
pub(crate) fn open_typed_in(directory: &Path, agent: &str, typed_in: Option<&str>) -> Opened {
    let home = directory.join("home");
    let log_directories = [(agent.to_owned(), directory.join("sessions"))].into();
    Opened::new(OpenOptions {
        conversations: OwnConversations {
            log_directories,
            typed_in: typed_in.map(str::to_owned),
            ..OwnConversations::default()
        },
        ..OpenOptions::new(home)
    })
}

/// Imports all logs. Returns the number of messages that were new.
pub(crate) fn import(opened: &Opened, agent: &str) -> usize {
    let format = log_format(agent).unwrap();
    let mut ledger = opened.ledger_or_new().unwrap();
    let logs = format.find_logs(opened.log_directory(agent).unwrap()).unwrap();
    let catch_up = |log| {
        let root = |directory: &Path| directory.to_owned();
        format.catch_up(&mut ledger, log, &root, opened.now()).unwrap().taken_in.messages
    };
    logs.iter().map(catch_up).sum()
}

fn count_sessions(opened: &Opened) -> usize {
    opened.ledger_or_new().unwrap().sessions(&Default::default()).unwrap().len()
}

/// Lists all files and directories below the agent's sessions.
fn list_paths(directory: &Path) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    let mut open = vec![directory.join("sessions")];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
            }
            paths.insert(path);
        }
    }
    paths
}

/// Copies the first turn of a session, in a process that is killed at a fault point.
fn copy_in_child(directory: &Path, session: &str, point: i64) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "copies::a_copy_that_is_killed_at_any_step_is_complete_or_gone"])
        .env(DIRECTORY, directory)
        .env(SESSION, session)
        .env(POINT, point.to_string())
        .output()
        .unwrap()
        .status
}

#[test]
fn a_copy_that_is_killed_at_any_step_is_complete_or_gone() {
    if let Ok(directory) = std::env::var(DIRECTORY) {
        let session = std::env::var(SESSION).unwrap();
        let (agent, _) = session.split_once(':').unwrap();
        fault::kill_at(std::env::var(POINT).unwrap().parse().unwrap());
        continue_session(&open(Path::new(&directory), agent), &session, Some(1)).unwrap();
        return;
    }
    // One of these agents keeps one file per session, the other a directory with several files.
    for (agent, points) in [("claude", 6), ("copilot", 9)] {
        let (mut removed, mut recorded) = (0, 0);
        for point in 0.. {
            let captured = Session::captured(agent);
            let directory = captured.directory.path();
            let opened = open(directory, agent);
            assert!(import(&opened, agent) > 0);
            let before = list_paths(directory);
            let session = format!("{agent}:{}", captured.id);
            let status = copy_in_child(directory, &session, point);
            if status.success() {
                assert_eq!(point, points, "{agent}");
                break;
            }
            assert_eq!(status.signal(), Some(9), "{agent} {point}");
            finish_copies(&opened);
            let added: Vec<PathBuf> = list_paths(directory).difference(&before).cloned().collect();
            let is_temporary = |path: &PathBuf| path.extension() == Some("tmp".as_ref());
            assert!(!added.iter().any(is_temporary), "{added:?}");
            let copies = list_copies(&opened);
            match copies.first() {
                Some(copy) => assert!(added.contains(&copy.log), "{agent} {point}: {added:?}"),
                None => assert_eq!(added, [] as [PathBuf; 0], "{agent} {point}"),
            }
            assert_eq!(count_sessions(&opened), 1 + copies.len(), "{agent} {point}");
            assert_eq!(import(&opened, agent), 0, "{agent} {point}");
            let notes = fs::read_dir(directory.join("home/conversations/notes")).unwrap();
            let mut names = notes.map(|note| note.unwrap().path());
            assert!(names.all(|path| path.extension().is_none_or(|ending| ending != "pending")));
            if copies.is_empty() { removed += 1 } else { recorded += 1 }
        }
        assert!(removed > 0 && recorded > 0, "{agent}: {removed} removed, {recorded} recorded");
    }
}

#[test]
fn a_copy_at_the_same_point_is_reused_until_it_is_continued() {
    let captured = Session::captured("claude");
    let opened = open(captured.directory.path(), "claude");
    import(&opened, "claude");
    let session = format!("claude:{}", captured.id);
    let first = continue_session(&opened, &session, Some(1)).unwrap();
    assert_eq!(continue_session(&opened, &session, Some(1)).unwrap(), first);
    let log = &list_copies(&opened)[0].log;
    let mut lines = fs::read_to_string(log).unwrap();
    let is_answer = |line: &&str| line.contains("\"type\":\"assistant\"");
    let last = lines.lines().rev().find(is_answer).unwrap().to_owned();
    let mut next: serde_json::Value = serde_json::from_str(&last).unwrap();
    next["parentUuid"] = next["uuid"].take();
    next["uuid"] = "another".into();
    lines.push_str(&format!("{next}\n"));
    fs::write(log, lines).unwrap();
    let second = continue_session(&opened, &session, Some(1)).unwrap();
    assert_ne!(second.session, first.session);
    assert_eq!(import(&opened, "claude"), 1, "only the new message");
}

#[test]
fn a_log_that_gemini_deletes_can_still_be_continued() {
    let captured = Session::captured("gemini");
    let opened = open(captured.directory.path(), "gemini");
    import(&opened, "gemini");
    let session = format!("gemini:{}", captured.id);
    let whole = fs::read(&captured.log.path).unwrap();
    let file_of = |resume: Resume| PathBuf::from(resume.argv.last().unwrap());
    assert_eq!(file_of(continue_session(&opened, &session, None).unwrap()), captured.log.path);
    let cut = file_of(continue_session(&opened, &session, Some(1)).unwrap());
    assert!(fs::read(&cut).unwrap().len() < whole.len());
    fs::remove_file(&captured.log.path).unwrap();
    let kept = file_of(continue_session(&opened, &session, None).unwrap());
    assert_eq!(fs::read(&kept).unwrap(), whole);
    // The session can still be taken back to an earlier point.
    fs::remove_file(&cut).unwrap();
    let again = file_of(continue_session(&opened, &session, Some(1)).unwrap());
    assert!(fs::read(&again).unwrap().len() < whole.len());
}

#[test]
fn a_copy_that_cannot_be_written_leaves_nothing_behind() {
    let captured = Session::captured("copilot");
    let directory = captured.directory.path();
    let opened = open(directory, "copilot");
    import(&opened, "copilot");
    let session = format!("copilot:{}", captured.id);
    // Without this file, the session cannot be copied.
    fs::remove_file(captured.log.path.with_file_name("workspace.yaml")).unwrap();
    let before = list_paths(directory);
    continue_session(&opened, &session, Some(1)).unwrap_err();
    assert_eq!(list_paths(directory), before);
    assert_eq!(count_sessions(&opened), 1);
    assert!(list_copies(&opened).is_empty());
}

#[test]
fn a_home_without_copies_is_not_touched() {
    let directory = TempDir::new().unwrap();
    let opened = open(directory.path(), "claude");
    finish_copies(&opened);
    assert!(list_copies(&opened).is_empty());
    assert!(!directory.path().join("home").exists());
}

#[test]
fn a_conversation_that_was_rewound_inside_codex_is_read_in_full() {
    let directory = TempDir::new().unwrap();
    let sessions = directory.path().join("sessions");
    fs::create_dir(&sessions).unwrap();
    let said = |ordinal: u64, text: &str| {
        json!({ "ordinal": ordinal, "type": "response_item", "payload": { "type": "message",
            "role": "user", "content": [{ "type": "input_text", "text": text }] } })
    };
    let begin = |ordinal: u64, base: Value| {
        let payload = json!({ "id": "0192-abcd", "cwd": "/p", "history_base": base });
        json!({ "ordinal": ordinal, "type": "session_meta", "payload": payload })
    };
    let write = |name: &str, lines: &[Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(sessions.join(name), text).unwrap();
    };
    let first = [begin(0, Value::Null), said(1, "one"), said(2, "two"), said(3, "three")];
    write("rollout-2026-0192-abcd.jsonl", &first);
    // The user went back to the point before "two".
    let base = json!({ "thread_id": "0192-abcd", "end_ordinal_exclusive": 2 });
    write("rollout-2027-0192-abcd_f1a8.jsonl", &[begin(2, base), said(3, "four")]);
    let opened = open(directory.path(), "codex");
    assert_eq!(import(&opened, "codex"), 4);
    assert_eq!(count_sessions(&opened), 1);
    assert_eq!(import(&opened, "codex"), 0);
}
