//! A search finds exactly the messages that match by definition: it is compared with a scan of all
//! messages, for generated messages and queries.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use takeback_ledger::{MessageRecord, SearchOptions, matches};

use super::{Backend, at, create_session, say};

/// Parts of messages and queries. They are few and short, so that generated queries match generated
/// messages.
const PARTS: &[&str] = &[
    "a",
    "b",
    "ab",
    "cat",
    "Cat",
    "cats",
    "CAFÉ",
    "cafe",
    "é",
    "ß",
    "ss",
    "main.rs",
    "main",
    "rs",
    "C++",
    "c",
    "++",
    "chat-send",
    "chat",
    "x.y(z)",
    "50%",
    "150%",
    "中",
    "文",
    "中文",
    "文件夹",
    "数据库",
    "か",
    "が",
    "ガ",
    "ｶﾞ",
    "カ",
    "한",
    "한글",
    "\u{1112}\u{1161}\u{11ab}",
    "ไทย",
    "ย",
    "ภาษา",
    "👍",
    "👍🏽",
    "→",
    "“",
    "_",
    "-",
    ".",
    "*",
    "\"",
    "(",
    "0",
    "1",
    "v2",
    "हिन्दी",
    "न",
    "ﬁ",
    "fi",
    "İ",
    "ⅳ",
    "Ａ",
    "\u{301}",
    "\u{200b}",
    "\u{ad}",
    "averyveryverylongwordwithmorethanthirtytwocharacters",
    "averyveryverylongwordwithmorethanthirtytwo",
];

const GLUE: &[&str] = &["", " ", "\n", "  ", ".", "\t"];

const OPERATORS: &[&str] =
    &["OR", "NOT", "AND", "\"", "*", "\" \"", "\"a", "b\"", "*a*", "a*", "(", ")", "{"];

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    proptest::collection::vec((select(PARTS), select(GLUE)), 0..8)
        .prop_map(|parts| parts.into_iter().flat_map(|(part, glue)| [part, glue]).collect())
}

fn any_query() -> impl Strategy<Value = String> {
    let word = proptest::collection::vec(select(PARTS), 1..3).prop_map(|parts| parts.concat());
    let term = (word, 0..8).prop_map(|(word, shape)| match shape {
        0 => format!("{word}*"),
        1 => format!("*{word}*"),
        2 => format!("\"{word}\""),
        3 => format!("*{word}"),
        _ => word,
    });
    let phrase = any_text().prop_map(|text| format!("\"{text}\""));
    let operator = select(OPERATORS).prop_map(str::to_owned);
    let part = prop_oneof![6 => term, 1 => phrase, 2 => operator];
    proptest::collection::vec(part, 0..4).prop_map(|parts| parts.join(" "))
}

fn any_message() -> impl Strategy<Value = MessageRecord> {
    (any_text(), any_text(), 0..6).prop_map(|(first, second, shape)| match shape {
        0 => MessageRecord {
            role: "tool".into(),
            tool_name: Some(first),
            content: Some(Value::from(second)),
            ..MessageRecord::default()
        },
        1 => MessageRecord {
            role: "assistant".into(),
            tool_calls: Some(json!([{ "function": { "name": first,
                "arguments": json!({ "text": second }).to_string() } }])),
            ..MessageRecord::default()
        },
        2 => MessageRecord {
            role: "user".into(),
            content: Some(
                json!([{ "type": "text", "text": first }, { "type": "text", "text": second }]),
            ),
            ..MessageRecord::default()
        },
        _ => super::message("user", &format!("{first}{second}")),
    })
}

/// Collects the searchable text of a message without using the ledger's code.
fn texts(message: &MessageRecord) -> Vec<String> {
    let mut texts = Vec::new();
    match &message.content {
        Some(Value::String(text)) => texts.push(text.clone()),
        Some(Value::Array(blocks)) => texts.push(
            blocks
                .iter()
                .map(|block| block["text"].as_str().unwrap())
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        _ => {}
    }
    texts.extend(message.tool_name.clone());
    for call in message.tool_calls.iter().flat_map(|calls| calls.as_array().unwrap()) {
        let function = &call["function"];
        let arguments: Value =
            serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        let text = arguments["text"].as_str().unwrap();
        // Keys are sorted, so the arguments come before the name.
        texts.push(format!("{text}\n{}", function["name"].as_str().unwrap()));
    }
    texts
}

fn find_by_definition(messages: &[MessageRecord], query: &str) -> BTreeSet<i64> {
    let is_match = |message: &MessageRecord| {
        let texts = texts(message);
        matches(query, &texts.iter().map(String::as_str).collect::<Vec<_>>())
    };
    (1..).zip(messages).filter(|(_, message)| is_match(message)).map(|(seq, _)| seq).collect()
}

fn find_by_search(backend: &mut dyn Backend, query: &str) -> BTreeSet<i64> {
    let options = SearchOptions { limit: 1_000, ..SearchOptions::default() };
    let outcome = backend.search(query, &options);
    assert_eq!(outcome.total, outcome.results.len());
    outcome.results.iter().map(|hit| hit.message).collect()
}

/// Calls `check` with generated values. Deletes all sessions of the backend before each call.
fn check_cases<T: std::fmt::Debug>(
    backend: &mut dyn Backend,
    cases: u32,
    values: impl Strategy<Value = T>,
    check: impl Fn(&mut dyn Backend, T) -> Result<(), TestCaseError>,
) {
    let backend = RefCell::new(backend);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let result = runner.run(&values, |value| {
        let mut backend = backend.borrow_mut();
        for id in backend.ledger().session_ids(&[]).unwrap() {
            backend.ledger().delete_session(&id).unwrap();
        }
        check(&mut **backend, value)
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

pub(crate) fn a_search_finds_what_a_scan_finds(backend: &mut dyn Backend) {
    let values = (
        proptest::collection::vec(any_message(), 1..40),
        0..40_usize,
        proptest::collection::vec(any_query(), 1..40),
    );
    let cases = backend.cases();
    check_cases(backend, cases, values, |backend, (messages, split, queries)| {
        create_session(backend, "s");
        let split = split.min(messages.len());
        backend.ledger().append("s", &messages[..split], at(1)).unwrap();
        backend.ledger().optimize(&|_| {}).unwrap();
        // The remaining messages are not in the ledger's index yet.
        backend.ledger().append("s", &messages[split..], at(2)).unwrap();
        for query in &queries {
            let expected = find_by_definition(&messages, query);
            prop_assert_eq!(find_by_search(backend, query), expected, "{:?}", query);
        }
        Ok(())
    });
}

pub(crate) fn any_text_can_be_searched_for(backend: &mut dyn Backend) {
    let values = (
        proptest::collection::vec(any::<String>(), 20),
        proptest::collection::vec(r#"[ ()"*NOTRAD{}^~a-c.-]{0,60}"#, 30),
    );
    let cases = backend.cases().min(10);
    check_cases(backend, cases, values, |backend, (anything, pieces)| {
        create_session(backend, "s");
        say(backend, "s", "user", "a b c");
        for query in anything.iter().chain(&pieces) {
            backend.search(query, &SearchOptions::default());
        }
        Ok(())
    });
}
