//! Reading agents' own logs, whole and in pieces.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use takeback_agents::{LOG_FORMATS, LogRef, ReadPage, log_format};
use takeback_ledger::{LogEntry, LogFact};
use tempfile::TempDir;

use crate::log_copy::{LogCopy, SeenEntries, growing_logs, logs_of, richest_log, show_entry};

#[test]
fn every_log_is_read_as_expected() {
    let mut all = String::new();
    for format in LOG_FORMATS {
        for source in logs_of(format.agent) {
            let copy = LogCopy::new(format.agent, &source);
            let mut seen = SeenEntries::default();
            copy.read_to_end(&mut seen, None);
            assert_eq!(seen.bad_lines, [0; 0], "{}", source.display());
            let name = source.file_stem().unwrap().to_str().unwrap();
            all += &format!("== {} {name}\n{}", format.agent, seen.show_all());
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/expected_log_entries.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &all).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap();
    for (seen, expected) in all.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}

/// Lists offsets to stop at: line endings, the offsets next to them, and some offsets in between.
fn places_to_stop(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let around = ends.flat_map(|end| [end.saturating_sub(1), end, end + 1]);
    let mut places: Vec<usize> = around.chain((0..bytes.len()).step_by(997)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn reading_a_log_in_two_parts_yields_the_same_entries() {
    for (agent, source) in growing_logs() {
        let bytes = fs::read(&source).unwrap();
        let copy = LogCopy::new(agent, &source);
        let mut whole = SeenEntries::default();
        let end = copy.read_to_end(&mut whole, None);
        for place in places_to_stop(&bytes) {
            fs::write(&copy.log.path, &bytes[..place]).unwrap();
            let mut seen = SeenEntries::default();
            let from = copy.read_to_end(&mut seen, None);
            fs::write(&copy.log.path, &bytes).unwrap();
            assert_eq!(copy.read_to_end(&mut seen, Some(from)), end, "{agent} {place}");
            assert_eq!(seen, whole, "{agent} {place}");
        }
    }
}

#[test]
fn reading_a_log_in_small_pieces_yields_the_same_entries() {
    for (agent, source) in
        growing_logs().into_iter().filter(|(_, source)| source.ends_with("rich.jsonl"))
    {
        let bytes = fs::read(&source).unwrap();
        let copy = LogCopy::new(agent, &source);
        let mut whole = SeenEntries::default();
        copy.read_to_end(&mut whole, None);
        let (mut seen, mut from) = (SeenEntries::default(), None);
        for length in (1..bytes.len()).step_by(7).chain([bytes.len()]) {
            fs::write(&copy.log.path, &bytes[..length]).unwrap();
            from = Some(copy.read_to_end(&mut seen, from));
        }
        assert_eq!(seen, whole, "{agent}");
    }
}

#[test]
fn a_rewritten_log_is_read_from_its_beginning() {
    let source = &richest_log();
    let copy = LogCopy::new("claude", source);
    let bytes = fs::read(source).unwrap();
    let (mut whole, mut seen) = (SeenEntries::default(), SeenEntries::default());
    let end = copy.read_to_end(&mut whole, None);
    // The log is replaced by a shorter one, then by one of the same length with different content.
    let last = bytes.iter().rposition(|byte| *byte == b'{').unwrap();
    for rewritten in [
        bytes[..last].to_vec(),
        bytes.iter().map(|byte| if *byte == b'0' { b'1' } else { *byte }).collect(),
    ] {
        fs::write(&copy.log.path, rewritten).unwrap();
        let read = copy.read_page(Some(end.clone()));
        assert!(!read.page.entries.is_empty());
        assert_eq!(read.page.from.as_ref(), Some(&end));
        read.page.entries.into_iter().for_each(|entry| seen.add_entry(entry));
    }
    fs::write(&copy.log.path, &bytes).unwrap();
    assert!(copy.read_page(Some(end.clone())).page.entries.is_empty());
    assert_eq!(copy.read_page(Some(end.clone())).page.to, end);
}

#[test]
fn a_log_that_does_not_exist_yet_is_empty() {
    let format = log_format("claude").unwrap();
    let directory = TempDir::new().unwrap();
    let log = LogRef { path: directory.path().join("later.jsonl"), session: None };
    let read = format.read_page(&log, None).unwrap();
    assert_eq!((read.page.entries.len(), read.page.to.offset, read.has_more), (0, 0, false));
    fs::copy(richest_log(), &log.path).unwrap();
    assert!(!format.read_page(&log, Some(read.page.to)).unwrap().page.entries.is_empty());
}

#[test]
fn bad_lines_are_counted_and_do_not_affect_others() {
    let source = &richest_log();
    let copy = LogCopy::new("claude", source);
    let mut whole = SeenEntries::default();
    copy.read_to_end(&mut whole, None);
    let text = fs::read_to_string(source).unwrap();
    let mut lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
    let deep = "[".repeat(100_000);
    lines.insert(3, b"{\"type\": \"user\", \"uuid");
    lines.insert(6, b"\xff\xfe\x00");
    lines.insert(7, b"");
    lines.insert(9, deep.as_bytes());
    fs::write(&copy.log.path, lines.join(&b'\n')).unwrap();
    let mut seen = SeenEntries::default();
    copy.read_to_end(&mut seen, None);
    assert_eq!(seen.bad_lines, [4, 7, 10]);
    assert_eq!(seen.entries, whole.entries);
}

#[test]
fn a_lone_surrogate_is_replaced() {
    let copy = LogCopy::new("claude", &richest_log());
    let line = br#"{"type":"user","uuid":"x","sessionId":"s","message":{"content":"cut \ud83d"}}"#;
    fs::write(&copy.log.path, line).unwrap();
    let read = copy.read_page(None);
    assert!(show_entry(read.page.entries.last().unwrap()).contains("cut \u{fffd}"));
}

#[test]
fn a_long_log_is_read_in_pages() {
    let source = &richest_log();
    let copy = LogCopy::new("claude", source);
    let mut long = Vec::new();
    for number in 0..40 {
        let line = format!(
            r#"{{"type":"user","uuid":"{number}","sessionId":"s","message":{{"content":"{}"}}}}"#,
            "x".repeat(300_000)
        );
        long.extend_from_slice(line.as_bytes());
        long.push(b'\n');
    }
    // This line is very long, and is not JSON.
    long.extend(std::iter::repeat_n(b'y', 40 << 20));
    long.extend_from_slice(b"\n{\"type\":\"user\",\"uuid\":\"last\",\"sessionId\":\"s\",\"message\":{\"content\":\"end\"}}\n");
    fs::write(&copy.log.path, &long).unwrap();
    let first = copy.read_page(None);
    assert!(first.has_more && first.page.entries.len() < 20);
    let mut seen = SeenEntries::default();
    copy.read_to_end(&mut seen, None);
    assert_eq!((seen.origins.len(), seen.bad_lines), (41, vec![41]));
    drop(copy.directory);
}

#[test]
fn reading_a_document_continues_after_the_last_known_message() {
    let copy = LogCopy::new("cline", &logs_of("cline")[0]);
    let whole: Value = serde_json::from_slice(&fs::read(&copy.log.path).unwrap()).unwrap();
    let mut part = whole.clone();
    part["messages"].as_array_mut().unwrap().truncate(2);
    fs::write(&copy.log.path, part.to_string()).unwrap();
    let first = copy.read_page(None);
    fs::write(&copy.log.path, "{\"messages\": [").unwrap();
    assert!(copy.format.read_page(&copy.log, Some(first.page.to.clone())).is_err());
    fs::write(&copy.log.path, whole.to_string()).unwrap();
    let second = copy.read_page(Some(first.page.to.clone()));
    // An entry that was deleted from the ledger in the meantime must not reappear.
    let is_known = |entry: &LogEntry| first.page.entries.iter().any(|known| known == entry);
    assert!(!second.page.entries.iter().any(is_known));
    let mut parts = SeenEntries::default();
    first
        .page
        .entries
        .into_iter()
        .chain(second.page.entries)
        .for_each(|entry| parts.add_entry(entry));
    let mut all = SeenEntries::default();
    let end = copy.read_to_end(&mut all, None);
    assert_eq!(parts, all);
    assert_eq!(copy.read_page(Some(end.clone())).page.to, end);
}

#[test]
fn opencode_is_read_while_it_is_writing() {
    let copy = LogCopy::new("opencode", &logs_of("opencode")[0]);
    let mut whole = SeenEntries::default();
    let end = copy.read_to_end(&mut whole, None);
    // The agent continues to write. An incomplete message is not read yet.
    let agent = rusqlite::Connection::open(&copy.log.path).unwrap();
    let session = copy.log.session.clone().unwrap();
    let insert = "INSERT INTO message VALUES (?1, ?2, 1794811960000, 1794811960000, ?3)";
    agent.execute(insert, ["msg_2", &session, r#"{"role":"user"}"#]).unwrap();
    assert_eq!(copy.read_page(Some(end.clone())).page.to, end);
    let part = "INSERT INTO part VALUES (?1, ?2, ?3, 0, 0, ?4)";
    agent.execute(part, ["prt_2", "msg_2", &session, r#"{"type":"text","text":"more"}"#]).unwrap();
    agent.execute(insert, ["msg_3", &session, r#"{"role":"assistant","time":{}}"#]).unwrap();
    agent.execute_batch("BEGIN IMMEDIATE").unwrap();
    let read = copy.read_page(Some(end));
    assert_eq!(count_messages(&read), 1);
    agent.execute_batch("COMMIT").unwrap();
    let done = r#"{"role":"assistant","time":{"completed":1}}"#;
    agent.execute("UPDATE message SET data = ?1 WHERE id = 'msg_3'", [done]).unwrap();
    agent.execute(part, ["prt_3", "msg_3", &session, r#"{"type":"text","text":"done"}"#]).unwrap();
    let read = copy.read_page(Some(read.page.to));
    assert_eq!(count_messages(&read), 1);
    let end = read.page.to;
    assert_eq!(copy.read_page(Some(end.clone())).page.to, end);
    // A message that was cut off does not block later ones.
    agent.execute(insert, ["msg_4", &session, r#"{"role":"assistant","time":{}}"#]).unwrap();
    agent.execute(insert, ["msg_5", &session, r#"{"role":"user"}"#]).unwrap();
    agent
        .execute(part, ["prt_5", "msg_5", &session, r#"{"type":"text","text":"hello?"}"#])
        .unwrap();
    assert_eq!(copy.read_page(Some(end.clone())).page.to, end);
    agent.execute(insert, ["msg_6", &session, done]).unwrap();
    assert_eq!(count_messages(&copy.read_page(Some(end))), 1);
}

fn count_messages(read: &ReadPage) -> usize {
    let is_message = |entry: &&LogEntry| matches!(entry.fact, LogFact::Message(_));
    read.page.entries.iter().filter(is_message).count()
}

#[test]
fn the_logs_of_a_session_are_found() {
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
        let log = claude.logs_of_session(session, named.as_deref(), root);
        let relative = |log: LogRef| log.path.strip_prefix(root).unwrap().display().to_string();
        log.into_iter().map(relative).collect::<Vec<_>>()
    };
    let both = ["-PROJECT/one/subagents/agent-a.jsonl", "-PROJECT/one.jsonl"];
    assert_eq!(of("one", Some(both[1])), both);
    assert_eq!(of("one/a", None), both);
    assert_eq!(of("two", Some("-PROJECT/two.jsonl")), ["-PROJECT/two.jsonl"]);
    assert_eq!(claude.find_logs(root).unwrap().len(), 3);
}

#[test]
fn a_pipe_is_not_opened() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    for agent in ["claude", "cline"] {
        let log = LogRef { path: path.clone(), session: None };
        assert!(log_format(agent).unwrap().read_page(&log, None).is_err(), "{agent}");
    }
}

#[test]
fn a_line_that_never_ends_is_read_only_once() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    fs::write(&path, "").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(70 << 20).unwrap();
    let log = LogRef { path, session: None };
    let format = log_format("claude").unwrap();
    let read = format.read_page(&log, None).unwrap();
    assert_eq!((read.page.to.offset, read.bad_lines), (70 << 20, vec![1]));
    let again = format.read_page(&log, Some(read.page.to.clone())).unwrap();
    assert_eq!(again.page.to, read.page.to);
}

#[test]
fn the_rest_of_a_line_that_is_too_long_is_not_another_line() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("x.jsonl");
    fs::write(&path, "").unwrap();
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    file.set_len(70 << 20).unwrap();
    let log = LogRef { path, session: None };
    let format = log_format("claude").unwrap();
    let mut read = format.read_page(&log, None).unwrap();
    assert_eq!(read.bad_lines, [1]);
    // The agent continues the line bit by bit, and then writes another one.
    for (more, bad_lines) in [("{\"a\": 1}", &[][..]), (" and the end\n", &[]), ("odd\n", &[2])] {
        file.write_all(more.as_bytes()).unwrap();
        read = format.read_page(&log, Some(read.page.to)).unwrap();
        assert_eq!((read.bad_lines.as_slice(), read.page.entries.len()), (bad_lines, 0), "{more}");
    }
    assert_eq!(read.page.to.state["line"], 2);
}
