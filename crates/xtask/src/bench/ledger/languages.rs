//! Generating words and sentences. The n-th word is about 1/n as frequent as the first, as in real
//! languages.

use std::collections::HashSet;

use crate::bench::trees::WORDS;
use crate::random::Random;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    English,
    Chinese,
    Japanese,
    Korean,
}

/// The most frequent English words, most frequent first.
const FUNCTION_WORDS: [&str; 48] = [
    "the", "of", "and", "to", "a", "in", "is", "it", "that", "for", "this", "with", "be", "on",
    "as", "not", "are", "we", "you", "by", "or", "if", "from", "an", "can", "was", "have", "so",
    "but", "will", "when", "which", "all", "do", "there", "then", "they", "one", "use", "at",
    "need", "into", "only", "should", "more", "has", "because", "would",
];

const ENGLISH_WORDS: usize = 25_000;
const FOREIGN_WORDS: usize = 12_000;

/// The words of all languages, most frequent first.
pub(crate) struct Vocabulary {
    english: Vec<String>,
    chinese: Vec<String>,
    /// Loan words in katakana.
    katakana: Vec<String>,
    korean: Vec<String>,
}

impl Vocabulary {
    pub(crate) fn new(random: &mut Random) -> Vocabulary {
        Vocabulary {
            english: make_english_words(random),
            chinese: make_distinct_words(random, FOREIGN_WORDS, Vec::new(), make_han_word),
            katakana: make_distinct_words(
                random,
                FOREIGN_WORDS / 4,
                Vec::new(),
                make_katakana_word,
            ),
            korean: make_distinct_words(random, FOREIGN_WORDS, Vec::new(), make_korean_word),
        }
    }

    /// Picks an English word that is not a function word.
    pub(crate) fn pick_noun(&self, random: &mut Random) -> &str {
        pick_frequent(random, &self.english[FUNCTION_WORDS.len()..])
    }

    /// Appends a sentence to the text.
    pub(crate) fn push_sentence(&self, language: Language, random: &mut Random, text: &mut String) {
        let words = 4 + random.below(14);
        match language {
            Language::English => self.push_english_sentence(words, random, text),
            Language::Chinese => self.push_chinese_sentence(words, random, text),
            Language::Japanese => self.push_japanese_sentence(words, random, text),
            Language::Korean => self.push_korean_sentence(words, random, text),
        }
    }

    fn push_english_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        if !text.is_empty() && !text.ends_with([' ', '\n']) {
            text.push(if random.below(6) == 0 { '\n' } else { ' ' });
        }
        for number in 0..words {
            let word = pick_frequent(random, &self.english);
            match number {
                0 => {
                    text.push(char::from(word.as_bytes()[0].to_ascii_uppercase()));
                    text.push_str(&word[1..]);
                }
                _ => {
                    text.push_str(if random.below(12) == 0 { ", " } else { " " });
                    text.push_str(word);
                }
            }
        }
        text.push('.');
    }

    fn push_chinese_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 8] = ["的", "了", "是", "在", "和", "不", "把", "就"];
        for number in 0..words {
            if random.below(4) == 0 {
                text.push_str(pick_frequent(random, &PARTICLES));
            }
            // Technical terms stay in English.
            match random.below(16) {
                0 => text.push_str(self.pick_noun(random)),
                _ => text.push_str(pick_frequent(random, &self.chinese)),
            }
            if number % 6 == 5 {
                text.push('，');
            }
        }
        text.push('。');
    }

    fn push_japanese_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 10] =
            ["の", "を", "は", "に", "が", "と", "で", "から", "まで", "について"];
        const ENDINGS: [&str; 4] = ["します。", "です。", "してください。", "ました。"];
        for _ in 0..words.div_ceil(2) {
            match random.below(4) {
                0 => text.push_str(pick_frequent(random, &self.katakana)),
                _ => text.push_str(pick_frequent(random, &self.chinese)),
            }
            text.push_str(pick_frequent(random, &PARTICLES));
        }
        text.push_str(pick_frequent(random, &self.chinese));
        text.push_str(pick_frequent(random, &ENDINGS));
    }

    fn push_korean_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 8] = ["을", "이", "는", "에", "의", "를", "로", "에서"];
        for _ in 0..words.div_ceil(2) {
            text.push_str(pick_frequent(random, &self.korean));
            text.push_str(pick_frequent(random, &PARTICLES));
            text.push(' ');
        }
        text.push_str(pick_frequent(random, &self.korean));
        text.push_str("합니다. ");
    }
}

