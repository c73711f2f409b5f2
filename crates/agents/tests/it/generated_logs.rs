//! Made-up transcripts for tests, in the formats of all agents.
//!
//! Each text in a transcript occurs only once. A test can therefore find out which messages a copy
//! has by searching for their texts, without takeback's parser.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use takeback_agents::LogRef;

/// The id of every session.
pub(crate) const ID: &str = "01a1e320-90bc-72d0-bcd8-7131a36ab0a7";

/// A step in the history of a session.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A prompt, some calls (all in one reply or one after another), and an answer.
    Turn {
        calls: u8,
        together: bool,
    },
    /// A message of a subagent.
    Child,
    /// A record that takeback does not know.
    Unknown,
    Compaction,
    /// The user returns to the end of an earlier turn, inside the agent.
    Rewind(usize),
}

/// A text in a transcript.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) is_prompt: bool,
    /// False if the text belongs to a subagent.
    pub(crate) is_own: bool,
    /// False if the user has left this branch.
    pub(crate) is_live: bool,
    turn: usize,
}

/// A transcript that is being written.
pub(crate) struct Transcript {
    agent: &'static str,
    pub(crate) said: Vec<Said>,
    lines: Vec<Value>,
    /// The id of the entry that the next entry continues.
    leaf: Option<String>,
    /// The turns of the live branch, with their first and last entries.
    turns: Vec<(usize, String, Option<String>)>,
    entries: usize,
    last_turn: usize,
}

impl Transcript {
    pub(crate) fn new(agent: &'static str, steps: &[Step]) -> Transcript {
        let (said, lines, turns) = Default::default();
        let mut transcript =
            Transcript { agent, said, lines, leaf: None, turns, entries: 0, last_turn: 0 };
        transcript.lines.extend(transcript.header());
        transcript.take_turn(1, false);
        for step in steps {
            match step {
                Step::Turn { calls, together } => transcript.take_turn(*calls, *together),
                Step::Child => transcript.hear_child(),
                Step::Unknown => transcript.add_unknown(),
                Step::Compaction => transcript.compact(),
                Step::Rewind(turn) => transcript.rewind(*turn),
            }
        }
        transcript
    }

    /// True if the agent's log is a tree: each entry names the entry that it continues, and
    /// branches that the user has left stay in the log.
    pub(crate) fn is_tree(&self) -> bool {
        matches!(self.agent, "claude" | "qwen" | "pi")
    }

    fn header(&self) -> Option<Value> {
        Some(match self.agent {
            "codex" => json!({ "type": "session_meta", "ordinal": 0,
                "payload": { "id": ID, "session_id": ID, "cwd": "/p" } }),
            "gemini" => json!({ "sessionId": ID, "projectHash": "x", "kind": "main" }),
            "copilot" => json!({ "type": "session.start", "id": "start",
                "data": { "sessionId": ID, "version": 1, "context": { "cwd": "/p" } } }),
            "droid" => {
                json!({ "type": "session_start", "id": ID, "version": 2, "cwd": "/p" })
            }
            "pi" => json!({ "type": "session", "id": ID, "version": 3, "cwd": "/p" }),
            _ => return None,
        })
    }

    fn new_id(&mut self) -> String {
        self.entries += 1;
        match self.agent {
            "opencode" => format!("msg_{:012}abcdefgh", self.entries),
            _ => format!("entry-{}", self.entries),
        }
    }

    fn new_text(&mut self, kind: &str, is_own: bool) -> String {
        let text = format!("{kind}-{:06}-end", self.said.len());
        let (turn, is_prompt) = (self.last_turn, kind == "prompt");
        self.said.push(Said { text: text.clone(), is_prompt, is_own, is_live: true, turn });
        text
    }

    /// Adds an entry after the last one.
    fn push(&mut self, id: &str, fields: Value) {
        let parent = self.leaf.replace(id.to_owned());
        self.push_after(parent.as_deref(), id, fields);
    }

    fn push_after(&mut self, parent: Option<&str>, id: &str, fields: Value) {
        let ordinal = self.entries;
        let (key, parent_key) = match self.agent {
            "claude" | "qwen" => ("uuid", "parentUuid"),
            _ => ("id", "parentId"),
        };
        let mut line = match self.agent {
            "claude" => json!({ "sessionId": ID, "cwd": "/p", "version": "2.1.325",
                "isSidechain": false }),
            "qwen" => json!({ "sessionId": ID, "cwd": "/p", "version": "0.24.4" }),
            "codex" => json!({ "ordinal": ordinal }),
            _ => json!({}),
        };
        line["timestamp"] = json!("2026-11-16T06:52:04.800Z");
        line[key] = json!(id);
        line[parent_key] = json!(parent);
        let Value::Object(fields) = fields else { panic!("an entry is an object") };
        for (name, value) in fields {
            line[name] = value;
        }
        self.lines.push(line);
    }

