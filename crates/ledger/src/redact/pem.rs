//! Armored private keys: `-----BEGIN … PRIVATE KEY-----`, lines of base64, `-----END …`.
//!
//! A key may have escaped line breaks (`\n`, as in JSON), be part of a numbered listing, or be cut
//! off at either end.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

const DASHES: &str = "-----";

/// An expression for text that separates two lines and never occurs within a line.
const BREAK: &str = r"(?:[ \t\r\n>|]|\\+[nrt]|[0-9]{1,6}(?:\t|→|:|\|))";

/// An expression for the lines after a `BEGIN` marker. Short lines could be words, so they do not
/// match.
static LINES_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    let header = r"[A-Z][A-Za-z-]{2,20}: [A-Za-z0-9,. ()/:-]{1,80}";
    let lines = format!(
        r"^(?:{BREAK}{{1,24}}{header}){{0,4}}(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{20,}}={{0,3}})+"
    );
    Regex::new(&lines).expect("a test compiles this expression")
});

/// An expression for the lines before an `END` marker. Only the last of these lines can be short.
static LINES_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    let lines = format!(
        r"[A-Za-z0-9+/]{{40,}}={{0,3}}(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{40,}})*(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{1,64}}={{0,3}})?(?:{BREAK}{{1,24}}=[A-Za-z0-9+/]{{4}})?{BREAK}{{1,24}}$"
    );
    Regex::new(&lines).expect("a test compiles this expression")
});

/// Finds the block that a marker begins or ends. Returns `None` if the block has no lines.
pub(super) fn find_block(text: &str, marker: Range<usize>) -> Option<Range<usize>> {
    if text[marker.clone()].starts_with("-----BEGIN") {
        find_whole(text, &marker).or_else(|| find_without_end(text, &marker))
    } else {
        find_without_begin(text, &marker)
    }
}

fn find_whole(text: &str, begin: &Range<usize>) -> Option<Range<usize>> {
    // The body ends at the next dashes, even if they belong to something else. This way, text with
    // many markers takes no more time than text with one.
    let body_end = begin.end + text[begin.end..].find(DASHES)?;
    let end = text[body_end..].strip_prefix("-----END ")?;
    let closing = end.find(DASHES).filter(|at| *at < 60)?;
    let marker_end = text.len() - end.len() + closing + DASHES.len();
    is_body(&text[begin.end..body_end]).then_some(begin.start..marker_end)
}

fn find_without_end(text: &str, begin: &Range<usize>) -> Option<Range<usize>> {
    let lines = LINES_AFTER.find(&text[begin.end..])?;
    Some(begin.start..begin.end + lines.end())
}

fn find_without_begin(text: &str, end: &Range<usize>) -> Option<Range<usize>> {
    let from = text[..end.start].rfind(DASHES).map_or(0, |at| at + DASHES.len());
    let lines = LINES_BEFORE.find(&text[from..end.start])?;
    let start = from + lines.start();
    Some(start + escape_length(text, start)..end.end)
}

/// Counts the bytes that look like base64 but belong to an escape: the `n` in `\nMIIE…`.
fn escape_length(text: &str, at: usize) -> usize {
    match (text[..at].ends_with('\\'), text[at..].starts_with('u')) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 5,
    }
}

/// True if the text consists of base64 and of characters that break or quote lines. False if it
/// contains a JSON object's key.
fn is_body(text: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let is_around = |c: char| c.is_ascii_whitespace() || r#"\"'`,>|:;.()-→"#.contains(c);
    let is_key = text.contains("\":") || text.contains("\" :");
    !is_key
        && text.chars().all(|c| is_base64(c) || is_around(c))
        && text.split(|c| !is_base64(c)).any(|piece| piece.len() >= 20)
}