/// Picks a word by Zipf's law: the first word is the most frequent.
fn pick_frequent<'w, W: AsRef<str>>(random: &mut Random, words: &'w [W]) -> &'w str {
    words[random_rank(random, words.len())].as_ref()
}

/// Returns a rank. Its logarithm is distributed uniformly, so the probability of rank n is roughly
/// proportional to 1/n.
fn random_rank(random: &mut Random, count: usize) -> usize {
    let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
    (((count + 1) as f64).powf(uniform) as usize).clamp(1, count) - 1
}

fn make_english_words(random: &mut Random) -> Vec<String> {
    let known = FUNCTION_WORDS.iter().chain(&WORDS).map(|word| (*word).to_owned()).collect();
    make_distinct_words(random, ENGLISH_WORDS, known, |random, so_far| {
        const ONSETS: [&str; 20] = [
            "b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl",
            "ch", "sh", "br", "gr",
        ];
        const RHYMES: [&str; 16] = [
            "a", "e", "i", "o", "u", "an", "er", "in", "or", "al", "ent", "is", "ar", "ea", "on",
            "us",
        ];
        const ENDINGS: [&str; 8] = ["", "", "ing", "ed", "s", "tion", "ly", "er"];
        // Rare words are longer.
        let syllables = 2 + random.below(2) + usize::from(so_far > 5_000);
        let mut word: String = (0..syllables)
            .flat_map(|_| [ONSETS[random.below(20)], RHYMES[random.below(16)]])
            .collect();
        word.push_str(ENDINGS[random.below(8)]);
        word
    })
}

/// Generates a word of one to three characters, which are chosen from 3,000 characters. Most words
/// have two characters.
fn make_han_word(random: &mut Random, _: usize) -> String {
    let length = [1, 2, 2, 2, 2, 2, 2, 3][random.below(8)];
    let character = |random: &mut Random| {
        // Multiplying by a prime spreads the frequent characters over the whole Unicode block.
        let place = (random_rank(random, 3_000) * 7_919) % 20_000;
        char::from_u32(0x4e00 + place as u32).unwrap_or('一')
    };
    (0..length).map(|_| character(random)).collect()
}

fn make_katakana_word(random: &mut Random, _: usize) -> String {
    let kana: Vec<char> =
        "アイウエオカキクケコサシスセソタチツテトナニノハヒフマミメモラリルレロワンー"
            .chars()
            .collect();
    (0..3 + random.below(4)).map(|_| kana[random.below(kana.len())]).collect()
}

/// Generates a word of two or three syllables, which are chosen from 1,200 syllables.
fn make_korean_word(random: &mut Random, _: usize) -> String {
    let syllable = |random: &mut Random| {
        let place = (random_rank(random, 1_200) * 7_919) % 11_172;
        char::from_u32(0xac00 + place as u32).unwrap_or('가')
    };
    (0..2 + random.below(2)).map(|_| syllable(random)).collect()
}

/// Adds distinct words until there are `count`. `make` is given the number of words so far.
fn make_distinct_words(
    random: &mut Random,
    count: usize,
    mut words: Vec<String>,
    mut make: impl FnMut(&mut Random, usize) -> String,
) -> Vec<String> {
    let mut seen: HashSet<String> = words.iter().cloned().collect();
    while words.len() < count {
        let word = make(random, words.len());
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}
