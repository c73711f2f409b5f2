//! `takeback chat` under bad conditions: error messages are clear, nothing is lost, and the session
//! can be continued.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::json;
use takeback_script::{Fault, Reply, Request, Server};

use crate::agent::{configure, ledger};
use crate::hooks_failures::SmallFileSystem;
use crate::scripted_model::{
    chat, chat_output, list_tasks, text_of, use_model, with_model, writer,
};
use crate::session::Session;

/// Runs a turn that fails, and returns what it printed.
#[track_caller]
fn fail(session: &Session, arguments: &[&str]) -> String {
    let output = chat(session, arguments).output().unwrap();
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// Joins the lines of a text that was wrapped to the width of the terminal.
fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replies with a call of the tool. If the last message already holds a result, replies instead
/// with the size and the text of that result.
fn call_once(request: &Request, tool: &str, input: serde_json::Value) -> Reply {
    match request.last_result() {
        None => Reply::call(tool, input),
        Some(result) => Reply::text(format!("{} bytes: {}", result.text.len(), result.text)),
    }
}

/// Returns a complete reply with a call whose input is cut off in the middle.
fn broken_call() -> Reply {
    let function = json!({ "name": "read_file", "arguments": "{\"path\": " });
    let call = json!({ "index": 0, "id": "c1", "type": "function", "function": function });
    let chunks = [
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }),
    ];
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    let body = body + "data: [DONE]\n\n";
    Reply::fault(Fault::Response { status: 200, headers, body })
}

#[test]
fn without_a_key_no_session_begins() {
    let session = Session::new();
    configure(&session, "[chat]\nprovider = \"anthropic\"\n");
    let said = fail(&session, &["chat", "-p", "hi"]);
    assert_eq!(
        said,
        "error: ANTHROPIC_API_KEY, the key of provider `anthropic`, is not set\n\
         hint: run `export ANTHROPIC_API_KEY=…` with the key in place of the dots\n"
    );
    assert_eq!(list_tasks(&session).len(), 0);
}

#[test]
fn an_empty_prompt_or_goal_begins_no_session() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    assert_eq!(fail(&session, &["chat", "-p", "  "]), "error: the prompt is empty\n");
    let said = fail(&session, &["goal", "start", " "]);
    assert!(said.starts_with("error: the goal is empty\n"), "{said}");
    assert!(server.requests().is_empty() && list_tasks(&session).is_empty());
}

#[test]
fn the_error_for_a_refused_key_or_model_says_what_to_check_and_the_prompt_is_kept() {
    let session = Session::new();
    for (status, body, expected) in [
        (
            401,
            r#"{"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}"#,
            "The turn failed: Incorrect API key (set api_key_env)\n",
        ),
        (403, "", "The turn failed: HTTP status 403 (set api_key_env)\n"),
        (
            404,
            r#"{"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}"#,
            "The turn failed: The model `m` does not exist (check the name of the model)\n",
        ),
        (404, "<html><title>Not here</title>", "The turn failed: Not here (check base_url)\n"),
    ] {
        let server =
            Server::start(move |_: &Request| Reply::fault(Fault::response(status, body))).unwrap();
        use_model(&session, &server, "");
        assert_eq!(fail(&session, &["chat", "-p", "hi"]), expected);
        assert_eq!(server.requests().len(), 1, "{status} is not tried again");
    }
    let server = Server::start(writer).unwrap();
    use_model(&session, &server, "");
    chat_output(&session, &["chat", "--resume", "-p", "and now?"]);
    let request = server.requests().pop().unwrap();
    assert_eq!(request.messages.len(), 2, "{:?}", request.messages);
}

#[test]
fn a_turn_ends_if_the_model_makes_the_same_mistake_again_and_again() {
    let server = Server::start(|request: &Request| match request.last_text() {
        "fly" => Reply::call("fly", json!({ "to": "the moon" })),
        "read" => Reply::call("read_file", json!({ "path": "missing" })),
        "text" => Reply::call("read_file", json!("{broken")),
        "broken" => broken_call(),
        _ => writer(request),
    })
    .unwrap();
    let session = with_model(&server);
    for (prompt, told, name) in [
        ("fly", "no tool named \"fly\"; the tools are read_file", "fly"),
        ("read", "missing does not exist", "read_file"),
        ("text", "{broken", "read_file"),
        ("broken", "the input of read_file is not valid JSON", "read_file"),
    ] {
        let before = server.requests().len();
        let said = join_lines(&fail(&session, &["chat", "-p", prompt]));
        let stopped = format!(
            "The turn is waiting for you: the same call of {name} failed several times in a row"
        );
        assert!(said.contains(told) && said.contains(&stopped), "{said}");
        assert_eq!(server.requests().len() - before, 3, "{prompt}");
        // The conversation continues with the user's next prompt.
        let answer = chat_output(&session, &["chat", "--resume", "-p", "hello"]);
        assert_eq!(answer, "Hello.\n");
    }
}

#[test]
fn a_turn_ends_if_the_model_makes_only_unusable_calls() {
    let server = Server::start(|request: &Request| {
        let asked = request.messages.len();
        match request.last_text() {
            "fly" => Reply::call("fly", json!({ "to": format!("the moon {asked}") })),
            "mixed" if (asked / 2).is_multiple_of(4) => Reply::call("list_files", json!({})),
            "mixed" if asked > 40 => Reply::text("Enough."),
            "mixed" => Reply::call(format!("tool_{asked}"), json!({})),
            _ => writer(request),
        }
    })
    .unwrap();
    let session = with_model(&server);
    let said = join_lines(&fail(&session, &["chat", "-p", "fly"]));
    assert!(said.contains("keeps asking for calls that cannot be made"), "{said}");
    assert_eq!(server.requests().len(), 5);
    assert_eq!(chat_output(&session, &["chat", "--resume", "-p", "hello"]), "Hello.\n");
    // If the model also makes calls that can be carried out, the turn is not stopped.
    let answer = chat_output(&session, &["chat", "-p", "mixed"]);
    assert!(answer.ends_with("Enough.\n"), "{answer}");
}

