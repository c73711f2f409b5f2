//! Private keys in armor: `-----BEGIN … PRIVATE KEY-----`, lines of base64, `-----END …`.
//!
//! Neither line breaks nor both ends can be relied on: keys are met in JSON (`\n`), in numbered
//! listings, and cut off at either end.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

const DASHES: &str = "-----";

/// What can stand between two lines, but not in them.
const BREAK: &str = r"(?:[ \t\r\n>|]|\\+[nrt]|[0-9]{1,6}(?:\t|→|:|\|))";

/// Lines that come after the first marker. Short ones could be words.
static LINES_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    let header = r"[A-Z][A-Za-z-]{2,20}: [A-Za-z0-9,. ()/:-]{1,80}";
    let lines = format!(
        r"^(?:{BREAK}{{1,24}}{header}){{0,4}}(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{20,}}={{0,3}})+"
    );
    Regex::new(&lines).expect("a test makes it")
});

/// Lines that come before the last marker, of which the last ones may be short.
static LINES_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    let lines = format!(
        r"[A-Za-z0-9+/]{{40,}}={{0,3}}(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{40,}})*(?:{BREAK}{{1,24}}[A-Za-z0-9+/]{{1,64}}={{0,3}})?(?:{BREAK}{{1,24}}=[A-Za-z0-9+/]{{4}})?{BREAK}{{1,24}}$"
    );
    Regex::new(&lines).expect("a test makes it")
});

/// The block that a marker belongs to, if it has a body.
pub(super) fn block(text: &str, marker: Range<usize>) -> Option<Range<usize>> {
    if text[marker.clone()].starts_with("-----BEGIN") {
        whole(text, &marker).or_else(|| without_end(text, &marker))
    } else {
        without_begin(text, &marker)
    }
}

fn whole(text: &str, begin: &Range<usize>) -> Option<Range<usize>> {
    // To the next dashes, whatever they are: so many markers take no more time than one.
    let body_end = begin.end + text[begin.end..].find(DASHES)?;
    let end = text[body_end..].strip_prefix("-----END ")?;
    let closing = end.find(DASHES).filter(|at| *at < 60)?;
    let marker_end = text.len() - end.len() + closing + DASHES.len();
    is_body(&text[begin.end..body_end]).then_some(begin.start..marker_end)
}

fn without_end(text: &str, begin: &Range<usize>) -> Option<Range<usize>> {
    let lines = LINES_AFTER.find(&text[begin.end..])?;
    Some(begin.start..begin.end + lines.end())
}

fn without_begin(text: &str, end: &Range<usize>) -> Option<Range<usize>> {
    let from = text[..end.start].rfind(DASHES).map_or(0, |at| at + DASHES.len());
    let lines = LINES_BEFORE.find(&text[from..end.start])?;
    let start = from + lines.start();
    Some(start + escape_at(text, start)..end.end)
}

/// How much of what looks like base64 is the rest of an escape: the `n` in `\nMIIE…`.
fn escape_at(text: &str, at: usize) -> usize {
    match (text[..at].ends_with('\\'), text[at..].starts_with('u')) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 5,
    }
}

/// Base64 and what breaks and quotes lines; nothing that has a structure of its own.
fn is_body(text: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let is_around = |c: char| c.is_ascii_whitespace() || r#"\"'`,>|:;.()-→"#.contains(c);
    let is_key = text.contains("\":") || text.contains("\" :");
    !is_key
        && text.chars().all(|c| is_base64(c) || is_around(c))
        && text.split(|c| !is_base64(c)).any(|piece| piece.len() >= 20)
}
