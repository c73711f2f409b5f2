//! Agents' own logs: what they say, in whatever pieces they are read.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use takeback_agents::{Found, LOGS, LogFormat, Read, log_format};
use takeback_ledger::{
    Bookmark, Ledger, LogEntry, MessageRecord, Options, SearchOptions, Time, Told, Which,
};
use tempfile::TempDir;

/// The logs of an agent: files, or for opencode what makes its database.
fn logs_of(agent: &str) -> Vec<PathBuf> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, files) } else { files.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(agent);
    let mut files = Vec::new();
    walk(&root, &mut files);
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_beside = name.ends_with(".settings.json")
            || (agent == "cline" && !name.ends_with(".messages.json"));
        !name.starts_with('.') && !is_beside
    };
    files.retain(is_log);
    files.sort();
    files
}

/// The log with the most kinds of entries.
fn rich() -> PathBuf {
    logs_of("claude").into_iter().find(|path| path.ends_with("rich.jsonl")).unwrap()
}

/// Where a log is while a test changes it.
struct Copy {
    directory: TempDir,
    found: Found,
    format: &'static LogFormat,
}

impl Copy {
    fn of(agent: &str, source: &Path) -> Copy {
        let format = log_format(agent).unwrap();
        let directory = TempDir::new().unwrap();
        let name = source.file_name().unwrap();
        if source.extension() == Some("sql".as_ref()) {
            let path = directory.path().join("opencode.db");
            let database = rusqlite::Connection::open(&path).unwrap();
            database.execute_batch("PRAGMA journal_mode = WAL").unwrap();
            database.execute_batch(&fs::read_to_string(source).unwrap()).unwrap();
            let found = format.find(&path).unwrap().remove(0);
            return Copy { directory, found, format };
        }
        let path = directory.path().join(name);
        fs::copy(source, &path).unwrap();
        // What belongs to it is beside it.
        for other in [source.with_extension("settings.json"), source.with_file_name("real.json")] {
            if other.exists() && other != source {
                fs::copy(&other, directory.path().join(other.file_name().unwrap())).unwrap();
            }
        }
        if agent == "gemini" {
            fs::write(directory.path().join(".project_root"), "/PROJECT\n").unwrap();
        }
        Copy { directory, found: Found { path, session: None }, format }
    }

    fn read(&self, from: Option<Bookmark>) -> Read {
        self.format.read(&self.found, from).unwrap()
    }

    /// Everything from a bookmark on, each entry once, and where it ended.
    fn read_on(&self, seen: &mut Seen, from: Option<Bookmark>) -> Bookmark {
        let mut from = from;
        loop {
            let read = self.read(from);
            seen.bad.extend(read.bad);
            read.page.entries.into_iter().for_each(|entry| seen.add(entry));
            from = Some(read.page.to.clone());
            if !read.more {
                return read.page.to;
            }
        }
    }
}

/// What the ledger would have: sessions and entries, each once.
#[derive(Default, Debug, PartialEq)]
struct Seen {
    entries: Vec<LogEntry>,
    origins: HashSet<(String, String)>,
    bad: Vec<u64>,
}

impl Seen {
    fn add(&mut self, entry: LogEntry) {
        let is_counted = !matches!(entry.told, Told::Session(_) | Told::Outcome { .. });
        let origin = (entry.session.clone(), entry.origin.clone());
        if !is_counted || self.origins.insert(origin) {
            self.entries.push(entry);
        }
    }

    fn shown(&self) -> String {
        self.entries.iter().map(|entry| shown(entry) + "\n").collect()
    }
}

