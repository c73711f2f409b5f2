//! Words match in spite of punctuation around them.

use proptest::prelude::*;
use proptest::sample::select;
use takeback_ledger::matches;

use crate::contract::case_count;
use crate::contract::oracle::any_text;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count()))]

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