    fn take_turn(&mut self, calls: u8, together: bool) {
        self.last_turn += 1;
        let id = self.new_id();
        let text = self.new_text("prompt", true);
        self.turns.push((self.last_turn, id.clone(), None));
        if self.agent == "codex" {
            let start = json!({ "type": "event_msg", "payload": { "type": "task_started" } });
            self.push(&format!("start-{}", self.last_turn), start);
            self.entries += 1;
        }
        let entry = self.user_entry(&text);
        self.push(&id, entry);
        match together {
            true => self.call(calls),
            false => (0..calls).for_each(|_| self.call(1)),
        }
        let id = self.new_id();
        let text = self.new_text("answer", true);
        let entry = self.answer_entry(&text);
        self.push(&id, entry);
        if self.agent == "codex" {
            self.entries += 1;
            let end = json!({ "type": "event_msg", "payload": { "type": "task_complete" } });
            self.push(&format!("end-{}", self.last_turn), end);
        }
        let leaf = self.leaf.clone();
        self.turns.last_mut().expect("the turn was added").2 = leaf;
    }

    fn user_entry(&self, text: &str) -> Value {
        let blocks = json!([{ "type": "text", "text": text }]);
        match self.agent {
            "claude" => json!({ "type": "user", "message": { "role": "user", "content": text } }),
            "qwen" => json!({ "type": "user", "message": { "parts": [{ "text": text }] } }),
            "gemini" => json!({ "type": "user", "content": [{ "text": text }] }),
            "codex" => json!({ "type": "response_item", "payload": { "type": "message",
                "role": "user", "content": [{ "type": "input_text", "text": text }] } }),
            "copilot" => json!({ "type": "user.message", "data": { "content": text } }),
            "cline" | "opencode" => json!({ "role": "user", "content": blocks }),
            _ => json!({ "type": "message", "message": { "role": "user", "content": blocks } }),
        }
    }

    fn answer_entry(&self, text: &str) -> Value {
        let blocks = json!([{ "type": "text", "text": text }]);
        let message = json!({ "role": "assistant", "content": blocks });
        match self.agent {
            "claude" => json!({ "type": "assistant", "message": message }),
            "qwen" => json!({ "type": "assistant", "message": { "parts": [{ "text": text }] } }),
            "gemini" => json!({ "type": "gemini", "content": text }),
            "codex" => json!({ "type": "response_item", "payload": { "type": "message",
                "role": "assistant", "content": [{ "type": "output_text", "text": text }] } }),
            "copilot" => json!({ "type": "assistant.message", "data": { "content": text } }),
            "cline" | "opencode" => message,
            _ => json!({ "type": "message", "message": message }),
        }
    }

    /// Adds calls that the model makes in one reply, and their results.
    fn call(&mut self, count: u8) {
        let mut calls = Vec::new();
        for _ in 0..count {
            let (input, output) = (self.new_text("input", true), self.new_text("output", true));
            calls.push((format!("call-{}", self.said.len()), input, output));
        }
        if calls.is_empty() {
            return;
        }
        match self.agent {
            // Each call and each result has an entry of its own. The entry of a result continues
            // the entry of its call.
            "claude" => {
                let response = format!("response-{}", self.entries);
                let mut parents = Vec::new();
                for (call, input, _) in &calls {
                    let id = self.new_id();
                    parents.push(id.clone());
                    let block = json!([{ "type": "tool_use", "id": call, "name": "Bash",
                        "input": { "command": input } }]);
                    let message = json!({ "role": "assistant", "id": response, "content": block });
                    self.push(&id, json!({ "type": "assistant", "message": message }));
                }
                for ((call, _, output), parent) in calls.iter().zip(parents) {
                    let id = self.new_id();
                    let block =
                        json!([{ "type": "tool_result", "tool_use_id": call, "content": output }]);
                    let message = json!({ "role": "user", "content": block });
                    self.leaf = Some(id.clone());
                    self.push_after(
                        Some(&parent),
                        &id,
                        json!({ "type": "user", "message": message }),
                    );
                }
            }
            "gemini" => {
                let response = |(call, _, output): &(String, String, String)| {
                    json!({ "functionResponse": { "id": call, "name": "sh",
                        "response": { "output": output } } })
                };
                let made: Vec<Value> = calls
                    .iter()
                    .map(|all| {
                        json!({ "id": all.0, "name": "sh", "args": { "command": all.1 },
                            "result": [response(all)] })
                    })
                    .collect();
                let id = self.new_id();
                self.push(&id, json!({ "type": "gemini", "content": "", "toolCalls": made }));
                let results: Vec<Value> = calls.iter().map(response).collect();
                let id = self.new_id();
                self.push(&id, json!({ "type": "user", "content": results }));
            }
            "opencode" => {
                let blocks: Vec<Value> = calls
                    .iter()
                    .map(|(call, input, output)| {
                        json!({ "type": "tool", "callID": call, "tool": "bash", "state": {
                            "status": "completed", "input": { "command": input },
                            "output": output } })
                    })
                    .collect();
                let id = self.new_id();
                self.push(&id, json!({ "role": "assistant", "content": blocks }));
            }
            _ => self.call_in_entries(&calls),
        }
    }

