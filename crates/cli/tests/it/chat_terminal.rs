//! `takeback chat` in a terminal: a whole session, as a user types it.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;
use takeback_script::{Reply, Request, Role, Server, StreamGate, StreamStep};

use crate::agent::eventually;
use crate::pseudo_terminal::PseudoTerminal;
use crate::scripted_model::{
    StuckModel, chat, last_session, list_tasks, use_model, with_model, writer,
};
use crate::session::Session;

/// Starts a chat in a terminal that is tall enough for the whole session.
fn start(session: &Session) -> Option<PseudoTerminal> {
    let terminal = PseudoTerminal::start(&chat(session, &["chat"]), 100, 150)?;
    terminal.wait_for("> ");
    Some(terminal)
}

/// Waits until the turn is over. Until then, the turn would receive any key that is pressed.
fn wait_for_prompt(terminal: &PseudoTerminal) {
    terminal.wait_until("the next prompt", |screen| screen.trim_end().ends_with("\n>"));
}

/// Counts the requests whose last prompt is `prompt`.
fn count_prompts(server: &Server, prompt: &str) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| request.last_text() == prompt).count()
}

fn prompts_of(request: &Request) -> Vec<&str> {
    let users = request.messages.iter().filter(|message| message.role == Role::User);
    users.map(|message| message.text.as_str()).filter(|text| !text.is_empty()).collect()
}

/// A gate that stops a stream before one of its events, until the test opens the gate.
struct Turnstile {
    opened: Arc<Mutex<Receiver<StreamStep>>>,
    open: Sender<StreamStep>,
    /// Receives a message when a stream has stopped at its gate.
    reached: Receiver<()>,
    reach: Sender<()>,
}

impl Turnstile {
    fn new() -> Turnstile {
        let (open, opened) = channel();
        let (reach, reached) = channel();
        Turnstile { opened: Arc::new(Mutex::new(opened)), open, reached, reach }
    }

    /// Creates a gate that stops the stream before the event with this number.
    fn gate(
        opened: &Arc<Mutex<Receiver<StreamStep>>>,
        reach: &Sender<()>,
        at: usize,
    ) -> StreamGate {
        let (opened, reach) = (opened.clone(), reach.clone());
        StreamGate::new(move |event| {
            if event != at {
                return StreamStep::Send;
            }
            // The test may already have ended.
            let _ = reach.send(());
            opened.lock().unwrap().recv().unwrap_or(StreamStep::Cut)
        })
    }
}

#[test]
fn prompts_can_be_edited_and_recalled_and_answers_are_streamed() {
    let turnstile = Turnstile::new();
    let (opened, reach) = (turnstile.opened.clone(), turnstile.reach.clone());
    let server = Server::start(move |request: &Request| match request.last_text() {
        "stream" => {
            let reply = Reply::text("The first half, and the second half.");
            Reply { gate: Some(Turnstile::gate(&opened, &reach, 2)), ..reply }
        }
        _ => writer(request),
    })
    .unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("helxo\u{1b}[D\u{7f}l\r");
    terminal.wait_for("Hello.");
    assert_eq!(count_prompts(&server, "hello"), 1);
    terminal.press("\u{1b}[A\r");
    terminal.wait_until("the second answer", |screen| screen.matches("Hello.").count() == 2);
    assert_eq!(count_prompts(&server, "hello"), 2);
    terminal.press("stream\r");
    turnstile.reached.recv().unwrap();
    let screen = terminal.wait_for("The first half");
    assert!(!screen.contains("second half"), "{screen}");
    turnstile.open.send(StreamStep::Send).unwrap();
    terminal.wait_for("The first half, and the second half.");
    wait_for_prompt(&terminal);
    terminal.press("\u{4}");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success(), "{screen}");
}

#[test]
fn an_approval_is_asked_for_once_and_remembered() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("publish\r");
    terminal.wait_for("[a]lways for \"git push\"");
    terminal.press("a\r");
    terminal.wait_for("I wrote the note.");
    terminal.press("publish\r");
    let screen = terminal
        .wait_until("the second answer", |screen| screen.matches("I wrote the note.").count() == 2);
    assert_eq!(screen.matches("[a]lways").count(), 1, "{screen}");
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
}

