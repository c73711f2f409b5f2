//! Agents' reports become rows, steps and effects.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, ledger, rows, steps};
use crate::session::Session;

#[test]
fn a_turn_is_one_row_with_its_steps() {
    let session = Session::new();
    session.write("a.txt", "1\n2\n");
    session.write("dist/x", "");
    let mut agent = Agent::new(&session, "s1");
    agent.tell(json!({ "event": "session_start", "model": "opus" }));
    agent.hears("rename the setting");
    agent.writes("a.txt", "1\n3\n4\n");
    agent.runs("rm a.txt");
    agent.is_done();
    let list = session.json(&["rollback"]);
    let row = &list["checkpoints"][0];
    let step = &row["steps"][1];
    assert!(step["id"].as_str().unwrap().len() == 40 && step["id"] != row["id"]);
    assert_eq!(
        list,
        json!({
            "workspace": session.project(),
            "checkpoints": [{
                "number": 1,
                "id": row["steps"][0]["id"],
                "time": row["steps"][0]["time"],
                "name": null,
                "pinned": false,
                "kind": "turn",
                "reason": "before Write a.txt",
                "agent": "mine",
                "session": "mine:s1",
                "turn": 1,
                "tool": "Write",
                "prompt": "rename the setting",
                "files_changed": 1,
                "insertions": 0,
                "deletions": 2,
                "effects": [],
                "uncovered": { "count": 1, "paths": ["dist"] },
                "late": false,
                "steps": [
                    { "number": "1.1", "id": row["id"], "time": row["time"], "late": false,
                      "reason": "before Write a.txt", "tool": "Write", "call": "c1" },
                    { "number": "1.2", "id": step["id"], "time": step["time"], "late": false,
                      "reason": "before Bash: rm a.txt", "tool": "Bash", "call": "c2" },
                ],
            }],
        }),
    );
}

#[test]
fn the_list_has_prompts_and_effects_and_counts_and_steps() {
    let mut session = Session::new();
    session.write("config.py", "old\n");
    session.write("dist/x", "");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("add\n  the cart");
    agent.writes("src/app.py", "1\n2\n3\n");
    agent.writes("src/cart.py", "1\n");
    agent.pretends("psql shop -c 'drop table carts'");
    agent.is_done();
    agent.hears("rename the setting");
    agent.runs("sed -i s/old/new/ config.py");
    agent.is_done();
    session.takeback(&["rollback"]);
    session.takeback(&["rollback", "--steps"]);
    session.assert(
        "
$ takeback rollback
Checkpoints for ~/project
  ●  1  <id>  <age>  mine  “rename the setting”  1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     2  <id>  <age>  mine  “add the cart”        2 files +4 −0  3 steps  ⚠ database  before Write src/app.py

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback rollback --steps
Checkpoints for ~/project
  ●    1  <id>  <age>  mine  “rename the setting”                            1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     1.1  <id>  <age>          before Bash: sed -i s/old/new/ config.py
       2  <id>  <age>  mine  “add the cart”                                  2 files +4 −0  3 steps  ⚠ database  before Write src/app.py
     2.1  <id>  <age>          before Write src/app.py
     2.2  <id>  <age>          before Write src/cart.py
     2.3  <id>  <age>          before Bash: psql shop -c 'drop table carts'

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
",
    );
}

#[test]
fn the_first_call_adds_a_row_and_later_calls_add_a_step_if_something_changed() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.pretends("make");
    agent.pretends("make test");
    agent.writes("a", "2");
    agent.writes("a", "2");
    agent.writes("a", "2");
    agent.is_done();
    agent.hears("two");
    agent.pretends("make install");
    agent.is_done();
    let rows = rows(&session);
    assert_eq!(rows.len(), 2);
    assert_eq!(steps(&rows[0]), ["before Bash: make install"]);
    assert_eq!(steps(&rows[1]), ["before Bash: make", "before Write a"]);
}

#[test]
fn no_steps_are_added_if_the_granularity_is_turn() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ngranularity = \"turn\"\n");
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "2");
    agent.writes("b", "1");
    agent.is_done();
    assert_eq!(steps(&rows(&session)[0]), ["before Write a"]);
    // Although there is only one step, takeback knows which files the turn changed, and the undo
    // takes back all of them.
    session.write("c", "mine");
    session.output(&["undo"]);
    assert_eq!((session.read("a"), session.read("c")), ("1".into(), "mine".into()));
    assert!(!session.project().join("b").exists());
}

#[test]
fn read_only_calls_add_no_row() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("look around");
    for command in ["ls -la", "git status 2>&1", "cat a | grep 1 >/dev/null", "sed -n 1p a"] {
        agent.pretends(command);
    }
    let call = agent.begins("Read", json!({ "path": "a" }));
    agent.finishes(&call);
    agent.is_done();
    assert!(rows(&session).is_empty());
    agent.hears("do something");
    let call = agent.begins("mcp__unknown__thing", json!({}));
    agent.finishes(&call);
    assert_eq!(rows(&session)[0]["reason"], "before mcp__unknown__thing");
}

