//! Measures masking on a corpus: secrets in their usual surroundings, and real code without
//! secrets.

#![allow(clippy::print_stdout, reason = "the misses are worth reading although the test passes")]

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_ledger::Redactor;

const HELD_OUT: &str = include_str!("../fixtures/secrets/held_out.txt");
const SECRETS: &str = include_str!("../fixtures/secrets/secrets.txt");
const HARMLESS: &str = include_str!("../fixtures/secrets/harmless.txt");

/// The number of times that each template is filled, each time with different characters.
const FILLS: u64 = 5;

/// The maximum number of characters of a secret that may remain after masking. So few characters
/// are useless to a reader.
const REMAINDER: usize = 7;

#[test]
fn nineteen_of_twenty_secrets_are_masked() {
    assert!(templates(HELD_OUT).count() + templates(SECRETS).count() >= 200);
    for (name, corpus) in [("secrets", SECRETS), ("held out", HELD_OUT)] {
        let (mut total, mut misses) = (0, Vec::new());
        for (number, template) in templates(corpus).enumerate() {
            for fill in 0..FILLS {
                let (kind, template) = template.split_once(": ").unwrap();
                let (text, secrets) = fill_template(template, number as u64 * FILLS + fill);
                total += 1;
                misses.extend(find_leak(&text, &secrets).map(|masked| format!("{kind}: {masked}")));
            }
        }
        let recall = 1.0 - misses.len() as f64 / total as f64;
        println!("{name}: {} of {total} leaked\n{}", misses.len(), misses.join("\n"));
        assert!(recall >= 0.95, "{name}: recall {recall:.4}");
    }
}

#[test]
fn the_corpus_has_at_least_sixty_kinds_of_secrets() {
    let kinds = templates(HELD_OUT).chain(templates(SECRETS));
    let kinds = kinds.map(|line| line.split_once(": ").expect("a line has a kind").0);
    assert!(kinds.collect::<BTreeSet<_>>().len() >= 60);
}

