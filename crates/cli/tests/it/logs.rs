//! Agents' logs: imported as a whole, and followed while the agents are working.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{eventually, hook, ledger, rows};
use crate::session::Session;

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/fixtures/logs").join(name)
}

/// Puts a log at the path where its agent keeps its logs.
fn place_log(session: &Session, name: &str, at: &str) -> PathBuf {
    let path = session.base().join(at);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match name.strip_suffix(".sql") {
        Some(_) => rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(&fs::read_to_string(fixture_path(name)).unwrap())
            .unwrap(),
        None => drop(fs::copy(fixture_path(name), &path).unwrap()),
    }
    path
}

const LOGS: [(&str, &str, &str, usize); 9] = [
    ("claude", "claude/real.jsonl", ".claude/projects/-PROJECT/f0496092.jsonl", 10),
    ("codex", "codex/real.jsonl", ".codex/sessions/2026/11/16/rollout-x.jsonl", 10),
    ("gemini", "gemini/chats/real.jsonl", ".gemini/tmp/proj/chats/session-x.jsonl", 10),
    ("qwen", "qwen/chats/real.jsonl", ".qwen/projects/-PROJECT/chats/x.jsonl", 8),
    ("droid", "droid/real.jsonl", ".factory/sessions/-PROJECT/0ecd1768.jsonl", 6),
    ("copilot", "copilot/events.jsonl", ".copilot/session-state/66718074/events.jsonl", 8),
    ("cline", "cline/real.messages.json", ".cline/data/sessions/1/1.messages.json", 6),
    ("opencode", "opencode/real.sql", ".local/share/opencode/opencode.db", 8),
    ("pi", "pi/real.jsonl", ".pi/agent/sessions/--PROJECT--/2026_01a1e321.jsonl", 8),
];

#[test]
fn the_logs_of_every_agent_are_imported_once_and_can_be_searched() {
    let session = Session::new();
    for (agent, name, at, messages) in LOGS {
        place_log(&session, name, at);
        let report = session.json(&["sessions", "import", "--from", agent]);
        let expected = json!({ "sessions": 1, "new_sessions": 1, "messages": messages, "bad": [] });
        assert_eq!(report, expected, "{agent}");
        let again = session.json(&["sessions", "import", "--from", agent]);
        assert_eq!((&again["messages"], &again["new_sessions"]), (&json!(0), &json!(0)), "{agent}");
    }
    let sources: Vec<String> = LOGS.iter().map(|(agent, ..)| (*agent).to_owned()).collect();
    for agent in &sources {
        let found = session.json(&["sessions", "search", "\"All done.\"", "--source", agent]);
        assert!(found["total"].as_u64() >= Some(1), "{agent}");
    }
    assert_eq!(session.json(&["sessions", "verify"])["whole"], true);
    // In the format of a model's API, every call must be followed by its result.
    let id = "claude:f0496092-94a1-42f2-acea-c1c781398f1a";
    let sent = session.json(&["sessions", "show", id, "--format", "anthropic"]);
    assert!(sent.to_string().contains("call_000002_0"), "{sent}");
}

#[test]
fn unreadable_lines_and_files_are_reported() {
    let mut session = Session::new();
    let path = place_log(&session, "claude/rich.jsonl", ".claude/projects/p/rich.jsonl");
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"torn\n{}\nnonsense\n")
        .unwrap();
    place_log(&session, "cline/real.messages.json", ".cline/data/sessions/1/1.messages.json");
    fs::write(session.base().join(".cline/data/sessions/1/1.messages.json"), "{").unwrap();
    session.takeback(&["sessions", "import", "--from", "claude"]);
    session.takeback(&["sessions", "import", "--from", "cline"]);
    session.takeback(&["sessions", "import", "--from", "codex"]);
    session.takeback(&["sessions", "search", "購物車"]);
    session.assert(
        "
$ takeback sessions import --from claude
Read 2 sessions, 2 of them new. Added 13 messages.
! error: ~/.claude/projects/p/rich.jsonl: line 20: not a JSON object (the same is true of 1 later line)
[exit Some(1)]
$ takeback sessions import --from cline
Read 0 sessions, 0 of them new. Added 0 messages.
! error: ~/.cline/data/sessions/1/1.messages.json: EOF while parsing an object at line 1 column 1
[exit Some(1)]
$ takeback sessions import --from codex
! error: cannot read ~/.codex/sessions
!   because: No such file or directory (os error 2)
! hint: name their directory: `takeback sessions import --from codex DIR`
[exit Some(1)]
$ takeback sessions search 購物車
claude:rich  <date> <time>  claude  The cart
  > [3] assistant  >>>購物車<<<缺了一個輪子。
    ls Bash t1 find the wheel Agent t2
1 message found.
`takeback sessions show claude:rich --around 3` shows the best one in full.
",
    );
}