#[test]
fn pressing_ctrl_c_once_stops_a_turn_and_pressing_it_twice_ends_the_chat() {
    let turnstile = Turnstile::new();
    let (opened, reach) = (turnstile.opened.clone(), turnstile.reach.clone());
    let server = Server::start(move |request: &Request| match request.last_text() {
        "stall" => {
            let reply = Reply::text("The beginning, and the end.");
            Reply { gate: Some(Turnstile::gate(&opened, &reach, 2)), ..reply }
        }
        _ => writer(request),
    })
    .unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("write\r");
    terminal.wait_for("I wrote the note.");
    terminal.press("stall\r");
    turnstile.reached.recv().unwrap();
    terminal.wait_for("The beginning");
    terminal.press("\u{3}");
    terminal.wait_for("Stopped.");
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    // The part of the answer that arrived is kept, and is sent to the model again.
    let last = server.requests().pop().unwrap();
    assert_eq!(prompts_of(&last), ["write", "stall", "hello"]);
    assert_eq!(last.count_text("The beginning"), 1);
    assert_eq!(session.read("note.txt"), "hello\n");
    eventually("the turn is over", || list_tasks(&session)[0]["state"] == "idle");
    wait_for_prompt(&terminal);
    terminal.press("\u{3}");
    terminal.wait_for("Press Ctrl-C again");
    wait_for_prompt(&terminal);
    terminal.press("\u{3}");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success(), "{screen}");
}

/// The second Ctrl-C may arrive before or after the next prompt appears.
#[test]
fn ctrl_c_just_after_a_stopped_turn_ends_the_chat_properly() {
    let model = StuckModel::start(writer, |request| request.last_text() == "stall");
    let session = with_model(&model.server);
    for _ in 0..10 {
        let Some(mut terminal) = start(&session) else { return };
        terminal.press("stall\r");
        model.reached.recv().unwrap();
        terminal.press("\u{3}");
        terminal.wait_for("Stopped.");
        terminal.press("\u{3}");
        let (status, screen, _) = terminal.wait_for_end();
        assert!(status.success(), "{status}: {screen}");
        let shown = session.json(&["sessions", "show", &last_session(&session)]);
        assert_eq!(shown["end_reason"], "left by the user", "{shown}");
    }
}

#[test]
fn a_rollback_takes_back_files_and_messages() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("write\r");
    terminal.wait_for("I wrote the note.");
    terminal.press("/rollback 1\r");
    let screen = terminal.wait_for("This conversation now has 0 messages.");
    for part in [
        "Deleted:",
        "Conversation: 1 turn (4 messages) taken back.",
        "The prompt was:",
        "Restored to checkpoint",
        "(before write_file",
        "The state before that is saved as checkpoint",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(!session.exists("note.txt"));
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    let last = server.requests().pop().unwrap();
    assert_eq!(prompts_of(&last), ["hello"]);
    // The model is told what was rolled back.
    assert_eq!(last.body["messages"].to_string().matches("note.txt").count(), 1, "{}", last.body);
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
}

#[test]
fn undoing_a_rollback_restores_files_and_messages() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("write\r");
    terminal.wait_for("I wrote the note.");
    terminal.press("/rollback 1\r");
    terminal.wait_for("This conversation now has 0 messages.");
    terminal.press("/rollback undo\r");
    terminal.wait_for("This conversation now has 4 messages.");
    assert_eq!(session.read("note.txt"), "hello\n");
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    assert_eq!(prompts_of(&server.requests().pop().unwrap()), ["write", "hello"]);
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
}

#[test]
fn a_session_that_cannot_be_resumed_leaves_the_conversation_where_it_is() {
    let model = StuckModel::start(writer, |request| request.last_text() == "stall");
    let session = with_model(&model.server);
    let Some(mut terminal) = start(&session) else { return };
    let mut command = chat(&session, &["chat", "-p", "stall"]);
    let mut live = command.stdout(Stdio::null()).spawn().unwrap();
    model.reached.recv().unwrap();
    let other = last_session(&session);
    terminal.press("write\r");
    terminal.wait_for("I wrote the note.");
    terminal.press(&format!("/resume {other}\r"));
    terminal.wait_for("error: another process is working on task");
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    assert_eq!(prompts_of(&model.server.requests().pop().unwrap()), ["write", "hello"]);
    // Help is shown as an answer, like the output of other commands.
    terminal.press("/goal help\r");
    terminal.wait_for("Usage: takeback goal");
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
    live.kill().unwrap();
    live.wait().unwrap();
}

