//! `takeback rpc`: its methods, compared with the commands.

use serde_json::{Value, json};

use crate::agent::{configure, eventually};
use crate::rpc_client::Client;
use crate::session::Session;

/// Asserts that a method returns what a command prints.
#[track_caller]
fn assert_same_result(
    session: &Session,
    client: &mut Client,
    method: &str,
    params: &Value,
    words: &[&str],
) {
    // A background process may still change something between the call and the command.
    eventually(method, || client.call(method, params.clone()) == session.json(words));
}

#[test]
fn a_server_handles_a_session_from_start_to_end() {
    let session = Session::new();
    session.write("a", "1\n");
    let mut client = Client::new(&session);
    let about = client.call("initialize", json!({}));
    assert_eq!((&about["protocol"], &about["version"]), (&json!(1), &json!("0.1.0")));
    assert!(about["methods"].as_array().unwrap().contains(&json!("rollback.apply")));

    let first = json!({ "agent": "mine", "session": "one", "model": "m" });
    client.call("session.start", first);
    let second = json!({ "agent": "mine", "session": "two" });
    client.turn(&session, "two", "look around", ("b", "of two\n"));
    let prompt = json!({ "agent": "mine", "session": "one", "prompt": "change the thing" });
    let began = client.call("turn.start", prompt);
    assert_eq!(
        began,
        json!({
            "session": "mine:one", "enabled": true, "checkpoints": [], "missed": false,
            "late": false, "failures": [], "unprotected": [], "tampering": [], "refused": false,
        })
    );
    let call = json!({
        "agent": "mine", "session": "one", "call": "x", "tool": "bash",
        "input": { "command": "echo 2 > a; curl -d @a https://example.org" },
    });
    let taken = client.call("tool.before", call.clone());
    let id = taken["checkpoints"][0].as_str().unwrap().to_owned();
    session.write("a", "2\n");
    let mut ended = call;
    ended["outcome"] = json!("ok");
    client.call("tool.after", ended);
    let said = client.call(
        "messages.append",
        json!({
            "agent": "mine", "session": "one",
            "messages": [{ "role": "assistant", "content": "the gizmo is changed" }],
        }),
    );
    assert_eq!(said, json!({ "session": "mine:one", "messages": [2] }));
    client.call(
        "usage.record",
        json!({ "agent": "mine", "session": "one", "usage": { "model": "m", "input_tokens": 7 } }),
    );
    client.call("turn.end", json!({ "agent": "mine", "session": "one" }));

    let list = client.call("checkpoint.list", json!({}));
    let row = &list["checkpoints"][0];
    assert_eq!((&row["id"], &row["prompt"]), (&json!(id), &json!("change the thing")));
    assert_eq!(row["effects"][0]["kind"], "network");
    let diff = client.call("checkpoint.diff", json!({ "checkpoint": 1, "paths": ["a"] }));
    assert!(diff["diff"].as_str().unwrap().ends_with("-1\n+2\n"), "{diff}");

    let planned = client.call("rollback.plan", json!({ "checkpoint": 1 }));
    assert_eq!(
        (&planned["plan"]["restored"], &planned["plan"]["undone_messages"]),
        (&json!(["a"]), &json!(2))
    );
    assert_eq!(session.read("a"), "2\n");
    let wanted = json!({ "checkpoint": 1, "digest": planned["digest"] });
    let mut done = client.call("rollback.apply", wanted);
    assert!(done["safety_checkpoint"].is_string());
    done["safety_checkpoint"] = Value::Null;
    assert_eq!(done, planned["plan"]);
    assert_eq!(session.read("a"), "1\n");

    // Each session gets its notice once.
    let told = client.call("notices.take", second.clone());
    assert_eq!(told["notices"][0]["files"], json!([{ "path": "a", "removed": false }]));
    assert_eq!(told["notices"][0]["effects"][0]["kind"], "network");
    assert!(
        told["text"].as_str().unwrap().contains("read this file again before editing it"),
        "{told}"
    );
    let told = client.call("notices.take", second);
    assert_eq!(told, json!({ "session": "mine:two", "notices": [], "text": null }));

    assert_eq!(client.call("rollback.undo", json!({ "dry_run": true }))["restored"], json!(["a"]));
    assert_eq!(session.read("a"), "1\n");
    assert_eq!(client.call("rollback.undo", json!({}))["redone_messages"], 2);
    assert_eq!(session.read("a"), "2\n");
    client.call("rollback.redo", json!({}));
    assert_eq!(session.read("a"), "1\n");
    client.call("rollback.undo", json!({}));
    let turn = client.call("undo.plan", json!({ "turn": 1 }));
    assert_eq!((&turn["plan"]["row"], &turn["plan"]["restored"]), (&json!(1), &json!(["a"])));
    client.call("undo.apply", json!({ "turn": 1, "digest": turn["digest"] }));
    assert_eq!((session.read("a"), session.read("b")), ("1\n".into(), "of two\n".into()));

    let found = client.call("sessions.search", json!({ "query": "gizmo", "undone": true }));
    assert_eq!(found["results"][0]["session"], "mine:one");
    let one = client.call("sessions.get", json!({ "session": "one" }));
    assert_eq!((&one["input_tokens"], &one["source"]), (&json!(7), &json!("mine")));
    assert_eq!(one["messages"][0]["content"], "change the thing");
    client.call("session.end", json!({ "agent": "mine", "session": "one" }));
    assert_eq!(client.end().code(), Some(0));
}

