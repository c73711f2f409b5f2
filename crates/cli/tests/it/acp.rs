//! `takeback acp`: messages that are passed on, changes that are protected, and the entries in the
//! ledger.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::acp_editor::{Conversation, command_names, prompt_params};
use crate::agent::{configure, eventually};
use crate::session::Session;

fn rows(session: &Session) -> Vec<Value> {
    session.json(&["list"])["checkpoints"].as_array().unwrap().clone()
}

/// Returns the ledger's record of a session, with its messages and calls.
fn record(session: &Session, id: &str) -> Value {
    let output = session.output(&["sessions", "export", id]);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", crate::session::said(&output)))
}

fn edit(id: &str, path: &Path, status: &str) -> Value {
    let diff = json!({ "type": "diff", "path": path, "oldText": "0\n", "newText": "1\n" });
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": "Edit", "kind": "edit",
        "status": status, "content": [diff],
    })
}

fn ended(id: &str, status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status })
}

#[test]
fn a_prompt_waits_for_its_checkpoint_and_can_be_taken_back() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    assert_eq!(talk.begin("mine"), ["rollback", "undo", "redo", "diff"]);
    let id = talk.prompt("change a");
    // The agent has received the prompt, so the checkpoint has already been taken.
    assert_eq!(rows(&session)[0]["prompt"], "change a");
    session.write("a", "1\n");
    talk.update(&edit("c1", &session.project().join("a"), "completed"));
    talk.chunk("Changed ");
    talk.chunk("it.");
    talk.end_turn(id);

    let listed = talk.type_command("/rollback");
    assert!(listed.starts_with("```text\n") && listed.contains("change a"), "{listed}");
    let shown = talk.type_command("/diff 1");
    assert!(shown.contains("-0\n+1"), "{shown}");
    let done = talk.type_command("/undo");
    assert!(done.contains("restored") || done.contains("Restored"), "{done}");
    assert_eq!(session.read("a"), "0\n");

    // The agent is told about the rollback with the next prompt.
    talk.editor_sends(
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": "p2", "method": "session/prompt", "params": prompt_params("go on") })).as_bytes(),
    );
    let heard = talk.agent_gets();
    let blocks = heard["params"]["prompt"].as_array().unwrap();
    assert_eq!((blocks.len(), &blocks[0]["text"]), (2, &json!("go on")), "{heard}");
    let notice = blocks[1]["text"].as_str().unwrap();
    assert!(
        notice.contains("read this file again before editing it") && notice.contains("a"),
        "{notice}"
    );
    talk.agent_says(
        &json!({ "jsonrpc": "2.0", "id": "p2", "result": { "stopReason": "end_turn" } }),
    );
    // Each notice is delivered once.
    let id = talk.prompt("and again");
    talk.end_turn(id);
    assert!(talk.close().success());
}

#[test]
fn turns_and_messages_and_calls_and_usage_are_in_the_ledger() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("change a");
    talk.chunk("First, ");
    talk.chunk("I edit.");
    session.write("a", "1\n");
    talk.update(&edit("c1", &session.project().join("a"), "in_progress"));
    talk.update(&ended("c1", "completed"));
    talk.chunk("Done.");
    let usage = json!({ "totalTokens": 12, "inputTokens": 7, "outputTokens": 5 });
    talk.agent_answers(id, &json!({ "stopReason": "end_turn", "usage": usage }));

    let known = record(&session, "acp:s");
    let messages: Vec<(&Value, &Value)> = known["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (&message["role"], &message["content"]))
        .collect();
    let said = |role: &str, text: &str| (json!(role), json!(text));
    let expected =
        [said("user", "change a"), said("assistant", "First, I edit."), said("assistant", "Done.")];
    assert_eq!(messages, expected.iter().map(|(role, text)| (role, text)).collect::<Vec<_>>());
    assert_eq!(
        (&known["input_tokens"], &known["output_tokens"]),
        (&json!(7), &json!(5)),
        "{known}"
    );
    let calls = known["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{known}");
    assert_eq!(
        (&calls[0]["call"], &calls[0]["tool"], &calls[0]["outcome"]),
        (&json!("c1"), &json!("edit"), &json!("ok"))
    );
    assert_eq!(calls[0]["input"]["diffs"][0]["new"], "1\n");
    assert!(
        calls[0]["tree_after"].is_string() && calls[0]["tree_before"] != calls[0]["tree_after"]
    );
    talk.close();
    assert_eq!(record(&session, "acp:s")["end_reason"], "ended");
}