#[test]
fn a_killed_chat_continues_at_the_exact_step_with_one_key() {
    let turnstile = Turnstile::new();
    let (opened, reach) = (turnstile.opened.clone(), turnstile.reach.clone());
    let is_first = Mutex::new(true);
    let server = Server::start(move |request: &Request| {
        let reply = writer(request);
        let is_gated =
            request.last_result().is_some() && std::mem::take(&mut *is_first.lock().unwrap());
        match is_gated {
            true => Reply { gate: Some(Turnstile::gate(&opened, &reach, 0)), ..reply },
            false => reply,
        }
    })
    .unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("write\r");
    turnstile.reached.recv().unwrap();
    terminal.kill();
    turnstile.open.send(StreamStep::Cut).unwrap();
    let task = list_tasks(&session).remove(0);
    assert_eq!(task["state"], "interrupted");
    // The step that wrote the file is finished, and is not repeated.
    std::fs::remove_file(session.project().join("note.txt")).unwrap();
    let mut terminal = PseudoTerminal::start(&chat(&session, &["chat"]), 100, 60).unwrap();
    let screen = terminal.wait_for("Continue it? [Y/n]");
    assert!(screen.contains("(“write”) was interrupted in the middle of a turn."), "{screen}");
    terminal.press("y");
    terminal.wait_for("I wrote the note.");
    assert!(!session.exists("note.txt"));
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    assert_eq!(prompts_of(&server.requests().pop().unwrap()), ["write", "hello"]);
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
    assert_eq!(list_tasks(&session)[0]["state"], "idle");
}

#[test]
fn an_interrupted_chat_waits_if_the_user_begins_another_one() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    // The call needs approval, but this command has no user to ask, so the call is left waiting.
    chat(&session, &["chat", "-p", "publish"]).output().unwrap();
    let mut terminal = PseudoTerminal::start(&chat(&session, &["chat"]), 100, 60).unwrap();
    let screen = terminal.wait_for("Continue it? [Y/n]");
    assert!(screen.contains("(“publish”) is waiting for your answer."), "{screen}");
    terminal.press("n");
    terminal.wait_for("`takeback tasks resume");
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
    let states: Vec<_> = list_tasks(&session).iter().map(|task| task["state"].clone()).collect();
    assert_eq!(states, [json!("idle"), json!("waiting")]);
}

#[test]
fn an_unreachable_provider_is_tried_again_until_ctrl_c() {
    let session = Session::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(writer).unwrap();
    use_model(&session, &server, "");
    let file = session.base().join(".takeback/config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let unreachable = config.replace(&server.url(), &format!("http://{closed}"));
    std::fs::write(&file, unreachable).unwrap();
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("hello\r");
    let screen = terminal.wait_for("(Ctrl-C stops)");
    assert!(screen.contains("trying again in"), "{screen}");
    terminal.press("\u{3}");
    terminal.wait_for("Stopped.");
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
    // The conversation continues once the provider can be reached.
    std::fs::write(&file, config).unwrap();
    let output = chat(&session, &["chat", "--resume", "-p", "again"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Hello.\n");
    assert_eq!(prompts_of(&server.requests().pop().unwrap()), ["hello", "again"]);
}

#[test]
fn ctrl_c_pauses_a_goal() {
    let turnstile = Turnstile::new();
    let (opened, reach) = (turnstile.opened.clone(), turnstile.reach.clone());
    let server = Server::start(move |request: &Request| match request.last_text() {
        "make it work" => {
            let reply = Reply::text("Working on it.");
            Reply { gate: Some(Turnstile::gate(&opened, &reach, 1)), ..reply }
        }
        _ => writer(request),
    })
    .unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = start(&session) else { return };
    terminal.press("/goal start make it work --turns 5\r");
    turnstile.reached.recv().unwrap();
    terminal.press("\u{3}");
    let screen = terminal.wait_for("paused: stopped by the user");
    assert!(screen.contains("turns"), "{screen}");
    let goal = session.json(&["goal", "list"])["goals"][0].clone();
    assert_eq!(goal["state"], "paused");
    // The conversation can continue even after its goal has been given up.
    terminal.press(&format!("/goal cancel {}\r", goal["id"].as_str().unwrap()));
    terminal.wait_for("cancelled: given up by the user");
    terminal.press("hello\r");
    terminal.wait_for("Hello.");
    terminal.press("/quit\r");
    assert!(terminal.wait_for_end().0.success());
}
