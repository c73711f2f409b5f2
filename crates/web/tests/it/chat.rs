//! Conversations with the agent: turns, questions, streams, and stopping the server.

use std::io::BufReader;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server, StreamGate, StreamStep};

use crate::client::Client;
use crate::events::{next_event, wait_for};
use crate::scratch::Scratch;

/// Writes the prompt's last word to `note.txt`, or pushes if that word is `publish`.
fn writer(request: &Request) -> Reply {
    match (request.last_text(), request.last_result()) {
        (_, Some(_)) => Reply::text("I wrote the **note**.\n\nAll *done*."),
        ("publish", None) => Reply::call("terminal", json!({ "command": "git push" })),
        (prompt, None) => {
            let word = prompt.rsplit(' ').next().unwrap_or_default();
            Reply::call("write_file", json!({ "path": "note.txt", "content": word }))
        }
    }
}

/// A model that pauses in the middle of each answer until the test lets it continue.
struct GatedModel {
    server: Server,
    go: Sender<()>,
    reached: Receiver<()>,
}

impl GatedModel {
    fn start(text: &'static str) -> GatedModel {
        let (go, wait) = channel::<()>();
        let (reach, reached) = channel();
        let (wait, reach) = (Arc::new(Mutex::new(wait)), Arc::new(Mutex::new(reach)));
        let server = Server::start(move |_: &Request| {
            let (wait, reach) = (wait.clone(), reach.clone());
            let gate = StreamGate::new(move |event| {
                // The first event has no text, and the second one has the first half of the text.
                if event == 2 {
                    let _ = reach.lock().unwrap().send(());
                    let _ = wait.lock().unwrap().recv();
                }
                StreamStep::Send
            });
            Reply { gate: Some(gate), ..Reply::text(text) }
        });
        GatedModel { server: server.unwrap(), go, reached }
    }
}

fn begin(browser: &Client, prompt: &str) -> (String, u64) {
    let answer = browser.post("/api/v1/chats", json!({ "prompt": prompt }));
    assert_eq!(answer.status, 202, "{}", answer.body);
    let started = answer.json();
    (started["session"].as_str().unwrap().to_owned(), started["last_event"].as_u64().unwrap())
}

/// Opens the stream of a conversation's events, beginning after the given event.
fn follow(browser: &Client, session: &str, after: u64) -> BufReader<TcpStream> {
    let (status, stream) = browser.stream(&format!("/api/v1/chats/{session}/events?after={after}"));
    assert_eq!(status, 200);
    stream
}

/// Reads events until the conversation is idle, and returns them with their names.
fn until_idle(stream: &mut BufReader<TcpStream>) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    loop {
        let (name, _, data) = next_event(stream);
        let is_last = name == "idle";
        all.push((name, serde_json::from_str(&data).unwrap()));
        if is_last {
            return all;
        }
    }
}

fn find<'a>(events: &'a [(String, Value)], name: &str) -> &'a Value {
    let found = events.iter().find(|(known, _)| known == name);
    found.map(|(_, data)| data).unwrap_or_else(|| panic!("no {name} in {events:?}"))
}

#[test]
fn a_turn_is_streamed_and_two_browsers_see_the_same_events() {
    let model = Server::start(writer).unwrap();
    let scratch = Scratch::with_model(&model.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "write one");
    let mut first = follow(&browser, &session, event);
    let mut second = follow(&browser, &session, event);
    // The position of `ready` among the events depends on when the stream was opened, so it is left
    // out.
    let shared = |mut events: Vec<(String, Value)>| {
        events.retain(|(name, _)| name != "ready");
        events
    };
    let events = shared(until_idle(&mut first));
    assert_eq!(events, shared(until_idle(&mut second)));
    // No event of the turn is missing, however long the client took to open the stream.
    assert_eq!(events[0].0, "turn_started", "{events:?}");
    assert_eq!(find(&events, "call_ended")["tool"], "write_file");
    assert_eq!(find(&events, "turn_ended")["outcome"], "complete");
    let html = find(&events, "html")["html"].as_str().unwrap();
    assert!(html.contains("<strong>note</strong>"), "{html}");
    assert_eq!(scratch.read("note.txt"), "one");
    let state = browser.json(&format!("/api/v1/chats/{session}"));
    assert_eq!((&state["state"], &state["requests"]), (&json!("idle"), &json!(2)));
    assert!(state["cost"].as_f64().unwrap() > 0.0);
    // The page has the whole conversation, and the checkpoint of the turn.
    let page = browser.page(&format!("/chat/{session}"));
    assert!(page.contains("write one") && page.contains("<strong>note</strong>"), "{page}");
    assert!(page.contains("What this turn changed"), "{page}");
    assert!(browser.page("/chat").contains(&session.replace(':', "%3A")));
}

