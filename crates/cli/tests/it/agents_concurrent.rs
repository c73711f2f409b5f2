//! Several agents that work at the same time in one workspace, and one agent that works in two
//! workspaces.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{hook, rows};
use crate::session::Session;

/// A session of an agent, reported by its hooks.
struct KnownAgent<'s> {
    session: &'s Session,
    agent: &'static str,
    id: &'static str,
    cwd: PathBuf,
    /// The agent's names for the start and the end of a turn, and for the start and the end of a
    /// call.
    events: [&'static str; 4],
}

const CLAUDES: [&str; 4] = ["UserPromptSubmit", "Stop", "PreToolUse", "PostToolUse"];
const GEMINIS: [&str; 4] = ["BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool"];

impl KnownAgent<'_> {
    fn tell(&self, event: &str, fields: &Value) -> String {
        let mut payload = json!({
            "session_id": self.id, "cwd": self.cwd, "hook_event_name": event,
        });
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let output =
            hook(&self.session.base(), &["hook", self.agent], payload.to_string().as_bytes());
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn hears(&self, prompt: &str) -> String {
        self.tell(
            self.events[0],
            &json!({ "prompt": prompt, "prompt_id": prompt, "turn_id": prompt }),
        )
    }

    fn is_done(&self) {
        self.tell(self.events[1], &json!({}));
    }

    fn begins(&self, call: &Value) {
        assert_eq!(self.tell(self.events[2], call), "");
    }

    fn finishes(&self, call: &Value) {
        self.tell(self.events[3], call);
    }

    /// Returns the fields of a call that writes a file, with the names that this agent gives them.
    fn write(&self, path: &str) -> Value {
        let (tool, input) = match self.agent {
            "codex" => {
                let patch = format!("*** Begin Patch\n*** Update File: {path}\n*** End Patch");
                ("apply_patch", json!({ "command": patch }))
            }
            "gemini" => ("write_file", json!({ "file_path": self.cwd.join(path) })),
            _ => ("Write", json!({ "file_path": self.cwd.join(path) })),
        };
        json!({ "tool_name": tool, "tool_input": input, "tool_use_id": format!("{}-{path}", self.id) })
    }

    fn writes(&self, path: &str, content: &str) {
        let call = self.write(path);
        self.begins(&call);
        fs::write(self.cwd.join(path), content).unwrap();
        self.finishes(&call);
    }
}

fn known_agent<'s>(
    session: &'s Session,
    agent: &'static str,
    id: &'static str,
    cwd: &Path,
) -> KnownAgent<'s> {
    let events = if agent == "gemini" { GEMINIS } else { CLAUDES };
    KnownAgent { session, agent, id, cwd: cwd.to_owned(), events }
}

/// Returns the number of the row that has this prompt.
fn row_of(session: &Session, prompt: &str) -> String {
    let rows = rows(session);
    let row =
        rows.iter().find(|row| row["prompt"] == prompt).unwrap_or_else(|| panic!("{rows:#?}"));
    row["number"].to_string()
}

#[test]
fn three_agents_in_one_workspace_are_distinguished() {
    let session = Session::new();
    for name in ["a", "b", "c", "src/deep"] {
        session.write(name, "0");
    }
    let cwd = session.project();
    let claude = known_agent(&session, "claude", "one", &cwd);
    let codex = known_agent(&session, "codex", "two", &cwd);
    let gemini = known_agent(&session, "gemini", "three", &cwd);
    claude.hears("ask claude");
    codex.hears("ask codex");
    gemini.hears("ask gemini");
    claude.writes("a", "claude");
    codex.writes("b", "codex");
    // These two calls overlap. The shell command after them names only a directory, not its files.
    let (mine, theirs) = (codex.write("b2"), gemini.write("c"));
    codex.begins(&mine);
    gemini.begins(&theirs);
    session.write("b2", "codex");
    session.write("c", "gemini");
    gemini.finishes(&theirs);
    codex.finishes(&mine);
    let shell = json!({ "tool_name": "Bash", "tool_input": { "command": "rm -r src" }, "tool_use_id": "s" });
    claude.begins(&shell);
    fs::remove_dir_all(cwd.join("src")).unwrap();
    claude.finishes(&shell);
    [&claude, &codex, &gemini].iter().for_each(|agent| agent.is_done());

    let undone = session.json(&["undo", "--turn", &row_of(&session, "ask claude"), "--yes"]);
    assert_eq!(undone["conflicts"].as_array().map_or(0, Vec::len), 0, "{undone}");
    assert_eq!((session.read("a"), session.read("src/deep")), ("0".into(), "0".into()), "{undone}");
    for (path, content) in [("b", "codex"), ("b2", "codex"), ("c", "gemini")] {
        assert_eq!(session.read(path), content, "{undone}");
    }
    let undone = session.json(&["undo", "--turn", &row_of(&session, "ask codex"), "--yes"]);
    assert_eq!((session.read("b"), session.read("c")), ("0".into(), "gemini".into()), "{undone}");
    assert!(!cwd.join("b2").exists());
    // All three agents worked here, so each gets the notice once, in its own conversation.
    for agent in [&claude, &codex, &gemini] {
        let told = agent.hears("what now");
        assert!(told.contains("- a") && told.contains("- b"), "{}: {told}", agent.agent);
        assert_eq!(agent.hears("and now"), "", "{}", agent.agent);
    }
}

#[test]
fn the_work_of_one_agent_in_two_workspaces_is_kept_apart() {
    let session = Session::new();
    let other = session.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a"), "0").unwrap();
    session.write("a", "0");
    let here = known_agent(&session, "claude", "here", &session.project());
    let there = known_agent(&session, "claude", "there", &other);
    here.hears("work here");
    there.hears("work there");
    // The calls overlap, and both write a file with the same name.
    let (mine, theirs) = (here.write("a"), there.write("a"));
    here.begins(&mine);
    there.begins(&theirs);
    session.write("a", "1");
    fs::write(other.join("a"), "1").unwrap();
    there.finishes(&theirs);
    here.finishes(&mine);
    here.is_done();
    there.is_done();
    assert_eq!(rows(&session).len(), 1);
    assert!(session.output(&["rollback", "1", "--yes"]).status.success());
    assert_eq!(session.read("a"), "0");
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "1");
    assert_eq!(there.hears("go on"), "");
    assert!(here.hears("go on").contains("- a"));
    let output = session.output(&["-C", "../other", "undo", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "0");
}