#[test]
fn each_request_of_the_agent_waits_for_its_checkpoint() {
    let session = Session::new();
    for name in ["a", "b", "c"] {
        session.write(name, "0\n");
    }
    let path = |name: &str| session.project().join(name);
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("change everything");
    // The user edits files while the agent thinks.
    session.write("a", "the user's\n");
    talk.begin_question(
        "fs/write_text_file",
        &json!({ "sessionId": "s", "path": path("a"), "content": "1\n" }),
    );
    // The editor has received the request, so the step has already been recorded.
    assert_eq!(rows(&session)[0]["steps"].as_array().unwrap().len(), 2);
    session.write("a", "1\n");
    let answer = json!({ "jsonrpc": "2.0", "id": talk.last_id(), "result": {} });
    talk.editor_says(&answer);

    session.write("b", "the user's\n");
    talk.agent_asks(
        "terminal/create",
        &json!({ "sessionId": "s", "command": "rm", "args": ["c"] }),
        &json!({ "terminalId": "t1" }),
    );
    assert_eq!(rows(&session)[0]["steps"].as_array().unwrap().len(), 3);
    fs::remove_file(path("c")).unwrap();
    talk.agent_asks(
        "terminal/wait_for_exit",
        &json!({ "sessionId": "s", "terminalId": "t1" }),
        &json!({ "exitCode": 0 }),
    );

    session.write("a", "the user's again\n");
    let options = json!([
        { "optionId": "yes", "name": "Allow", "kind": "allow_once" },
        { "optionId": "no", "name": "Reject", "kind": "reject_once" },
    ]);
    let call = json!({ "toolCallId": "c9", "kind": "edit", "locations": [{ "path": path("b") }] });
    let question = json!({ "sessionId": "s", "toolCall": call, "options": options });
    let chosen = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    talk.agent_asks("session/request_permission", &question, &chosen("no"));
    assert_eq!(rows(&session)[0]["steps"].as_array().unwrap().len(), 3);
    talk.agent_asks("session/request_permission", &question, &chosen("yes"));
    assert_eq!(rows(&session)[0]["steps"].as_array().unwrap().len(), 4);
    session.write("b", "1\n");
    talk.update(&ended("c9", "completed"));
    talk.end_turn(id);

    let known = record(&session, "acp:s");
    let tools: Vec<&str> = known["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["tool"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["fs/write_text_file", "terminal/create", "edit"]);
    assert!(
        known["calls"].as_array().unwrap().iter().all(|call| call["outcome"] == "ok"),
        "{known}"
    );
    talk.close();
    assert!(session.output(&["rollback", "1.2", "--yes"]).status.success());
    assert_eq!(
        (session.read("a"), session.read("b"), session.read("c")),
        ("the user's\n".into(), "0\n".into(), "0\n".into())
    );
}

#[test]
fn a_call_that_was_only_announced_is_a_step_and_is_taken_back() {
    let session = Session::new();
    session.write("a", "0\n");
    session.write("mine", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("change a");
    // The agent writes the file before it announces the call.
    session.write("a", "1\n");
    talk.update(&edit("c1", &session.project().join("a"), "in_progress"));
    talk.update(&ended("c1", "completed"));
    talk.end_turn(id);
    session.write("mine", "the user's\n");
    let done = talk.type_command("/undo");
    assert_eq!(
        (session.read("a"), session.read("mine")),
        ("0\n".into(), "the user's\n".into()),
        "{done}"
    );
    talk.close();
}

#[test]
fn messages_that_a_session_replays_do_not_count_as_work() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    let id = talk.request(
        "session/load",
        &json!({ "sessionId": "s", "cwd": session.project(), "mcpServers": [] }),
    );
    talk.chunk("said long ago");
    talk.update(&edit("old", &session.project().join("a"), "completed"));
    talk.agent_answers(id, &json!({}));
    assert_eq!(command_names(&talk.editor_gets()), ["rollback", "undo", "redo", "diff"]);
    let id = talk.prompt("hello");
    talk.end_turn(id);
    let known = record(&session, "acp:s");
    assert_eq!(
        (
            known["messages"].as_array().unwrap().len(),
            known["calls"].as_array().map_or(0, Vec::len)
        ),
        (1, 0),
        "{known}"
    );
    assert_eq!(rows(&session).len(), 1);
    talk.close();
}

#[test]
fn the_agents_own_slash_commands_are_kept_and_passed_to_the_agent() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let list = json!([{ "name": "plan", "description": "make a plan" }, { "name": "undo", "description": "the agent's" }]);
    let update = json!({ "sessionUpdate": "available_commands_update", "availableCommands": list });
    let params = json!({ "sessionId": "s", "update": update, "_meta": { "x": 1.50 } });
    let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    talk.agent_sends(format!("{line}\n").as_bytes());
    let offered = talk.editor_gets();
    assert_eq!(
        command_names(&offered),
        ["plan", "undo", "rollback", "takeback-undo", "redo", "diff"]
    );
    assert_eq!(offered["params"]["_meta"], json!({ "x": 1.50 }));
    let id = talk.prompt("/undo");
    talk.end_turn(id);
    let answer = talk.type_command("/takeback-undo");
    assert!(answer.contains("nothing") || answer.contains("no turn"), "{answer}");
    let refused = talk.type_command("/rollback --home /tmp/other 1");
    assert!(refused.contains("does not accept `--home`"), "{refused}");
    talk.close();
}

