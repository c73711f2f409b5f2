//! `takeback rpc`: errors, signals, and other processes in the same workspace.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{configure, eventually, everything, ledger, rows};
use crate::rpc_client::Client;
use crate::session::{Session, first_in};

const PING: &str = r#"{"jsonrpc":"2.0","id":"ping","method":"config.get"}"#;

/// Asserts that a line gets one error, and that the next request is answered as usual.
#[track_caller]
fn assert_error(client: &mut Client, line: &[u8], id: &Value, code: i64, message: &str) {
    client.send(line);
    client.send(b"\n");
    let answered = client.receive().unwrap();
    assert_eq!((&answered["id"], &answered["error"]["code"]), (id, &json!(code)), "{answered}");
    let said = answered["error"]["message"].as_str().unwrap();
    assert!(said.contains(message), "{said}");
    assert_eq!(client.ask(PING)["id"], "ping");
}

#[test]
fn an_unreadable_line_is_answered_and_the_next_is_served() {
    let session = Session::new();
    let mut client = Client::new(&session);
    assert_error(&mut client, b"{\"jsonrpc\": \"2.0\", \"id\"", &Value::Null, -32700, "EOF");
    assert_error(&mut client, b"no", &Value::Null, -32700, "expected");
    assert_error(&mut client, b"{\"id\": \"\xff\xfe\"}", &Value::Null, -32700, "not UTF-8");
    assert_error(&mut client, b"\xef\xbb\xbf{}", &Value::Null, -32700, "expected");
    assert_error(&mut client, b"[]", &Value::Null, -32600, "an empty batch");
    assert_error(&mut client, b"\"text\"", &Value::Null, -32600, "a request must be an object");
    assert_error(
        &mut client,
        br#"{"jsonrpc":"2.0","id":{},"method":"status"}"#,
        &Value::Null,
        -32600,
        "`id`",
    );
    assert_error(&mut client, br#"{"id":7,"method":"status"}"#, &json!(7), -32600, "`jsonrpc`");
    let line = br#"{"jsonrpc":"2.0","id":"a","method":"files.delete"}"#;
    assert_error(&mut client, line, &json!("a"), -32601, "\"files.delete\"");
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"status","params":["/"]}"#;
    assert_error(&mut client, line, &json!(1), -32602, "params must be an object");
    // Empty lines are ignored; a line may end with CRLF.
    client.send(b"\n  \r\n");
    assert_eq!(client.ask(&format!("{PING}\r"))["id"], "ping");
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let session = Session::new();
    let mut client = Client::new(&session);
    let most = client.call("initialize", json!({}))["max_line_bytes"].as_u64().unwrap();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..(most >> 20) + 1 {
        client.send(&piece);
    }
    // The rest of the long line is not treated as another line.
    let rest = br#"{"jsonrpc":"2.0","id":"rest","method":"config.get"}"#;
    assert_error(&mut client, rest, &Value::Null, -32600, "the line is longer than 67108864 bytes");
}

#[test]
fn the_last_line_needs_no_newline() {
    let session = Session::new();
    for (last, expected) in [(PING, "result"), (&PING[..20], "error")] {
        let mut client = Client::new(&session);
        client.send(last.as_bytes());
        drop(client.stdin.take());
        assert!(client.receive().unwrap().get(expected).is_some());
        assert_eq!(client.end().code(), Some(0));
    }
}

#[test]
fn wrong_params_are_named() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    client.call("checkpoint.create", json!({}));
    for (method, params, said) in [
        ("checkpoint.diff", json!({}), "checkpoint is missing"),
        ("checkpoint.diff", json!({ "checkpoint": null }), "checkpoint is missing"),
        (
            "checkpoint.diff",
            json!({ "checkpoint": 1.5 }),
            "checkpoint: expected the number of a row",
        ),
        ("checkpoint.diff", json!({ "checkpoint": 1, "path": "a" }), "unknown parameter path"),
        ("checkpoint.create", json!({ "reason": 7 }), "reason: invalid type: integer `7`"),
        ("checkpoint.list", json!({ "cwd": 7 }), "cwd: "),
        ("rollback.apply", json!({ "checkpoint": 1, "scope": "all" }), "scope: unknown variant"),
        (
            "rollback.plan",
            json!({ "checkpoint": 1, "scope": "chat", "paths": ["a"] }),
            "scope: \"chat\" takes neither",
        ),
        ("undo.plan", json!({ "turn": -1 }), "turn: invalid value: integer `-1`"),
        ("tool.before", json!({ "session": [] }), "session: expected a string or a number"),
        ("tool.before", json!({ "event": "turn_end" }), "unknown parameter event"),
        ("turn.start", json!({ "tool": "x" }), "unknown parameter tool"),
        ("sessions.search", json!({ "query": "a", "since": "soon" }), "since: give a time span"),
        ("sessions.list", json!({ "limit": 0 }), "limit must be at least 1"),
        ("sessions.undo", json!({ "session": "a", "turns": 0 }), "turns must be at least 1"),
        ("messages.append", json!({ "messages": [{}] }), "messages[0]: role is missing"),
        (
            "messages.append",
            json!({ "messages": [{ "role": "tool" }, { "role": "user" }] }),
            "messages[1]: pass a message from the user as the prompt",
        ),
    ] {
        let error = client.fail(method, params);
        let message = error["message"].as_str().unwrap();
        assert!(error["code"] == -32602 && message.starts_with(said), "{method}: {error}");
    }
}