/// An entry on a line.
fn shown(entry: &LogEntry) -> String {
    let text = |content: &Option<Value>| match content {
        None => "-".to_owned(),
        Some(content) => content.to_string(),
    };
    let told = match &entry.told {
        Told::Session(record) => {
            let facts = [
                ("in", &record.workspace),
                ("branch", &record.git_branch),
                ("model", &record.model),
                ("title", &record.title),
                ("for", &record.parent_session_id),
            ];
            let known = facts.iter().filter_map(|(what, fact)| Some((what, fact.as_ref()?)));
            known.map(|(what, fact)| format!(" {what} {fact}")).collect::<String>()
        }
        Told::Message(message) => {
            let mut line = format!(" {} {}", message.role, text(&message.content));
            if let Some(thoughts) = &message.reasoning {
                line += &format!(" thinks {thoughts:?}");
            }
            if let Some(calls) = &message.tool_calls {
                line += &format!(" calls {calls}");
            }
            if let Some(call) = &message.tool_call_id {
                line += &format!(" of {call} {}", message.tool_name.as_deref().unwrap_or("?"));
            }
            line
        }
        Told::Summary(message) => format!(" summary {}", text(&message.content)),
        Told::Usage(usage) => format!(
            " {} × {}: {} in, {} out, {} and {} cached, {} thought",
            usage.api_call_count,
            usage.model,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens
        ),
        Told::Outcome { call, outcome } => format!(" {call} → {outcome}"),
    };
    let time = entry.time.map_or("-".to_owned(), takeback_ledger::Time::rfc3339);
    format!("{} {} {time}{told}", entry.session, entry.origin)
}

