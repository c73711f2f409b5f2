//! Word boundaries and escapes around secrets.

/// True if a token can start at `at`, because it is not within a word or a long piece of base64.
pub(super) fn starts_word(text: &str, at: usize) -> bool {
    let before = &text.as_bytes()[..at];
    match before.last() {
        None => true,
        Some(b'+' | b'/') => !ends_in_base64(before),
        Some(byte) if is_word(*byte) => ends_in_escape(before),
        Some(_) => true,
    }
}

/// True if no word continues at `at`.
pub(super) fn ends_word(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_none_or(|byte| !is_word(*byte))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// True if the text ends in a long piece of base64, such as an encoded image. By chance, such a
/// piece may contain something that looks like a token.
fn ends_in_base64(before: &[u8]) -> bool {
    const LONG: usize = 200;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    before.len() >= LONG && before.iter().rev().take(LONG).all(is_base64)
}

/// True if the text ends in an escape such as `\n`, `\u00e9` or `%3D`. The last letter of an escape
/// is not part of a word.
fn ends_in_escape(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        _ => before.len() >= 6 && is_unicode_escape(&before[before.len() - 6..]),
    }
}

fn is_unicode_escape(six: &[u8]) -> bool {
    six.starts_with(b"\\u") && six[2..].iter().all(u8::is_ascii_hexdigit)
}

/// True if `at` is inside an escape. A mask that began there would break the JSON that the text may
/// be part of.
pub(super) fn splits_escape(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let in_short = at > 0
        && bytes[at - 1] == b'\\'
        && bytes.get(at).is_some_and(|byte| b"bfnrtu\"\\/".contains(byte));
    let in_unicode = (1..6)
        .filter_map(|back| bytes.get(at.checked_sub(back)?..)?.get(..6))
        .any(is_unicode_escape);
    in_short || in_unicode
}

/// Returns the end of the run of characters that can occur in a token or between its parts.
pub(super) fn run_end(text: &str, at: usize) -> usize {
    let in_run = |byte: &u8| is_word(*byte) || b"-./+=~%:".contains(byte);
    let rest = &text.as_bytes()[at..];
    at + rest.iter().position(|byte| !in_run(byte)).unwrap_or(rest.len())
}