#[test]
fn a_rollback_waits_until_the_turn_is_over() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("change a");
    session.write("a", "1\n");
    let answer = talk.type_command("/rollback 1");
    assert!(answer.contains("a turn is running"), "{answer}");
    assert_eq!(session.read("a"), "1\n");
    talk.end_turn(id);
    talk.type_command("/rollback 1");
    assert_eq!(session.read("a"), "0\n");
    talk.type_command("/rollback undo");
    assert_eq!(session.read("a"), "1\n");
    talk.type_command("/redo");
    assert_eq!(session.read("a"), "0\n");
    talk.close();
}

#[test]
fn the_agents_hooks_and_the_proxy_together_record_each_event_once() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::with(&session, "claude-agent-acp", 0, |_| {});
    talk.begin("@agentclientprotocol/claude-agent-acp");
    let id = talk.prompt("change a");
    // The agent's hooks inherit the path of the proxy's directory.
    let proxy = talk.proxy_directory();
    let tell = |event: &str, fields: Value| {
        let mut payload = json!({ "session_id": "s", "cwd": session.project(), "hook_event_name": event, "prompt_id": "x" });
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let output = hook_of(&session, "claude", &proxy, &payload);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    };
    tell("UserPromptSubmit", json!({ "prompt": "change a" }));
    let input = json!({ "file_path": session.project().join("a"), "content": "1\n" });
    let call = json!({ "tool_name": "Write", "tool_use_id": "c1", "tool_input": input });
    tell("PreToolUse", call.clone());
    talk.update(&edit("c1", &session.project().join("a"), "pending"));
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    let question = json!({
        "sessionId": "s", "toolCall": { "toolCallId": "c1" },
        "options": [{ "optionId": "yes", "name": "Allow", "kind": "allow_once" }],
    });
    // The user edits files while the agent waits for permission, after its hook has run.
    session.write("a", "the user's\n");
    talk.agent_asks("session/request_permission", &question, &chosen);
    session.write("a", "1\n");
    let mut after = call;
    after["tool_response"] = json!({ "success": true });
    tell("PostToolUse", after);
    talk.update(&ended("c1", "completed"));
    tell("Stop", json!({}));
    talk.end_turn(id);

    let known = record(&session, "claude:s");
    assert_eq!(known["calls"].as_array().unwrap().len(), 1, "{known}");
    let prompts =
        known["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    assert_eq!(prompts.count(), 1, "{known}");
    let listed = rows(&session);
    assert_eq!((listed.len(), listed[0]["steps"].as_array().unwrap().len()), (1, 2), "{listed:?}");
    assert_eq!(session.json(&["sessions"])["sessions"].as_array().map(Vec::len), Some(1));
    talk.close();
    assert!(session.output(&["rollback", "1.2", "--yes"]).status.success());
    assert_eq!(session.read("a"), "the user's\n");
}

