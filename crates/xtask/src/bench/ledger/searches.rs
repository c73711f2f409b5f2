//! Searches: queries taken from the messages, and how long their answers take.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use takeback_ledger::{Ledger, SearchOptions};

use super::corpus::Message;
use super::figures::{Figures, Latencies, TAKEBACK};
use super::ours::{self, milliseconds};
use crate::Failure;
use crate::bench::takeback::explain;
use crate::bench::trees::Random;

/// How many queries of a class.
const QUERIES: usize = 200;

/// How many of those that read every message.
const SCANS: usize = 10;

/// Queries of one kind, and what they are called with few and with many messages.
pub(crate) struct Class {
    few: &'static str,
    many: &'static str,
    queries: Vec<String>,
    has_matches: bool,
}

/// Which messages have which words.
struct Words<'m> {
    texts: Vec<&'m str>,
    /// In how many messages a word is.
    frequencies: HashMap<String, usize>,
    /// All words, the most frequent first.
    ranked: Vec<String>,
    random: Random,
}

pub(crate) fn classes(messages: &[Message]) -> Vec<Class> {
    let mut words = Words::of(messages);
    let class = |few, many, queries| Class { few, many, queries, has_matches: true };
    vec![
        class("search words", "1M words", words.queries(QUERIES, Words::one_or_two)),
        class("search common", "1M common", words.ranked.iter().take(50).cloned().collect()),
        class("search cjk2", "1M cjk2", words.queries(QUERIES, Words::pair)),
        Class {
            has_matches: false,
            ..class("search miss", "1M miss", words.queries(QUERIES, Words::unknown))
        },
        class("search prefix", "1M prefix", words.queries(QUERIES, Words::prefix)),
        class("search phrase", "1M phrase", words.queries(QUERIES, Words::phrase)),
        class("search file.ext", "1M file.ext", words.queries(QUERIES, Words::file)),
        class("search *part*", "1M *part*", words.queries(SCANS, Words::part)),
    ]
}

impl<'m> Words<'m> {
    fn of(messages: &'m [Message]) -> Words<'m> {
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

    /// So many queries of one kind. What gives none is asked again.
    fn queries(&mut self, count: usize, make: fn(&mut Words<'m>) -> Option<String>) -> Vec<String> {
        let mut queries = Vec::with_capacity(count);
        // Some data has none at all.
        for _ in 0..count * 1_000 {
            queries.extend(make(self));
            if queries.len() == count {
                break;
            }
        }
        queries
    }

    fn text(&mut self) -> &'m str {
        self.texts[self.random.below(self.texts.len())]
    }

    fn word_of(&mut self, text: &'m str) -> Option<&'m str> {
        let words: Vec<&str> = ascii_words(text).filter(|word| word.len() > 2).collect();
        (!words.is_empty()).then(|| words[self.random.below(words.len())])
    }

    /// A word that somebody would search for: neither everywhere nor only here.
    fn telling_word(&mut self) -> Option<(&'m str, &'m str)> {
        let text = self.text();
        let word = self.word_of(text)?;
        let frequency = self.frequencies[&word.to_ascii_lowercase()];
        (5..=self.texts.len() / 20).contains(&frequency).then_some((word, text))
    }

    /// A telling word; a frequent one; both.
    fn one_or_two(&mut self) -> Option<String> {
        match self.random.below(4) {
            0 => {
                let place = self.random.below(300);
                self.ranked.get(place).cloned()
            }
            1 => {
                let (word, text) = self.telling_word()?;
                Some(format!("{word} {}", self.word_of(text)?))
            }
            _ => Some(self.telling_word()?.0.to_owned()),
        }
    }

    /// Two neighbouring characters of a script without spaces.
    fn pair(&mut self) -> Option<String> {
        let is_one = |c: &char| matches!(c, '\u{3041}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}');
        let characters: Vec<char> = self.text().chars().collect();
        let at = self.random.below(characters.len());
        let pair = characters.get(at..at + 2)?;
        pair.iter().all(is_one).then(|| pair.iter().collect())
    }

    /// A word that looks like others and is nowhere.
    fn unknown(&mut self) -> Option<String> {
        let (a, b) = (self.telling_word()?.0, self.telling_word()?.0);
        let word = format!("{a}{b}x").to_ascii_lowercase();
        (word.len() < 20 && !self.frequencies.contains_key(&word)).then_some(word)
    }

    fn prefix(&mut self) -> Option<String> {
        let word = self.telling_word()?.0;
        Some(format!("{}*", word.get(..4)?))
    }

    fn phrase(&mut self) -> Option<String> {
        let (word, text) = self.telling_word()?;
        let after = &text[text.find(word)? + word.len()..];
        let next = after.strip_prefix(' ')?.split(' ').next()?;
        next.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| format!("\"{word} {next}\""))
    }

    fn file(&mut self) -> Option<String> {
        let text = self.text();
        let paths: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && !"._/".contains(c))
            .filter(|path| {
                path.contains('/') && [".rs", ".py", ".ts"].iter().any(|end| path.ends_with(end))
            })
            .collect();
        let path = paths.get(self.random.below(paths.len().max(1)))?;
        path.rsplit('/').next().map(str::to_owned)
    }

    fn part(&mut self) -> Option<String> {
        let word = self.telling_word()?.0;
        Some(format!("*{}*", word.get(1..6)?))
    }
}

/// Words of English and of code, as they are written.
fn ascii_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// All classes on an open ledger, as somebody's second search.
pub(crate) fn measure(
    ledger: &mut Ledger,
    classes: &[Class],
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
                ledger.search(query, &options).map_err(explain)?;
            }
            let start = Instant::now();
            let outcome = ledger.search(query, &options).map_err(explain)?;
            latencies.push(milliseconds(start.elapsed()));
            found += usize::from(!outcome.results.is_empty());
            if outcome.results.is_empty() == class.has_matches && !is_large {
                figures.note(format!("{stage}: {query} gave {} results", outcome.results.len()));
            }
        }
        figures.latencies(stage, TAKEBACK, &Latencies::new(latencies));
        figures.add(stage, TAKEBACK, "with results", found as f64);
    }
    Ok(())
}

/// What comes on top for a new process: opening the ledger, and what its first search reads.
pub(crate) fn measure_opening(
    database: &Path,
    classes: &[Class],
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (mut opening, mut first) = (Vec::new(), Vec::new());
    for query in classes[0].queries.iter().take(20) {
        let start = Instant::now();
        let mut ledger = ours::open(database)?;
        opening.push(milliseconds(start.elapsed()));
        ledger.search(query, &SearchOptions::default()).map_err(explain)?;
        first.push(milliseconds(start.elapsed()));
    }
    figures.add("open", TAKEBACK, "p50 ms", Latencies::new(opening).per_mille(500));
    figures.add("open, search", TAKEBACK, "p50 ms", Latencies::new(first).per_mille(500));
    Ok(())
}
