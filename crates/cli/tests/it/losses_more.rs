//! Cases in which files, conversation and messages could contradict each other.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, ledger, rows, steps};
use crate::session::{Session, first_in};

/// Returns the messages that are not undone.
fn conversation(session: &Session) -> Vec<String> {
    let connection = ledger(session);
    let mut statement =
        connection.prepare("SELECT content FROM messages WHERE NOT undone ORDER BY id").unwrap();
    let contents = statement.query_map([], |row| row.get(0)).unwrap();
    contents.collect::<Result<_, _>>().unwrap()
}

/// Returns the directory of the only workspace in the store.
fn workspace(session: &Session) -> PathBuf {
    first_in(&session.base().join(".takeback/checkpoints/store/workspaces"))
}

/// A process that uses the workspace until this is dropped.
struct User(Child);

impl User {
    fn of(session: &Session) -> User {
        let mut child = Command::new("flock")
            .arg("--no-fork")
            .arg(workspace(session).join("lock"))
            .args(["sh", "-c", "echo locked; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said_so = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said_so).unwrap();
        User(child)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(session: &Session, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(arguments)
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .env("PATH", "/bin:/usr/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn git(session: &Session, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(session.project())
        .env("HOME", session.base())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_call_that_is_late_is_of_its_turn_and_the_next_turn_is_another() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 300\n");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "1");
    let user = User::of(&session);
    let call = agent.call("Bash", json!({ "command": "make" }));
    assert!(agent.report(call.event("before_tool")).contains("in the background"));
    let failures = session.json(&["checkpoints"])["failures"].clone();
    assert_eq!(failures[0]["count"], 1, "it may never be done");
    agent.is_done();
    agent.hears("two");
    drop(user);
    session.write("a", "2");
    eventually("the late one", || steps(&rows(&session)[0]).len() == 2);
    eventually("nothing failed", || session.json(&["checkpoints"])["failures"] == json!([]));
    agent.writes("a", "3");
    let rows = rows(&session);
    assert_eq!((rows.len(), &rows[0]["prompt"]), (2, &json!("two")), "{rows:?}");
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), conversation(&session)), ("2".into(), vec!["one".into()]));
}

#[test]
fn without_the_ledger_turns_are_still_told_apart() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    agent.tell(json!({ "event": "session_end" }));
    session.write("mine", "by hand");
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(session.base().join(".takeback").join(name));
    }
    agent.tell(json!({ "event": "session_start" }));
    agent.writes("a", "2");
    assert_eq!(rows(&session).len(), 2);
    let done = session.json(&["rollback", "1", "--dry-run"]);
    assert_eq!((&done["restored"], &done["deleted"]), (&json!(["a"]), &json!([])));
}

#[test]
fn own_numbers_of_turns_are_none_of_the_agents() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    let fields = agent.fields.clone();
    for turn in 1..=4 {
        agent.fields["turn"] = json!(turn);
        agent.turn("with a number", "a", &turn.to_string());
    }
    agent.fields = fields;
    agent.turn("without", "a", "5");
    agent.writes("a", "6");
    assert_eq!(rows(&session).len(), 6);
    session.json(&["rollback", "2"]);
    assert_eq!(session.read("a"), "4");
}

/// Some agents restart their count in each process, or after a rollback.
#[test]
fn a_turn_whose_name_comes_again_is_another_one() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.fields["turn"] = json!(1);
    for content in ["1", "2", "3"] {
        agent.tell(json!({ "event": "session_start" }));
        agent.turn(content, "a", content);
        agent.tell(json!({ "event": "session_end" }));
        session.write(content, "by hand");
    }
    let prompts: Vec<_> = rows(&session).iter().map(|row| row["prompt"].clone()).collect();
    assert_eq!(prompts, ["3", "2", "1"]);
    let done = session.json(&["rollback", "1"]);
    assert_eq!((&done["restored"], &done["deleted"]), (&json!(["a"]), &json!(["3"])));
    assert_eq!(conversation(&session), ["1", "2"]);
    agent.turn("4", "2", "not by hand");
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), session.read("2")), ("2".into(), "by hand".into()));
    assert_eq!(conversation(&session), ["1", "2"]);
}

#[test]
fn rollbacks_of_files_and_of_the_conversation_alone_are_undone_one_by_one() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    for number in ["1", "2", "3"] {
        agent.turn(number, "a", number);
    }
    session.json(&["rollback", "1"]);
    session.json(&["rollback", "2", "--chat-only"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 1));
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 2));
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("3".into(), 3));
    session.json(&["rollback", "redo"]);
    session.json(&["rollback", "redo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 1));
}

/// Events that could not be written into the ledger in time wait in the spool.
#[test]
fn a_turn_that_the_ledger_learns_of_late_is_the_one_that_goes_back() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    let connection = ledger(&session);
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    agent.turn("two", "a", "2");
    connection.execute_batch("COMMIT").unwrap();
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(1)), "{done}");
    assert_eq!(conversation(&session), ["one"]);
}

#[test]
fn a_terminal_that_is_closed_ends_the_command() {
    let session = Session::new();
    let script = "trap 'echo ended > a; exit 5' HUP; echo > ready; while :; do sleep 0.05; done";
    let mut child = start(&session, &["run", "--", "/bin/sh", "-c", script]);
    eventually("the command runs", || session.project().join("ready").exists());
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    eventually("it ended", || child.try_wait().unwrap().is_some());
    assert_eq!((child.wait().unwrap().code(), session.read("a")), (Some(5), "ended\n".into()));
    session.json(&["undo"]);
    assert!(!session.project().join("a").exists());
}

