//! Conversations that are open in Cline: takeback's plugin hides the messages that were taken back.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};
use takeback_ledger::Time;

use crate::agent::{eventually, hook};
use crate::session::Session;

const ID: &str = "1795063013337_l0gz1";

/// A conversation in Cline.
struct Cline<'s> {
    session: &'s Session,
    messages: Vec<Value>,
}

impl Cline<'_> {
    fn log(&self) -> PathBuf {
        let sessions = self.session.base().join(".cline/data/sessions");
        sessions.join(ID).join(format!("{ID}.messages.json"))
    }

    fn tell(&self, event: &str, fields: &Value) -> Value {
        let mut payload = json!({ "taskId": "conv", "sessionContext": { "rootSessionId": ID },
            "workspaceRoots": [self.session.project()] });
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let output =
            hook(&self.session.base(), &["hook", "cline", event], payload.to_string().as_bytes());
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn log_message(&mut self, role: &str, content: &Value) {
        let id = format!("m{}", self.messages.len());
        let now = Time::from(SystemTime::now()).0;
        self.messages.push(json!({ "id": id, "role": role, "ts": now, "content": content }));
        let document = json!({ "version": 1, "sessionId": ID, "messages": self.messages });
        fs::create_dir_all(self.log().parent().unwrap()).unwrap();
        fs::write(self.log(), document.to_string()).unwrap();
        let about = json!({ "session_id": ID, "cwd": self.session.project() });
        fs::write(self.log().with_file_name(format!("{ID}.json")), about.to_string()).unwrap();
    }

    /// Simulates a turn that writes a file.
    fn do_turn(&mut self, prompt: &str, path: &str) {
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        self.tell("TaskStart", &json!({}));
        self.log_message("user", &text(prompt));
        let (call, input) = (format!("call-{path}"), json!({ "path": path, "new_text": "x" }));
        let made = json!({ "id": call, "name": "editor", "input": input });
        self.tell("PreToolUse", &json!({ "tool_call": made }));
        self.session.write(path, "x");
        self.tell("PostToolUse", &json!({ "tool_result": made }));
        self.log_message(
            "assistant",
            &json!([{ "type": "tool_use", "id": call, "name": "editor", "input": input }]),
        );
        self.log_message(
            "user",
            &json!([{ "type": "tool_result", "tool_use_id": call, "content": "ok" }]),
        );
        self.log_message("assistant", &text(&format!("Wrote {path}.")));
        self.tell("TaskComplete", &json!({}));
        let answer = format!("\"Wrote {path}.\"");
        eventually("the answer is known", || self.session.json(&["search", &answer])["total"] == 1);
    }

    /// Types a command inside Cline.
    fn type_command(&self, arguments: &str) -> String {
        let words = ["--typed-in", "cline", "slash", "rollback", arguments];
        String::from_utf8(self.session.output(&words).stdout).unwrap()
    }

    /// Counts the parts of messages that the plugin leaves out of requests to the model.
    fn count_hidden(&self) -> usize {
        let list = self.session.base().join(".takeback/conversations/hidden");
        let list = fs::read(list.join(format!("{ID}.json"))).unwrap_or(b"[]".to_vec());
        let list: Vec<Value> = serde_json::from_slice(&list).unwrap();
        list.iter().filter(|part| part["hidden"] == true).count()
    }
}

#[test]
fn a_rollback_typed_in_cline_rewinds_the_open_conversation_and_can_be_undone() {
    let session = Session::new();
    let mut cline = Cline { session: &session, messages: Vec::new() };
    cline.do_turn("add a file", "a.txt");
    cline.do_turn("add another", "b.txt");
    let log = fs::read(cline.log()).unwrap();
    let said = cline.type_command("1");
    assert!(!session.exists("b.txt") && session.exists("a.txt"), "{said}");
    let promised = "Cline continues there, although its screen still shows the rest, as long as \
                    takeback's plugin is installed";
    assert!(said.contains(promised), "{said}");
    assert_eq!(cline.count_hidden(), 4);
    // The model is told nothing, because the conversation that it sees matches the files.
    let call =
        json!({ "tool_call": { "id": "c", "name": "editor", "input": { "path": "c.txt" } } });
    let told = cline.tell("PreToolUse", &call);
    assert!(!told.to_string().contains("took back"), "{told:#}");

    let installed = session.output(&["install", "cline", "--user", "--yes"]);
    assert!(installed.status.success(), "{installed:?}");
    let output = session.output(&["uninstall", "cline", "--user", "--yes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("in 1 conversation, the model can again see messages that"), "{text}");

    let said = cline.type_command("undo");
    assert!(session.exists("b.txt"), "{said}");
    assert_eq!(cline.count_hidden(), 0);
    assert_eq!(fs::read(cline.log()).unwrap(), log);
}