    /// Adds calls, either all in one entry or each in its own entry, and then adds each result in
    /// its own entry.
    fn call_in_entries(&mut self, calls: &[(String, String, String)]) {
        let made = |make: fn(&str, &str) -> Value| -> Vec<Value> {
            calls.iter().map(|(call, input, _)| make(call, input)).collect()
        };
        let use_block = |call: &str, input: &str| json!({ "type": "tool_use", "id": call, "name": "sh", "input": { "command": input } });
        let entries: Vec<Value> = match self.agent {
            "codex" => made(|call, input| {
                json!({ "type": "response_item", "payload": { "type": "function_call",
                    "call_id": call, "name": "exec_command", "arguments": input } })
            }),
            "qwen" => vec![json!({ "type": "assistant", "message": { "parts":
                made(|call, input| json!({ "functionCall": { "id": call, "name": "sh",
                    "args": { "command": input } } })) } })],
            "copilot" => {
                vec![json!({ "type": "assistant.message", "data": { "content": "", "toolRequests":
                made(|call, input| json!({ "toolCallId": call, "name": "bash",
                    "arguments": { "command": input } })) } })]
            }
            "cline" => vec![json!({ "role": "assistant", "content": made(use_block) })],
            "droid" => vec![json!({ "type": "message",
                "message": { "role": "assistant", "content": made(use_block) } })],
            _ => vec![json!({ "type": "message", "message": { "role": "assistant", "content":
                made(|call, input| json!({ "type": "toolCall", "id": call, "name": "bash",
                    "arguments": { "command": input } })) } })],
        };
        for entry in entries {
            let id = self.new_id();
            self.push(&id, entry);
        }
        for (call, _, output) in calls {
            let block = json!([{ "type": "tool_result", "tool_use_id": call, "content": output }]);
            let entry = match self.agent {
                "codex" => json!({ "type": "response_item", "payload": {
                    "type": "function_call_output", "call_id": call, "output": output } }),
                "qwen" => json!({ "type": "tool_result", "message": { "parts": [{
                    "functionResponse": { "id": call, "name": "sh",
                        "response": { "output": output } } }] } }),
                "copilot" => json!({ "type": "tool.execution_complete", "data": {
                    "toolCallId": call, "success": true, "result": { "content": output } } }),
                "cline" => json!({ "role": "user", "content": block }),
                "droid" => {
                    json!({ "type": "message", "message": { "role": "user", "content": block } })
                }
                _ => json!({ "type": "message", "message": { "role": "toolResult",
                    "toolCallId": call, "toolName": "bash",
                    "content": [{ "type": "text", "text": output }] } }),
            };
            let id = self.new_id();
            self.push(&id, entry);
        }
    }

    /// Adds a message of a subagent, if the agent's log contains such messages.
    fn hear_child(&mut self) {
        let fields = match self.agent {
            "claude" => json!({ "isSidechain": true, "agentId": "child" }),
            "copilot" => json!({}),
            _ => return,
        };
        let id = self.new_id();
        let text = self.new_text("child", false);
        let mut entry = self.answer_entry(&text);
        for (name, value) in fields.as_object().expect("it is one") {
            entry[name] = value.clone();
        }
        if self.agent == "copilot" {
            entry["data"]["parentToolCallId"] = json!("call-child");
        }
        self.push_after(None, &id, entry);
    }

    fn add_unknown(&mut self) {
        let id = self.new_id();
        let entry = json!({ "type": "unheard-of", "role": "unheard-of", "content": [] });
        match self.is_tree() {
            true => self.push(&id, entry),
            false => self.push_after(None, &id, entry),
        }
    }