#[test]
fn the_results_equal_the_output_of_the_commands() {
    let session = Session::new();
    session.write("Makefile", "");
    session.write("a", "1\n");
    session.write("sub/b", "1\n");
    let mut client = Client::new(&session);
    let taken = client.call("checkpoint.create", json!({ "reason": "by hand", "name": "good" }));
    client.turn(&session, "s", "write something", ("a", "2\n"));
    // Changes are counted in the background.
    eventually("the counts", || {
        session.json(&["rollback"])["checkpoints"][0]["files_changed"] == json!(1)
    });
    // The diff has more lines than are shown without `--full`.
    session.write("sub/b", &"3\n".repeat(200));
    let client = &mut client;
    assert_same_result(&session, client, "checkpoint.list", &json!({}), &["rollback"]);
    assert_same_result(&session, client, "status", &json!({}), &["checkpoints"]);
    assert_same_result(&session, client, "config.get", &json!({}), &["config"]);
    let command = "psql -c 'drop table x' > a";
    assert_same_result(
        &session,
        client,
        "explain",
        &json!({ "command": command }),
        &["explain", command],
    );
    let diff = ["rollback", "diff", "good", "a"];
    assert_same_result(
        &session,
        client,
        "checkpoint.diff",
        &json!({ "checkpoint": "good", "paths": ["a"] }),
        &diff,
    );
    let diff = ["rollback", "diff", "2", "--full"];
    assert_same_result(
        &session,
        client,
        "checkpoint.diff",
        &json!({ "checkpoint": 2, "full": true }),
        &diff,
    );
    let plan = |client: &mut Client, method, params| client.call(method, params)["plan"].take();
    assert_eq!(
        plan(client, "rollback.plan", json!({ "checkpoint": "1.1", "scope": "files" })),
        session.json(&["rollback", "1.1", "--files-only", "--dry-run"])
    );
    assert_eq!(
        plan(client, "rollback.plan", json!({ "checkpoint": 1, "paths": ["b"], "cwd": "sub" })),
        session.json(&["rollback", "1", "sub/b", "--dry-run"])
    );
    assert_eq!(
        plan(client, "rollback.plan", json!({ "checkpoint": 1, "scope": "chat" })),
        session.json(&["rollback", "1", "--chat-only", "--dry-run"])
    );
    let undo = json!({ "conflicts": "theirs", "uncertain": true });
    assert_eq!(
        plan(client, "undo.plan", undo),
        session.json(&["undo", "--theirs", "--uncertain", "--dry-run"])
    );
    let one = json!({ "session": "mine:s" });
    assert_same_result(
        &session,
        client,
        "sessions.list",
        &json!({ "limit": 1 }),
        &["sessions", "--limit", "1"],
    );
    assert_same_result(
        &session,
        client,
        "sessions.list",
        &json!({ "workspace": "." }),
        &["sessions"],
    );
    assert_same_result(&session, client, "sessions.get", &one, &["sessions", "show", "mine:s"]);
    let openai = ["sessions", "show", "mine:s", "--format", "openai"];
    let params = json!({ "session": "s", "format": "openai" });
    assert_same_result(&session, client, "sessions.get", &params, &openai);
    let search = ["sessions", "search", "something", "--since", "1d", "--role", "user"];
    let params = json!({ "query": "something", "since": "1d", "roles": ["user"] });
    assert_same_result(&session, client, "sessions.search", &params, &search);
    assert_same_result(&session, client, "sessions.tree", &one, &["sessions", "tree", "s"]);
    assert_same_result(
        &session,
        client,
        "sessions.stats",
        &json!({ "by": "day" }),
        &["sessions", "stats", "--by", "day"],
    );
    // Methods that change something cannot be repeated, so only the names of the fields are
    // compared.
    let fields =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(fields(&taken), fields(&session.json(&["checkpoint"])));
    let titled = client.call("sessions.title", json!({ "session": "s", "title": "A title" }));
    assert_eq!(titled, session.json(&["sessions", "title", "s", "A title"]));
    let forked = client.call("sessions.fork", json!({ "session": "s", "at": 1 }));
    assert_eq!(
        fields(&forked),
        fields(&session.json(&["sessions", "fork", "mine:s", "--at", "1"]))
    );
    let undone = client.call("sessions.undo", json!({ "session": "mine:s" }));
    let redone = session.json(&["sessions", "unrewind", "mine:s"]);
    assert_eq!(undone, redone);
    session.json(&["sessions", "rewind", "mine:s"]);
    assert_eq!(client.call("sessions.redo", json!({ "session": "mine:s" })), redone);
}