#[test]
fn every_log_is_understood() {
    let mut all = String::new();
    for format in LOGS {
        for source in logs_of(format.agent) {
            let copy = Copy::of(format.agent, &source);
            let mut seen = Seen::default();
            copy.read_on(&mut seen, None);
            assert_eq!(seen.bad, [0; 0], "{}", source.display());
            let name = source.file_stem().unwrap().to_str().unwrap();
            all += &format!("== {} {name}\n{}", format.agent, seen.shown());
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/logs.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &all).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap();
    for (seen, expected) in all.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}

/// Logs that only grow.
fn growing() -> Vec<(&'static str, PathBuf)> {
    let all = LOGS.iter().flat_map(|format| {
        logs_of(format.agent).into_iter().map(move |source| (format.agent, source))
    });
    all.filter(|(_, source)| source.extension() == Some("jsonl".as_ref())).collect()
}

/// Places to stop at: the ends of lines, what is around them, and some in between.
fn places(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let around = ends.flat_map(|end| [end.saturating_sub(1), end, end + 1]);
    let mut places: Vec<usize> = around.chain((0..bytes.len()).step_by(997)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn in_two_parts_a_log_says_the_same() {
    for (agent, source) in growing() {
        let bytes = fs::read(&source).unwrap();
        let copy = Copy::of(agent, &source);
        let mut whole = Seen::default();
        let end = copy.read_on(&mut whole, None);
        for place in places(&bytes) {
            fs::write(&copy.found.path, &bytes[..place]).unwrap();
            let mut seen = Seen::default();
            let from = copy.read_on(&mut seen, None);
            fs::write(&copy.found.path, &bytes).unwrap();
            assert_eq!(copy.read_on(&mut seen, Some(from)), end, "{agent} {place}");
            assert_eq!(seen, whole, "{agent} {place}");
        }
    }
}

#[test]
fn byte_by_byte_a_log_says_the_same() {
    for (agent, source) in
        growing().into_iter().filter(|(_, source)| source.ends_with("rich.jsonl"))
    {
        let bytes = fs::read(&source).unwrap();
        let copy = Copy::of(agent, &source);
        let mut whole = Seen::default();
        copy.read_on(&mut whole, None);
        let (mut seen, mut from) = (Seen::default(), None);
        for length in (1..bytes.len()).step_by(7).chain([bytes.len()]) {
            fs::write(&copy.found.path, &bytes[..length]).unwrap();
            from = Some(copy.read_on(&mut seen, from));
        }
        assert_eq!(seen, whole, "{agent}");
    }
}

#[test]
fn a_log_that_was_written_anew_is_read_from_its_beginning() {
    let source = &rich();
    let copy = Copy::of("claude", source);
    let bytes = fs::read(source).unwrap();
    let (mut whole, mut seen) = (Seen::default(), Seen::default());
    let end = copy.read_on(&mut whole, None);
    // Shorter, and as long but another one.
    let last = bytes.iter().rposition(|byte| *byte == b'{').unwrap();
    for rewritten in [
        bytes[..last].to_vec(),
        bytes.iter().map(|byte| if *byte == b'0' { b'1' } else { *byte }).collect(),
    ] {
        fs::write(&copy.found.path, rewritten).unwrap();
        let read = copy.read(Some(end.clone()));
        assert!(!read.page.entries.is_empty());
        assert_eq!(read.page.from.as_ref(), Some(&end));
        read.page.entries.into_iter().for_each(|entry| seen.add(entry));
    }
    fs::write(&copy.found.path, &bytes).unwrap();
    assert!(copy.read(Some(end.clone())).page.entries.is_empty());
    assert_eq!(copy.read(Some(end.clone())).page.to, end);
}

#[test]
fn a_log_that_is_not_there_yet_is_empty() {
    let format = log_format("claude").unwrap();
    let directory = TempDir::new().unwrap();
    let found = Found { path: directory.path().join("later.jsonl"), session: None };
    let read = format.read(&found, None).unwrap();
    assert_eq!((read.page.entries.len(), read.page.to.offset, read.more), (0, 0, false));
    fs::copy(rich(), &found.path).unwrap();
    assert!(!format.read(&found, Some(read.page.to)).unwrap().page.entries.is_empty());
}

#[test]
fn bad_lines_are_counted_and_cost_only_themselves() {
    let source = &rich();
    let copy = Copy::of("claude", source);
    let mut whole = Seen::default();
    copy.read_on(&mut whole, None);
    let text = fs::read_to_string(source).unwrap();
    let mut lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
    let deep = "[".repeat(100_000);
    lines.insert(3, b"{\"type\": \"user\", \"uuid");
    lines.insert(6, b"\xff\xfe\x00");
    lines.insert(7, b"");
    lines.insert(9, deep.as_bytes());
    fs::write(&copy.found.path, lines.join(&b'\n')).unwrap();
    let mut seen = Seen::default();
    copy.read_on(&mut seen, None);
    assert_eq!(seen.bad, [4, 7, 10]);
    assert_eq!(seen.entries, whole.entries);
}

#[test]
fn half_a_character_is_mended() {
    let copy = Copy::of("claude", &rich());
    let line = br#"{"type":"user","uuid":"x","sessionId":"s","message":{"content":"cut \ud83d"}}"#;
    fs::write(&copy.found.path, line).unwrap();
    let read = copy.read(None);
    assert!(shown(read.page.entries.last().unwrap()).contains("cut \u{fffd}"));
}

#[test]
fn a_long_log_comes_in_parts() {
    let source = &rich();
    let copy = Copy::of("claude", source);
    let mut long = Vec::new();
    for number in 0..40 {
        let line = format!(
            r#"{{"type":"user","uuid":"{number}","sessionId":"s","message":{{"content":"{}"}}}}"#,
            "x".repeat(300_000)
        );
        long.extend_from_slice(line.as_bytes());
        long.push(b'\n');
    }
    // One that is nothing that anybody says.
    long.extend(std::iter::repeat_n(b'y', 40 << 20));
    long.extend_from_slice(b"\n{\"type\":\"user\",\"uuid\":\"last\",\"sessionId\":\"s\",\"message\":{\"content\":\"end\"}}\n");
    fs::write(&copy.found.path, &long).unwrap();
    let first = copy.read(None);
    assert!(first.more && first.page.entries.len() < 20);
    let mut seen = Seen::default();
    copy.read_on(&mut seen, None);
    assert_eq!((seen.origins.len(), seen.bad), (41, vec![41]));
    drop(copy.directory);
}

#[test]
fn a_document_is_read_on_from_its_last_message() {
    let copy = Copy::of("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&copy.found.path).unwrap()).unwrap();
    let mut part = whole.clone();
    part["messages"].as_array_mut().unwrap().truncate(2);
    fs::write(&copy.found.path, part.to_string()).unwrap();
    let first = copy.read(None);
    fs::write(&copy.found.path, "{\"messages\": [").unwrap();
    assert!(copy.format.read(&copy.found, Some(first.page.to.clone())).is_err());
    fs::write(&copy.found.path, whole.to_string()).unwrap();
    let second = copy.read(Some(first.page.to.clone()));
    // What was deleted meanwhile must not come in again.
    let is_known = |entry: &LogEntry| first.page.entries.iter().any(|known| known == entry);
    assert!(!second.page.entries.iter().any(is_known));
    let mut parts = Seen::default();
    first.page.entries.into_iter().chain(second.page.entries).for_each(|entry| parts.add(entry));
    let mut all = Seen::default();
    let end = copy.read_on(&mut all, None);
    assert_eq!(parts, all);
    assert_eq!(copy.read(Some(end.clone())).page.to, end);
}

#[test]
fn opencode_is_read_while_it_writes() {
    let copy = Copy::of("opencode", &logs_of("opencode")[0]);
    let mut whole = Seen::default();
    let end = copy.read_on(&mut whole, None);
    // The agent goes on: what is not complete waits.
    let agent = rusqlite::Connection::open(&copy.found.path).unwrap();
    let session = copy.found.session.clone().unwrap();
    let insert = "INSERT INTO message VALUES (?1, ?2, 1794811960000, 1794811960000, ?3)";
    agent.execute(insert, ["msg_2", &session, r#"{"role":"user"}"#]).unwrap();
    assert_eq!(copy.read(Some(end.clone())).page.to, end);
    let part = "INSERT INTO part VALUES (?1, ?2, ?3, 0, 0, ?4)";
    agent.execute(part, ["prt_2", "msg_2", &session, r#"{"type":"text","text":"more"}"#]).unwrap();
    agent.execute(insert, ["msg_3", &session, r#"{"role":"assistant","time":{}}"#]).unwrap();
    agent.execute_batch("BEGIN IMMEDIATE").unwrap();
    let read = copy.read(Some(end));
    assert_eq!(messages(&read), 1);
    agent.execute_batch("COMMIT").unwrap();
    let done = r#"{"role":"assistant","time":{"completed":1}}"#;
    agent.execute("UPDATE message SET data = ?1 WHERE id = 'msg_3'", [done]).unwrap();
    agent.execute(part, ["prt_3", "msg_3", &session, r#"{"type":"text","text":"done"}"#]).unwrap();
    let read = copy.read(Some(read.page.to));
    assert_eq!(messages(&read), 1);
    let end = read.page.to;
    assert_eq!(copy.read(Some(end.clone())).page.to, end);
    // One that was cut off is in nobody's way.
    agent.execute(insert, ["msg_4", &session, r#"{"role":"assistant","time":{}}"#]).unwrap();
    agent.execute(insert, ["msg_5", &session, r#"{"role":"user"}"#]).unwrap();
    agent
        .execute(part, ["prt_5", "msg_5", &session, r#"{"type":"text","text":"hello?"}"#])
        .unwrap();
    assert_eq!(copy.read(Some(end.clone())).page.to, end);
    agent.execute(insert, ["msg_6", &session, done]).unwrap();
    assert_eq!(messages(&copy.read(Some(end))), 1);
}

/// A ledger that a log is brought into again and again.
struct Kept {
    copy: Copy,
    ledger: Ledger,
}

impl Kept {
    fn of(agent: &str, source: &Path) -> Kept {
        let copy = Copy::of(agent, source);
        let path = copy.directory.path().join("state.db");
        let ledger = Ledger::open(&path, &Options::default()).unwrap();
        Kept { copy, ledger }
    }

    fn write(&self, bytes: &str) {
        fs::write(&self.copy.found.path, bytes).unwrap();
    }

    /// Gives the number of messages that are new.
    fn catch_up(&mut self) -> usize {
        let Copy { found, format, .. } = &self.copy;
        let root = |directory: &Path| directory.to_owned();
        format.catch_up(&mut self.ledger, found, &root, Time(0)).unwrap().taken.messages
    }

    fn texts(&self, session: &str, which: Which) -> Vec<String> {
        let text = |message: MessageRecord| match message.content {
            Some(Value::String(text)) => text,
            content => format!("{content:?}"),
        };
        self.ledger.messages(session, which).unwrap().into_iter().map(text).collect()
    }

    fn finds(&mut self, query: &str) -> bool {
        !self.ledger.search(query, &SearchOptions::default()).unwrap().results.is_empty()
    }
}

#[test]
fn a_title_that_comes_when_all_has_been_said_comes_in() {
    let mut kept = Kept::of("opencode", &logs_of("opencode")[0]);
    let session = kept.copy.found.session.clone().unwrap();
    let agent = rusqlite::Connection::open(&kept.copy.found.path).unwrap();
    let entitle = |title: &str| {
        agent.execute("UPDATE session SET title = ?1 WHERE id = ?2", [title, &session]).unwrap();
    };
    let id = format!("opencode:{session}");
    entitle("New session - 2026-11-16T06:52:18.555Z");
    assert!(kept.catch_up() > 0);
    assert_eq!(kept.ledger.session(&id).unwrap().title, None);
    entitle("Work on written.txt");
    assert_eq!(kept.catch_up(), 0);
    let title = kept.ledger.session(&id).unwrap().title;
    assert_eq!(title.as_deref(), Some("Work on written.txt"));
    let end = kept.ledger.bookmark(&kept.copy.found.name()).unwrap();
    assert_eq!(Some(kept.copy.read(end.clone()).page.to), end);
}

#[test]
fn cline_writes_its_last_message_again_when_there_is_more_of_it() {
    let mut kept = Kept::of("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&kept.copy.found.path).unwrap()).unwrap();
    let id = format!("cline:{}", whole["sessionId"].as_str().unwrap());
    let mut part = whole.clone();
    let last = part["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"] = json!([{ "type": "text", "text": "All d" }]);
    last["metrics"]["outputTokens"] = json!(2);
    kept.write(&part.to_string());
    kept.catch_up();
    assert!(kept.texts(&id, Which::All).contains(&"All d".to_owned()));
    kept.write(&whole.to_string());
    assert_eq!(kept.catch_up(), 0);
    assert!(kept.finds("\"all done\"") && !kept.finds("\"all d\""));
    let grown = kept.ledger.session(&id).unwrap();
    // As if it had been read once.
    let mut once = Kept::of("cline", &logs_of("cline")[0]);
    once.catch_up();
    assert_eq!(grown, once.ledger.session(&id).unwrap());
    let whole = once.ledger.messages(&id, Which::All).unwrap();
    assert_eq!(kept.ledger.messages(&id, Which::All).unwrap(), whole);
}

#[test]
fn a_summary_beside_a_document_comes_in_where_it_was_made() {
    let mut kept = Kept::of("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&kept.copy.found.path).unwrap()).unwrap();
    let id = format!("cline:{}", whole["sessionId"].as_str().unwrap());
    let about = json!({
        "kind": "compaction_summary", "summary": "They asked for work.", "generatedAt": 1_794_812_036_000_i64,
    });
    let text = json!([{ "type": "text", "text": "Context summary:\n\nThey asked for work." }]);
    let compaction = json!({
        "version": 1, "source_message_count": 5,
        "messages": [{ "role": "user", "content": text, "metadata": about }, whole["messages"][4]],
    });
    fs::write(kept.copy.directory.path().join("real.compaction.json"), compaction.to_string())
        .unwrap();
    kept.catch_up();
    assert_eq!(kept.texts(&id, Which::Current), ["They asked for work.", "All done."]);
    assert_eq!(kept.texts(&id, Which::All)[0], "Do the work");
    let mut more = whole.clone();
    let next =
        json!({ "id": "next", "role": "user", "content": "More", "ts": 1_794_812_040_000_i64 });
    more["messages"].as_array_mut().unwrap().push(next);
    kept.write(&more.to_string());
    assert_eq!(kept.catch_up(), 1);
    assert_eq!(kept.texts(&id, Which::Current), ["They asked for work.", "All done.", "More"]);
}

/// A log of Gemini's, line by line.
fn gemini(lines: &[Value]) -> String {
    let header = json!({ "sessionId": "g", "startTime": "2026-11-16T06:52:10Z", "kind": "main" });
    [header].iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

fn gemini_said(id: &str, text: &str, tokens: &Value) -> Value {
    json!({
        "id": id, "timestamp": "2026-11-16T06:52:12Z", "type": "gemini", "content": text,
        "thoughts": [], "tokens": tokens, "model": "m",
    })
}

#[test]
fn gemini_writes_a_message_again_when_there_is_more_of_it() {
    let prompt =
        json!({ "id": "1", "timestamp": "2026-11-16T06:52:11Z", "type": "user", "content": "Go" });
    let first = gemini_said("2", "Let me thi", &Value::Null);
    let second = gemini_said("2", "Let me think about it", &json!({ "input": 10, "output": 2 }));
    let third = json!({
        "id": "2", "type": "gemini", "model": "m",
        "content": [{ "text": "Let me think about it" }, { "functionCall": { "id": "c", "name": "ls" } }],
        "tokens": { "input": 10, "output": 5 },
        "toolCalls": [{ "id": "c", "name": "ls", "args": {} }],
    });
    let lines = [prompt, first, second, third];
    for parts in [[1, 2, 3, 4], [2, 2, 2, 4], [4, 4, 4, 4]] {
        let mut kept = Kept::of("gemini", &logs_of("gemini")[1]);
        for upto in parts {
            kept.write(&gemini(&lines[..upto]));
            kept.catch_up();
        }
        assert_eq!(kept.texts("gemini:g", Which::All)[..2], ["Go", "Let me think about it"]);
        assert!(kept.finds("think") && !kept.finds("thi"));
        let session = kept.ledger.session("gemini:g").unwrap();
        let (spent, calls) = (session.output_tokens, session.tool_call_count);
        assert_eq!((session.input_tokens, spent, session.api_call_count, calls), (10, 5, 1, 1));
        assert_eq!(session.message_count, 3);
    }
}

#[test]
fn gemini_sums_up() {
    let said = |id: &str, text: &str| gemini_said(id, text, &Value::Null);
    let user =
        |id: &str, text: &str| json!({ "id": id, "type": "user", "content": [{ "text": text }] });
    let snapshot = "<scratchpad>…</scratchpad><state_snapshot>They asked.</state_snapshot>";
    let kept_messages = json!([
        user("0", "<session_context>…"),
        user("s", snapshot),
        said("t", "Got it. Thanks for the additional context!"),
        user("u", "Go"),
        said("v", "Done"),
    ]);
    let lines = [
        user("1", "Go"),
        said("2", "Done"),
        json!({ "$set": { "messages": kept_messages } }),
        json!({ "$set": { "summary": "Go and be done" } }),
        user("3", "Again"),
        json!({ "$set": { "messages": kept_messages } }),
    ];
    let mut kept = Kept::of("gemini", &logs_of("gemini")[1]);
    for upto in 1..=lines.len() {
        kept.write(&gemini(&lines[..upto]));
        kept.catch_up();
    }
    assert_eq!(kept.texts("gemini:g", Which::All), ["Go", "Done", snapshot, "Again"]);
    assert_eq!(kept.texts("gemini:g", Which::Current), [snapshot, "Again"]);
    let title = kept.ledger.session("gemini:g").unwrap().title;
    assert_eq!(title.as_deref(), Some("Go and be done"));
}

fn messages(read: &Read) -> usize {
    let is_message = |entry: &&LogEntry| matches!(entry.told, Told::Message(_));
    read.page.entries.iter().filter(is_message).count()
}

#[test]
fn logs_are_found_by_the_sessions_they_are_of() {
    let directory = TempDir::new().unwrap();
    let root = directory.path();
    for file in [
        "-PROJECT/one.jsonl",
        "-PROJECT/one/subagents/agent-a.jsonl",
        "-PROJECT/one/tool-results/x.txt",
        "-PROJECT/two.jsonl",
    ] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "").unwrap();
    }
    let claude = log_format("claude").unwrap();
    let of = |session: &str, named: Option<&str>| {
        let named = named.map(|named| root.join(named));
        let found = claude.of_session(session, named.as_deref(), root);
        let relative = |found: Found| found.path.strip_prefix(root).unwrap().display().to_string();
        found.into_iter().map(relative).collect::<Vec<_>>()
    };
    let both = ["-PROJECT/one/subagents/agent-a.jsonl", "-PROJECT/one.jsonl"];
    assert_eq!(of("one", Some(both[1])), both);
    assert_eq!(of("one/a", None), both);
    assert_eq!(of("two", Some("-PROJECT/two.jsonl")), ["-PROJECT/two.jsonl"]);
    assert_eq!(claude.find(root).unwrap().len(), 3);
}

/// Any file in the place of a log.
fn read_anything(agent: &str, name: &str, bytes: &[u8]) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    let found = Found { path, session: Some("ses_x".into()).filter(|_| agent == "opencode") };
    let format = log_format(agent).unwrap();
    let mut from = None;
    loop {
        // It may be refused; it must not panic, and not go on for ever.
        let Ok(read) = format.read(&found, from) else { return };
        from = Some(read.page.to);
        if !read.more {
            return;
        }
    }
}

fn name_for(agent: &str) -> &'static str {
    match agent {
        "cline" => "x.messages.json",
        "opencode" => "opencode.db",
        _ => "x.jsonl",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        for format in LOGS {
            read_anything(format.agent, name_for(format.agent), &bytes);
        }
        read_anything("gemini", "x.json", &bytes);
    }

    #[test]
    fn damaged_logs_can_be_read(which in 0..64_usize, cuts in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..20)) {
        let logs: Vec<_> = LOGS.iter().flat_map(|format| logs_of(format.agent).into_iter().map(move |path| (format.agent, path))).collect();
        let (agent, source) = &logs[which % logs.len()];
        let mut bytes = fs::read(source).unwrap();
        for (at, byte) in cuts {
            let at = usize::from(at) * 7 % bytes.len();
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        read_anything(agent, source.file_name().unwrap().to_str().unwrap(), &bytes);
    }

    /// Right JSON, wrong fields.
    #[test]
    fn odd_records_can_be_read(which in 0..64_usize, line in any::<u16>(), at in any::<u16>(), with in crate::fuzz::any_json()) {
        let logs = growing();
        let (agent, source) = &logs[which % logs.len()];
        let text = fs::read_to_string(source).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let index = usize::from(line) % lines.len();
        let mut value: Value = serde_json::from_str(&lines[index]).unwrap();
        crate::fuzz::mutate(&mut value, &mut (usize::from(at) % 40), Some(&with));
        lines[index] = value.to_string();
        read_anything(agent, name_for(agent), lines.join("\n").as_bytes());
    }
}
