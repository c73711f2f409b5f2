//! Updates transcripts in the source code of tests: `UPDATE=1 cargo nextest run -p takeback`.

use std::fs::{self, File};
use std::panic::Location;
use std::path::Path;

/// Replaces the expected transcript in the source code of a test, near the call that compares it.
/// Returns false if the source does not contain the transcript literally, because it is assembled
/// from parts.
pub(crate) fn replace(place: &Location<'_>, expected: &str, seen: &str) -> bool {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join(place.file());
    // Tests in the same file run at the same time.
    let lock = File::open(&path).unwrap();
    lock.lock().unwrap();
    let source = fs::read_to_string(&path).unwrap();
    let updated = replace_nearest(&source, place.line() as usize, expected, seen);
    if let Some(updated) = &updated {
        // Write in place, because the lock is on this file itself.
        fs::write(&path, updated).unwrap();
    }
    updated.is_some()
}

fn replace_nearest(source: &str, line: usize, expected: &str, seen: &str) -> Option<String> {
    let (old, new) = (escape(expected), escape(seen));
    let line_of = |at: usize| source[..at].matches('\n').count() + 1;
    // Checking the surrounding text keeps a short transcript from matching in the middle of
    // another.
    let is_whole = |at: &usize| {
        source[..*at].ends_with(['"', '\n']) && source[at + old.len()..].starts_with('"')
    };
    let places = source.match_indices(&old).map(|(at, _)| at).filter(is_whole);
    let nearest = places.min_by_key(|at| line_of(*at).abs_diff(line))?;
    Some(format!("{}{new}{}", &source[..nearest], &source[nearest + old.len()..]))
}

/// Formats text as the inside of a string literal.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[test]
fn the_transcript_nearest_to_the_test_is_replaced() {
    let source = "a(\"\n$ x\n\");\nb(\"\n$ x\n\");\n";
    let expected = "a(\"\n$ x\n\");\nb(\"\n$ \\\"y\\\"\n\");\n";
    assert_eq!(replace_nearest(source, 4, "$ x\n", "$ \"y\"\n").unwrap(), expected);
    assert_eq!(replace_nearest(source, 4, "x\n", "y\n"), None);
}
