//! Conversations that are taken back inside an open Codex. The tests simulate Codex's daemon.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use takeback_agents::{follow_session, list_copies, take_back_when_idle};
use takeback_ledger::Time;
use takeback_undo::{Opened, Resume};
use tempfile::TempDir;

use crate::copies::{import, open, open_typed_in};

const ID: &str = "01a1f051-5721-7f92-996c-0bd237f48e68";
const SESSION: &str = "codex:01a1f051-5721-7f92-996c-0bd237f48e68";

/// Codex with one open conversation.
struct Codex {
    directory: TempDir,
    daemon: Arc<Mutex<DaemonState>>,
}

struct DaemonState {
    sessions: PathBuf,
    /// The state of the conversation, as the daemon reports it.
    status: &'static str,
    /// The first turn that each request took back.
    reverted: Vec<String>,
    turns: usize,
}

impl Codex {
    /// Starts Codex with a conversation that has one turn per prompt.
    fn with_turns(prompts: &[&str]) -> Codex {
        let directory = TempDir::new().unwrap();
        let sessions = directory.path().join("sessions");
        fs::create_dir(&sessions).unwrap();
        let state = DaemonState { sessions, status: "idle", reverted: Vec::new(), turns: 0 };
        let codex = Codex { daemon: Arc::new(Mutex::new(state)), directory };
        let header = json!({ "id": ID, "cwd": codex.directory.path(), "history_base": null });
        append(&codex.logs()[0], &[("session_meta", header)]);
        prompts.iter().for_each(|prompt| codex.hear(prompt));
        let control = codex.directory.path().join("app-server-control");
        fs::create_dir(&control).unwrap();
        let listener = UnixListener::bind(control.join("app-server-control.sock")).unwrap();
        let daemon = codex.daemon.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client may disconnect in the middle of an answer.
                let _ = serve(stream.unwrap(), &daemon);
            }
        });
        codex
    }

    fn open(&self) -> Opened {
        open(self.directory.path(), "codex")
    }

    /// Lists the logs of the conversation, oldest first.
    fn logs(&self) -> Vec<PathBuf> {
        list_logs(&self.directory.path().join("sessions"))
    }

    /// Adds a turn to the conversation.
    fn hear(&self, prompt: &str) {
        let mut state = self.daemon.lock().unwrap();
        state.turns += 1;
        let said = |role: &str, kind: &str, text: &str| json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] });
        let turn = format!("turn-{}", state.turns);
        let lines = [
            ("event_msg", json!({ "type": "task_started", "turn_id": turn })),
            ("response_item", said("user", "input_text", prompt)),
            ("response_item", said("assistant", "output_text", &format!("did {prompt}"))),
            ("event_msg", json!({ "type": "task_complete", "turn_id": turn })),
        ];
        append(list_logs(&state.sessions).last().unwrap(), &lines);
    }

    fn set_status(&self, status: &'static str) {
        self.daemon.lock().unwrap().status = status;
    }

    fn reverted(&self) -> Vec<String> {
        self.daemon.lock().unwrap().reverted.clone()
    }
}

fn list_logs(sessions: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> =
        fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.to_str().unwrap().contains(ID));
    logs.sort();
    if logs.is_empty() {
        logs.push(sessions.join(format!("rollout-2026-11-18T20-20-00-{ID}.jsonl")));
    }
    logs
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Adds lines to a log, and numbers them.
fn append(log: &Path, lines: &[(&str, Value)]) {
    let mut text = fs::read_to_string(log).unwrap_or_default();
    let first = text.lines().last().map_or(0, |last| parse(last)["ordinal"].as_u64().unwrap() + 1);
    for (ordinal, (kind, payload)) in (first..).zip(lines) {
        let now = Time::from(std::time::SystemTime::now()).rfc3339();
        let line =
            json!({ "timestamp": now, "ordinal": ordinal, "type": kind, "payload": payload });
        text.push_str(&format!("{line}\n"));
    }
    fs::write(log, text).unwrap();
}

/// Takes the conversation back to the point before a turn. Begins another log, which continues the
/// old log from that point.
fn revert(state: &mut DaemonState, turn: &str) {
    state.reverted.push(turn.to_owned());
    let logs = list_logs(&state.sessions);
    for log in logs.iter().rev() {
        let text = fs::read_to_string(log).unwrap();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let value = parse(line);
            if value["payload"]["type"] == "task_started" && value["payload"]["turn_id"] == turn {
                let name = log.file_stem().unwrap().to_str().unwrap();
                let name = name.split_once('_').map_or(ID, |(_, generation)| generation);
                let base = json!({ "thread_id": name, "end_ordinal_exclusive": value["ordinal"],
                    "end_byte_offset": offset });
                let header =
                    json!({ "id": ID, "cwd": state.sessions.parent(), "history_base": base });
                let number = logs.len();
                let new =
                    format!("rollout-2026-11-18T20-2{number}-00-{ID}_{}.jsonl", name_later(number));
                let line = json!({ "ordinal": value["ordinal"], "type": "session_meta", "payload": header });
                fs::write(state.sessions.join(new), format!("{line}\n")).unwrap();
                return;
            }
            offset += line.len();
        }
    }
    panic!("no turn {turn}");
}