#[test]
fn an_outdated_plan_is_not_applied() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    client.call("checkpoint.create", json!({}));
    session.write("a", "2");
    let old = client.call("rollback.plan", json!({ "checkpoint": 1 }));
    // The planned paths are the same, but other content would be lost.
    session.write("a", "3");
    let wanted = json!({ "checkpoint": 1, "digest": old["digest"] });
    let error = client.fail("rollback.apply", wanted);
    assert_eq!(error["code"], -32001);
    assert_eq!(session.read("a"), "3");
    let now = &error["data"]["now"];
    assert_eq!((&now["plan"], now["digest"] == old["digest"]), (&old["plan"], false));
    client.call("rollback.apply", json!({ "checkpoint": 1, "digest": now["digest"] }));
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_blocked_plan_is_an_error() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    client.call("checkpoint.create", json!({}));
    std::fs::remove_file(session.project().join("a")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(session.project().join("a")).unwrap();
    let plan = client.call("rollback.plan", json!({ "checkpoint": 1 }));
    assert_eq!(plan["plan"]["blocked"].as_array().unwrap().len(), 1);
    let error = client.fail("rollback.apply", json!({ "checkpoint": 1 }));
    assert_eq!((&error["code"], &error["data"]["plan"]), (&json!(-32002), &plan["plan"]));
}

#[test]
fn settings_are_read_for_each_request() {
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    let call = json!({ "tool": "Write", "input": { "path": "a" } });
    assert_eq!(client.call("tool.before", call.clone())["enabled"], true);
    configure(&session, "[checkpoints]\nenabled = false\n");
    let off = client.call("tool.before", call.clone());
    assert_eq!((&off["enabled"], &off["checkpoints"]), (&json!(false), &json!([])));
    let error = client.fail("checkpoint.create", json!({}));
    assert_eq!(error["message"], "checkpoints are switched off");
    // As in a hook, the invalid configuration is reported, and the default settings protect the
    // call.
    configure(&session, "nonsense");
    client.call("turn.start", json!({ "prompt": "again" }));
    let broken = client.call("tool.before", call);
    assert_eq!(broken["checkpoints"].as_array().unwrap().len(), 1);
    assert!(broken["failures"][0].as_str().unwrap().contains("config.toml, line 1"), "{broken}");
    assert_eq!(client.fail("config.get", json!({}))["code"], -32000);
}

#[test]
fn every_method_is_documented() {
    let protocol = include_str!("../../../../docs/protocol.md");
    let session = Session::new();
    let about = Client::new(&session).call("initialize", json!({}));
    for method in about["methods"].as_array().unwrap() {
        let name = format!("`{}`", method.as_str().unwrap());
        assert!(protocol.contains(&name), "{name}");
    }
}