#[test]
fn calls_are_reported_although_hooks_report_only_prompts() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::with(&session, "gemini", 0, |_| {});
    talk.begin("gemini-cli");
    let id = talk.prompt("change a");
    let payload = json!({ "session_id": "s", "cwd": session.project(), "hook_event_name": "BeforeAgent", "prompt": "change a" });
    assert!(hook_of(&session, "gemini", &talk.proxy_directory(), &payload).status.success());
    for (call, content) in [("c1", "1\n"), ("c2", "2\n")] {
        talk.update(&edit(call, &session.project().join("a"), "in_progress"));
        session.write("a", content);
        talk.update(&ended(call, "completed"));
    }
    talk.end_turn(id);
    let known = record(&session, "gemini:s");
    let calls: Vec<(&Value, &Value)> = known["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (&call["call"], &call["outcome"]))
        .collect();
    assert_eq!(calls, [(&json!("c1"), &json!("ok")), (&json!("c2"), &json!("ok"))]);
    talk.type_command("/undo");
    assert_eq!(session.read("a"), "0\n");
    talk.close();
}

fn hook_of(session: &Session, agent: &str, proxy: &str, payload: &Value) -> std::process::Output {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = session.command(&["hook", agent]);
    command.env("TAKEBACK_ACP", proxy);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_call_that_would_harm_the_history_is_refused() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("tidy up");
    let home = session.base().join(".takeback");
    let params = json!({ "sessionId": "s", "command": format!("rm -rf {}", home.display()) });
    let line = json!({ "jsonrpc": "2.0", "id": 77, "method": "terminal/create", "params": params });
    talk.agent_sends(format!("{line}\n").as_bytes());
    let refused = talk.agent_gets();
    assert_eq!(refused["id"], 77);
    assert!(refused["error"]["message"].as_str().unwrap().contains("takeback refused this call"));
    talk.end_turn(id);
    talk.close();
}

#[test]
fn messages_are_passed_on_even_if_takeback_cannot_work() {
    let session = Session::new();
    session.write("a", "0\n");
    // Takeback cannot create the store, the ledger or the directory of proxies.
    fs::create_dir(session.base().join(".takeback")).unwrap();
    for name in ["checkpoints", "state.db", "acp", "spool"] {
        fs::write(session.base().join(".takeback").join(name), "in the way").unwrap();
    }
    fs::remove_file(session.base().join(".takeback/state.db")).unwrap();
    fs::create_dir(session.base().join(".takeback/state.db")).unwrap();
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("change a");
    talk.update(&edit("c1", &session.project().join("a"), "completed"));
    let path = session.project().join("a");
    let params = json!({ "sessionId": "s", "path": path, "content": "1" });
    let line =
        json!({ "jsonrpc": "2.0", "id": 9, "method": "fs/write_text_file", "params": params });
    talk.agent_sends(format!("{line}\n").as_bytes());
    // The user is told once that nothing is protected.
    let warning = talk.editor_gets();
    let text = warning["params"]["update"]["content"]["text"].as_str().unwrap();
    assert!(text.contains("cannot take back everything"), "{warning}");
    assert_eq!(talk.editor_gets(), line);
    talk.editor_says(&json!({ "jsonrpc": "2.0", "id": 9, "result": null }));
    talk.end_turn(id);
    assert!(talk.close().success());
}

#[test]
fn without_checkpoints_the_proxy_only_passes_messages_on() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::with(&session, "agent", 0, |command| {
        command.env("TAKEBACK_CHECKPOINTS", "off");
    });
    talk.begin("mine");
    let id = talk.prompt("change a");
    talk.end_turn(id);
    assert!(talk.close().success());
    assert!(!session.base().join(".takeback/checkpoints").exists());
}

