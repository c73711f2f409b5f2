//! Words and sentences. The n-th word is about 1/n as frequent as the first, as in real languages.

use std::collections::HashSet;

use crate::bench::trees::{Random, WORDS};

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

/// All words that there are, most frequent first.
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
            english: english(random),
            chinese: distinct(random, FOREIGN_WORDS, Vec::new(), han_word),
            katakana: distinct(random, FOREIGN_WORDS / 4, Vec::new(), katakana_word),
            korean: distinct(random, FOREIGN_WORDS, Vec::new(), korean_word),
        }
    }

    /// An English word that is not a mere function word.
    pub(crate) fn noun(&self, random: &mut Random) -> &str {
        frequent(random, &self.english[FUNCTION_WORDS.len()..])
    }

    /// Adds a sentence to a text.
    pub(crate) fn sentence(&self, language: Language, random: &mut Random, text: &mut String) {
        let words = 4 + random.below(14);
        match language {
            Language::English => self.english_sentence(words, random, text),
            Language::Chinese => self.chinese_sentence(words, random, text),
            Language::Japanese => self.japanese_sentence(words, random, text),
            Language::Korean => self.korean_sentence(words, random, text),
        }
    }

    fn english_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        if !text.is_empty() && !text.ends_with([' ', '\n']) {
            text.push(if random.below(6) == 0 { '\n' } else { ' ' });
        }
        for number in 0..words {
            let word = frequent(random, &self.english);
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

    fn chinese_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 8] = ["的", "了", "是", "在", "和", "不", "把", "就"];
        for number in 0..words {
            if random.below(4) == 0 {
                text.push_str(frequent(random, &PARTICLES));
            }
            // Technical words stay English.
            match random.below(16) {
                0 => text.push_str(self.noun(random)),
                _ => text.push_str(frequent(random, &self.chinese)),
            }
            if number % 6 == 5 {
                text.push('，');
            }
        }
        text.push('。');
    }

    fn japanese_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 10] =
            ["の", "を", "は", "に", "が", "と", "で", "から", "まで", "について"];
        const ENDINGS: [&str; 4] = ["します。", "です。", "してください。", "ました。"];
        for _ in 0..words.div_ceil(2) {
            match random.below(4) {
                0 => text.push_str(frequent(random, &self.katakana)),
                _ => text.push_str(frequent(random, &self.chinese)),
            }
            text.push_str(frequent(random, &PARTICLES));
        }
        text.push_str(frequent(random, &self.chinese));
        text.push_str(frequent(random, &ENDINGS));
    }

    fn korean_sentence(&self, words: usize, random: &mut Random, text: &mut String) {
        const PARTICLES: [&str; 8] = ["을", "이", "는", "에", "의", "를", "로", "에서"];
        for _ in 0..words.div_ceil(2) {
            text.push_str(frequent(random, &self.korean));
            text.push_str(frequent(random, &PARTICLES));
            text.push(' ');
        }
        text.push_str(frequent(random, &self.korean));
        text.push_str("합니다. ");
    }
}

/// One of the words, the first most often: Zipf's law.
fn frequent<'w, W: AsRef<str>>(random: &mut Random, words: &'w [W]) -> &'w str {
    words[rank(random, words.len())].as_ref()
}

/// The logarithm of the rank is uniform: rank n has probability about 1/n.
fn rank(random: &mut Random, count: usize) -> usize {
    let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
    (((count + 1) as f64).powf(uniform) as usize).clamp(1, count) - 1
}

fn english(random: &mut Random) -> Vec<String> {
    let known = FUNCTION_WORDS.iter().chain(&WORDS).map(|word| (*word).to_owned()).collect();
    distinct(random, ENGLISH_WORDS, known, |random, so_far| {
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

/// One to three of 3,000 characters; most have two.
fn han_word(random: &mut Random, _: usize) -> String {
    let length = [1, 2, 2, 2, 2, 2, 2, 3][random.below(8)];
    let character = |random: &mut Random| {
        // A prime step through the block: frequent characters are all over it.
        let place = (rank(random, 3_000) * 7_919) % 20_000;
        char::from_u32(0x4e00 + place as u32).unwrap_or('一')
    };
    (0..length).map(|_| character(random)).collect()
}

fn katakana_word(random: &mut Random, _: usize) -> String {
    let kana: Vec<char> =
        "アイウエオカキクケコサシスセソタチツテトナニノハヒフマミメモラリルレロワンー"
            .chars()
            .collect();
    (0..3 + random.below(4)).map(|_| kana[random.below(kana.len())]).collect()
}

/// Two or three of 1,200 syllables.
fn korean_word(random: &mut Random, _: usize) -> String {
    let syllable = |random: &mut Random| {
        let place = (rank(random, 1_200) * 7_919) % 11_172;
        char::from_u32(0xac00 + place as u32).unwrap_or('가')
    };
    (0..2 + random.below(2)).map(|_| syllable(random)).collect()
}

/// Adds words until there are `count`, none twice. A word is made knowing how many there are.
fn distinct(
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
