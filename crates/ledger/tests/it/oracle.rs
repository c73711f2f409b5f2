//! A search finds exactly the messages that match by definition. The tests compare the search with
//! a scan of all messages, for generated messages and queries.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use takeback_ledger::{MessageRecord, SearchOptions, matches};

use crate::support::{Fixture, at, message};

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

fn any_text() -> impl Strategy<Value = String> {
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
        _ => message("user", &format!("{first}{second}")),
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

fn find_by_search(fixture: &mut Fixture, query: &str) -> BTreeSet<i64> {
    let options = SearchOptions { limit: 1_000, ..SearchOptions::default() };
    let outcome = fixture.ledger.search(query, &options).unwrap();
    assert_eq!(outcome.total, outcome.results.len());
    outcome.results.iter().map(|hit| hit.message).collect()
}

fn case_count() -> u32 {
    std::env::var("TAKEBACK_SEARCH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count()))]

    #[test]
    fn the_index_finds_what_a_scan_finds(
        messages in proptest::collection::vec(any_message(), 1..40),
        split in 0..40_usize,
        queries in proptest::collection::vec(any_query(), 1..40),
    ) {
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        let split = split.min(messages.len());
        fixture.ledger.append("s", &messages[..split], at(1)).unwrap();
        fixture.ledger.optimize(&|_| {}).unwrap();
        // The other messages stay in the tail.
        fixture.ledger.append("s", &messages[split..], at(2)).unwrap();
        for query in &queries {
            let expected = find_by_definition(&messages, query);
            prop_assert_eq!(find_by_search(&mut fixture, query), expected, "{:?}", query);
        }
    }

    #[test]
    fn stray_punctuation_does_not_prevent_a_match(
        words in proptest::collection::vec((stray(), select(WORDS), stray(), stray()), 1..5),
        text in any_text(),
    ) {
        let plain: Vec<&str> = words.iter().map(|(_, word, ..)| *word).collect();
        let plain = plain.join(" ");
        let decorated: Vec<String> = words
            .iter()
            .map(|(before, word, after, between)| format!("{before}{word}{after} {between}"))
            .collect();
        let decorated = decorated.join(" ");
        for text in [&text, &plain] {
            if matches(&plain, &[text]) {
                prop_assert!(matches(&decorated, &[text]), "{decorated:?} in {text:?}");
            }
        }
    }
}

const WORDS: &[&str] = &["a", "b", "cat", "Cat", "cafe", "main.rs", "chat-send", "中文", "v2"];

/// Generates punctuation that has no meaning around a word.
fn stray() -> impl Strategy<Value = String> {
    "[(){}<>^~!?,;:'`|\\[\\]]{0,3}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn any_text_is_a_query(
        anything in proptest::collection::vec(any::<String>(), 20),
        pieces in proptest::collection::vec(r#"[ ()"*NOTRAD{}^~a-c.-]{0,60}"#, 100),
    ) {
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        fixture.say("s", "user", "a b c");
        fixture.ledger.optimize(&|_| {}).unwrap();
        for query in anything.iter().chain(&pieces) {
            prop_assert!(fixture.ledger.search(query, &SearchOptions::default()).is_ok());
        }
    }
}