#[test]
fn an_unannounced_turn_is_a_row() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.writes("a", "1");
    agent.writes("a", "2");
    let rows = rows(&session);
    assert_eq!((rows.len(), steps(&rows[0]).len()), (1, 2));
    assert_eq!(rows[0]["prompt"], Value::Null);
}

#[test]
fn an_unannounced_turn_does_not_get_the_prompt_of_another_turn() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    agent.writes("a", "2");
    agent.is_done();
    let rows = rows(&session);
    assert_eq!((&rows[0]["prompt"], &rows[1]["prompt"]), (&Value::Null, &json!("one")));
    assert_eq!(session.json(&["rollback", "1"])["undone_messages"], 0);
}

#[test]
fn turns_are_distinguished_even_if_only_their_ends_are_reported() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "droid");
    agent.names_calls = false;
    for content in ["1", "2", "3"] {
        agent.writes("a", content);
        agent.writes("b", content);
        agent.is_done();
    }
    let rows = rows(&session);
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| steps(row).len() == 2));
    session.output(&["rollback", "2"]);
    assert_eq!((session.read("a"), session.read("b")), ("1".into(), "1".into()));
}

#[test]
fn turns_are_distinguished_even_if_only_their_names_are_reported() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for turn in ["p-1", "p-2"] {
        agent.fields["turn"] = json!(turn);
        agent.writes("a", turn);
        agent.writes("b", turn);
    }
    // Some agents report the prompt again in the middle of a turn.
    agent.hears("again");
    agent.writes("a", "3");
    let rows = rows(&session);
    let turns: Vec<_> = rows.iter().map(|row| (&row["turn"], steps(row).len())).collect();
    assert_eq!(turns, [(&json!("p-2"), 3), (&json!("p-1"), 2)]);
}