#[test]
fn a_failed_request_has_a_hint() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    let id = client.call("checkpoint.create", json!({}))["id"].take();
    let elsewhere = session.base().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = json!({ "checkpoint": id, "cwd": elsewhere });
    for (method, params, said, hint) in [
        ("rollback.plan", json!({ "checkpoint": 9 }), "no checkpoint 9", "lists"),
        ("rollback.plan", json!({ "checkpoint": "fffffff" }), "", "lists"),
        ("rollback.apply", there, "belongs to", "to restore it there"),
        (
            "rollback.apply",
            json!({ "checkpoint": 1, "paths": ["../x"] }),
            "outside the workspace",
            "inside",
        ),
        (
            "checkpoint.diff",
            json!({ "checkpoint": 1, "paths": ["/etc/passwd"] }),
            "outside the workspace",
            "inside",
        ),
        ("checkpoint.create", json!({ "cwd": "/" }), "", "directory of a project"),
        ("sessions.get", json!({ "session": "nobody" }), "no session", "lists"),
    ] {
        let error = client.fail(method, params);
        let (message, with) = (error["message"].as_str(), error["data"]["hint"].as_str());
        assert_eq!(error["code"], -32000, "{error}");
        assert!(message.unwrap().contains(said) && with.unwrap().contains(hint), "{error}");
    }
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_batch_gets_one_answer_and_a_notification_gets_none() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    client.send_line(r#"{"jsonrpc":"2.0","method":"checkpoint.create","params":{"name":"quiet"}}"#);
    client.send_line(r#"{"jsonrpc":"2.0","method":"no.such"}"#);
    let list = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"checkpoint.list"}}"#);
    let create = r#"{"jsonrpc":"2.0","method":"checkpoint.create","params":{"name":"next"}}"#;
    let answers = client.ask(&format!("[{}, {create}, 7, {}]", list("1"), list("\"b\"")));
    let answers = answers.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &Value::Null, &json!("b")]);
    let counts = |answer: &Value| answer["result"]["checkpoints"].as_array().map(Vec::len);
    assert_eq!((counts(&answers[0]), counts(&answers[2])), (Some(1), Some(2)));
    client.send_line(&format!("[{create}]"));
    assert_eq!(client.end().code(), Some(0));
}

/// Creates a project in which every file has changed since checkpoint 1.
fn changed_project(files: usize) -> Session {
    let session = Session::new();
    (0..files).for_each(|number| session.write(&format!("d{}/f{number}", number % 9), "old"));
    session.output(&["checkpoint"]);
    (0..files).for_each(|number| session.write(&format!("d{}/f{number}", number % 9), "new"));
    session
}

/// Kills a rollback as soon as `is_so` returns true or a file has been restored. The next process
/// must find all files restored, or none.
fn kill_when(is_so: impl Fn(&Session) -> bool) {
    const FILES: usize = 400;
    let session = changed_project(FILES);
    let mut client = Client::new(&session);
    client.begin("rollback.apply", &json!({ "checkpoint": 1 }));
    while !is_so(&session) && session.read("d0/f0") == "new" {}
    client.kill();
    let path = |number: usize| session.project().join(format!("d{}/f{number}", number % 9));
    let count = |text: &str| {
        let texts = (0..FILES).filter_map(|number| std::fs::read_to_string(path(number)).ok());
        texts.filter(|found| found == text).count()
    };
    let mut client = Client::new(&session);
    let plan = client.call("rollback.plan", json!({ "checkpoint": 1 }))["plan"].take();
    let left = plan["restored"].as_array().unwrap().len();
    assert!(left == 0 || left == FILES, "{left} left");
    assert_eq!((count("old"), count("new")), (FILES - left, left));
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
    client.call("rollback.apply", json!({ "checkpoint": 1 }));
    assert_eq!(count("old"), FILES);
    let files = everything(&session.project());
    assert_eq!(files.len(), FILES + 9, "nothing is left over");
}