#[test]
fn a_stream_continues_in_the_middle_of_an_answer_after_a_lost_connection() {
    let model = GatedModel::start("first half second half");
    let scratch = Scratch::with_model(&model.server.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "talk");
    let mut stream = follow(&browser, &session, event);
    let (last, data) = wait_for(&mut stream, "text");
    let first: Value = serde_json::from_str(&data).unwrap();
    drop(stream);
    model.reached.recv().unwrap();
    model.go.send(()).unwrap();
    let returned = browser.header("last-event-id", &last.to_string());
    let (_, mut stream) = returned.stream(&format!("/api/v1/chats/{session}/events?after={event}"));
    let events = until_idle(&mut stream);
    let rest: String = events
        .iter()
        .filter(|(name, _)| name == "text")
        .map(|(_, data)| data["text"].as_str().unwrap())
        .collect();
    assert_eq!(format!("{}{rest}", first["text"].as_str().unwrap()), "first half second half");
    // If a client names an event that the server does not have, the server reports a gap.
    let (_, mut stream) = browser.stream(&format!("/api/v1/chats/{session}/events?after=17"));
    assert_eq!(next_event(&mut stream).0, "gap");
}

#[test]
fn a_page_that_opens_during_a_turn_gets_the_events_it_missed() {
    let model = GatedModel::start("first half second half");
    let scratch = Scratch::with_model(&model.server.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "talk");
    wait_for(&mut follow(&browser, &session, event), "text");
    let state = browser.json(&format!("/api/v1/chats/{session}"));
    assert_eq!(state["state"], "running");
    assert_eq!(state["live"][0]["prompt"], "talk");
    let text = state["live"][1]["text"].as_str().unwrap();
    assert!("first half second half".starts_with(text) && !text.is_empty(), "{text}");
    // The page itself does not contain the running turn, which the stream shows.
    assert!(!browser.page(&format!("/chat/{session}")).contains("<article"));
    // While the turn is running, neither another turn nor a rewind is accepted.
    let busy = browser.post(&format!("/api/v1/chats/{session}/turns"), json!({ "prompt": "x" }));
    assert_eq!(busy.status, 409, "{}", busy.body);
    let rewind = json!({ "message": 1, "scope": "both" });
    let busy = browser.post(&format!("/api/v1/sessions/{session}/rewind"), rewind);
    assert_eq!(busy.status, 409, "{}", busy.body);
    let slash = browser.post("/api/v1/slash", json!({ "line": "/busy", "session": session }));
    assert_eq!(slash.json()["text"], "busy");
    model.go.send(()).unwrap();
    let mut stream = follow(&browser, &session, state["last_event"].as_u64().unwrap());
    assert_eq!(find(&until_idle(&mut stream), "turn_ended")["outcome"], "complete");
}

#[test]
fn a_turn_can_be_stopped() {
    let model = GatedModel::start("first half second half");
    let scratch = Scratch::with_model(&model.server.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "talk");
    let mut stream = follow(&browser, &session, event);
    wait_for(&mut stream, "text");
    let stop = format!("/api/v1/chats/{session}/stop");
    assert_eq!(browser.post(&stop, json!({})).json()["stopped"], true);
    assert_eq!(find(&until_idle(&mut stream), "turn_ended")["outcome"], "cancelled");
    assert_eq!(browser.post(&stop, json!({})).json()["stopped"], false);
    drop(model.go);
}

#[test]
fn any_browser_can_answer_a_question_but_only_once() {
    let model = Server::start(writer).unwrap();
    let scratch = Scratch::with_model(&model.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "publish");
    let mut stream = follow(&browser, &session, event);
    let (_, data) = wait_for(&mut stream, "question");
    let question: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(question["remember"], "git push");
    assert_eq!(question["input"], "command: git push");
    let state = browser.json(&format!("/api/v1/chats/{session}"));
    let waits = state["live"].as_array().unwrap().iter().any(|entry| entry["event"] == "question");
    assert!(waits, "{state}");
    let path = format!("/api/v1/chats/{session}/answers");
    let number = &question["question"];
    let answer = json!({ "question": number, "answer": "deny", "reason": "not today" });
    assert_eq!(browser.post(&path, answer).status, 200);
    let late = browser.post(&path, json!({ "question": number, "answer": "allow" }));
    assert_eq!(late.status, 409, "{}", late.body);
    let events = until_idle(&mut stream);
    assert_eq!(find(&events, "answered")["answer"], "deny");
    let refused = find(&events, "call_ended");
    assert!(refused["output"].as_str().unwrap().contains("not today"), "{refused}");
}

