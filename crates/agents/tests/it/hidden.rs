//! Conversations that are taken back inside an open Cline. The tests act as takeback's plugin: they
//! read the list of the messages that the model must not see.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use takeback_agents::{continue_session, follow_session, list_copies};
use takeback_base::hex;
use takeback_ledger::Time;
use takeback_undo::{Opened, Resume};
use tempfile::TempDir;

use crate::copies::{import, open, open_typed_in};

const ID: &str = "1795063013337_l0gz1";
const SESSION: &str = "cline:1795063013337_l0gz1";

/// Cline with one conversation.
struct Cline {
    directory: TempDir,
}

impl Cline {
    /// Starts a conversation that has one turn per prompt. Each turn has a call.
    fn with_turns(prompts: &[&str]) -> Cline {
        let cline = Cline { directory: TempDir::new().unwrap() };
        fs::create_dir_all(cline.log().parent().unwrap()).unwrap();
        let about = json!({ "session_id": ID, "cwd": cline.directory.path() });
        let path = cline.log().with_file_name(format!("{ID}.json"));
        fs::write(path, about.to_string()).unwrap();
        cline.write_log(&json!({ "version": 1, "sessionId": ID, "messages": [] }));
        prompts.iter().for_each(|prompt| cline.hear(prompt));
        cline
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("sessions").join(ID).join(format!("{ID}.messages.json"))
    }

    fn read_log(&self) -> Value {
        serde_json::from_slice(&fs::read(self.log()).unwrap()).unwrap()
    }

    fn write_log(&self, document: &Value) {
        fs::write(self.log(), document.to_string()).unwrap();
    }

    /// Adds a turn to the log, including a message that the ledger does not have.
    fn hear(&self, prompt: &str) {
        let call = format!("call-{prompt}");
        // If the message were older than a rollback, it would be treated as taken back.
        let now = Time::from(SystemTime::now()).0;
        let entry = |kind: &str, role: &str, content: Value| json!({ "id": format!("{kind}-{prompt}"), "role": role, "ts": now, "content": content });
        let made = json!([{ "type": "tool_use", "id": call, "name": "editor", "input": {} }]);
        let result = json!([{ "type": "tool_result", "tool_use_id": call, "content": "ok" }]);
        let mut document = self.read_log();
        document["messages"].as_array_mut().unwrap().extend([
            entry("prompt", "user", json!([{ "type": "text", "text": prompt }])),
            entry("call", "assistant", made),
            entry("result", "user", result),
            entry("context", "other", json!([])),
            entry(
                "answer",
                "assistant",
                json!([{ "type": "text", "text": format!("did {prompt}") }]),
            ),
        ]);
        self.write_log(&document);
    }

    /// Opens a takeback home for a command that the user typed inside Cline.
    fn open_inside(&self) -> Opened {
        open_typed_in(self.directory.path(), "cline", Some("cline"))
    }

    fn open_outside(&self) -> Opened {
        open(self.directory.path(), "cline")
    }

    /// Lists the prompts of the turns that reach the model. Panics if only some of the parts of a
    /// turn reach it.
    fn seen_by_model(&self) -> Vec<String> {
        let list = self.directory.path().join("home/conversations/hidden");
        let list = fs::read(list.join(format!("{ID}.json"))).unwrap_or(b"[]".to_vec());
        let list: Vec<Value> = serde_json::from_slice(&list).unwrap();
        let is_hidden = |part: &str| {
            let found = list.iter().find(|listed| listed["part"] == part);
            found.is_some_and(|listed| listed["hidden"] == true)
        };
        let log = self.read_log();
        let ids = log["messages"].as_array().unwrap().iter().filter_map(|all| all["id"].as_str());
        let is_seen = |prompt: &str| {
            let digest = |text: &str| hex::encode(&Sha256::digest(text.as_bytes()));
            let parts = [
                format!("user:{}", digest(prompt)),
                format!("call:call-{prompt}"),
                format!("result:call-{prompt}"),
                format!("assistant:{}", digest(&format!("did {prompt}"))),
            ];
            let seen = parts.iter().filter(|part| !is_hidden(part)).count();
            assert!([0, 4].contains(&seen), "{prompt}: {list:?}");
            seen > 0
        };
        let prompts = ids.filter_map(|id| id.strip_prefix("prompt-"));
        prompts.filter(|prompt| is_seen(prompt)).map(str::to_owned).collect()
    }
}

