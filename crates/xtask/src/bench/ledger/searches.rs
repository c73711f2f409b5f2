//! Measuring searches, with queries made from the messages.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use takeback_ledger::{Ledger, SearchOptions};

use super::corpus::Message;
use super::figures::{Figures, Latencies, TAKEBACK};
use super::ours::{self, milliseconds};
use crate::Failure;
use crate::bench::takeback::explain_error;
use crate::random::Random;

/// The number of queries in a class.
const QUERIES: usize = 200;

/// The number of queries in a class if each of them reads every message.
const SCANS: usize = 10;

/// Queries of one kind, and the names of their figures for small and for large ledgers.
pub(crate) struct QueryClass {
    few: &'static str,
    many: &'static str,
    queries: Vec<String>,
    has_matches: bool,
}

/// The words in all messages, and their frequencies.
struct Words<'m> {
    texts: Vec<&'m str>,
    /// The number of messages that contain each word.
    frequencies: HashMap<String, usize>,
    /// All words, with the most frequent first.
    ranked: Vec<String>,
    random: Random,
}

pub(crate) fn make_classes(messages: &[Message]) -> Vec<QueryClass> {
    let mut words = Words::count(messages);
    let class = |few, many, queries| QueryClass { few, many, queries, has_matches: true };
    vec![
        class("search words", "1M words", words.make_queries(QUERIES, Words::pick_one_or_two)),
        class("search common", "1M common", words.ranked.iter().take(50).cloned().collect()),
        class("search cjk2", "1M cjk2", words.make_queries(QUERIES, Words::pick_pair)),
        QueryClass {
            has_matches: false,
            ..class("search miss", "1M miss", words.make_queries(QUERIES, Words::make_unknown_word))
        },
        class("search prefix", "1M prefix", words.make_queries(QUERIES, Words::pick_prefix)),
        class("search phrase", "1M phrase", words.make_queries(QUERIES, Words::pick_phrase)),
        class("search file.ext", "1M file.ext", words.make_queries(QUERIES, Words::pick_file)),
        class("search *part*", "1M *part*", words.make_queries(SCANS, Words::pick_part)),
    ]
}

impl<'m> Words<'m> {
    fn count(messages: &'m [Message]) -> Words<'m> {
        let texts = messages.iter().filter_map(|message| message.content.as_deref());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        let mut frequencies: HashMap<String, usize> = HashMap::new();
        for text in &texts {
            let distinct: HashSet<String> =
                ascii_words(text).map(str::to_ascii_lowercase).collect();
            for word in distinct {
                *frequencies.entry(word).or_default() += 1;
            }
        }
        let mut ranked: Vec<String> = frequencies.keys().cloned().collect();
        ranked.sort_by_key(|word| (std::cmp::Reverse(frequencies[word]), word.clone()));
        Words { texts, frequencies, ranked, random: Random(0x5ea4_c4e5_0b1e_c7ed) }
    }

    /// Generates `count` queries of one kind. If `make` returns `None`, it is called again.
    fn make_queries(
        &mut self,
        count: usize,
        make: fn(&mut Words<'m>) -> Option<String>,
    ) -> Vec<String> {
        let mut queries = Vec::with_capacity(count);
        // The attempts are limited, because some data yields no query at all.
        for _ in 0..count * 1_000 {
            queries.extend(make(self));
            if queries.len() == count {
                break;
            }
        }
        queries
    }

    fn pick_text(&mut self) -> &'m str {
        self.texts[self.random.below(self.texts.len())]
    }

    fn pick_word_of(&mut self, text: &'m str) -> Option<&'m str> {
        let words: Vec<&str> = ascii_words(text).filter(|word| word.len() > 2).collect();
        (!words.is_empty()).then(|| words[self.random.below(words.len())])
    }

    /// Picks a word that a user would search for: neither too frequent nor too rare.
    fn pick_telling_word(&mut self) -> Option<(&'m str, &'m str)> {
        let text = self.pick_text();
        let word = self.pick_word_of(text)?;
        let frequency = self.frequencies[&word.to_ascii_lowercase()];
        (5..=self.texts.len() / 20).contains(&frequency).then_some((word, text))
    }

    /// Picks a distinctive word, a frequent one, or two words.
    fn pick_one_or_two(&mut self) -> Option<String> {
        match self.random.below(4) {
            0 => {
                let place = self.random.below(300);
                self.ranked.get(place).cloned()
            }
            1 => {
                let (word, text) = self.pick_telling_word()?;
                Some(format!("{word} {}", self.pick_word_of(text)?))
            }
            _ => Some(self.pick_telling_word()?.0.to_owned()),
        }
    }

    /// Picks two adjacent characters in a script without spaces.
    fn pick_pair(&mut self) -> Option<String> {
        let is_one = |c: &char| matches!(c, '\u{3041}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}');
        let characters: Vec<char> = self.pick_text().chars().collect();
        let at = self.random.below(characters.len());
        let pair = characters.get(at..at + 2)?;
        pair.iter().all(is_one).then(|| pair.iter().collect())
    }

    /// Generates a word that looks like the other words but is in no message.
    fn make_unknown_word(&mut self) -> Option<String> {
        let (a, b) = (self.pick_telling_word()?.0, self.pick_telling_word()?.0);
        let word = format!("{a}{b}x").to_ascii_lowercase();
        (word.len() < 20 && !self.frequencies.contains_key(&word)).then_some(word)
    }

    fn pick_prefix(&mut self) -> Option<String> {
        let word = self.pick_telling_word()?.0;
        Some(format!("{}*", word.get(..4)?))
    }

    fn pick_phrase(&mut self) -> Option<String> {
        let (word, text) = self.pick_telling_word()?;
        let after = &text[text.find(word)? + word.len()..];
        let next = after.strip_prefix(' ')?.split(' ').next()?;
        next.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| format!("\"{word} {next}\""))
    }

    fn pick_file(&mut self) -> Option<String> {
        let text = self.pick_text();
        let paths: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && !"._/".contains(c))
            .filter(|path| {
                path.contains('/') && [".rs", ".py", ".ts"].iter().any(|end| path.ends_with(end))
            })
            .collect();
        let path = paths.get(self.random.below(paths.len().max(1)))?;
        path.rsplit('/').next().map(str::to_owned)
    }