#[test]
fn a_checkpoint_that_takes_too_long_does_not_stop_the_conversation() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let id = talk.prompt("one");
    talk.end_turn(id);
    configure(&session, "[checkpoints]\ntimeout_ms = 100\n");
    // Another process has locked the workspace.
    let lock = session.lock_workspace();
    let id = talk.prompt("two");
    session.write("a", "1\n");
    talk.end_turn(id);
    drop(lock);
    assert!(talk.close().success());
    eventually("the late checkpoint", || rows(&session).len() == 2);
    assert_eq!(rows(&session)[0]["late"], true);
}

#[test]
fn the_exit_code_of_the_agent_is_passed_on() {
    let session = Session::new();
    assert_eq!(Conversation::with(&session, "agent", 7, |_| {}).end_agent().code(), Some(7));
    let output = session.output(&["acp", "--", "/no/such/agent"]);
    assert_eq!(output.status.code(), Some(127));
    let output = session.output(&["acp", "--", "/bin/sh", "-c", "echo $PPID >&2; kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(!output.stderr.is_empty());
}

#[test]
fn signals_reach_the_agent() {
    let session = Session::new();
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let pid = rustix::process::Pid::from_child(&talk.proxy);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(talk.proxy.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn a_killed_proxy_leaves_no_agent_behind() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    talk.prompt("change a");
    let agent = talk.agent_pid();
    talk.proxy.kill().unwrap();
    talk.proxy.wait().unwrap();
    eventually("the end of the agent", || !is_running(agent));
    // The checkpoint was taken before the prompt was passed on.
    assert_eq!(rows(&session)[0]["prompt"], "change a");
}

#[test]
fn an_editor_that_is_killed_leaves_no_agent_behind() {
    let session = Session::new();
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let agent = talk.agent_pid();
    // The agent does not notice that its input has ended.
    talk.drop_editor();
    eventually("the end of the agent", || !is_running(agent));
    talk.proxy.wait().unwrap();
}

/// Returns true if a process exists and has not ended.
fn is_running(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = state.rsplit(") ").next().unwrap_or_default();
    !matches!(after.chars().next(), None | Some('Z' | 'X'))
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let bytes =
        proptest::collection::vec(any::<u8>().prop_filter("no end", |byte| *byte != b'\n'), 0..60);
    let message = prop_oneof![
        Just(
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":"x"}}"#
        ),
        Just(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":7}}"#),
        Just(
            r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"future","x":[1.0e5]}}}"#
        ),
        Just(r#"{"id":null,"result":null}"#),
        Just(r#"[{"jsonrpc":"2.0","id":3,"method":"initialize"}]"#),
        Just("{\"id\":9,\"method\":\"_x/y\",\"params\":[1,2]}\r"),
        Just(r#"{"id":4,"result":{"sessionId":"s"},"method":7}"#),
    ];
    prop_oneof![bytes, message.prop_map(|text| text.as_bytes().to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_lines_are_passed_on_unchanged(
        of_editor in proptest::collection::vec(any_line(), 0..40),
        of_agent in proptest::collection::vec(any_line(), 0..40),
        has_last_end in any::<bool>(),
    ) {
        let session = Session::new();
        let mut talk = Conversation::new(&session);
        let join = |lines: &[Vec<u8>]| {
            let mut all = lines.join(&b'\n');
            if has_last_end {
                all.push(b'\n');
            }
            all
        };
        let (of_editor, of_agent) = (join(&of_editor), join(&of_agent));
        talk.editor_sends(&of_editor);
        prop_assert_eq!(talk.read_to_end_of_input(), of_editor);
        talk.agent_sends(&of_agent);
        prop_assert_eq!(talk.read_to_end(), of_agent);
    }
}

#[test]
fn a_huge_prompt_is_passed_on_after_its_checkpoint() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut talk = Conversation::new(&session);
    talk.begin("mine");
    let text = "x".repeat(65 << 20);
    let line = format!(
        "{}\n",
        json!({ "id": 1, "method": "session/prompt", "params": prompt_params(&text) })
    );
    let line = line.into_bytes();
    let sent = line.clone();
    let mut input = talk.take_input();
    let sender =
        std::thread::spawn(move || std::io::Write::write_all(&mut input, &sent).map(|()| input));
    assert_eq!(talk.agent_receives().into_bytes(), line);
    drop(sender.join().unwrap().unwrap());
    assert_eq!(rows(&session).len(), 1);
    talk.close();
}
