//! `takeback fork`: a new directory and a new session that begin at an earlier point.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{Agent, with_two_turns};
use crate::rpc_client::Client;
use crate::session::{Session, said};

/// Replaces the random ids of forks, and the ids of checkpoints after an `@`.
fn mask_ids(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['@', ':']) {
        let (before, after) = rest.split_at(at + 1);
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        masked.push_str(before);
        let is_id = matches!(digits, 7 | 16);
        masked.push_str(if is_id { "<new>" } else { &after[..digits] });
        rest = &after[digits..];
    }
    masked + rest
}

/// Creates a project in which an agent has worked for two turns. In the transcript of the session,
/// the ids of forks are masked.
fn after_two_turns() -> Session {
    let mut session = with_two_turns();
    session.replace(mask_ids);
    session
}

fn read(session: &Session, path: &str) -> String {
    fs::read_to_string(session.base().join(path)).unwrap()
}

#[test]
fn a_fork_says_what_it_created_and_how_to_continue() {
    let mut session = after_two_turns();
    session.takeback(&["fork", "1"]);
    session.takeback(&["fork", "s1", "../again"]);
    session.takeback(&["fork", "s1@1", "../first", "-v"]);
    session.takeback(&["fork", "s1@1", "--chat-only"]);
    session.assert(
        "
$ takeback fork 1
Forked checkpoint <id> into ~/project-fork: 3 files (1 not saved: dist).
Conversation: 1 message in the new session takeback:<new>.
Continue there: `cd ~/project-fork`
$ takeback fork s1 ../again
Forked mine:s1 after turn 2 into ~/again: 3 files (1 not saved: dist).
Conversation: 2 messages in the new session takeback:<new>.
Continue there: `cd ~/again`
$ takeback fork s1@1 ../first -v
Forked mine:s1 after turn 1 into ~/first: 3 files.
Not saved, and therefore not in the fork:
  dist  (excluded)
Conversation: 1 message in the new session takeback:<new>.
Continue there: `cd ~/first`
$ takeback fork s1@1 --chat-only
Forked mine:s1 after turn 1.
Conversation: 1 message in the new session takeback:<new>.
",
    );
    assert_eq!(read(&session, "project-fork/config.py"), "old\n");
    assert_eq!(read(&session, "again/config.py"), "new\n");
    assert_eq!(read(&session, "first/config.py"), "old\n");
    assert_eq!(session.read("config.py"), "new\n");
}

#[test]
fn a_manual_checkpoint_is_forked_without_a_conversation() {
    let mut session = after_two_turns();
    session.output(&["checkpoint", "--name", "good"]);
    session.takeback(&["fork", "good"]);
    session.takeback(&["fork", "good", "--chat-only"]);
    session.takeback(&["fork", "s1@good", "../other"]);
    session.assert(
        "
$ takeback fork good
Forked checkpoint <id> into ~/project-fork: 3 files (1 not saved: dist).
The checkpoint belongs to no conversation; to fork one as well, use SESSION@CHECKPOINT.
Continue there: `cd ~/project-fork`
$ takeback fork good --chat-only
! error: checkpoint <id> belongs to no conversation
! hint: name the session: `takeback fork SESSION@<new>`
[exit Some(1)]
$ takeback fork s1@good ../other
Forked mine:s1 at checkpoint <id> into ~/other: 3 files (1 not saved: dist).
Conversation: 2 messages in the new session takeback:<new>.
Continue there: `cd ~/other`
",
    );
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let mut session = after_two_turns();
    fs::create_dir(session.base().join("full")).unwrap();
    fs::write(session.base().join("full/mine"), "").unwrap();
    session.takeback(&["fork", "9"]);
    session.takeback(&["fork", "nothing"]);
    session.takeback(&["fork", "s1@9"]);
    session.takeback(&["fork", "s1@"]);
    session.takeback(&["fork", "other@3"]);
    session.takeback(&["fork", "1", "../full"]);
    session.takeback(&["fork", "1", "inner"]);
    session.takeback(&["fork", "1", "../.takeback/x"]);
    session.takeback(&["fork", "1", "../x", "--chat-only"]);
    session.takeback(&["fork"]);
    session.assert(
        "
$ takeback fork 9
! error: no checkpoint 9: this workspace has 2
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback fork nothing
! error: \"nothing\" is neither a checkpoint of this workspace nor a session
! hint: `takeback list` lists the checkpoints; `takeback sessions` lists the sessions
[exit Some(1)]
$ takeback fork s1@9
! error: session mine:s1 has no turn 9: it has 2
! hint: `takeback sessions show mine:s1` shows the conversation
[exit Some(1)]
$ takeback fork s1@
! error: no turn or checkpoint follows the @ in \"s1@\"
! hint: write SESSION@TURN, SESSION@CHECKPOINT or SESSION@now
[exit Some(1)]
$ takeback fork other@3
! error: no session \"other\"
! hint: `takeback sessions list` lists the sessions
[exit Some(1)]
$ takeback fork 1 ../full
! error: ~/full already exists and is not empty
! hint: nothing was changed; name a directory that does not exist yet
[exit Some(1)]
$ takeback fork 1 inner
! error: ~/project/inner is inside the workspace that is being forked
! hint: name a directory outside the workspace: a rollback of the workspace would delete the fork
[exit Some(1)]
$ takeback fork 1 ../.takeback/x
! error: ~/.takeback/x is takeback's own directory
! hint: name another directory
[exit Some(1)]
$ takeback fork 1 ../x --chat-only
! error: the argument '[DIR]' cannot be used with '--chat-only'
! Usage: takeback fork <MOMENT> <DIR>
[exit Some(2)]
$ takeback fork
! error: the following required arguments were not provided: <MOMENT>
! hint: `takeback fork --help` shows examples
! Usage: takeback fork <MOMENT> [DIR]
[exit Some(2)]
",
    );
    assert_eq!(fs::read_dir(session.base().join("full")).unwrap().count(), 1);
    assert!(!session.exists("inner"));
}