    fn pick_part(&mut self) -> Option<String> {
        let word = self.pick_telling_word()?.0;
        Some(format!("*{}*", word.get(1..6)?))
    }
}

/// Splits text into English words and words from code.
fn ascii_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Measures all classes on an open ledger. Before each class, runs its first query once without
/// measuring it.
pub(crate) fn measure_searches(
    ledger: &mut Ledger,
    classes: &[QueryClass],
    is_large: bool,
    figures: &mut Figures,
) -> Result<(), Failure> {
    for class in classes {
        let stage = if is_large { class.many } else { class.few };
        let options = SearchOptions::default();
        let mut latencies = Vec::with_capacity(class.queries.len());
        let mut found = 0;
        for (number, query) in class.queries.iter().enumerate() {
            if number == 0 {
                ledger.search(query, &options).map_err(explain_error)?;
            }
            let start = Instant::now();
            let outcome = ledger.search(query, &options).map_err(explain_error)?;
            latencies.push(milliseconds(start.elapsed()));
            found += usize::from(!outcome.results.is_empty());
            if outcome.results.is_empty() == class.has_matches && !is_large {
                figures
                    .add_note(format!("{stage}: {query} gave {} results", outcome.results.len()));
            }
        }
        figures.add_latencies(stage, TAKEBACK, &Latencies::new(latencies));
        figures.add(stage, TAKEBACK, "with results", found as f64);
    }
    Ok(())
}

/// Measures the additional time that a new process needs to open the ledger and to run the first
/// search.
pub(crate) fn measure_opening(
    database: &Path,
    classes: &[QueryClass],
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (mut opening, mut first) = (Vec::new(), Vec::new());
    for query in classes[0].queries.iter().take(20) {
        let start = Instant::now();
        let mut ledger = ours::open_ledger(database)?;
        opening.push(milliseconds(start.elapsed()));
        ledger.search(query, &SearchOptions::default()).map_err(explain_error)?;
        first.push(milliseconds(start.elapsed()));
    }
    figures.add("open", TAKEBACK, "p50 ms", Latencies::new(opening).per_mille(500));
    figures.add("open, search", TAKEBACK, "p50 ms", Latencies::new(first).per_mille(500));
    Ok(())
}