#[test]
fn the_next_process_recovers_after_a_kill() {
    kill_when(|_| true);
    for journal in ["journal.staging", "journal"] {
        kill_when(|session| {
            let workspaces = session.base().join(".takeback/checkpoints/store/workspaces");
            first_in(&workspaces).join(journal).exists()
        });
    }
    kill_when(|_| false);
}

#[test]
fn two_processes_work_in_one_workspace() {
    const TURNS: usize = 12;
    let session = Session::new();
    session.write("shared", "0");
    thread::scope(|scope| {
        for name in ["one", "two"] {
            let session = &session;
            scope.spawn(move || {
                let mut client = Client::new(session);
                for turn in 0..TURNS {
                    let path = format!("{name}-{turn}");
                    client.turn(session, name, "go on", (&path, "x"));
                    client.call("checkpoint.list", json!({}));
                    let undone = json!({ "checkpoint": "fff", "paths": [path] });
                    client.fail("rollback.apply", undone);
                }
                assert_eq!(client.end().code(), Some(0));
            });
        }
    });
    assert_eq!(rows(&session).len(), 2 * TURNS);
    let count: i64 =
        ledger(&session).query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2 * TURNS as i64);
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
}

#[test]
fn other_processes_can_clear_and_prune_and_repair_while_a_server_runs() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    client.turn(&session, "s", "first", ("a", "2"));
    assert!(session.output(&["checkpoints", "clear", "-f"]).status.success());
    assert_eq!(client.call("checkpoint.list", json!({}))["checkpoints"], json!([]));
    client.turn(&session, "s", "second", ("a", "3"));
    assert!(session.output(&["checkpoints", "gc"]).status.success());
    assert!(session.output(&["checkpoints", "repair"]).status.success());
    client.call("rollback.apply", json!({ "checkpoint": 1 }));
    assert_eq!(session.read("a"), "2");
    assert!(session.output(&["sessions", "delete", "mine:s", "--yes"]).status.success());
    assert!(session.output(&["sessions", "repair"]).status.success());
    std::fs::remove_dir_all(session.base().join(".takeback")).unwrap();
    client.turn(&session, "s", "third", ("a", "4"));
    client.call("rollback.apply", json!({ "checkpoint": 1 }));
    assert_eq!(session.read("a"), "2");
}

#[test]
fn a_slow_capture_continues_and_is_late() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 1\n");
    for number in 0..3000 {
        session.write(&format!("d{}/f{number}", number % 50), &format!("{number}\n"));
    }
    let mut client = Client::new(&session);
    let call = json!({ "session": "s", "call": "c", "tool": "Write", "input": { "path": "d1/x" } });
    let answered = client.call("tool.before", call);
    assert_eq!((&answered["late"], &answered["missed"]), (&json!(true), &json!(true)));
    assert!(answered["failures"][0].as_str().unwrap().contains("not done within 1 ms"));
    // The process ends only once the capture is done.
    assert_eq!(client.end().code(), Some(0));
    let list = session.json(&["rollback"]);
    assert_eq!((&list["checkpoints"][0]["late"], &list["failures"]), (&json!(true), &Value::Null));
    let uncertain: i64 = ledger(&session)
        .query_row("SELECT count(*) FROM calls WHERE uncertain", [], |row| row.get(0))
        .unwrap();
    assert_eq!(uncertain, 1);
}

fn send_signal(client: &Client, name: &str) {
    let pid = client.child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[test]
fn a_signal_ends_the_process_after_the_current_request() {
    let session = changed_project(300);
    for name in ["-TERM", "-INT", "-HUP"] {
        let mut client = Client::new(&session);
        assert_eq!(client.ask(PING)["id"], "ping");
        send_signal(&client, name);
        assert_eq!(client.receive(), None);
        assert_eq!(client.child.wait().unwrap().code(), Some(0), "{name}");
    }
    let mut client = Client::new(&session);
    client.ask(PING);
    client.begin("rollback.apply", &json!({ "checkpoint": 1 }));
    thread::sleep(Duration::from_millis(5));
    send_signal(&client, "-TERM");
    // The signal may arrive before the rollback has begun.
    let is_done = client.receive().is_some();
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    assert_eq!(session.read("d0/f0"), if is_done { "old" } else { "new" });
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let session = Session::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(["--home", "home", "rpc"])
        .current_dir(session.base())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), format!("{PING}\n").as_bytes())
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn background_processes_leave_no_zombies() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    for turn in 0..5 {
        client.turn(&session, "s", "go on", ("a", &turn.to_string()));
    }
    let parent = client.child.id().to_string();
    eventually("all children gone", || {
        client.ask(PING);
        let processes = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("stat")).ok());
        // The format of the file is `pid (name) state ppid …`.
        let is_child = |stat: &String| {
            let behind = stat.rsplit(')').next().unwrap();
            behind.split_whitespace().nth(1) == Some(&parent)
        };
        processes.filter(is_child).count() == 0
    });
}
