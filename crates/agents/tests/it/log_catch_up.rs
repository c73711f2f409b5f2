//! Reading logs into a ledger, again and again, while the agent is still writing them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use takeback_ledger::{Ledger, LedgerOptions, MessageFilter, MessageRecord, SearchOptions, Time};

use crate::log_copy::{LogCopy, logs_of};

/// A ledger into which a log is read repeatedly.
struct LedgerWithLog {
    copy: LogCopy,
    ledger: Ledger,
}

impl LedgerWithLog {
    fn new(agent: &str, source: &Path) -> LedgerWithLog {
        let copy = LogCopy::new(agent, source);
        let path = copy.directory.path().join("state.db");
        let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
        LedgerWithLog { copy, ledger }
    }

    fn write_log(&self, bytes: &str) {
        fs::write(&self.copy.log.path, bytes).unwrap();
    }

    /// Reads the log, and returns the number of new messages.
    fn catch_up(&mut self) -> usize {
        let LogCopy { log, format, .. } = &self.copy;
        let root = |directory: &Path| directory.to_owned();
        format.catch_up(&mut self.ledger, log, &root, Time(0)).unwrap().taken_in.messages
    }

    fn message_texts(&self, session: &str, which: MessageFilter) -> Vec<String> {
        let text = |message: MessageRecord| match message.content {
            Some(Value::String(text)) => text,
            content => format!("{content:?}"),
        };
        self.ledger.messages(session, which).unwrap().into_iter().map(text).collect()
    }

    fn finds_text(&mut self, query: &str) -> bool {
        !self.ledger.search(query, &SearchOptions::default()).unwrap().results.is_empty()
    }
}

#[test]
fn a_title_is_read_even_if_it_was_set_after_the_last_message() {
    let mut kept = LedgerWithLog::new("opencode", &logs_of("opencode")[0]);
    let session = kept.copy.log.session.clone().unwrap();
    let agent = rusqlite::Connection::open(&kept.copy.log.path).unwrap();
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
    let end = kept.ledger.bookmark(&kept.copy.log.name()).unwrap();
    assert_eq!(Some(kept.copy.read_page(end.clone()).page.to), end);
}

#[test]
fn a_message_that_cline_extends_is_replaced() {
    let mut kept = LedgerWithLog::new("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&kept.copy.log.path).unwrap()).unwrap();
    let id = format!("cline:{}", whole["sessionId"].as_str().unwrap());
    let mut part = whole.clone();
    let last = part["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"] = json!([{ "type": "text", "text": "All d" }]);
    last["metrics"]["outputTokens"] = json!(2);
    kept.write_log(&part.to_string());
    kept.catch_up();
    assert!(kept.message_texts(&id, MessageFilter::All).contains(&"All d".to_owned()));
    kept.write_log(&whole.to_string());
    assert_eq!(kept.catch_up(), 0);
    assert!(kept.finds_text("\"all done\"") && !kept.finds_text("\"all d\""));
    let grown = kept.ledger.session(&id).unwrap();
    // The result is the same as if the log had been read only once.
    let mut once = LedgerWithLog::new("cline", &logs_of("cline")[0]);
    once.catch_up();
    assert_eq!(grown, once.ledger.session(&id).unwrap());
    let whole = once.ledger.messages(&id, MessageFilter::All).unwrap();
    assert_eq!(kept.ledger.messages(&id, MessageFilter::All).unwrap(), whole);
}

#[test]
fn a_summary_in_a_separate_file_is_inserted_where_it_was_made() {
    let mut kept = LedgerWithLog::new("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&kept.copy.log.path).unwrap()).unwrap();
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
    assert_eq!(
        kept.message_texts(&id, MessageFilter::Current),
        ["They asked for work.", "All done."]
    );
    assert_eq!(kept.message_texts(&id, MessageFilter::All)[0], "Do the work");
    let mut more = whole.clone();
    let next =
        json!({ "id": "next", "role": "user", "content": "More", "ts": 1_794_812_040_000_i64 });
    more["messages"].as_array_mut().unwrap().push(next);
    kept.write_log(&more.to_string());
    assert_eq!(kept.catch_up(), 1);
    assert_eq!(
        kept.message_texts(&id, MessageFilter::Current),
        ["They asked for work.", "All done.", "More"]
    );
}

/// Builds a Gemini CLI log from its lines.
fn gemini_log(lines: &[Value]) -> String {
    let header = json!({ "sessionId": "g", "startTime": "2026-11-16T06:52:10Z", "kind": "main" });
    [header].iter().chain(lines).map(|line| format!("{line}\n")).collect()
}

fn gemini_message(id: &str, text: &str, tokens: &Value) -> Value {
    json!({
        "id": id, "timestamp": "2026-11-16T06:52:12Z", "type": "gemini", "content": text,
        "thoughts": [], "tokens": tokens, "model": "m",
    })
}

#[test]
fn a_message_that_gemini_extends_is_replaced() {
    let prompt =
        json!({ "id": "1", "timestamp": "2026-11-16T06:52:11Z", "type": "user", "content": "Go" });
    let first = gemini_message("2", "Let me thi", &Value::Null);
    let second = gemini_message("2", "Let me think about it", &json!({ "input": 10, "output": 2 }));
    let third = json!({
        "id": "2", "type": "gemini", "model": "m",
        "content": [{ "text": "Let me think about it" }, { "functionCall": { "id": "c", "name": "ls" } }],
        "tokens": { "input": 10, "output": 5 },
        "toolCalls": [{ "id": "c", "name": "ls", "args": {} }],
    });
    let lines = [prompt, first, second, third];
    for parts in [[1, 2, 3, 4], [2, 2, 2, 4], [4, 4, 4, 4]] {
        let mut kept = LedgerWithLog::new("gemini", &logs_of("gemini")[1]);
        for upto in parts {
            kept.write_log(&gemini_log(&lines[..upto]));
            kept.catch_up();
        }
        assert_eq!(
            kept.message_texts("gemini:g", MessageFilter::All)[..2],
            ["Go", "Let me think about it"]
        );
        assert!(kept.finds_text("think") && !kept.finds_text("thi"));
        let session = kept.ledger.session("gemini:g").unwrap();
        let (spent, calls) = (session.tokens.output, session.tool_call_count);
        assert_eq!((session.tokens.input, spent, session.api_call_count, calls), (10, 5, 1, 1));
        assert_eq!(session.message_count, 3);
    }
}

#[test]
fn a_gemini_summary_replaces_earlier_messages() {
    let said = |id: &str, text: &str| gemini_message(id, text, &Value::Null);
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
    let mut kept = LedgerWithLog::new("gemini", &logs_of("gemini")[1]);
    for upto in 1..=lines.len() {
        kept.write_log(&gemini_log(&lines[..upto]));
        kept.catch_up();
    }
    assert_eq!(
        kept.message_texts("gemini:g", MessageFilter::All),
        ["Go", "Done", snapshot, "Again"]
    );
    assert_eq!(kept.message_texts("gemini:g", MessageFilter::Current), [snapshot, "Again"]);
    let title = kept.ledger.session("gemini:g").unwrap().title;
    assert_eq!(title.as_deref(), Some("Go and be done"));
}