#[test]
fn a_stopped_server_leaves_the_turn_open_and_the_next_one_continues_it() {
    let model = GatedModel::start("first half second half");
    let mut scratch = Scratch::with_model(&model.server.url());
    let (session, event) = begin(&scratch.browser(), "talk");
    wait_for(&mut follow(&scratch.browser(), &session, event), "text");
    model.reached.recv().unwrap();
    scratch.stop();
    // From now on, the model answers without a pause.
    model.go.send(()).unwrap();
    model.go.send(()).unwrap();
    scratch.restart();
    let browser = scratch.browser();
    let mut stream = follow(&browser, &session, 0);
    let state = browser.json(&format!("/api/v1/chats/{session}"));
    if state["state"] != "idle" {
        wait_for(&mut stream, "idle");
    }
    let messages = browser.json(&format!("/api/v1/messages?session={session}"));
    let texts: Vec<&str> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(texts.first(), Some(&"talk"));
    assert_eq!(texts.last(), Some(&"first half second half"), "{texts:?}");
    let tasks = browser.json("/api/v1/tasks");
    assert_eq!(tasks[0]["state"], "idle", "{tasks}");
}

#[test]
fn an_unanswered_question_is_asked_again_after_a_restart() {
    let model = Server::start(writer).unwrap();
    let mut scratch = Scratch::with_model(&model.url());
    let (session, event) = begin(&scratch.browser(), "publish");
    wait_for(&mut follow(&scratch.browser(), &session, event), "question");
    scratch.restart();
    let browser = scratch.browser();
    let mut stream = follow(&browser, &session, 0);
    let state = browser.json(&format!("/api/v1/chats/{session}"));
    let live = state["live"].as_array().unwrap();
    let question = match live.iter().find(|entry| entry["event"] == "question") {
        Some(entry) => entry["question"].clone(),
        None => {
            let (_, data) = wait_for(&mut stream, "question");
            serde_json::from_str::<Value>(&data).unwrap()["question"].clone()
        }
    };
    let answer = json!({ "question": question, "answer": "deny" });
    assert_eq!(browser.post(&format!("/api/v1/chats/{session}/answers"), answer).status, 200);
    wait_for(&mut stream, "idle");
}

#[test]
fn commands_are_answered_and_every_browser_sees_the_answer() {
    let model = Server::start(writer).unwrap();
    let scratch = Scratch::with_model(&model.url());
    let browser = scratch.browser();
    let slash = |line: &str, session: Option<&str>| {
        browser.post("/api/v1/slash", json!({ "line": line, "session": session })).json()
    };
    assert_eq!(slash("/where", None)["data"]["session"], Value::Null);
    assert_eq!(slash("hello", None)["is_command"], false);
    assert_eq!(slash("/fail", None)["failed"], true);
    let (session, event) = begin(&browser, "write one");
    let mut stream = follow(&browser, &session, event);
    until_idle(&mut stream);
    assert_eq!(slash("/where", Some(&session))["data"]["session"], session);
    let (_, data) = wait_for(&mut stream, "slash");
    assert!(data.contains("\"line\":\"/where\""), "{data}");
    slash("/model other", Some(&session));
    browser.post(&format!("/api/v1/chats/{session}/turns"), json!({ "prompt": "write two" }));
    until_idle(&mut stream);
    assert_eq!(model.requests().last().unwrap().model, "other");
    assert_eq!(browser.post("/api/v1/slash", json!({ "line": "x".repeat(20_000) })).status, 400);
}

#[test]
fn a_conversation_and_its_files_return_to_the_moment_before_a_prompt() {
    let model = Server::start(writer).unwrap();
    let scratch = Scratch::with_model(&model.url());
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "write one");
    let mut stream = follow(&browser, &session, event);
    until_idle(&mut stream);
    let turns = format!("/api/v1/chats/{session}/turns");
    browser.post(&turns, json!({ "prompt": "write two" }));
    until_idle(&mut stream);
    assert_eq!(scratch.read("note.txt"), "two");
    let messages = browser.json(&format!("/api/v1/messages?session={session}"));
    let messages = messages["messages"].as_array().unwrap();
    let second = messages.iter().find(|message| message["content"] == "write two").unwrap();
    let rewind = |message: &Value, scope: &str| {
        let body = json!({ "message": message, "scope": scope });
        browser.post(&format!("/api/v1/sessions/{session}/rewind"), body)
    };
    let done = rewind(&second["seq"], "files");
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!((scratch.read("note.txt").as_str(), &done.json()["taken_back"]), ("one", &json!(0)));
    let done = rewind(&second["seq"], "conversation");
    assert_eq!(done.json()["taken_back"], 4, "{}", done.body);
    wait_for(&mut stream, "changed");
    assert!(browser.page(&format!("/chat/{session}")).contains("4 messages taken back"));
    assert_eq!(rewind(&second["seq"], "both").status, 409);
    assert_eq!(rewind(&json!(999), "both").status, 404);
    // The agent is told about the files before its next turn.
    let notices = browser.json(&format!("/api/v1/notices?session={session}"));
    assert!(notices["text"].as_str().unwrap().contains("note.txt"), "{notices}");
}

