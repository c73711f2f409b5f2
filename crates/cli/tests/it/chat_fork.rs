//! `takeback chat --fork`: continues a conversation from an earlier point, in a different
//! direction.

use std::fs;

use serde_json::{Value, json};
use takeback_script::{Role, Server};

use crate::agent::with_two_turns;
use crate::scripted_model::{
    chat, chat_output, last_session, parse_lines, text_of, use_model, with_model, writer,
};
use crate::session::Session;

/// Prepares a project in which the agent has worked for two turns. Returns the session.
fn after_two_turns(server: &Server) -> (Session, String) {
    let session = with_model(server);
    chat_output(&session, &["chat", "-p", "write first"]);
    chat_output(&session, &["chat", "--resume", "-p", "write second"]);
    let id = last_session(&session);
    (session, id)
}

/// Returns the prompts that the last request contained.
fn last_prompts(server: &Server) -> Vec<String> {
    let request = server.requests().pop().unwrap();
    let users = request.messages.into_iter().filter(|message| message.role == Role::User);
    users.map(|message| message.text).filter(|text| !text.is_empty()).collect()
}

#[test]
fn a_fork_without_files_continues_in_the_same_directory() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let output =
        chat(&session, &["chat", "--fork", &format!("{id}@1"), "-p", "hi"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Hello.\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("Forked {id} after turn 1.")), "{said}");
    assert_eq!(last_prompts(&server), ["write first", "hi"]);
    assert_eq!(session.read("note.txt"), "second\n");
    let fork = last_session(&session);
    let tree = session.json(&["sessions", "tree", &id]);
    assert_eq!((&tree["id"], &tree["children"][0]["id"]), (&json!(id), &json!(fork)));
    assert_eq!(tree["children"][0]["parent_kind"], "fork");
    // The original is unchanged, and both continue independently.
    chat_output(&session, &["chat", "--resume", &id, "-p", "and you?"]);
    assert_eq!(last_prompts(&server), ["write first", "write second", "and you?"]);
    chat_output(&session, &["chat", "--resume", &fork, "-p", "more"]);
    assert_eq!(last_prompts(&server), ["write first", "hi", "more"]);
}

#[test]
fn a_fork_with_files_works_in_a_new_directory() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let moment = format!("{id}@1");
    chat_output(&session, &["chat", "--fork", &moment, "--files", "-p", "hi"]);
    let fork = session.base().join("project-fork");
    assert_eq!(fs::read_to_string(fork.join("note.txt")).unwrap(), "first\n");
    // The model is told where it works now.
    let system = server.requests().pop().unwrap().system;
    assert!(system.contains(&*fork.to_string_lossy()), "{system}");
    let last = last_session(&session);
    chat_output(&session, &["chat", "--resume", &last, "-p", "add other.txt"]);
    assert_eq!(fs::read_to_string(fork.join("other.txt")).unwrap(), "new\n");
    assert_eq!((session.read("note.txt"), session.exists("other.txt")), ("second\n".into(), false));
    // The directory of the next fork gets an unused name, or the name that the user chooses.
    chat_output(&session, &["chat", "--fork", "1", "--files", "-p", "hi"]);
    let before = session.base().join("project-fork-2/note.txt");
    assert_eq!(fs::read_to_string(before).unwrap(), "first\n");
    chat_output(&session, &["chat", "--fork", &id, "--files", "../mine", "-p", "hi"]);
    let chosen = session.base().join("mine/note.txt");
    assert_eq!(fs::read_to_string(chosen).unwrap(), "second\n");
}

#[test]
fn a_fork_is_an_event_in_json() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let text = chat_output(&session, &["chat", "--fork", &id, "--files", "--json", "-p", "hi"]);
    let events = parse_lines(&text);
    assert_eq!(events[0]["event"], "forked");
    let fork = &events[0]["fork"];
    assert_eq!((&fork["parent"], &fork["turn"]), (&json!(id), &json!(2)));
    assert_eq!(fork["directory"], json!(session.base().join("project-fork")));
    assert_eq!(events.last().unwrap()["event"], "turn_ended");
}

#[test]
fn the_session_of_another_agent_is_continued_in_a_fork() {
    let server = Server::start(writer).unwrap();
    let session = with_two_turns();
    use_model(&session, &server, "");
    chat_output(&session, &["chat", "--fork", "s1@1", "-p", "hi"]);
    assert_eq!(last_prompts(&server), ["add\n  the cart", "hi"]);
    let request = server.requests().pop().unwrap();
    assert!(request.system.contains("You are a coding agent"), "{}", request.system);
    chat_output(&session, &["chat", "--resume", "-p", "again"]);
    assert_eq!(last_prompts(&server), ["add\n  the cart", "hi", "again"]);
    // The original conversation belongs to the other agent, so `takeback chat` does not continue
    // it.
    let refused = chat(&session, &["chat", "--resume", "s1", "-p", "hi"]).output().unwrap();
    let said = text_of(&refused);
    assert!(said.contains("mine:s1 was not made by takeback chat"), "{said}");
    assert!(said.contains("`takeback chat --fork mine:s1`"), "{said}");
}

#[test]
fn a_fork_of_a_checkpoint_without_a_conversation_begins_a_new_one() {
    let server = Server::start(writer).unwrap();
    let (session, _) = after_two_turns(&server);
    session.output(&["checkpoint", "--name", "good"]);
    chat_output(&session, &["chat", "--fork", "good", "--files", "-p", "add other.txt"]);
    assert_eq!(last_prompts(&server), ["add other.txt"]);
    let fork = session.base().join("project-fork");
    assert_eq!(fs::read_to_string(fork.join("note.txt")).unwrap(), "second\n");
    assert_eq!(fs::read_to_string(fork.join("other.txt")).unwrap(), "new\n");
    assert!(!session.exists("other.txt"));
}

#[test]
fn invalid_fork_arguments_are_refused_without_a_request_to_the_model() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let asked = server.requests().len();
    for (arguments, expected) in [
        (vec!["--fork", "nothing"], "neither a checkpoint of this workspace nor a session"),
        (vec!["--fork", &format!("{id}@9")], "has no turn 9"),
        (vec!["--fork", &id, "--files", "."], "is inside the workspace"),
        (vec!["--fork", &id, "--resume"], "cannot be used with"),
        (vec!["--files"], "--fork"),
    ] {
        let output =
            chat(&session, &[&["chat"], arguments.as_slice(), &["-p", "hi"]].concat()).output();
        let said = text_of(&output.unwrap());
        assert!(said.contains("error:") && said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(server.requests().len(), asked);
    let tree = session.json(&["sessions", "tree", &id]);
    assert_eq!(tree["children"], json!([] as [Value; 0]));
}

#[test]
fn a_session_whose_directory_is_gone_continues_in_a_fork() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let home = session.base();
    fs::rename(session.project(), home.join("moved")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = chat(&session, arguments);
        command.current_dir(&home).output().unwrap()
    };
    let refused = text_of(&run(&["chat", "--resume", &id, "-p", "hi"]));
    assert!(refused.contains("project no longer exists"), "{refused}");
    assert!(refused.contains("chat --fork"), "{refused}");
    let done = run(&["chat", "--fork", &format!("{id}@1"), "--files", "back", "-p", "hi"]);
    assert!(done.status.success(), "{}", text_of(&done));
    assert_eq!(fs::read_to_string(home.join("back/note.txt")).unwrap(), "first\n");
}
