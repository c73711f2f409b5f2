//! `takeback fleet`: machines that share a ledger in a real PostgreSQL server.

use std::fs;

use serde_json::json;

use crate::agent::{Agent, configure, eventually};
use crate::fleet_server::Server;
use crate::rpc_client::Client;
use crate::scripted_model::{StuckModel, chat, chat_output, text_of, use_model, writer};
use crate::session::{Session, said};

/// Creates a machine whose settings name the server.
fn machine(server: &Server, name: &str) -> Session {
    let session = Session::new();
    let address = server.address();
    configure(&session, &format!("[fleet]\npostgres = \"{address}\"\nname = \"{name}\"\n"));
    session
}

/// Creates the fleet. Returns its key.
fn create_fleet(session: &Session) -> String {
    let joined = session.json(&["fleet", "init"]);
    joined["key"].as_str().unwrap().to_owned()
}

#[test]
fn two_machines_share_a_ledger() {
    let Some(server) = Server::start() else { return };
    let first = machine(&server, "first");
    let key = create_fleet(&first);
    let agent = Agent::new(&first, "s1");
    agent.hears("find the pineapple");
    assert!(first.json(&["fleet", "sync"])["rows"].as_u64().unwrap() >= 3);

    let second = machine(&server, "second");
    let refused = second.output(&["fleet", "init"]);
    assert!(said(&refused).contains("the fleet's key is needed"), "{}", said(&refused));
    fs::write(second.project().join("fleet.key"), format!("{key}\n")).unwrap();
    let joined = second.json(&["fleet", "init", "--key-file", "fleet.key"]);
    assert_eq!((&joined["new_machine"], &joined["key"]), (&true.into(), &serde_json::Value::Null));

    let found = second.json(&["search", "pineapple", "--fleet"]);
    assert_eq!(found["results"][0]["machine"], "first");
    assert_eq!(found["results"][0]["session"], "mine:s1");
    let text =
        String::from_utf8(second.output(&["search", "pineapple", "--fleet"]).stdout).unwrap();
    assert!(text.contains("first") && text.contains(">>>pineapple<<<"), "{text}");
    let listed = second.json(&["sessions", "list", "--fleet"]);
    assert_eq!(listed["sessions"][0]["machine"], "first");
    assert_eq!(second.json(&["sessions", "list"])["sessions"].as_array().unwrap().len(), 0);
    let totals = second.json(&["sessions", "stats", "--by", "source", "--fleet"]);
    assert_eq!(
        (&totals["totals"][0]["key"], &totals["totals"][0]["messages"]),
        (&"mine".into(), &1.into())
    );
    let machines = second.json(&["fleet", "machines"]);
    let names: Vec<_> =
        machines["machines"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn the_end_of_a_turn_ships_what_has_changed() {
    let Some(server) = Server::start() else { return };
    let session = machine(&server, "first");
    create_fleet(&session);
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write a file", "a.txt", "1\n");
    eventually("the turn is shipped", || {
        server.query("SELECT count(*) FROM takeback.turns WHERE ended_at IS NOT NULL") == "1"
    });
    eventually("nothing is left", || session.json(&["fleet", "status"])["waiting"] == 0);
}

#[test]
fn deleting_a_session_also_deletes_it_in_the_fleet() {
    let Some(server) = Server::start() else { return };
    let session = machine(&server, "first");
    create_fleet(&session);
    Agent::new(&session, "s1").hears("forget the pineapple");
    session.json(&["fleet", "sync"]);
    assert_eq!(server.query("SELECT count(*) FROM takeback.messages"), "1");
    let output = session.output(&["sessions", "delete", "mine:s1", "--yes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("The fleet deletes it, too"), "{text}");
    eventually("the fleet has deleted it", || {
        server.query("SELECT count(*) FROM takeback.messages") == "0"
    });
}

#[test]
fn hooks_work_while_the_database_is_down_and_status_says_so() {
    let Some(mut server) = Server::start() else { return };
    let session = machine(&server, "first");
    create_fleet(&session);
    session.json(&["fleet", "sync"]);
    server.kill();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write a file", "a.txt", "1\n");
    let output = session.output(&["fleet", "sync"]);
    assert!(said(&output).contains("cannot be reached"), "{}", said(&output));
    assert!(said(&output).contains("nothing is lost"), "{}", said(&output));
    let status = session.json(&["fleet", "status"]);
    assert!(status["waiting"].as_u64().unwrap() > 0 && status["error"].is_string(), "{status}");
    let doctor = session.json(&["doctor"]);
    let problems = doctor["problems"].as_array().unwrap();
    let is_named = |it: &serde_json::Value| it["message"].as_str().unwrap().contains("behind");
    assert!(problems.iter().any(is_named), "{problems:?}");

    server.resume();
    session.json(&["fleet", "sync"]);
    assert_eq!(session.json(&["fleet", "status"])["waiting"], 0);
    let doctor = session.json(&["doctor"]);
    assert!(!doctor["problems"].as_array().unwrap().iter().any(is_named));
}

#[test]
fn without_a_fleet_the_ledger_has_no_triggers_and_commands_say_what_to_do() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write a file", "a.txt", "1\n");
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' OR name LIKE 'outbox%'";
    let ledger = crate::agent::ledger(&session);
    assert_eq!(ledger.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    assert!(!session.base().join(".takeback/fleet").exists());
    for arguments in [&["fleet", "status"][..], &["fleet", "sync"], &["search", "x", "--fleet"]] {
        let output = session.output(arguments);
        assert!(said(&output).contains("no fleet is configured"), "{}", said(&output));
        assert!(said(&output).contains("TAKEBACK_FLEET_POSTGRES"), "{}", said(&output));
    }
}

#[test]
fn a_machine_stops_marking_changes_once_it_has_left_the_fleet() {
    let Some(server) = Server::start() else { return };
    let session = machine(&server, "first");
    create_fleet(&session);
    let output = session.output(&["fleet", "leave"]);
    assert!(said(&output).contains("the settings still name a fleet"), "{}", said(&output));
    session.json(&["config", "unset", "fleet.postgres"]);
    session.json(&["fleet", "leave"]);
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'";
    let ledger = crate::agent::ledger(&session);
    assert_eq!(ledger.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn mistakes_in_the_settings_are_explained() {
    for (setting, expected) in [
        ("postgres = 'mysql://h/d'", "begins with postgres://"),
        ("name = ''", "a machine's name has 1 to 64 characters"),
        ("encrypt = 'some'", "unknown variant `some`"),
        ("postgre = 'x'", "did you mean `postgres`?"),
    ] {
        let session = Session::new();
        configure(&session, &format!("[fleet]\n{setting}\n"));
        let output = session.output(&["fleet", "status"]);
        assert!(said(&output).contains(expected), "{setting}: {}", said(&output));
    }
}

#[test]
fn rpc_ships_while_it_runs() {
    let Some(server) = Server::start() else { return };
    let session = machine(&server, "first");
    create_fleet(&session);
    let mut client = Client::new(&session);
    for prompt in ["one", "two"] {
        // The turn stays open, so no background process starts that could ship the prompt instead.
        client.call("turn.start", json!({ "agent": "mine", "session": "s1", "prompt": prompt }));
        let expected = if prompt == "one" { "1" } else { "2" };
        eventually("the prompt is shipped", || {
            server.query("SELECT count(*) FROM takeback.messages") == expected
        });
    }
    assert!(client.end().success());
}

/// Creates a machine whose chats use the model, and whose tasks are shared.
fn sharing_machine(
    server: &Server,
    model: &StuckModel,
    name: &str,
    key: Option<&str>,
) -> (Session, String) {
    let session = Session::new();
    use_model(&session, &model.server, "journal = \"fleet\"");
    let file = session.base().join(".takeback/config.toml");
    let fleet = format!(
        "\n[fleet]\npostgres = \"{}\"\nname = \"{name}\"\nlease_seconds = 1\n",
        server.address()
    );
    fs::write(&file, fs::read_to_string(&file).unwrap() + &fleet).unwrap();
    let mut init = session.command(&["fleet", "init", "--json"]);
    let output = init.envs(key.map(|key| ("TAKEBACK_FLEET_KEY", key))).output().unwrap();
    let joined: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let key = joined["key"].as_str().or(key).unwrap().to_owned();
    (session, key)
}

#[test]
fn a_task_whose_machine_is_gone_continues_on_another() {
    let Some(server) = Server::start() else { return };
    let model = StuckModel::start(writer, |request| request.last_result().is_some());
    let first = Session::new();
    use_model(&first, &model.server, "journal = \"fleet\"");
    let alone = text_of(&chat(&first, &["chat", "-p", "hi"]).output().unwrap());
    assert!(alone.contains("no fleet is configured"), "{alone}");

    let (first, key) = sharing_machine(&server, &model, "first", None);
    let (second, _) = sharing_machine(&server, &model, "second", Some(&key));
    model.kill_when_stuck(&first, &["chat", "-p", "write"]);
    model.release();

    let tasks = || second.json(&["tasks", "--fleet"])["tasks"].as_array().unwrap().clone();
    eventually("the lease ends", || tasks()[0]["state"] == "interrupted");
    let task = tasks()[0].clone();
    assert_eq!((&task["machine"], &task["is_this"]), (&"first".into(), &false.into()));
    let id = task["id"].as_str().unwrap();
    let resume = ["tasks", "resume", id, "--here"];
    let refused = text_of(&chat(&second, &resume).output().unwrap());
    assert!(refused.contains("differ from those that the task was working on"), "{refused}");
    assert!(refused.contains("--accept-files"), "{refused}");
    fs::copy(first.project().join("note.txt"), second.project().join("note.txt")).unwrap();
    let output = chat(&second, &resume).output().unwrap();
    let said = text_of(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Continuing the task of machine first."), "{said}");
    assert!(said.contains("I wrote the **note**."), "{said}");
    assert!(tasks().is_empty(), "it is over");

    // The first machine continues the conversation from there.
    let session = task["session"].as_str().unwrap();
    let elsewhere =
        text_of(&chat(&first, &["chat", "--resume", session, "-p", "hi"]).output().unwrap());
    assert!(elsewhere.contains("were made on machine second"), "{elsewhere}");
    let over = text_of(&chat(&first, &["tasks", "resume", id]).output().unwrap());
    assert!(over.contains("is over"), "{over}");
    assert!(chat_output(&first, &["chat", "--resume", session, "-p", "hi"]).contains("Hello."));
}