    /// Adds a summary of the conversation, if the agent logs a summary as an entry.
    fn compact(&mut self) {
        if matches!(self.agent, "gemini" | "cline") {
            return;
        }
        let id = self.new_id();
        let text = self.new_text("summary", true);
        let blocks = json!([{ "type": "text", "text": text }]);
        let entry = match self.agent {
            "claude" => {
                // A new chain begins. Its first entry names the entry that it continues.
                let before = self.leaf.take();
                self.push(
                    &format!("boundary-{id}"),
                    json!({ "type": "system", "subtype": "compact_boundary",
                        "logicalParentUuid": before }),
                );
                json!({ "type": "user", "isCompactSummary": true,
                    "message": { "role": "user", "content": text } })
            }
            "qwen" => json!({ "type": "system", "subtype": "chat_compression",
                "systemPayload": { "compressedHistory": [{ "parts": [{ "text": text }] }] } }),
            "codex" => json!({ "type": "compacted", "payload": { "message": text } }),
            "copilot" => json!({ "type": "session.compaction_complete",
                "data": { "summaryContent": text } }),
            "droid" => json!({ "type": "compaction_state", "summaryText": text }),
            "opencode" => json!({ "role": "assistant", "summary": true, "content": blocks }),
            _ => json!({ "type": "compaction", "summary": text }),
        };
        self.push(&id, entry);
        let leaf = self.leaf.clone();
        self.turns.last_mut().expect("there is a turn").2 = leaf;
    }

    /// Goes back to the end of an earlier turn, if the agent's log can record that.
    fn rewind(&mut self, turn: usize) {
        let kept = turn % self.turns.len() + 1;
        let gone = self.turns.split_off(kept);
        let Some((_, first, _)) = gone.first() else { return };
        match self.agent {
            "claude" | "qwen" | "pi" => {
                self.leaf = self.turns.last().expect("a turn is kept").2.clone();
            }
            "gemini" => self.lines.push(json!({ "$rewindTo": first })),
            "codex" => {
                let count = gone.len();
                let id = self.new_id();
                self.push(
                    &id,
                    json!({ "type": "event_msg",
                        "payload": { "type": "thread_rolled_back", "num_turns": count } }),
                );
            }
            _ => {
                self.turns.extend(gone);
                return;
            }
        }
        let is_gone = |said: &Said| gone.iter().any(|(turn, ..)| said.turn == *turn);
        for said in self.said.iter_mut().filter(|said| is_gone(said)) {
            said.is_live = false;
        }
    }

    /// Writes the log where its agent would, with an incomplete line at its end, as if the agent
    /// were still writing.
    pub(crate) fn write(&self, directory: &Path) -> LogRef {
        let place = directory.join("sessions");
        let path = match self.agent {
            "codex" => place.join(format!("rollout-2026-11-16T06-52-04-{ID}.jsonl")),
            "copilot" => place.join(ID).join("events.jsonl"),
            "cline" => place.join(ID).join(format!("{ID}.messages.json")),
            "opencode" => place.join("opencode.db"),
            "qwen" => place.join("chats").join(format!("{ID}.jsonl")),
            _ => place.join(format!("{ID}.jsonl")),
        };
        fs::create_dir_all(path.parent().expect("it is in a directory")).unwrap();
        match self.agent {
            "opencode" => {
                self.fill_database(&path);
                return LogRef { path, session: Some(ID.to_owned()) };
            }
            "cline" => {
                let document = json!({ "version": 1, "sessionId": ID, "messages": self.lines });
                fs::write(&path, document.to_string()).unwrap();
                let about = json!({ "session_id": ID, "cwd": "/p" });
                fs::write(path.with_file_name(format!("{ID}.json")), about.to_string()).unwrap();
            }
            _ => {
                let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
                fs::write(&path, lines + "{\"type\":\"user\",\"to").unwrap();
            }
        }
        if self.agent == "copilot" {
            fs::write(path.with_file_name("workspace.yaml"), format!("id: {ID}\ncwd: /p\n"))
                .unwrap();
        }
        LogRef { path, session: None }
    }

    fn fill_database(&self, path: &Path) {
        let mut database = rusqlite::Connection::open(path).unwrap();
        let transaction = database.transaction().unwrap();
        transaction
            .execute_batch(
                "CREATE TABLE session (id, project_id, parent_id, directory, title, version, slug,
                     time_created);
                 CREATE TABLE message (id, session_id, time_created, data);
                 CREATE TABLE part (id, message_id, data);",
            )
            .unwrap();
        let sql = "INSERT INTO session VALUES (?1, 'x', NULL, '/p', 'title', '1.18.33', 's', 1)";
        transaction.execute(sql, [ID]).unwrap();
        for line in &self.lines {
            let id = line["id"].as_str().unwrap();
            let data = json!({ "role": line["role"], "summary": line["summary"],
                "time": { "created": 1, "completed": 2 } });
            let row = rusqlite::params![id, ID, data.to_string()];
            transaction.execute("INSERT INTO message VALUES (?1, ?2, 1, ?3)", row).unwrap();
            for (number, block) in line["content"].as_array().unwrap().iter().enumerate() {
                let part = format!("prt_{}{number}abcdefgh", &id[4..16]);
                let row = rusqlite::params![part, id, block.to_string()];
                transaction.execute("INSERT INTO part VALUES (?1, ?2, ?3)", row).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
}