fn take_back(opened: &Opened, turns: usize) -> Resume {
    import(opened, "cline");
    opened.ledger_or_new().unwrap().rewind_turns(SESSION, turns, opened.now()).unwrap();
    follow_session(opened, SESSION).unwrap().unwrap()
}

fn bring_back(opened: &Opened) -> Resume {
    opened.ledger_or_new().unwrap().unrewind(SESSION, opened.now()).unwrap();
    follow_session(opened, SESSION).unwrap().unwrap()
}

#[test]
fn an_open_conversation_goes_back_and_forward_and_its_log_stays() {
    let cline = Cline::with_turns(&["one", "two", "three"]);
    let before = fs::read(cline.log()).unwrap();
    let opened = cline.open_inside();
    let resume = take_back(&opened, 2);
    assert!(resume.in_place);
    assert_eq!(resume.argv, ["cline", "-i", "--id", ID]);
    assert_eq!(cline.seen_by_model(), ["one"]);
    assert!(bring_back(&opened).in_place);
    assert_eq!(cline.seen_by_model(), ["one", "two", "three"]);
    assert_eq!(fs::read(cline.log()).unwrap(), before);
    assert!(list_copies(&opened).is_empty());
}

#[test]
fn a_conversation_that_has_continued_can_be_rewound_repeatedly() {
    let cline = Cline::with_turns(&["one", "two", "three"]);
    let opened = cline.open_inside();
    take_back(&opened, 1);
    cline.hear("four");
    cline.hear("five");
    assert_eq!(cline.seen_by_model(), ["one", "two", "four", "five"]);
    assert!(take_back(&opened, 1).in_place);
    assert_eq!(cline.seen_by_model(), ["one", "two", "four"]);
    assert!(take_back(&opened, 3).in_place, "even to before the first prompt");
    assert!(cline.seen_by_model().is_empty());
}

#[test]
fn a_copy_lacks_the_messages_that_were_taken_back_in_place() {
    let cline = Cline::with_turns(&["one", "two"]);
    take_back(&cline.open_inside(), 1);
    cline.hear("three");
    cline.hear("four");
    let opened = cline.open_outside();
    let resume = take_back(&opened, 1);
    assert!(!resume.in_place && resume.session.as_deref() != Some(ID));
    let copy = fs::read_to_string(resume.file.unwrap()).unwrap();
    for (prompt, expected) in [("one", true), ("two", false), ("three", true), ("four", false)] {
        assert_eq!(copy.contains(&format!("did {prompt}")), expected, "{prompt}: {copy}");
        assert_eq!(copy.contains(&format!("context-{prompt}")), expected, "{prompt}: {copy}");
    }
    assert_eq!(cline.seen_by_model(), ["one", "three"], "the open conversation is the same");
}

#[test]
fn a_conversation_is_brought_back_in_place_by_a_command_elsewhere() {
    let cline = Cline::with_turns(&["one", "two"]);
    take_back(&cline.open_inside(), 1);
    let resume = bring_back(&cline.open_outside());
    assert_eq!(resume.session.as_deref(), Some(ID));
    assert_eq!(cline.seen_by_model(), ["one", "two"]);

    take_back(&cline.open_inside(), 1);
    let opened = cline.open_outside();
    opened.ledger_or_new().unwrap().unrewind(SESSION, opened.now()).unwrap();
    let resume = continue_session(&opened, SESSION, None).unwrap();
    assert_eq!(resume.session.as_deref(), Some(ID));
    assert_eq!(cline.seen_by_model(), ["one", "two"], "also if only the session is continued");
}

#[test]
fn a_rollback_elsewhere_makes_a_copy() {
    let cline = Cline::with_turns(&["one", "two"]);
    let resume = take_back(&cline.open_outside(), 1);
    assert!(!resume.in_place && resume.session.as_deref() != Some(ID));
    assert_eq!(cline.seen_by_model(), ["one", "two"]);
}

#[test]
fn a_log_with_messages_that_the_ledger_lacks_is_not_rewound_in_place() {
    let cline = Cline::with_turns(&["one", "two"]);
    let opened = cline.open_inside();
    import(&opened, "cline");
    opened.ledger_or_new().unwrap().rewind_turns(SESSION, 1, opened.now()).unwrap();
    cline.hear("three");
    let resume = follow_session(&opened, SESSION).unwrap().unwrap();
    assert!(!resume.in_place);
    assert_eq!(cline.seen_by_model(), ["one", "two", "three"]);
}
