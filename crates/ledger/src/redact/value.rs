//! Tests that tell secrets from placeholders, words and names.

use std::ops::Range;

use super::MASK;
use super::rules::{KeywordPosition, Rule, SecretTest};

/// Words that mark a placeholder. They can be in upper or lower case and anywhere in the value.
const PLACEHOLDER_WORDS: &[&str] = &[
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "redacted",
    "dummy",
    "insert",
    "replace",
    "foobar",
    "mysecret",
    "my_secret",
    "my-secret",
];

/// Sequences of characters that occur in placeholders but not in real keys.
const PLACEHOLDER_FILLERS: &[&str] = &["xxxx", "****", "....", "1234567", "abcdefg"];

/// Prefixes of variables in templates and shell scripts.
const VARIABLES: &[&str] = &["${", "{{", "$(", "%("];

/// Whole values that are common in documentation.
const COMMON_VALUES: &[&str] = &[
    "pass",
    "password",
    "passwd",
    "secret",
    "token",
    "user",
    "username",
    "admin",
    "root",
    "guest",
    "postgres",
    "mysql",
    "redis",
    "test",
    "port",
    "none",
    "null",
    "true",
    "false",
    "undefined",
    "hunter2",
    "x-oauth-basic",
];

/// Parts of names such as `next_page_token`. A value with such a name is public, although the name
/// ends in `token` or `secret`.
const PUBLIC_NAMES: &[&str] = &[
    "next_", "next-", "nextt", "nextp", "page", "continu", "cursor", "public", "publish", "cancel",
    "sync", "site", "idempot",
];

/// True if this rule considers the value of a field a secret.
pub(super) fn is_secret_field(rule: &Rule, key: &str, value: &str) -> bool {
    rule.position == KeywordPosition::Name
        && !value.contains(char::is_whitespace)
        && value.len() >= shortest_length(rule)
        && !value.contains(MASK)
        && rule.keywords.iter().any(|word| {
            key.len()
                .checked_sub(word.len())
                .and_then(|start| key.get(start..))
                .is_some_and(|end| end.eq_ignore_ascii_case(word))
        })
        && !is_public_name(key)
        && looks_secret(rule, value)
}

/// Returns the minimum length of a secret that this rule finds. A shorter value is more likely to
/// be a word.
pub(super) fn shortest_length(rule: &Rule) -> usize {
    if rule.test == SecretTest::Password { 8 } else { 16 }
}

/// Returns the part of a name before a keyword, such as `DB_` in `DB_PASSWORD`.
pub(super) fn name_before(text: &str, keyword: usize) -> &str {
    const LONGEST: usize = 40;
    let bytes = &text.as_bytes()[..keyword];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = bytes.iter().rev().take(LONGEST).take_while(|byte| is_name(byte)).count();
    &text[keyword - length..keyword]
}

/// True if a value with this name is public.
pub(super) fn is_public_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PUBLIC_NAMES.iter().any(|public| name.contains(public))
}

/// Finds the value at `start`: in quotes, in escaped quotes or bare.
pub(super) fn find_value(text: &str, start: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 1024;
    let start = start + literal_prefix_length(&text.as_bytes()[start..]);
    let rest = &text.as_bytes()[start..];
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    let quote = rest.get(slashes).filter(|byte| b"\"'`".contains(byte));
    let open = slashes + usize::from(quote.is_some());
    let inside = &rest[open..rest.len().min(open + LONGEST)];
    let length = match (slashes, quote) {
        (0, None) => bare_length(inside),
        (_, None) => None,
        (0, Some(b'"')) => quoted_length(inside),
        (0, Some(quote)) => plain_length(inside).filter(|length| inside[*length] == *quote),
        (_, Some(quote)) => plain_length(inside).filter(|length| {
            let close = &inside[*length..];
            close.starts_with(b"\\") && close.iter().find(|byte| **byte != b'\\') == Some(quote)
        }),
    }?;
    let ends = open + length < rest.len().min(open + LONGEST) || open + length == rest.len();
    ends.then_some(start + open..start + open + length)
}

/// Counts the letters before a string literal, as in `b"…"` and `rb'…'`.
fn literal_prefix_length(rest: &[u8]) -> usize {
    let letters = rest.iter().take(2).take_while(|byte| b"bruf".contains(byte)).count();
    let is_literal = rest.get(letters).is_some_and(|byte| b"\"'".contains(byte));
    if is_literal { letters } else { 0 }
}

/// Returns the length of a value without quotes.
fn bare_length(inside: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| {
        matches!(
            byte,
            b' ' | b'\t'
                | b'\r'
                | b'\n'
                | b'"'
                | b'\''
                | b'`'
                | b'\\'
                | b','
                | b';'
                | b'&'
                | b'|'
                | b'<'
                | b'>'
                | b'('
                | b')'
                | b'{'
                | b'}'
                | b'['
                | b']'
        )
    };
    Some(inside.iter().position(is_end).unwrap_or(inside.len()))
}

