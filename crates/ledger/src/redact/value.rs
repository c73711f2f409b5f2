//! Whether a value looks like a secret, or rather like a stand-in, a word or a name.

use std::ops::Range;

use super::MASK;
use super::rules::{Place, Rule, Test};

/// In any case, anywhere in the value: someone is to put the secret here.
const STAND_INS: &[&str] = &[
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "xxxx",
    "****",
    "....",
    "redacted",
    "dummy",
    "insert",
    "replace",
    "foobar",
    "1234567",
    "abcdefg",
    "mysecret",
    "my_secret",
    "my-secret",
    "${",
    "{{",
    "$(",
    "%(",
];

/// As a whole: what is written into documentation.
const USUAL: &[&str] = &[
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
];

/// Names of values that end in `token` or `secret` but are public.
const PUBLIC_NAMES: &[&str] = &[
    "next", "page", "continu", "cursor", "public", "publish", "cancel", "sync", "site", "idempot",
];

/// Whether the value of a field is a secret by this rule.
pub(super) fn is_named(rule: &Rule, key: &str, value: &str) -> bool {
    rule.place == Place::Name
        && !value.contains(char::is_whitespace)
        && value.len() >= shortest(rule)
        && !value.contains(MASK)
        && rule.keywords.iter().any(|word| {
            key.len()
                .checked_sub(word.len())
                .and_then(|start| key.get(start..))
                .is_some_and(|end| end.eq_ignore_ascii_case(word))
        })
        && !is_public_name(key)
        && passes(rule, value)
}

/// A shorter value of this rule is more likely a word.
pub(super) fn shortest(rule: &Rule) -> usize {
    if rule.test == Test::Password { 8 } else { 16 }
}

/// What stands before a keyword and belongs to its name: `DB_` of `DB_PASSWORD`.
pub(super) fn name_before(text: &str, keyword: usize) -> &str {
    const LONGEST: usize = 40;
    let bytes = &text.as_bytes()[..keyword];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = bytes.iter().rev().take(LONGEST).take_while(|byte| is_name(byte)).count();
    &text[keyword - length..keyword]
}

/// Whether nothing of this name is secret.
pub(super) fn is_public_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PUBLIC_NAMES.iter().any(|public| name.contains(public))
}

/// The value that starts here: in quotes, in escaped quotes or bare.
pub(super) fn at(text: &str, start: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 1024;
    let rest = &text.as_bytes()[start..];
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    let quote = rest.get(slashes).filter(|byte| b"\"'`".contains(byte));
    let open = slashes + usize::from(quote.is_some());
    let inside = &rest[open..rest.len().min(open + LONGEST)];
    let length = match (slashes, quote) {
        (0, None) => bare(inside),
        (_, None) => None,
        (0, Some(b'"')) => quoted(inside),
        (0, Some(quote)) => plain(inside).filter(|length| inside[*length] == *quote),
        (_, Some(quote)) => plain(inside).filter(|length| {
            let close = &inside[*length..];
            close.starts_with(b"\\") && close.iter().find(|byte| **byte != b'\\') == Some(quote)
        }),
    }?;
    let ends = open + length < rest.len().min(open + LONGEST) || open + length == rest.len();
    ends.then_some(start + open..start + open + length)
}

/// Up to where a value without quotes ends.
fn bare(inside: &[u8]) -> Option<usize> {
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

/// Up to a quote. An escape is taken as a whole, so that cutting the value out leaves the string
/// around it well formed.
fn quoted(inside: &[u8]) -> Option<usize> {
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

/// Up to the first quote or backslash of any kind.
fn plain(inside: &[u8]) -> Option<usize> {
    let is_end =
        |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b'\\');
    let end = inside.iter().position(is_end)?;
    (!inside[end].is_ascii_whitespace()).then_some(end)
}

/// Whether a match is a secret by its entropy and its rule's test.
pub(super) fn passes(rule: &Rule, secret: &str) -> bool {
    entropy(secret) >= rule.entropy
        && !is_stand_in(secret)
        && match rule.test {
            Test::Format => true,
            Test::Any => !is_usual(secret),
            Test::Random => is_random(secret),
            Test::Token => is_random(secret) && !is_uuid(secret),
            Test::Password => is_password(secret),
        }
}

/// Bits per byte.
fn entropy(text: &str) -> f32 {
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = text.len() as f32;
    let share = counts.iter().filter(|count| **count > 0).map(|count| *count as f32 / length);
    -share.map(|share| share * share.log2()).sum::<f32>()
}

fn is_stand_in(text: &str) -> bool {
    // In a long secret any short word turns up by chance.
    const LONG: usize = 200;
    if text.len() > LONG {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    STAND_INS.iter().any(|word| lower.contains(word))
}

fn is_usual(text: &str) -> bool {
    text.starts_with(['$', '%', '*']) || USUAL.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn is_random(text: &str) -> bool {
    is_value(text) && has_digit(text) && has_letter(text) && !is_made_of_words(text)
}

fn is_password(text: &str) -> bool {
    let has_symbol = text.bytes().any(|byte| byte.is_ascii_punctuation() && byte != b'_');
    is_value(text)
        && !is_usual(text)
        && has_letter(text)
        && (has_digit(text) || has_symbol && !text.bytes().all(is_of_code))
        && !(is_compound(text) && is_made_of_words(text))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_letter(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// What names, paths and versions consist of.
fn is_of_code(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:@?!*#".contains(&byte)
}

/// Not code, a number, a path, an address or a checksum.
fn is_value(text: &str) -> bool {
    const NOT_SO: &[&str] =
        &["sha1-", "sha256", "sha384", "sha512", "md5", "h1:", "arn:", "op://", "data:", "urn:"];
    // What follows a closing quote in JSON was never a value.
    let starts_oddly = text.starts_with([
        '$', '%', '<', '{', '[', '(', '&', '/', ':', ',', '}', ']', '.', '@', '*', '~',
    ]);
    !starts_oddly
        && !NOT_SO.iter().any(|prefix| text.starts_with(prefix))
        && !text.contains("://")
        && !text.contains(['(', ')'])
        && text.parse::<f64>().is_err()
        && !is_hex_number(text)
        && !is_constant(text)
        && !is_member(text)
}

/// `0xC000006B_u32`. Longer ones are keys.
fn is_hex_number(text: &str) -> bool {
    text.starts_with("0x") && text.len() <= 24
}

/// `WIN32_ERROR`: a type or a constant.
fn is_constant(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.contains('_') && text.bytes().all(is_part)
}

/// `self.token2`, `process.env.KEY_1`: names joined by dots. Not so a token with long parts.
fn is_member(text: &str) -> bool {
    let is_name = |part: &str| {
        part.len() <= 24
            && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.contains('.') && text.split('.').all(is_name)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether there is a joint between two words: `a_b`, `a-b`, `aB`.
fn is_compound(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || bytes.windows(3).any(|three| {
            three[0].is_ascii_alphabetic()
                && matches!(three[1], b'_' | b'-' | b'.')
                && three[2].is_ascii_alphanumeric()
        })
}

/// Whether most of it can be spoken: `total_tokens_v2`, `fetchUserProfile1`.
fn is_made_of_words(text: &str) -> bool {
    let spoken: usize = words(text).filter(|word| is_word(word)).map(str::len).sum();
    let joints =
        text.bytes().filter(|byte| matches!(byte, b'_' | b'-' | b'.' | b'/' | b':')).count();
    spoken * 10 >= (text.len() - joints) * 7
}

/// Its runs of letters, cut where a capital follows a small letter.
fn words(text: &str) -> impl Iterator<Item = &str> {
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