#[test]
fn a_command_that_cannot_be_run_leaves_no_call_open() {
    let session = Session::new();
    session.write("plain", "no program");
    for (command, code) in [("no-such-program", 127), ("./plain", 126)] {
        assert_eq!(session.output(&["run", command]).status.code(), Some(code), "{command}");
    }
    let open = fs::read_dir(workspace(&session).join("notes/open"));
    assert_eq!(open.map_or(0, Iterator::count), 0);
}

#[test]
fn a_repository_that_is_gone_is_spoken_of() {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("a", "0");
    git(&session, &["add", "a"]);
    git(&session, &["commit", "-qm", "first"]);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start over");
    agent.runs("rm -rf .git a");
    let done = session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "0");
    assert!(done["warnings"][0].as_str().is_some_and(|text| text.contains(".git")), "{done}");
    assert_eq!(done["effects"][0]["kind"], "repository");
}

#[test]
fn a_command_to_paste_does_nothing_but_what_it_says() {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("a", "0");
    git(&session, &["add", "a"]);
    git(&session, &["commit", "-qm", "first"]);
    git(&session, &["checkout", "-q", "-b", "x;touch${IFS}pasted"]);
    session.output(&["checkpoint"]);
    git(&session, &["checkout", "-q", "main"]);
    let done = session.json(&["rollback", "1"]);
    let command = done["repository"]["command"].as_str().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(session.project());
    assert!(shell.status().unwrap().success(), "{command}");
    assert!(!session.project().join("pasted").exists(), "{command}");
}

#[test]
fn the_same_call_twice_at_once_ends_twice() {
    let session = Session::new();
    session.write("a", "0");
    session.write("b", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.names_calls = false;
    agent.hears("twice");
    let one = agent.begins("Bash", json!({ "command": "make" }));
    let two = agent.begins("Bash", json!({ "command": "make" }));
    session.write("a", "1");
    agent.finishes(&one);
    session.write("b", "1");
    agent.finishes(&two);
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read("b")), ("0".into(), "0".into()), "{undone}");
}

#[test]
fn what_is_kept_because_it_is_used_is_not_said_to_be_deleted() {
    let session = Session::new();
    session.output(&["checkpoint"]);
    let user = User::of(&session);
    let output = session.output(&["checkpoints", "clear", "-f", "--json"]);
    let cleared: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&cleared["checkpoints"], &cleared["workspaces"]), (&json!(0), &json!(0)));
    assert_eq!((&cleared["busy"], output.status.code()), (&json!([session.project()]), Some(1)));
    drop(user);
    assert_eq!(rows(&session).len(), 1);
}

#[test]
fn directories_are_not_counted_as_files() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("mkdir empty new; echo 1 > a; echo 1 > new/b");
    agent.is_done();
    eventually("it is counted", || rows(&session)[0]["files_changed"] == 2);
}

#[test]
fn a_path_through_a_link_is_in_the_workspace() {
    let session = Session::new();
    let link = session.base().join("link");
    std::os::unix::fs::symlink(session.project(), &link).unwrap();
    session.write("d/x", "0");
    session.output(&["checkpoint"]);
    for path in [link.join("d/x"), link.join("d")] {
        session.write("d/x", "1");
        let output = session.output(&["rollback", "1", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(session.read("d/x"), "0");
    }
}

#[test]
fn another_undo_takes_the_turn_before() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for name in ["a", "b", "c"] {
        agent.turn(name, name, "1");
    }
    for (left, row) in [(2, 1), (1, 2), (0, 3)] {
        assert_eq!(session.json(&["undo"])["row"], row);
        assert_eq!(fs::read_dir(session.project()).unwrap().count(), left);
    }
    let output = session.output(&["undo"]);
    assert!(said(&output).contains("no turn left to undo"), "{}", said(&output));
}

#[test]
fn a_rollback_that_is_killed_has_its_files_and_its_conversation_at_one_place() {
    let session = Session::new();
    let names: Vec<String> = (0..120).map(|number| format!("f{number}")).collect();
    let mut agent = Agent::new(&session, "s1");
    for content in ["1", "2"] {
        agent.hears(content);
        agent.runs(&format!("for n in $(seq 0 119); do echo {content} > f$n; done"));
        agent.is_done();
    }
    let journal = workspace(&session).join("journal");
    let mut finished = 0;
    for round in 0..5 {
        let turn = rows(&session).iter().find(|row| row["prompt"] == "2").unwrap()["id"].clone();
        let mut child = start(&session, &["rollback", turn.as_str().unwrap()]);
        while !journal.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        for _ in 0..round * 200 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let next = session.output(&["checkpoint"]);
        finished += usize::from(said(&next).contains("has been finished"));
        let first = session.read(&names[0]);
        assert!(names.iter().all(|name| session.read(name) == first), "a mixed tree");
        let left = if first == "1\n" { vec!["1"] } else { vec!["1", "2"] };
        assert_eq!(conversation(&session), left, "round {round}");
        let undone = session.output(&["rollback", "undo"]);
        assert_eq!(undone.status.success(), first == "1\n", "{}", said(&undone));
        assert_eq!((session.read(&names[0]), conversation(&session).len()), ("2\n".into(), 2));
    }
    assert!(finished > 0, "no rollback was killed in time");
}

#[test]
fn with_json_there_is_only_json() {
    let session = Session::new();
    let output = session.output(&["demo", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["error"]["message"].is_string(), "{answer}");
}