#[test]
fn a_server_continues_if_its_home_is_deleted() {
    let session = Session::new();
    session.write("a", "1\n");
    let mut client = Client::new(&session);
    client.turn(&session, "s", "write something", ("a", "2\n"));
    eventually("the home is gone", || {
        // A background process may still be writing to this directory.
        let _ = std::fs::remove_dir_all(session.base().join(".takeback"));
        !session.base().join(".takeback").exists()
    });
    client.turn(&session, "s", "write something else", ("a", "3\n"));
    let list = client.call("checkpoint.list", json!({}));
    assert_eq!(list["checkpoints"].as_array().unwrap().len(), 1, "{list}");
    client.call("rollback.apply", json!({ "checkpoint": 1 }));
    assert_eq!(session.read("a"), "2\n");
}

#[test]
fn the_ledger_can_be_repaired_while_a_server_is_idle() {
    let session = Session::new();
    session.write("a", "1\n");
    let mut client = Client::new(&session);
    client.turn(&session, "s", "a gizmo", ("a", "2\n"));
    client.call("sessions.search", json!({ "query": "gizmo", "undone": true }));
    // While the server is idle, it closes the ledger.
    eventually("the repair", || session.output(&["sessions", "repair"]).status.success());
    let found = client.call("sessions.search", json!({ "query": "gizmo", "undone": true }));
    assert_eq!(found["results"][0]["session"], "mine:s", "{found}");
}

#[test]
fn an_agent_can_configure_its_session_and_end_it_and_continue_it() {
    let session = Session::new();
    let mut client = Client::new(&session);
    let me = |more: Value| {
        let mut params = json!({ "agent": "mine", "session": "s" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    for (model, prompt) in [("one", "be kind"), ("two", "be brief")] {
        let set = json!({ "user": "ann", "model": model, "model_config": { "t": 1 },
                          "system_prompt": prompt });
        assert_eq!(client.call("session.set", me(set)), json!({ "session": "mine:s" }));
    }
    let record = client.call("sessions.get", json!({ "session": "mine:s" }));
    assert_eq!((&record["user_id"], &record["model"]), (&json!("ann"), &json!("two")));
    assert_eq!(record["system_prompt"], "be brief");
    assert_eq!(record["model_config"], json!({ "t": 1 }));

    client.call("turn.start", me(json!({ "prompt": "hello" })));
    let summary = json!({ "role": "assistant", "content": "in short", "summarizes": 2 });
    let messages = json!([{ "role": "assistant", "content": "hi" }, summary, { "role": "assistant", "content": "on" }]);
    let appended = client.call("messages.append", me(json!({ "messages": messages })));
    assert_eq!(appended["messages"], json!([2, 3, 4]));
    let record = client.call("sessions.get", json!({ "session": "mine:s" }));
    let compacted: Vec<_> =
        record["messages"].as_array().unwrap().iter().map(|one| one["compacted"] == true).collect();
    assert_eq!(compacted, [true, true, false, false]);

    client.call("sessions.title", json!({ "session": "mine:s", "title": "Fix it" }));
    let next = client.call("session.compress", me(json!({ "to": "s-2" })));
    assert_eq!(next, json!({ "session": "mine:s-2", "parent": "mine:s", "title": "Fix it #2" }));
    let record = client.call("sessions.get", json!({ "session": "mine:s" }));
    assert_eq!(record["end_reason"], "compacted");
    let record = client.call("sessions.get", json!({ "session": "mine:s-2" }));
    assert_eq!(record["parent_kind"], "compaction");
    assert_eq!(record["system_prompt"], "be brief");

    let end = json!({ "agent": "mine", "session": "s-2", "reason": "crashed" });
    client.call("session.end", end);
    let record = client.call("sessions.get", json!({ "session": "mine:s-2" }));
    assert_eq!(record["end_reason"], "crashed");
    let reopened = client.call("sessions.reopen", json!({ "session": "mine:s-2" }));
    assert_eq!(reopened["ended_at"], json!(null));
    let ended = client.call("sessions.end", json!({ "session": "mine:s-2", "reason": "over" }));
    assert_eq!(ended["end_reason"], "over");
    let archived = client.call("sessions.archive", json!({ "session": "mine:s-2" }));
    assert_eq!(archived["archived"], true);
    let cleared = client.call("sessions.clear", json!({ "session": "mine:s" }));
    assert_eq!(cleared, json!({ "session": "mine:s", "messages": 4 }));
}