#[test]
fn at_most_one_line_of_code_in_a_thousand_is_masked() {
    let mut lines = 0;
    let mut wrong = Vec::new();
    for path in files_of_the_project() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        lines += text.lines().filter(|line| !line.trim().is_empty()).count();
        wrong.extend(
            find_masks(&text).into_iter().map(|line| format!("{}: {line}", path.display())),
        );
    }
    println!("{} of {lines} lines\n{}", wrong.len(), wrong.join("\n"));
    assert!(lines >= 2000, "{lines}");
    assert!(wrong.len() * 1000 <= lines, "{} of {lines}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn lines_that_resemble_secrets_are_kept() {
    let mut wrong = Vec::new();
    for (number, template) in templates(HARMLESS).enumerate() {
        for fill in 0..FILLS {
            wrong.extend(find_masks(&fill_template(template, number as u64 * FILLS + fill).0));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

fn templates(corpus: &str) -> impl Iterator<Item = &str> {
    corpus.lines().filter(|line| !line.starts_with('#'))
}

/// Masks text and, if it is JSON, also masks it as a JSON value. Returns the first result in which
/// a part of a secret remains.
fn find_leak(text: &str, secrets: &[String]) -> Option<String> {
    let leaks = |masked: &str| {
        let is_left = |part: &[u8]| masked.as_bytes().windows(part.len()).any(|w| w == part);
        secrets.iter().any(|secret| {
            let length = secret.len().min(REMAINDER + 1);
            secret.as_bytes().windows(length).any(is_left)
        })
    };
    let masked = Redactor::shared().mask_text(text).into_owned();
    if leaks(&masked) {
        return Some(masked);
    }
    let mut value = serde_json::from_str::<Value>(text).ok()?;
    Redactor::shared().mask_json(&mut value);
    Some(value.to_string()).filter(|masked| leaks(masked))
}

/// Returns the lines that are masked in text without secrets.
fn find_masks(text: &str) -> Vec<String> {
    let count = |line: &str| line.matches("[redacted:").count();
    let masked = Redactor::shared().mask_text(text).into_owned();
    if count(&masked) == count(text) {
        return Vec::new();
    }
    let known: HashSet<&str> = text.lines().collect();
    masked.lines().filter(|line| !known.contains(line)).map(str::to_owned).collect()
}

/// Lists the files of the project, except hidden files, generated files and files about secrets.
fn files_of_the_project() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_skipped = name.starts_with('.')
                || ["target", "secrets", "redact", "masking.rs", "masking_corpus.rs"]
                    .contains(&name.as_str());
            match entry.file_type().unwrap() {
                _ if is_skipped => {}
                kind if kind.is_dir() => pending.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Fills the placeholders of a template. Returns the text and the secrets in it.
fn fill_template(template: &str, seed: u64) -> (String, Vec<String>) {
    let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut text, mut secrets) = (String::new(), Vec::new());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let hole = after.split_once('}').and_then(|(hole, after)| {
            let (kind, is_secret) = match hole.strip_prefix('!') {
                Some(kind) => (kind, false),
                None => (hole, true),
            };
            let mut kind = kind.chars();
            let alphabet = kind.next()?;
            let length = kind.as_str().parse().ok()?;
            Some((random.text(alphabet, length)?, is_secret, after))
        });
        match hole {
            Some((filled, is_secret, after)) => {
                text.push_str(&filled);
                secrets.extend(is_secret.then_some(filled));
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    (text.replace('⏎', "\n"), secrets)
}

/// A generator of random numbers whose sequence is fixed by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }

    /// Generates the text for a placeholder. Returns `None` for an unknown kind.
    fn text(&mut self, kind: char, length: usize) -> Option<String> {
        const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let alphabet = match kind {
            'A' => LETTERS.to_owned(),
            'a' => LETTERS[26..].to_owned(),
            'M' => LETTERS[..52].to_owned(),
            'L' => LETTERS[26..52].to_owned(),
            'U' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".to_owned(),
            'H' => "0123456789abcdef".to_owned(),
            'X' => "0123456789ABCDEF".to_owned(),
            'D' => "0123456789".to_owned(),
            'B' => format!("{LETTERS}+/"),
            'W' => format!("{LETTERS}_-"),
            'P' => format!("{LETTERS}!%*._+-"),
            'Q' => format!("{LETTERS}!%*._+-$&#@^(){{}}~"),
            'w' => return Some(self.chosen_password()),
            'G' => return Some(self.uuid()),
            _ => return None,
        };
        let alphabet = alphabet.as_bytes();
        let mut text = String::new();
        for at in 0..length {
            // A password rarely begins or ends with punctuation, and a token never does.
            let is_edge = at == 0 || at + 1 == length;
            let letter = loop {
                let byte = alphabet[self.below(alphabet.len())];
                if !is_edge || byte.is_ascii_alphanumeric() {
                    break byte;
                }
            };
            text.push(char::from(letter));
        }
        Some(text)
    }

    /// Generates a password like one that a person would choose.
    fn chosen_password(&mut self) -> String {
        const WORDS: &[&str] = &[
            "Dragon", "Summer", "Falcon", "tiger", "Monkey", "Berlin", "coffee", "Rocket",
            "winter", "Shadow", "Sunshine", "letmein",
        ];
        let word = WORDS[self.below(WORDS.len())];
        let number = 10 + self.below(2090);
        let sign = ["", "!", "!", "#", "$", "."][self.below(6)];
        format!("{word}{number}{sign}")
    }

    fn uuid(&mut self) -> String {
        let mut text = String::new();
        for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
            let joint = if at == 0 { "" } else { "-" };
            let _ = write!(text, "{joint}{}", self.text('H', length).expect("a known alphabet"));
        }
        text
    }
}