/// A simulated Claude Code that runs its hooks and writes its log.
pub(crate) struct Claude<'s> {
    session: &'s Session,
    id: &'static str,
    /// The directory that it works in.
    directory: PathBuf,
    pub(crate) log: PathBuf,
    entries: usize,
}

/// Returns the directory in which Claude Code keeps its logs of a project.
pub(crate) fn claude_logs(session: &Session, project: &Path) -> PathBuf {
    let dash = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = project.to_str().unwrap().chars().map(dash).collect();
    session.base().join(".claude/projects").join(name)
}

impl<'s> Claude<'s> {
    pub(crate) fn new(session: &'s Session) -> Claude<'s> {
        Claude::called(session, "live")
    }

    /// Starts a session with this id.
    pub(crate) fn called(session: &'s Session, id: &'static str) -> Claude<'s> {
        Claude::started_in(session, id, session.project())
    }

    /// Starts a session with this id in a directory.
    pub(crate) fn started_in(
        session: &'s Session,
        id: &'static str,
        directory: PathBuf,
    ) -> Claude<'s> {
        let log = claude_logs(session, &directory).join(format!("{id}.jsonl"));
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        let claude = Claude { session, id, directory, log, entries: 0 };
        claude.tell(json!({ "hook_event_name": "SessionStart", "source": "startup" }));
        // Wait until takeback knows the path of the log, which does not exist yet.
        eventually("the log is known", || {
            let sql = "SELECT count(*) FROM bookmarks WHERE log = ?1";
            let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            let known = ledger(session).query_row(sql, [claude.log.to_str()], count);
            known.is_ok_and(|known| known == 1)
        });
        claude
    }

    /// Runs a hook, and returns what it prints for the agent.
    pub(crate) fn tell(&self, event: Value) -> String {
        self.tell_as(self.id, event)
    }

    /// Runs a hook of another session, whose log is in the same directory as the log of this
    /// session.
    pub(crate) fn tell_as(&self, id: &str, mut event: Value) -> String {
        event["session_id"] = json!(id);
        event["transcript_path"] = json!(self.log.with_file_name(format!("{id}.jsonl")));
        event["cwd"] = json!(self.directory);
        let output = hook(&self.session.base(), &["hook", "claude"], event.to_string().as_bytes());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn log(&mut self, role: &str, content: &Value) {
        self.entries += 1;
        let now = takeback_ledger::Time::from(std::time::SystemTime::now()).rfc3339();
        let line = json!({
            "type": role, "uuid": self.entry(self.entries), "sessionId": self.id,
            "parentUuid": (self.entries > 1).then(|| self.entry(self.entries - 1)),
            "isSidechain": false, "version": "2.1.325",
            "cwd": self.directory, "timestamp": now,
            "message": { "role": role, "id": format!("m{}", self.entries), "model": "claude-x",
                "content": content, "usage": { "input_tokens": 3, "output_tokens": 2 } },
        });
        let mut log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        writeln!(log, "{line}").unwrap();
    }

    /// Returns Claude Code's own id for an entry.
    fn entry(&self, number: usize) -> String {
        match self.id {
            "live" => format!("e{number}"),
            id => format!("{id}-{number}"),
        }
    }

    pub(crate) fn hears(&mut self, prompt: &str) {
        self.tell(json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt,
            "prompt_id": prompt }));
        self.log("user", &json!(prompt));
    }

    pub(crate) fn writes(&mut self, turn: &str, path: &str, content: &str) {
        let id = format!("t{}-{}", self.id, self.entries);
        let path = self.session.project().join(path);
        let input = json!({ "file_path": path, "content": content });
        self.log(
            "assistant",
            &json!([{ "type": "tool_use", "id": id, "name": "Write", "input": input }]),
        );
        let mut event = json!({ "hook_event_name": "PreToolUse", "tool_name": "Write",
            "tool_input": input, "tool_use_id": id, "prompt_id": turn });
        self.tell(event.clone());
        fs::write(&path, content).unwrap();
        event["hook_event_name"] = json!("PostToolUse");
        event["tool_response"] = json!({ "success": true });
        self.tell(event);
        self.log(
            "user",
            &json!([{ "type": "tool_result", "tool_use_id": id, "content": "written" }]),
        );
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.log("assistant", &json!([{ "type": "text", "text": text }]));
    }

    pub(crate) fn stops(&self) {
        self.tell(json!({ "hook_event_name": "Stop" }));
    }

    /// Returns the messages in the ledger without reading the log again.
    fn ledger(&self) -> Vec<String> {
        let ledger =
            rusqlite::Connection::open(self.session.base().join(".takeback/state.db")).unwrap();
        let mut statement = ledger
            .prepare("SELECT role || ' ' || ifnull(content, 'call') || iif(undone, ' (undone)', '') FROM messages
                 WHERE session = (SELECT key FROM sessions WHERE id = 'claude:live') ORDER BY seq")
            .unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

#[test]
fn a_conversation_is_recorded_while_the_agent_is_working() {
    let session = Session::new();
    let mut claude = Claude::new(&session);
    claude.hears("add a file");
    claude.writes("add a file", "a.txt", "a");
    claude.stops();
    // The agent logs its last message after the hook has run.
    claude.says("I added it.");
    // The next prompt may arrive before this answer is read.
    claude.hears("and another");
    claude.writes("and another", "b.txt", "b");
    claude.says("There you go.");
    claude.stops();
    let expected = [
        "user add a file",
        "assistant call",
        "tool written",
        "assistant I added it.",
        "user and another",
        "assistant call",
        "tool written",
        "assistant There you go.",
    ];
    eventually("all is in the ledger", || claude.ledger() == expected);
    let found = session.json(&["sessions", "search", "there you go"]);
    assert_eq!(found["results"][0]["session"], "claude:live");
    let shown = session.json(&["sessions", "show", "live", "--format", "json"]);
    assert_eq!((&shown["input_tokens"], &shown["model"]), (&json!(12), &json!("claude-x")));
    assert_eq!(shown["workspace"], json!(session.project()));
    assert_eq!(session.json(&["sessions", "import", "--from", "claude"])["messages"], 0);
    assert_eq!(session.json(&["sessions", "verify"])["whole"], true);
}

#[test]
fn a_search_finds_the_latest_messages() {
    let session = Session::new();
    let mut claude = Claude::new(&session);
    claude.hears("what is it?");
    claude.says("It is a marmot.");
    let found = session.json(&["sessions", "search", "marmot"]);
    assert_eq!(found["total"], 1);
}

#[test]
fn a_tree_counts_the_latest_messages() {
    let session = Session::new();
    let mut claude = Claude::new(&session);
    claude.hears("what is it?");
    claude.says("It is a marmot.");
    assert_eq!(session.json(&["sessions", "tree", "claude:live"])["message_count"], 2);
}

#[test]
fn rolled_back_messages_stay_undone() {
    let session = Session::new();
    session.write("a.txt", "old");
    let mut claude = Claude::new(&session);
    claude.hears("first");
    claude.writes("first", "a.txt", "one");
    claude.says("One.");
    claude.stops();
    eventually("the first turn is in", || claude.ledger().len() == 4);
    claude.hears("second");
    claude.writes("second", "a.txt", "two");
    claude.says("Two.");
    // The agent is still working, and its log has not been read yet.
    let view = session.json(&["rollback", "1"]);
    assert_eq!(session.read("a.txt"), "one");
    assert_eq!(view["undone_messages"], 4, "{view}");
    claude.stops();
    let expected = [
        "user first",
        "assistant call",
        "tool written",
        "assistant One.",
        "user second (undone)",
        "assistant call (undone)",
        "tool written (undone)",
        "assistant Two. (undone)",
    ];
    assert_eq!(claude.ledger(), expected);
    claude.hears("third");
    claude.says("Three.");
    claude.stops();
    let all = [expected.as_slice(), &["user third", "assistant Three."]].concat();
    eventually("the third turn is in", || claude.ledger() == all);
    assert_eq!(session.json(&["sessions", "search", "two"])["total"], 0);
}

#[test]
fn a_rollback_to_a_step_rewinds_the_conversation_to_its_call() {
    let session = Session::new();
    let mut claude = Claude::new(&session);
    claude.hears("go");
    claude.writes("go", "a.txt", "one");
    claude.says("Now the second.");
    claude.writes("go", "b.txt", "two");
    claude.says("Done.");
    let view = session.json(&["rollback", "1.2"]);
    assert_eq!(view["undone_messages"], 3, "{view}");
    let standing: Vec<String> =
        claude.ledger().into_iter().filter(|line| !line.ends_with("(undone)")).collect();
    assert_eq!(
        standing,
        ["user go", "assistant call", "tool written", "assistant Now the second."]
    );
}

/// When Droid runs a single task, it reports no prompts: they are only in its log.
#[test]
fn a_prompt_is_listed_even_if_it_is_known_only_from_the_log() {
    let session = Session::new();
    let log = session.base().join(".factory/sessions/p/d.jsonl");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let tell = |name: &str, more: Value| {
        let mut event = json!({ "session_id": "d", "transcript_path": log,
            "cwd": session.project(), "hook_event_name": name });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let output = hook(&session.base(), &["hook", "droid"], event.to_string().as_bytes());
        assert!(output.stderr.is_empty(), "{output:?}");
    };
    tell("SessionStart", json!({}));
    let now = takeback_ledger::Time::from(std::time::SystemTime::now()).rfc3339();
    let lines = [
        json!({ "type": "session_start", "id": "d", "title": "x", "cwd": session.project() }),
        json!({ "type": "message", "id": "1", "timestamp": now,
            "message": { "role": "user", "content": [{ "type": "text", "text": "write it down" }] } }),
    ];
    fs::write(&log, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let call = json!({ "tool_name": "Create", "tool_input": { "file_path": "a.txt" } });
    tell("PreToolUse", call.clone());
    session.write("a.txt", "a");
    tell("PostToolUse", call);
    tell("Stop", json!({}));
    eventually("the prompt is known", || rows(&session)[0]["prompt"] == "write it down");
    assert_eq!(session.json(&["rollback", "1"])["undone_messages"], 1);
}

/// Cline's hooks report neither the conversation nor the path of the log.
#[test]
fn a_log_is_found_even_if_no_hook_named_it() {
    let session = Session::new();
    let log = session.base().join(".cline/data/sessions/77_x/77_x.messages.json");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let now = takeback_ledger::Time::from(std::time::SystemTime::now()).0;
    let document = json!({ "sessionId": "77_x", "messages": [
        { "id": "1", "role": "user", "ts": now, "content": [
            { "type": "text", "text": "<user_input mode=\"act\">tidy up</user_input>" }] },
        { "id": "2", "role": "assistant", "ts": now + 5, "content": [
            { "type": "text", "text": "片付けました" }] }] });
    fs::write(&log, document.to_string()).unwrap();
    for event in ["TaskStart", "TaskComplete"] {
        let event = json!({ "hookName": event, "taskId": "conv", "timestamp": "",
            "sessionContext": { "rootSessionId": "77_x" }, "workspaceRoots": [session.project()] });
        let name = event["hookName"].as_str().unwrap().to_owned();
        hook(&session.base(), &["hook", "cline", &name], event.to_string().as_bytes());
    }
    eventually("it is found", || session.json(&["sessions", "search", "片付け"])["total"] == 1);
    let found = session.json(&["sessions", "search", "tidy"]);
    assert_eq!(found["results"][0]["session"], "cline:77_x");
}

#[test]
fn an_unreadable_log_does_not_stop_other_work() {
    let session = Session::new();
    let log =
        place_log(&session, "gemini/chats/real.jsonl", ".gemini/tmp/proj/chats/session-x.jsonl");
    let beside = log.with_file_name("3dc1d9c7");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("bad.json"), "{").unwrap();
    let tell = |event: &str| {
        let event = json!({
            "hook_event_name": event, "session_id": "3dc1d9c7", "prompt": "tidy up",
            "transcript_path": log, "cwd": session.project(),
        });
        hook(&session.base(), &["hook", "gemini"], event.to_string().as_bytes());
    };
    tell("BeforeAgent");
    session.json(&["checkpoint"]);
    let last_prune = session.base().join(".takeback/checkpoints/.last_prune");
    fs::remove_file(&last_prune).unwrap();
    tell("AfterAgent");
    eventually("the other one is read", || {
        session.json(&["sessions", "search", "\"All done.\""])["total"].as_u64() >= Some(1)
    });
    eventually("the store is looked after", || last_prune.exists());
}