#[test]
fn large_output_is_shortened_and_binary_files_are_described() {
    let server = Server::start(|request: &Request| match request.last_text() {
        "large" => {
            let command = "head -c 100000000 /dev/zero | tr '\\0' x";
            call_once(request, "terminal", json!({ "command": command }))
        }
        _ => call_once(request, "read_file", json!({ "path": "image.png" })),
    })
    .unwrap();
    let session = with_model(&server);
    fs::write(session.project().join("image.png"), b"\x89PNG\r\n\x1a\n\0\xff").unwrap();
    let answer = chat_output(&session, &["chat", "-p", "large"]);
    let length: usize = answer.split(' ').next().unwrap().parse().unwrap();
    assert!(length < 50_000 && answer.contains("exit status 0"), "{length}");
    let answer = chat_output(&session, &["chat", "-p", "binary"]);
    assert!(answer.contains("image.png is not text: PNG image, 10 bytes"), "{answer}");
}

#[test]
fn a_deleted_working_directory_is_an_error_and_the_turn_that_deleted_it_can_be_taken_back() {
    let server = Server::start(|request: &Request| match request.last_text() {
        "delete" => call_once(request, "terminal", json!({ "command": "rm -rf \"$PWD\"" })),
        _ => call_once(request, "terminal", json!({ "command": "ls" })),
    })
    .unwrap();
    let session = with_model(&server);
    session.write("kept.txt", "kept\n");
    let project = session.project();
    let run = |arguments: &[&str]| {
        let mut command = chat(&session, &["-C", project.to_str().unwrap()]);
        text_of(&command.args(arguments).current_dir(session.base()).output().unwrap())
    };
    run(&["chat", "--yolo", "-p", "delete"]);
    assert!(!project.exists());
    let said = run(&["chat", "-p", "look"]);
    assert!(said.contains("error: cannot use the directory") && said.contains("-C DIR"), "{said}");
    let said = run(&["chat", "--resume", "-p", "look"]);
    assert!(said.contains("project no longer exists") && said.contains("chat --fork"), "{said}");
    run(&["rollback", "1", "--yes"]);
    assert_eq!(session.read("kept.txt"), "kept\n");
    let said = run(&["chat", "--resume", "-p", "look"]);
    assert!(said.contains("kept.txt"), "{said}");
}

#[test]
fn nothing_is_lost_if_the_disk_fills_up_during_a_turn() {
    let (session, home) = (Session::new(), PathBuf::from(".takeback"));
    let home = session.base().join(home);
    let Some(_small) = SmallFileSystem::mount_with(&home, "4m") else { return };
    let filler = home.join("filler");
    let is_filled = Arc::new(Mutex::new(true));
    let (file, flag) = (filler.clone(), is_filled.clone());
    let server = Server::start(move |request: &Request| {
        if request.last_text() == "add other.txt" && *flag.lock().unwrap() {
            // The disk fills up while a request to the model is in progress.
            let _ = fs::write(&file, vec![1; 8 << 20]);
        }
        writer(request)
    })
    .unwrap();
    use_model(&session, &server, "");
    chat_output(&session, &["chat", "-p", "write"]);
    let said = fail(&session, &["chat", "--resume", "-p", "add other.txt"]);
    assert!(said.contains("database or disk is full"), "{said}");
    assert!(said.contains("hint: check the permissions and the free space"), "{said}");
    let said = fail(&session, &["chat", "-p", "add more.txt"]);
    assert!(said.contains("database or disk is full"), "{said}");
    fs::remove_file(filler).unwrap();
    *is_filled.lock().unwrap() = false;
    let task = list_tasks(&session).remove(0);
    assert_eq!(task["state"], "interrupted");
    assert!(!session.exists("other.txt"));
    chat_output(&session, &["tasks", "resume", task["id"].as_str().unwrap()]);
    assert!(session.exists("other.txt"));
    assert!(session.output(&["sessions", "verify"]).status.success());
}

#[test]
fn a_turn_waits_for_a_ledger_locked_by_another_process() {
    let (reach, reached) = channel();
    let (lock, locked) = channel();
    let (reach, locked) = (Mutex::new(reach), Mutex::new(locked));
    let server = Server::start(move |request: &Request| {
        if request.last_text() == "write" && request.last_result().is_none() {
            // Another process locks the ledger while a request to the model is in progress.
            reach.lock().unwrap().send(()).unwrap();
            locked.lock().unwrap().recv().unwrap();
        }
        writer(request)
    })
    .unwrap();
    let session = with_model(&server);
    let mut command = chat(&session, &["chat", "-p", "write"]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    reached.recv().unwrap();
    let other = ledger(&session);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    lock.send(()).unwrap();
    // The file cannot be written before the call is in the journal.
    assert!(!session.exists("note.txt"));
    other.execute_batch("COMMIT").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "I wrote the **note**.\n");
    assert_eq!(session.read("note.txt"), "hello\n");
}

#[test]
fn a_current_directory_that_no_longer_exists_is_an_error() {
    let session = Session::new();
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_takeback");
    shell.arg("-c").arg(format!("rmdir ../project; {program} chat -p hi"));
    let output = shell.current_dir(session.project()).env("HOME", session.base()).output();
    let said = text_of(&output.unwrap());
    assert!(said.contains("error: cannot find the current directory"), "{said}");
}
