//! Promises that Myrm's page makes about checkpoints. Each test says how Myrm breaks one of these
//! promises, and shows that takeback keeps it.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, ledger, rows};
use crate::session::Session;

/// In Myrm, after the time limit, the tool ran while the snapshot was still being taken, so the
/// snapshot could capture the state after the command.
#[test]
fn a_late_checkpoint_is_marked_late() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 1\n");
    for number in 0..2000 {
        session.write(&format!("d{}/f{number}", number % 40), &format!("{number}\n"));
    }
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "make" }));
    agent.report(call.event("before_tool"));
    eventually("a checkpoint", || rows(&session).len() == 1);
    assert_eq!(rows(&session)[0]["late"], true);
}

/// In Myrm, only some checkpoints were complete before the tool ran.
#[test]
fn a_checkpoint_is_complete_before_the_tool_runs() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.begins("Write", json!({ "path": "a" }));
    session.write("a", "2");
    assert_eq!(rows(&session)[0]["late"], false);
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("a"), "1");
}

/// In Myrm, a repair deleted the whole store if HEAD was missing.
#[test]
fn damage_costs_only_the_damaged_files() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint", "--name", "one"]);
    let packs = session.base().join(".takeback/checkpoints/store/objects/pack");
    let is_pack = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "pack");
    let list = || fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).filter(is_pack);
    let first: Vec<_> = list().collect();
    session.write("b", "2");
    session.output(&["checkpoint", "--name", "two"]);
    let second = list().find(|pack| !first.contains(pack)).unwrap();
    let mut bytes = fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::remove_file(&second).unwrap();
    fs::write(&second, bytes).unwrap();
    session.output(&["checkpoints", "repair"]);
    session.write("a", "3");
    assert!(session.output(&["rollback", "one"]).status.success());
    assert_eq!(session.read("a"), "1");
}

/// In Myrm, if the user selected a file that was added after the checkpoint, the restore was
/// aborted halfway, with some files already changed.
#[test]
fn a_selection_is_restored_completely_or_not_at_all() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.write("added", "1");
    session.output(&["rollback", "1", "a", "added"]);
    assert_eq!(session.read("a"), "1");
    assert!(!session.project().join("added").exists());
    session.output(&["rollback", "undo"]);
    assert_eq!((session.read("a"), session.read("added")), ("2".into(), "1".into()));
    assert!(!session.output(&["rollback", "1", "a", "nowhere"]).status.success());
    assert_eq!(session.read("a"), "2");
}

/// In Myrm, files created after the checkpoint survived.
#[test]
fn everything_is_restored_exactly() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.runs("mkdir -p x/y && echo 1 > x/y/z && ln -s a link && rm a");
    agent.is_done();
    session.output(&["rollback", "1"]);
    let names: Vec<_> =
        fs::read_dir(session.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
}

/// In Myrm, notices were kept in memory for ten minutes, in one list for all chats, and given to
/// the next turn of any chat.
#[test]
fn notices_are_kept_per_session_with_path_and_content() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let stranger = Agent::new(&session, "s2");
    stranger.hears("hello");
    session.output(&["rollback", "1", "a"]);
    let notices: (String, String) = ledger(&session)
        .query_row(
            "SELECT s.id, n.body FROM notices n JOIN sessions s ON s.key = n.session",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let body: Value = serde_json::from_str(&notices.1).unwrap();
    assert_eq!((&*notices.0, &body["files"][0]["path"]), ("mine:s1", &json!("a")));
    assert!(body["files"][0]["content"].is_string());
}

/// Myrm warned about effects only if the command also matched its pattern for commands that change
/// files, and only once per turn. Older checkpoints did not show newer effects.
#[test]
fn every_effect_since_a_checkpoint_is_shown() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("first", "a", "1");
    let commands = [
        ("database", "psql -c 'drop table x'"),
        ("cloud", "kubectl delete pod x"),
        ("cloud", "terraform apply -auto-approve"),
        ("network", "curl -d x=1 https://example.org"),
    ];
    for (_, command) in commands {
        agent.hears(command);
        agent.pretends(command);
        agent.is_done();
    }
    let expected: Vec<Value> = commands
        .iter()
        .map(|(kind, command)| json!({ "kind": kind, "command": command }))
        .collect();
    let rows = rows(&session);
    let oldest = rows.len().to_string();
    let shown = session.json(&["rollback", &oldest, "--dry-run"])["effects"].clone();
    assert_eq!(shown, Value::from(expected));
}

/// Myrm looked for certain words anywhere in a command, so it warned about `echo psql`. It did not
/// warn about `git push`.
#[test]
fn effects_are_found_by_program_and_verb() {
    let session = Session::new();
    for (command, kinds) in [
        ("echo psql", &[][..]),
        ("grep -r docker .", &[]),
        ("cat docker-compose.yml | grep kubectl", &[]),
        ("curl --json '{}' https://example.org", &["network"]),
        ("curl --request DELETE https://example.org/1", &["network"]),
        ("git push", &["publish"]),
        ("npm publish", &["publish"]),
        ("gh pr merge 1", &["publish"]),
        ("git reset --hard && psql -c 'delete from x'", &["repository", "database"]),
    ] {
        let effects = session.json(&["explain", command])["effects"].clone();
        let seen: Vec<_> = effects.as_array().unwrap().iter().map(|e| &e["kind"]).collect();
        assert_eq!(seen, kinds, "{command}");
    }
}

/// In Myrm, changes were counted again for each request, by comparing the checkpoint with the
/// current files.
#[test]
fn counts_are_those_of_the_turn_regardless_of_later_changes() {
    let session = Session::new();
    session.write("a", "1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1\n2\n");
    let counts = |session: &Session| {
        let row = &rows(session)[0];
        (row["files_changed"].clone(), row["insertions"].clone(), row["deletions"].clone())
    };
    let expected = (json!(1), json!(1), json!(0));
    assert_eq!(counts(&session), expected);
    session.write("a", "");
    session.write("b", "by hand\n");
    assert_eq!(counts(&session), expected);
}
