//! `takeback sessions export` and `import`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::session::Session;
use crate::sessions::{
    START, example_sessions, import_sessions, to_json_lines, with_examples, write_file,
};

fn run_sessions(session: &Session, arguments: &[&str]) -> String {
    let output = session.output(&[&["sessions"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a command that runs `takeback` with pipes as its standard input and output.
fn piped_takeback(session: &Session, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_takeback"));
    command.args(arguments).env_clear().env("HOME", session.base());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn an_export_survives_a_round_trip() {
    let session = with_examples();
    session.output(&["sessions", "rewind", "4f2a"]);
    session.output(&["sessions", "fork", "4f2a", "--at", "2"]);
    let odd = json!({ "id": "odd", "source": "x", "started_at": START, "archived": true,
        "messages": [{ "seq": 7, "role": "user", "content": "\u{0}\u{1b}é\"\\", "of_theirs": [1.5] }] });
    import_sessions(&session, &[odd]);
    let first = run_sessions(&session, &["export", "--all"]);
    assert_eq!(first.lines().count(), 5);
    let other = Session::new();
    let path = write_file(&other, "all.jsonl", &first);
    let report = other.json(&["sessions", "import", path.to_str().unwrap()]);
    assert_eq!(report, json!({ "sessions": 5, "new_sessions": 5, "messages": 10, "bad": [] }));
    assert_eq!(run_sessions(&other, &["export", "--all"]), first);
    // Undone messages are still undone after the import.
    assert_eq!(other.json(&["sessions", "search", "東京"])["total"], 0);
}

#[test]
fn importing_a_file_twice_adds_nothing() {
    let mut session = Session::new();
    let path = write_file(&session, "s.jsonl", &to_json_lines(&example_sessions()));
    session.takeback(&["sessions", "import", path.to_str().unwrap()]);
    session.takeback(&["sessions", "import", path.to_str().unwrap()]);
    session.assert(
        "
$ takeback sessions import ~/s.jsonl
Read 3 sessions, 3 of them new. Added 7 messages.
$ takeback sessions import ~/s.jsonl
Read 3 sessions, 0 of them new. Added 0 messages.
",
    );
    let before = run_sessions(&session, &["export", "--all"]);
    session.output(&["sessions", "import", path.to_str().unwrap()]);
    assert_eq!(run_sessions(&session, &["export", "--all"]), before);
}

#[test]
fn a_bad_line_is_reported_and_the_others_are_imported() {
    let mut session = Session::new();
    let all = example_sessions();
    let mut other = all[0].clone();
    other["messages"][0]["content"] = json!("something else");
    let content = format!("{}\n{{\"id\": \n\n{}\n{other}\n{{}}", all[0], all[2]);
    let path = write_file(&session, "s.jsonl", &content);
    session.takeback(&["sessions", "import", path.to_str().unwrap()]);
    session.assert(
        "
$ takeback sessions import ~/s.jsonl
Read 2 sessions, 2 of them new. Added 6 messages.
! error: line 2: not a session: EOF while parsing a value at line 2 column 0
! error: line 5: session claude-code:4f2a9c01-aaaa already exists with a different message 1
! error: line 6: not a session: missing id
[exit Some(1)]
",
    );
    let output = session.output(&["sessions", "import", path.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sessions"], 2);
    assert_eq!(report["new_sessions"], 0);
    assert_eq!(report["bad"][2], json!({ "line": 6, "message": "not a session: missing id" }));
}

#[test]
fn standard_input_is_read_and_a_missing_file_is_reported() {
    let mut session = Session::new();
    let mut child =
        piped_takeback(&session, &["sessions", "import", "-", "--json"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(to_json_lines(&example_sessions()).as_bytes()).unwrap();
    let report: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(report["new_sessions"], 3);
    session.takeback(&["sessions", "import", "missing"]);
    session.assert(
        "
$ takeback sessions import missing
! error: cannot read missing
!   because: No such file or directory (os error 2)
[exit Some(1)]
",
    );
    assert_eq!(session.output(&["sessions", "import"]).status.code(), Some(2));
}

#[test]
fn chosen_sessions_are_exported_in_every_format() {
    let mut session = with_examples();
    let one = run_sessions(&session, &["export", "Fix Docker Build", "4f2a"]);
    assert_eq!(one.lines().count(), 1);
    let transcript: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(transcript, session.json(&["sessions", "show", "4f2a"]));
    let ids = |text: &str| -> Vec<String> {
        let array: Vec<Value> = serde_json::from_str(text).unwrap();
        array.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
    };
    // Sessions are in the order of the arguments or, with --all, sorted with the oldest first.
    let two = run_sessions(&session, &["export", "codex:", "4f2a", "--format", "json"]);
    assert_eq!(ids(&two), ["codex:4f2b0000-bbbb", "claude-code:4f2a9c01-aaaa"]);
    let all =
        run_sessions(&session, &["export", "--all", "--format", "json", "--source", "claude-code"]);
    assert_eq!(ids(&all), ["claude-code:4f2a9c01-aaaa", "claude-code:77000000-sub"]);
    assert_eq!(ids(&run_sessions(&session, &["export", "--all", "--json"])).len(), 3);
    assert_eq!(
        ids(&run_sessions(&session, &["export", "--all", "--json", "--source", "z"])).len(),
        0
    );
    let markdown = run_sessions(&session, &["export", "--all", "--format", "md"]);
    assert!(markdown.contains("chat-send") && markdown.contains("changelog"), "{markdown}");
    let html = run_sessions(&session, &["export", "--all", "--format", "html"]);
    assert!(html.starts_with("<!") && html.contains("changelog"), "{html}");
    session.takeback(&["sessions", "export"]);
    session.takeback(&["sessions", "export", "nope"]);
    session.takeback(&["sessions", "export", "--all", "--format", "md", "--json"]);
    session.assert(
        "
$ takeback sessions export
! error: the following required arguments were not provided: <SESSION|--all>
! hint: `takeback sessions export --help` shows examples
! Usage: takeback sessions export <SESSION|--all>
[exit Some(2)]
$ takeback sessions export nope
! error: no session \"nope\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback sessions export --all --format md --json
{\"error\":{\"causes\":[],\"hint\":\"drop --format, or write to a file with -o\",\"message\":\"--json prints one JSON document\"}}
[exit Some(1)]
",
    );
    assert_eq!(session.output(&["sessions", "export", "4f2a", "--all"]).status.code(), Some(2));
}

#[test]
fn the_source_option_requires_an_export_of_all_sessions() {
    let session = with_examples();
    let output = session.output(&["sessions", "export", "4f2a", "--source", "codex"]);
    assert_eq!(output.status.code(), Some(2));
    let all = run_sessions(&session, &["export", "--all", "--source", "codex"]);
    assert_eq!(all.lines().count(), 1);
}

#[test]
fn secrets_are_masked_on_export() {
    let session = Session::new();
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).split_off(4));
    let messages = json!([{ "role": "user", "content": format!("my key is {secret}") }]);
    import_sessions(&session, &[json!({ "id": "x", "source": "s", "messages": messages })]);
    for format in ["jsonl", "json", "md", "html"] {
        let export = ["export", "x", "--format", format];
        assert!(run_sessions(&session, &export).contains(&secret), "{format}");
        let masked = run_sessions(&session, &[&export[..], &["--redact"]].concat());
        assert!(masked.contains("my key is") && !masked.contains(&secret), "{masked}");
    }
}

#[test]
fn secrets_are_masked_on_import_if_the_configuration_says_so() {
    let mut session = Session::new();
    let home = session.base().join(".takeback");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), "# mine\n[ledger]\nredact = true\n").unwrap();
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).split_off(4));
    let messages = json!([{ "role": "user", "content": format!("my key is {secret}") }]);
    import_sessions(&session, &[json!({ "id": "x", "source": "s", "messages": messages })]);
    let stored = run_sessions(&session, &["export", "x"]);
    assert!(stored.contains("my key is [redacted:") && !stored.contains(&secret), "{stored}");

    fs::write(home.join("config.toml"), "[ledger]\n\nredakt = true\n").unwrap();
    session.takeback(&["sessions", "list"]);
    session.assert(
        "
$ takeback sessions list
! error: ~/.takeback/config.toml, line 3: unknown field `redakt`, expected `redact`
! hint: did you mean `redact`?
[exit Some(1)]
",
    );
}

#[test]
fn a_file_is_replaced_only_by_a_complete_one() {
    let mut session = with_examples();
    fs::write(session.project().join("out"), "old").unwrap();
    session.takeback(&["sessions", "export", "nope", "-o", "out"]);
    assert_eq!(session.read("out"), "old");
    session.takeback(&["sessions", "export", "--all", "-o", "out"]);
    assert_eq!(session.read("out"), run_sessions(&session, &["export", "--all"]));
    let mode = fs::metadata(session.project().join("out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    session.takeback(&["sessions", "export", "--all", "-o", "missing/out"]);
    session.assert(
        "
$ takeback sessions export nope -o out
! error: no session \"nope\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback sessions export --all -o out
Exported 3 sessions to ~/project/out.
$ takeback sessions export --all -o missing/out
! error: cannot write ~/project/missing/out
!   because: No such file or directory (os error 2)
[exit Some(1)]
",
    );
    assert_eq!(
        session.json(&["sessions", "export", "--all", "-o", "page", "--format", "html"]),
        json!({ "sessions": 3, "format": "html", "file": session.project().join("page") })
    );
    let names = fs::read_dir(session.project()).unwrap();
    assert_eq!(names.count(), 2, "temporary files are left");
}

#[test]
fn links_and_pipes_are_not_replaced() {
    let session = with_examples();
    fs::write(session.base().join("real"), "old").unwrap();
    symlink(session.base().join("real"), session.project().join("link")).unwrap();
    run_sessions(&session, &["export", "--all", "-o", "link"]);
    assert_eq!(fs::read_to_string(session.base().join("real")).unwrap().lines().count(), 3);
    let pipe = session.project().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    run_sessions(&session, &["export", "--all", "-o", "pipe"]);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let read = reader.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(read).unwrap(), run_sessions(&session, &["export", "--all"]));
}

/// Imports a session whose text does not fit into a pipe.
fn import_long_session(session: &Session) {
    let message = json!({ "role": "user", "content": "word ".repeat(1_000) });
    let messages = vec![message; 100];
    import_sessions(session, &[json!({ "id": "long", "source": "x", "messages": messages })]);
}

#[test]
fn a_reader_can_close_the_pipe() {
    let session = Session::new();
    import_long_session(&session);
    for arguments in [&["show", "long"][..], &["show", "long", "--json"], &["export", "--all"]] {
        let mut child =
            piped_takeback(&session, &[&["sessions"], arguments].concat()).spawn().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let session = with_examples();
    for arguments in [&["sessions"][..], &["sessions", "export", "--all"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = piped_takeback(&session, arguments).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
}

fn write_hermes_database(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    let database = rusqlite::Connection::open(directory.join("state.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL, title TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
                 content TEXT, timestamp REAL);
             INSERT INTO sessions VALUES ('20260528_ab', 'telegram', 1780000000.5, 'From Hermes');
             INSERT INTO messages VALUES (1, '20260528_ab', 'user', 'hello there', 1780000000.5);
             INSERT INTO messages VALUES (2, '20260528_ab', 'assistant', 'hi', 1780000001.5);",
        )
        .unwrap();
}

#[test]
fn sessions_are_imported_from_hermes() {
    let mut session = Session::new();
    session.takeback(&["sessions", "import", "--from", "hermes"]);
    write_hermes_database(&session.base().join(".hermes"));
    session.takeback(&["sessions", "import", "--from", "hermes"]);
    let path = session.base().join(".hermes/state.db");
    session.takeback(&["sessions", "import", "--from", "hermes", path.to_str().unwrap()]);
    session.takeback(&["sessions"]);
    session.assert(
        "
$ takeback sessions import --from hermes
! error: no Hermes database at ~/.hermes
! hint: name Hermes's directory: `takeback sessions import --from hermes DIR`
[exit Some(1)]
$ takeback sessions import --from hermes
Read 1 session, 1 of them new. Added 2 messages.
$ takeback sessions import --from hermes ~/.hermes/state.db
Read 1 session, 0 of them new. Added 0 messages.
$ takeback sessions
20260528  <date> <time>  telegram  2 messages  From Hermes
",
    );
    assert!(!session.base().join(".takeback/import-copies").exists());
    let report = session.json(&["sessions", "import", "--from", "hermes"]);
    assert_eq!(report, json!({ "sessions": 1, "new_sessions": 0, "messages": 0, "bad": [] }));
}