#[test]
fn a_restore_is_refused_while_a_turn_is_running_in_the_workspace() {
    let model = GatedModel::start("first half second half");
    let scratch = Scratch::with_model(&model.server.url());
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let browser = scratch.browser();
    let (session, event) = begin(&browser, "talk");
    let mut stream = follow(&browser, &session, event);
    wait_for(&mut stream, "text");
    let list = browser.json("/api/v1/checkpoints");
    let id = &list["entries"][0]["id"];
    let plan = json!({ "workspace": scratch.workspace(), "checkpoint": id });
    let plan = browser.post("/api/v1/plan", plan).json();
    assert_eq!(plan["working"], json!([session]));
    let apply = json!({ "digest": plan["digest"] });
    let refused = browser.post("/api/v1/apply", apply.clone());
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["working"], json!([session]));
    assert!(scratch.has("a"));
    model.go.send(()).unwrap();
    wait_for(&mut stream, "idle");
    assert_eq!(browser.post("/api/v1/apply", apply).status, 200);
    assert!(!scratch.has("a"));
}

#[test]
fn a_goal_is_worked_on_and_its_budget_is_shown() {
    let model = Server::start(|request: &Request| match request.last_result() {
        Some(_) => Reply::text("Reached."),
        None => Reply::call("finish_goal", json!({ "status": "reached", "summary": "It works." })),
    });
    let model = model.unwrap();
    let scratch = Scratch::with_model(&model.url());
    let browser = scratch.browser();
    let goal = json!({ "objective": "make it work", "turns": 3, "usd": 0.5 });
    let started = browser.post("/api/v1/goals", goal);
    assert_eq!(started.status, 202, "{}", started.body);
    let started = started.json();
    let session = started["session"].as_str().unwrap();
    let mut stream = follow(&browser, session, started["last_event"].as_u64().unwrap());
    let events = until_idle(&mut stream);
    assert_eq!(find(&events, "idle")["goal"]["state"], "complete");
    let goals = browser.json("/api/v1/goals");
    assert_eq!((&goals[0]["budget"]["turns"], &goals[0]["spent"]["turns"]), (&json!(3), &json!(1)));
    let page = browser.page(&format!("/chat/{session}"));
    assert!(page.contains("1 of 3") && page.contains("$0.00 of $0.50"), "{page}");
    assert_eq!(browser.post("/api/v1/goals", json!({ "objective": "x", "turns": 0 })).status, 400);
    assert_eq!(browser.post("/api/v1/goals/nope/resume", json!({})).status, 404);
}

#[test]
fn foreign_and_unknown_conversations_are_refused() {
    let scratch = Scratch::new();
    scratch.play_turn("one", "make", || scratch.write("a", "1"));
    let browser = scratch.browser();
    let page = browser.page("/chat/claude:s1");
    assert!(page.contains("Continue in a copy") && !page.contains("<form class=\"composer\""));
    let refused = browser.post("/api/v1/chats/claude:s1/turns", json!({ "prompt": "x" }));
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert_eq!(browser.get("/chat/nothing").status, 404);
    assert_eq!(browser.post("/api/v1/chats", json!({ "prompt": " " })).status, 400);
    let long = json!({ "prompt": "x".repeat(300_000) });
    assert_eq!(browser.post("/api/v1/chats", long).status, 413);
    let elsewhere = json!({ "prompt": "x", "workspace": "0123456789abcdef" });
    assert_eq!(browser.post("/api/v1/chats", elsewhere).status, 404);
    let stranger = scratch.stranger();
    assert_eq!(stranger.post("/api/v1/chats", json!({ "prompt": "x" })).status, 401);
    assert_eq!(stranger.get("/api/v1/chats/claude:s1/events").status, 401);
}