#[test]
fn if_the_exact_state_is_unknown_the_nearest_states_are_named() {
    let mut session = after_two_turns();
    let agent = Agent::new(&session, "s1");
    agent.hears("explain it");
    agent.is_done();
    session.write("config.py", "edited by the user");
    // The end of the turn may be captured before or after the edit.
    let error = said(&session.output(&["fork", "s1@3", "../fork"]));
    assert!(error.contains("turn 3 of mine:s1 is unknown"), "{error}");
    assert!(error.contains("because: the last state before it: "), "{error}");
    assert!(error.contains("hint: `mine:s1@"), "{error}");
    session.takeback(&["fork", "s1@now", "../fork"]);
    session.assert(
        "
$ takeback fork s1@now ../fork
Forked mine:s1 as it is now into ~/fork: 3 files (1 not saved: dist).
Conversation: 3 messages in the new session takeback:<new>.
Continue there: `cd ~/fork`
",
    );
    assert_eq!(read(&session, "fork/config.py"), "edited by the user");
}

#[test]
fn the_tree_of_a_session_shows_its_forks_and_where_they_work() {
    let mut session = after_two_turns();
    session.output(&["sessions", "title", "s1", "Shop"]);
    session.output(&["fork", "s1@1", "../try"]);
    session.output(&["fork", "s1@1", "--chat-only"]);
    session.replace(|line| {
        let line = mask_ids(line);
        // The short ids of forks are random, too.
        match line.find("─ ") {
            Some(at) => {
                let id = at + "─ ".len();
                let rest = line[id..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
                format!("{}<fork>{rest}", &line[..id])
            }
            None => line,
        }
    });
    session.takeback(&["sessions", "tree", "s1"]);
    session.assert(
        "
$ takeback sessions tree s1
s1                 <date> <time>  2 messages  Shop  ← this session
├─ <fork>  fork  <date> <time>   1 message  Shop #2  ~/try
└─ <fork>  fork  <date> <time>   1 message  Shop #3
",
    );
    let last = session.json(&["sessions", "tree"]);
    assert_eq!(last["id"], "mine:s1", "the last session belongs to the same tree");
    let tree = session.json(&["sessions", "tree", "s1"]);
    let directories: Vec<&Value> =
        tree["children"].as_array().unwrap().iter().map(|node| &node["workspace"]).collect();
    assert_eq!(directories, [&json!(session.base().join("try")), &json!(session.project())]);
}

#[test]
fn the_json_of_a_fork_is_complete() {
    let session = with_two_turns();
    let fork = session.json(&["fork", "s1@1", "../try"]);
    let base = session.base();
    assert_eq!(fork["parent"], "mine:s1");
    assert!(fork["session"].as_str().unwrap().starts_with("takeback:"));
    assert_eq!(
        (&fork["turn"], &fork["messages"], &fork["files"]),
        (&json!(1), &json!(1), &json!(3))
    );
    assert_eq!(fork["directory"], json!(base.join("try")));
    assert_eq!(fork["workspace"], json!(session.project()));
    assert_eq!(fork["uncovered"], json!([{ "path": "dist", "reason": "excluded" }]));
    assert_eq!(fork["checkpoint"].as_str().unwrap().len(), 40);
    assert_eq!(fork["repository"], Value::Null);
    let shown = session.json(&["sessions", "show", fork["session"].as_str().unwrap()]);
    assert_eq!(shown["messages"][0]["content"], "add\n  the cart");
    assert_eq!(shown["workspace"], json!(base.join("try")));
}

#[test]
fn an_agent_continues_in_the_fork_and_its_work_is_taken_back_there() {
    let session = with_two_turns();
    session.json(&["fork", "1", "../try"]);
    let mut agent = Agent::new(&session, "s9");
    agent.cwd = session.base().join("try");
    agent.turn("another way", "config.py", "another\n");
    assert_eq!(
        (read(&session, "try/config.py"), session.read("config.py")),
        ("another\n".into(), "new\n".into())
    );
    let diff = session.json(&["-C", "../try", "diff", "2"]);
    assert_eq!(diff["changes"][0]["path"], "config.py", "{diff:#}");
    session.json(&["-C", "../try", "rollback", "1"]);
    assert_eq!(read(&session, "try/config.py"), "old\n");
    assert_eq!(session.read("config.py"), "new\n");
}

fn run_git(directory: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let output = git.current_dir(directory).env("HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_fork_of_a_repository_is_a_repository() {
    let mut session = Session::new();
    session.replace(mask_ids);
    run_git(&session.project(), &["init", "-q", "-b", "main"]);
    session.write("a", "1");
    run_git(&session.project(), &["add", "."]);
    run_git(&session.project(), &["commit", "-qm", "one"]);
    session.write("a", "2");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("commit");
    agent.runs("git -c user.name=a -c user.email=a@b commit -qam two");
    agent.is_done();
    session.takeback(&["fork", "1", "../try"]);
    session.takeback(&["fork", "1", "../plain", "--no-git"]);
    session.assert(
        "
$ takeback fork 1 ../try
Forked checkpoint <id> into ~/try: 1 file.
The git repository is a copy, at <id> on main.
Conversation: 0 messages in the new session takeback:<new>.
Continue there: `cd ~/try`
$ takeback fork 1 ../plain --no-git
Forked checkpoint <id> into ~/plain: 1 file.
Conversation: 0 messages in the new session takeback:<new>.
Continue there: `cd ~/plain`
",
    );
    let fork = session.base().join("try");
    assert_eq!(run_git(&fork, &["log", "--format=%s"]), "one\n");
    assert_eq!(run_git(&fork, &["status", "--porcelain"]), " M a\n");
    assert_eq!(run_git(&session.project(), &["log", "--format=%s"]), "two\none\n");
    assert!(!session.base().join("plain/.git").exists());
}

#[test]
fn a_fork_over_rpc_has_the_same_result() {
    let session = with_two_turns();
    let mut client = Client::new(&session);
    let fork = client.call("fork", json!({ "from": 1, "directory": "../try" }));
    assert_eq!((&fork["parent"], &fork["turn"]), (&json!("mine:s1"), &json!(1)));
    assert_eq!(read(&session, "try/config.py"), "old\n");
    let fork = client.call("fork", json!({ "from": "s1@1", "chat_only": true }));
    assert_eq!((&fork["directory"], &fork["messages"]), (&json!(null), &json!(1)));
}

#[test]
fn a_killed_fork_is_complete_or_leaves_nothing_behind() {
    let session = Session::new();
    for number in 0..400 {
        session.write(&format!("dir{}/f{number}", number % 7), &format!("{number}\n").repeat(200));
    }
    let mut agent = Agent::new(&session, "s1");
    agent.turn("begin", "a", "1");
    let forks = session.base().join(".takeback/checkpoints/forks");
    let (mut made, mut removed) = (0, 0);
    let beside = || fs::read_dir(session.base()).unwrap().count();
    let before = beside();
    for round in 0..24 {
        let fork = session.base().join(format!("try{round}"));
        let mut child = session.start(&["fork", "s1", fork.to_str().unwrap()]);
        while fs::read_dir(&forks).map_or(0, Iterator::count) < 2
            && child.try_wait().unwrap().is_none()
        {
            std::thread::yield_now();
        }
        for _ in 0..round * 300 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let listed = session.json(&["sessions", "list", "--limit", "100"]);
        let sessions = listed["sessions"].as_array().unwrap().len();
        if fork.exists() {
            made += 1;
            assert_eq!(fs::read_dir(fork.join("dir3")).unwrap().count(), 57);
        } else {
            removed += 1;
        }
        assert_eq!((sessions, beside()), (1 + made, before + made), "round {round}");
    }
    assert!(removed > 0, "no fork was killed in time: {made} were made");
}