#[test]
fn calls_without_ids_are_matched_by_tool_and_input() {
    let session = Session::new();
    session.write("n", "");
    let mut agent = Agent::new(&session, "s1");
    agent.names_calls = false;
    agent.hears("twice the same");
    agent.runs("echo x >> n");
    agent.runs("echo x >> n");
    agent.is_done();
    assert_eq!(steps(&rows(&session)[0]).len(), 2);
    let calls: (i64, i64) = ledger(&session)
        .query_row("SELECT count(*), count(ended_at) FROM calls", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(calls, (2, 2));
    session.output(&["undo"]);
    assert_eq!(session.read("n"), "");
}

#[test]
fn two_sessions_in_one_workspace_have_a_row_each() {
    let session = Session::new();
    session.write("a", "1");
    session.write("b", "1");
    let (mut one, mut two) = (Agent::new(&session, "s1"), Agent::new(&session, "s2"));
    one.hears("change a");
    two.hears("change b");
    let first = one.begins("Write", json!({ "path": "a" }));
    let second = two.begins("Write", json!({ "path": "b" }));
    session.write("a", "2");
    session.write("b", "2");
    two.finishes(&second);
    one.finishes(&first);
    two.is_done();
    one.is_done();
    let rows = rows(&session);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["session"].as_str().unwrap(), row["prompt"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [("mine:s2", "change b"), ("mine:s1", "change a")]);
    assert!(rows.iter().all(|row| row["files_changed"] == 1), "{rows:?}");
    session.output(&["undo", "--turn", "2"]);
    assert_eq!((session.read("a"), session.read("b")), ("1".into(), "2".into()));
}

#[test]
fn changes_during_overlapping_commands_are_uncertain() {
    let session = Session::new();
    let (mut one, mut two) = (Agent::new(&session, "s1"), Agent::new(&session, "s2"));
    let first = one.begins("Bash", json!({ "command": "make a" }));
    let second = two.begins("Bash", json!({ "command": "make b" }));
    session.write("a", "1");
    one.finishes(&first);
    two.finishes(&second);
    let undone = session.json(&["undo", "--turn", "2"]);
    assert_eq!(undone["uncertain"], json!(["a"]));
    assert_eq!(session.read("a"), "1");
    session.output(&["undo", "--turn", "2", "--uncertain"]);
    assert!(!session.project().join("a").exists());
}

#[test]
fn one_session_in_two_workspaces_has_a_row_in_each() {
    let session = Session::new();
    let other = session.base().join("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    fs::write(other.join("b"), "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("both");
    agent.writes("a", "1");
    agent.cwd = other.clone();
    agent.writes("b", "2");
    agent.is_done();
    let there = session.json(&["-C", "../other", "rollback"]);
    assert_eq!(there["workspace"], json!(other));
    for row in [&rows(&session)[0], &there["checkpoints"][0]] {
        assert_eq!((&row["prompt"], &row["session"]), (&json!("both"), &json!("mine:s1")));
    }
    session.output(&["-C", "../other", "rollback", "1", "--workspace-only"]);
    assert_eq!(fs::read_to_string(other.join("b")).unwrap(), "1");
    assert_eq!(session.read("a"), "1");
    session.output(&["-C", "../other", "rollback", "undo"]);
    assert_eq!(fs::read_to_string(other.join("b")).unwrap(), "2");
    session.output(&["-C", "../other", "rollback", "1"]);
    assert_eq!(fs::read_to_string(other.join("b")).unwrap(), "1");
    assert!(!session.project().join("a").exists());
}

#[test]
fn a_single_file_outside_the_workspace_is_protected() {
    let mut session = Session::new();
    let file = session.base().join(".zshrc");
    fs::write(&file, "alias a=b\n").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("my shell");
    agent.writes(file.to_str().unwrap(), "");
    agent.runs("echo broken >> ~/.zshrc");
    agent.is_done();
    session.takeback(&["-C", "../.zshrc", "rollback"]);
    session.takeback(&["-C", "../.zshrc", "rollback", "1"]);
    session.assert(
        "
$ takeback -C ../.zshrc rollback
Checkpoints for ~/.zshrc
  ●  1  <id>  <age>  mine  “my shell”  1 file +1 −1  2 steps  before Write ~/.zshrc

● now
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback -C ../.zshrc rollback 1
Restored:
  .zshrc
Conversation: 1 turn (1 message) taken back.
The prompt was:
  my shell
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "alias a=b\n");
    session.output(&["-C", "../.zshrc", "rollback", "undo"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "broken\n");
}

#[test]
fn a_path_in_another_project_protects_that_project() {
    let session = Session::new();
    let other = session.base().join("other");
    fs::create_dir_all(other.join("src")).unwrap();
    fs::write(other.join("Cargo.toml"), "").unwrap();
    fs::write(other.join("src/lib.rs"), "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.runs("rm -rf ../other/src");
    let there = session.json(&["-C", "../other", "rollback"]);
    assert_eq!(there["checkpoints"][0]["reason"], "before Bash: rm -rf ../other/src");
    session.output(&["-C", "../other", "rollback", "1"]);
    assert_eq!(fs::read_to_string(other.join("src/lib.rs")).unwrap(), "1");
}

#[test]
fn the_session_of_a_subagent_is_a_child_of_its_parents_session() {
    let session = Session::new();
    session.write("a", "1");
    let mut parent = Agent::new(&session, "s1");
    parent.hears("delegate it");
    let task = parent.begins("Task", json!({ "prompt": "write a" }));
    let mut child = Agent::new(&session, "s1-sub");
    child.fields["parent"] = json!("s1");
    child.writes("a", "2");
    child.is_done();
    parent.finishes(&task);
    parent.is_done();
    let lineage: (String, String) = ledger(&session)
        .query_row(
            "SELECT parent_session_id, parent_kind FROM sessions WHERE id = 'mine:s1-sub'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(lineage, ("mine:s1".into(), "subagent".into()));
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(1)));
}

/// A turn is one message from the user and all the work that it causes, including the work of
/// subagents.
#[test]
fn the_work_of_a_subagent_is_undone_with_the_turn_of_its_parent() {
    let session = Session::new();
    session.write("a", "1");
    let mut parent = Agent::new(&session, "s1");
    parent.hears("delegate it");
    parent.writes("b", "parent");
    let task = parent.begins("Task", json!({ "prompt": "write a" }));
    let mut child = Agent::new(&session, "s1-sub");
    child.fields["parent"] = json!("s1");
    child.writes("a", "2");
    child.is_done();
    parent.finishes(&task);
    parent.is_done();
    let rows = rows(&session);
    let row = rows.iter().find(|row| row["prompt"] == "delegate it").unwrap();
    session.output(&["undo", "--turn", &row["number"].to_string()]);
    assert_eq!(session.read("a"), "1");
    assert!(!session.project().join("b").exists());
}

#[test]
fn a_checkpoint_shows_the_effect_of_the_call_that_follows_it() {
    let session = Session::new();
    for number in 0..200 {
        session.write(&format!("f{number}"), &number.to_string());
    }
    let mut agent = Agent::new(&session, "s1");
    agent.hears("drop it");
    agent.pretends("psql -c 'drop table carts'");
    agent.is_done();
    let effects = json!([{ "kind": "database", "command": "psql -c 'drop table carts'" }]);
    assert_eq!(rows(&session)[0]["effects"], effects);
    assert_eq!(session.json(&["rollback", "1", "--dry-run"])["effects"], effects);
}

#[test]
fn effects_are_recorded_even_without_a_checkpoint() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    agent.hears("only effects");
    agent.pretends("kubectl delete pod web");
    agent.pretends("curl --json '{}' https://example.org");
    agent.is_done();
    let effects = session.json(&["rollback", "2", "--dry-run"])["effects"].clone();
    assert_eq!(
        effects,
        json!([
            { "kind": "cloud", "command": "kubectl delete pod web" },
            { "kind": "network", "command": "curl --json '{}' https://example.org" },
        ])
    );
    // Neither command changes a file here, but the ledger records their effects in any case.
    let count: i64 =
        ledger(&session).query_row("SELECT count(*) FROM effects", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}