/// Returns the id in the name of a later log.
fn name_later(number: usize) -> String {
    format!("01a1f073-79cf-7b13-85d7-f96ea3c060a{number}")
}

/// Answers the requests of one client.
fn serve(mut stream: UnixStream, daemon: &Mutex<DaemonState>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")?;
    loop {
        let message = receive(&mut stream)?;
        let Some(id) = message.get("id") else { continue };
        let mut state = daemon.lock().unwrap();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({}),
            "thread/read" => json!({ "thread": { "status": { "type": state.status } } }),
            "thread/revert" => {
                revert(&mut state, message["params"]["beforeTurnId"].as_str().unwrap());
                json!({ "thread": { "turns": "x".repeat(100_000) } })
            }
            other => panic!("unexpected {other}"),
        };
        // Before the answer, send a ping, and a notification in two frames.
        stream.write_all(&[0x89, 2, b'h', b'i'])?;
        let notification = json!({ "method": "thread/changed", "params": {} }).to_string();
        let (first, second) = notification.split_at(10);
        send(&mut stream, 1, first)?;
        send(&mut stream, 0x80, second)?;
        send(&mut stream, 0x81, &json!({ "id": id, "result": result }).to_string())?;
    }
}

fn send(stream: &mut UnixStream, head: u8, text: &str) -> std::io::Result<()> {
    let mut frame = vec![head];
    match u16::try_from(text.len()) {
        Ok(length @ 0..126) => frame.push(length as u8),
        Ok(length) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(127);
            frame.extend((text.len() as u64).to_be_bytes());
        }
    }
    frame.extend(text.as_bytes());
    stream.write_all(&frame)
}

/// Receives the next WebSocket message from a client, and unmasks it.
fn receive(stream: &mut UnixStream) -> std::io::Result<Value> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        assert!(head[1] & 0x80 != 0, "a client masks its messages");
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                stream.read_exact(&mut bytes)?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                stream.read_exact(&mut bytes)?;
                u64::from_be_bytes(bytes)
            }
            length => u64::from(length),
        };
        let mut mask = [0; 4];
        stream.read_exact(&mut mask)?;
        let mut text = vec![0; length as usize];
        stream.read_exact(&mut text)?;
        for (byte, mask) in text.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        if head[0] & 0x0f == 1 {
            return Ok(serde_json::from_slice(&text).unwrap());
        }
    }
}

/// Takes back the last turns of the conversation in the ledger, and then in the agent.
fn take_back(opened: &Opened, turns: usize) -> Resume {
    rewind(opened, turns);
    follow_session(opened, SESSION).unwrap().unwrap()
}

fn rewind(opened: &Opened, turns: usize) {
    import(opened, "codex");
    opened.ledger_or_new().unwrap().rewind_turns(SESSION, turns, opened.now()).unwrap();
}

fn read_all(logs: &[PathBuf]) -> Vec<String> {
    logs.iter().map(|log| fs::read_to_string(log).unwrap()).collect()
}

#[test]
fn an_open_conversation_is_rewound_in_place_and_its_log_stays() {
    let codex = Codex::with_turns(&["one", "two", "three"]);
    let before = read_all(&codex.logs());
    let resume = take_back(&codex.open(), 2);
    assert!(resume.in_place);
    assert_eq!(resume.argv, ["codex", "resume", ID]);
    assert_eq!(codex.reverted(), ["turn-2"]);
    assert_eq!(read_all(&codex.logs()[..1]), before);
    assert!(list_copies(&codex.open()).is_empty());
}

#[test]
fn after_a_rewind_in_place_everything_is_restored_in_a_copy() {
    let codex = Codex::with_turns(&["one", "two", "three"]);
    let opened = codex.open();
    take_back(&opened, 2);
    opened.ledger_or_new().unwrap().unrewind(SESSION, opened.now()).unwrap();
    let resume = follow_session(&opened, SESSION).unwrap().unwrap();
    assert!(!resume.in_place);
    let copy = fs::read_to_string(resume.file.unwrap()).unwrap();
    assert!(copy.contains("did one") && copy.contains("did three"), "{copy}");
    assert!(!copy.contains(ID), "the copy has an id of its own");
    assert_eq!(codex.reverted().len(), 1);
}

#[test]
fn a_conversation_can_be_rewound_in_place_repeatedly() {
    let codex = Codex::with_turns(&["one", "two", "three"]);
    let opened = codex.open();
    take_back(&opened, 1);
    codex.hear("four");
    codex.hear("five");
    assert!(take_back(&opened, 1).in_place);
    // This goes back to an earlier point than the first rollback.
    assert!(take_back(&opened, 2).in_place);
    assert_eq!(codex.reverted(), ["turn-3", "turn-5", "turn-2"]);
    assert!(take_back(&opened, 1).in_place, "even to before the first prompt");
    assert_eq!(codex.reverted().last().unwrap(), "turn-1");
}

