//! Search queries, run on a small ledger. The results are compared with the definition of a match.

#![no_main]

mod support;

use std::sync::{LazyLock, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use takeback_ledger::{
    Ledger, LedgerOptions, MessageRecord, SearchOptions, SessionRecord, Time, matches,
};

const TEXTS: [&str; 8] = [
    "The chat-send button (v2.1) does not work in Safari.",
    "I renamed src/chat_send.rs and ran `cargo test`: 12 passed, 0 failed.",
    "Schöne Grüße aus Köln, naïve café",
    "東京タワーは高い 漢字",
    "NOT a OR b AND (c)",
    "x",
    "ＦＵＬＬ width \u{1f600} emoji don't",
    "a\tb\nc  d",
];

static LEDGER: LazyLock<Mutex<Ledger>> = LazyLock::new(|| {
    let path = support::SCRATCH.join("state.db");
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).expect("it is new");
    let session = SessionRecord { id: "a:1".into(), ..SessionRecord::default() };
    ledger.create_session(&session, Time(0)).expect("it is new");
    let messages = TEXTS.map(|text| MessageRecord {
        role: "user".into(),
        content: Some(text.into()),
        ..MessageRecord::default()
    });
    ledger.append("a:1", &messages, Time(0)).expect("the session exists");
    ledger.catch_up().expect("the index can be written");
    Mutex::new(ledger)
});

fuzz_target!(|bytes: &[u8]| {
    let query = String::from_utf8_lossy(bytes);
    let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let found = ledger.search(&query, &SearchOptions::default()).expect("any text is a query");
    let expected = TEXTS.iter().filter(|text| matches(&query, &[text])).count();
    assert_eq!(found.total, expected, "{query:?}");
});