/// Returns the length of a value that ends at a double quote. An escaped quote does not end it, so
/// that the string around the value stays well formed when the value is masked.
fn quoted_length(inside: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in inside.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return None,
            b'"' if !escaped => return Some(at),
            _ => escaped = *byte == b'\\' && !escaped,
        }
    }
    None
}

/// Returns the length of a value that ends at a backslash or at any kind of quote.
fn plain_length(inside: &[u8]) -> Option<usize> {
    let is_end =
        |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b'\\');
    let end = inside.iter().position(is_end)?;
    (!inside[end].is_ascii_whitespace()).then_some(end)
}

/// True if a match has the entropy of a secret and passes its rule's test.
pub(super) fn looks_secret(rule: &Rule, secret: &str) -> bool {
    entropy(secret) >= rule.entropy
        && !is_placeholder(secret)
        && match rule.test {
            SecretTest::Format => true,
            SecretTest::Any => !is_common(secret),
            SecretTest::Random => is_random(secret),
            SecretTest::Token => is_random(secret) && !is_uuid(secret),
            SecretTest::Password => is_password(secret),
            SecretTest::Jumbled => is_password(secret) && is_jumbled(secret),
            SecretTest::Chosen => {
                is_password(secret) && (is_jumbled(secret) || is_chosen_password(secret))
            }
            SecretTest::InUrl => is_password_in_url(secret),
        }
}

/// Computes the entropy of the text in bits per byte.
fn entropy(text: &str) -> f32 {
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = text.len() as f32;
    let share = counts.iter().filter(|count| **count > 0).map(|count| *count as f32 / length);
    -share.map(|share| share * share.log2()).sum::<f32>()
}