#[test]
fn a_conversation_that_was_rewound_in_place_is_copied_when_codex_is_closed() {
    let codex = Codex::with_turns(&["one", "two", "three"]);
    let opened = codex.open();
    take_back(&opened, 1);
    codex.hear("four");
    codex.hear("five");
    codex.set_status("notLoaded");
    let resume = take_back(&opened, 1);
    let copy = fs::read_to_string(resume.file.unwrap()).unwrap();
    for (text, is_kept) in [
        ("did one", true),
        ("did two", true),
        ("three", false),
        ("did four", true),
        ("five", false),
    ] {
        assert_eq!(copy.contains(text), is_kept, "{text}: {copy}");
    }
    assert!(!copy.contains(&name_later(1)), "{copy}");
    assert_eq!(import(&opened, "codex"), 0);
}

#[test]
fn a_conversation_is_copied_if_it_cannot_be_rewound_in_place() {
    for (status, typed_in) in
        [("active", None), ("notLoaded", None), ("systemError", Some(SESSION))]
    {
        let codex = Codex::with_turns(&["one", "two"]);
        codex.set_status(status);
        let opened = open_typed_in(codex.directory.path(), "codex", typed_in);
        let resume = take_back(&opened, 1);
        assert!(!resume.in_place && resume.session.as_deref() != Some(ID), "{status}");
        assert!(codex.reverted().is_empty());
    }
}

#[test]
fn a_prompt_after_the_rollback_is_never_lost() {
    let codex = Codex::with_turns(&["one", "two"]);
    let opened = codex.open();
    rewind(&opened, 1);
    codex.hear("three");
    assert!(!take_back_when_idle(&opened, SESSION).unwrap());
    assert!(codex.reverted().is_empty());
}

#[test]
fn a_command_typed_in_a_conversation_rewinds_it_after_the_turn() {
    let codex = Codex::with_turns(&["one", "two"]);
    codex.set_status("active");
    let opened = open_typed_in(codex.directory.path(), "codex", Some(SESSION));
    assert!(take_back(&opened, 1).in_place);
    assert!(codex.reverted().is_empty(), "its turn is running");
    let later = codex.open();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| take_back_when_idle(&later, SESSION).unwrap());
        codex.set_status("idle");
        assert!(waiting.join().unwrap());
    });
    assert_eq!(codex.reverted(), ["turn-2"]);
}

#[test]
fn a_copy_of_a_fork_made_in_codex_has_the_whole_conversation() {
    let codex = Codex::with_turns(&["one", "two", "three"]);
    let fork = "01a1f0aa-0000-4000-8000-00000000cafe";
    let first = fs::read_to_string(&codex.logs()[0]).unwrap();
    let end =
        first.find("\"turn-3\"").map(|found| first[..found].rfind('\n').unwrap() + 1).unwrap();
    let ordinal = parse(first[end..].lines().next().unwrap())["ordinal"].as_u64().unwrap();
    let base = json!({ "thread_id": ID, "end_ordinal_exclusive": ordinal, "end_byte_offset": end });
    let header = json!({ "id": fork, "cwd": codex.directory.path(), "history_base": base });
    let line = json!({ "ordinal": ordinal, "type": "session_meta", "payload": header });
    let log =
        codex.directory.path().join(format!("sessions/rollout-2026-11-18T21-00-00-{fork}.jsonl"));
    fs::write(&log, format!("{line}\n")).unwrap();
    let said = |turn: &str, text: &str| {
        let content = json!([{ "type": "input_text", "text": text }]);
        [
            ("event_msg", json!({ "type": "task_started", "turn_id": turn })),
            ("response_item", json!({ "type": "message", "role": "user", "content": content })),
        ]
    };
    append(&log, &said("f1", "in the fork"));
    append(&log, &said("f2", "also in the fork"));
    codex.set_status("notLoaded");
    let opened = codex.open();
    import(&opened, "codex");
    let session = format!("codex:{fork}");
    let whole = follow_session(&opened, &session).unwrap().unwrap();
    assert_eq!(whole.session.as_deref(), Some(fork), "at its end, the fork itself continues");
    opened.ledger_or_new().unwrap().rewind_turns(&session, 1, opened.now()).unwrap();
    let resume = follow_session(&opened, &session).unwrap().unwrap();
    let copy = fs::read_to_string(resume.file.unwrap()).unwrap();
    assert!(copy.contains("did two") && copy.contains("in the fork"), "{copy}");
    assert!(!copy.contains("three") && !copy.contains("also in the fork"), "{copy}");
    assert!(!copy.contains(ID) && !copy.contains(fork), "{copy}");
}