/// True if the text is a placeholder for a secret.
fn is_placeholder(text: &str) -> bool {
    // A long secret can contain any short word by chance.
    const LONG: usize = 200;
    if text.len() > LONG {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    // The example keys in AWS's documentation end with one of these words. The rest of such a key
    // looks random.
    let is_documented = text.ends_with("EXAMPLE") || text.ends_with("EXAMPLEKEY");
    is_documented
        || has(PLACEHOLDER_FILLERS)
        || has(VARIABLES) && !is_jumbled(text)
        || has(PLACEHOLDER_WORDS) && !is_random_without_words(&lower, text)
}

/// True if the text looks random even without its placeholder words. In that case, the words may be
/// in it by chance.
fn is_random_without_words(lower: &str, text: &str) -> bool {
    const ENOUGH: usize = 12;
    let mut rest = text.to_owned();
    let mut lower = lower.to_owned();
    for word in PLACEHOLDER_WORDS {
        while let Some(at) = lower.find(word) {
            lower.replace_range(at..at + word.len(), "");
            rest.replace_range(at..at + word.len(), "");
        }
    }
    rest.len() >= ENOUGH && has_digit(&rest) && has_letter(&rest) && !is_made_of_words(&rest)
}

fn is_common(text: &str) -> bool {
    let is_port_mapping = text.contains(':')
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    is_port_mapping
        || text.starts_with(['$', '%', '*', '<', '{', '['])
        || COMMON_VALUES.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn is_random(text: &str) -> bool {
    is_value(text)
        && has_letter(text)
        && (has_digit(text) && !is_made_of_words(text) || is_gibberish(text))
}

fn is_password(text: &str) -> bool {
    let has_symbol = text.bytes().any(|byte| byte.is_ascii_punctuation() && byte != b'_');
    is_value(text)
        && !is_common(text)
        && has_letter(text)
        && (has_digit(text) || has_symbol && !text.bytes().all(is_in_names) || is_gibberish(text))
        && !(is_compound(text) && is_made_of_words(text))
}

/// True for a password that consists of a word, a number and perhaps punctuation, such as
/// `Dragon1703!`. False for a name with a number, such as `argon2id` and `base64`.
fn is_chosen_password(text: &str) -> bool {
    let word = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let number = text[word..].bytes().take_while(u8::is_ascii_digit).count();
    let signs = &text[word + number..];
    let has_sign = signs.starts_with(['!', '#', '$', '*', '?', '%', '&', '+', '@']);
    word >= 3
        && signs.len() <= 3
        && signs.bytes().all(|byte| byte.is_ascii_punctuation())
        && (number >= 3 || number > 0 && has_sign)
}

/// True for a password in a URL. False for a port and the path that follows it.
fn is_password_in_url(text: &str) -> bool {
    match text.split_once(['/', '?', '#']) {
        Some((port, _)) => port.parse::<u16>().is_err() && is_password(text),
        None => !is_common(text),
    }
}

/// True for long text in mixed case that is hardly pronounceable.
fn is_gibberish(text: &str) -> bool {
    const ENOUGH: usize = 12;
    let has_both_cases = text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase());
    text.len() >= ENOUGH && has_both_cases && spoken_percent(text) < 40
}

/// True if the kind of character (lower case, upper case, digit, other) changes more often than it
/// does in names and words.
fn is_jumbled(text: &str) -> bool {
    const ENOUGH: usize = 10;
    let kind_of = |byte: u8| match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 4,
    };
    let is_change = |pair: &[u8]| {
        !pair.iter().any(|byte| is_joint(*byte)) && kind_of(pair[0]) != kind_of(pair[1])
    };
    let changes = text.as_bytes().windows(2).filter(|pair| is_change(pair)).count();
    text.len() >= ENOUGH && changes * 100 >= (text.len() - 1) * 45
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_letter(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// True for bytes that occur in names, paths and versions.
fn is_in_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:@?!*#".contains(&byte)
}

/// True if the text is not code, a number, a path, an address or a checksum.
fn is_value(text: &str) -> bool {
    const OTHER_PREFIXES: &[&str] = &[
        "sha1-", "sha256", "sha384", "sha512", "md5", "h1:", "arn:", "op://", "data:", "urn:",
        "pass:", "env:", "file:",
    ];
    // A value does not start with these characters. Some of them follow the end of a JSON string.
    let starts_oddly = text.starts_with([
        '$', '%', '<', '{', '[', '(', '&', '/', ':', ',', '}', ']', '.', '@', '*', '~',
    ]);
    !starts_oddly
        && !OTHER_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && !text.contains("://")
        && !is_call(text)
        && text.parse::<f64>().is_err()
        && !is_hex_number(text)
        && !is_constant(text)
        && !is_member(text)
}

/// True for code such as `hash(password1)`.
fn is_call(text: &str) -> bool {
    text.split_once('(').is_some_and(|(name, rest)| {
        let is_name = name.len() >= 4 && is_made_of_words(name);
        is_name || rest.starts_with(')') || rest.ends_with(')') && !is_jumbled(text)
    })
}

/// True for numbers such as `0xC000006B_u32`. False for a longer number, which is likely a key.
fn is_hex_number(text: &str) -> bool {
    text.starts_with("0x") && text.len() <= 24
}

/// True for types and constants such as `WIN32_ERROR`.
fn is_constant(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.contains('_') && text.bytes().all(is_part)
}

/// True for short names joined by dots, such as `self.token2` and `process.env.KEY_1`. False for a
/// token whose parts are long.
fn is_member(text: &str) -> bool {
    let is_name = |part: &str| {
        part.len() <= 24
            && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.contains('.') && text.split('.').all(is_name) && !is_jumbled(text)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// True if the text joins several words, as `a_b`, `a-b` and `aB` do.
fn is_compound(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || bytes.windows(3).any(|three| {
            three[0].is_ascii_alphabetic()
                && matches!(three[1], b'_' | b'-' | b'.')
                && three[2].is_ascii_alphanumeric()
        })
}

/// True if most of the text is pronounceable, as in `total_tokens_v2` and `fetchUserProfile1`.
fn is_made_of_words(text: &str) -> bool {
    spoken_percent(text) >= 70 && !is_jumbled(text)
}

/// Returns the percentage of the text that is pronounceable, not counting the characters that join
/// words.
fn spoken_percent(text: &str) -> usize {
    let spoken: usize = split_words(text).filter(|word| is_word(word)).map(str::len).sum();
    let joints = text.bytes().filter(|byte| is_joint(*byte)).count();
    match text.len() - joints {
        0 => 100,
        length => spoken * 100 / length,
    }
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'_' | b'-' | b'.' | b'/' | b':')
}

/// Splits text into runs of letters, and splits each run where an upper-case letter follows a
/// lower-case one.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic()).flat_map(|run| {
        let cuts: Vec<usize> = (1..run.len())
            .filter(|at| {
                let bytes = run.as_bytes();
                bytes[at - 1].is_ascii_lowercase() && bytes[*at].is_ascii_uppercase()
            })
            .collect();
        let starts = std::iter::once(0).chain(cuts.clone());
        starts.zip(cuts.into_iter().chain([run.len()])).map(|(start, end)| &run[start..end])
    })
}

fn is_word(text: &str) -> bool {
    let is_vowel = |byte: &u8| b"aeiouyAEIOUY".contains(byte);
    let vowels = text.bytes().filter(|byte| is_vowel(byte)).count();
    let one_case = text.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
        || text.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_spoken = text.as_bytes().split(is_vowel).all(|consonants| consonants.len() <= 4);
    text.len() >= 3 && one_case && is_spoken && vowels * 6 >= text.len()
}
