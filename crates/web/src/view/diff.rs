//! The lines of a changed file, for a unified view or side by side.

use takeback_base::text::format_bytes;
use takeback_tree::{ChangeKind, ObjectError, Store, TreeChange, find_hunks, split_lines};

use crate::text::visible;

/// The number of unchanged lines that are shown around changed ones.
const CONTEXT: usize = 3;

/// The longest line that is shown in full, in characters.
const MAX_LINE: usize = 2_000;

/// The largest number of pieces in which the words of a line are compared.
const MAX_WORDS: usize = 400;

/// The content of a changed file, as far as it can be shown.
pub(crate) enum FileDiff {
    Lines(Vec<Section>),
    /// The reason in words why no lines are shown.
    Note(String),
}

/// A part of a file.
pub(crate) enum Section {
    /// Unchanged lines that are not shown.
    Fold(usize),
    /// Lines that both sides have, with their numbers in the old and the new file.
    Same(Vec<(usize, usize, String)>),
    /// Lines that were replaced.
    Changed { old: Vec<Line>, new: Vec<Line> },
}

/// A changed line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    /// The parts of the line. A part is marked if the other side's line does not have it.
    pub(crate) parts: Vec<(bool, String)>,
}

impl FileDiff {
    /// Returns the number of lines that are shown.
    pub(crate) fn len(&self) -> usize {
        let FileDiff::Lines(sections) = self else { return 1 };
        let lines = |section: &Section| match section {
            Section::Fold(_) => 1,
            Section::Same(lines) => lines.len(),
            Section::Changed { old, new } => old.len() + new.len(),
        };
        sections.iter().map(lines).sum()
    }
}

/// Reads both sides of a change and compares their lines. With `whole`, all unchanged lines are
/// shown.
pub(crate) fn diff_file(
    store: &Store,
    change: &TreeChange,
    whole: bool,
) -> Result<FileDiff, ObjectError> {
    if let Some(note) = find_note(change) {
        return Ok(FileDiff::Note(note));
    }
    let read = |side: Option<takeback_tree::ChangeSide>| match side {
        Some(side) if !side.mode.is_directory() => store.blob(&side.oid),
        _ => Ok(Vec::new()),
    };
    let (old, new) = (read(change.from)?, read(change.to)?);
    if old == new {
        return Ok(FileDiff::Note("The content is the same.".into()));
    }
    let context = if whole { usize::MAX } else { CONTEXT };
    Ok(FileDiff::Lines(compare_lines(&split_lines(&old), &split_lines(&new), context)))
}

/// Says why the content of a file is not shown.
fn find_note(change: &TreeChange) -> Option<String> {
    let sides = || change.from.iter().chain(&change.to);
    if change.private {
        return Some("A private file: its content is never shown.".into());
    }
    if sides().all(|side| side.mode.is_directory()) {
        return Some("An empty directory.".into());
    }
    if change.binary {
        let size = |side: Option<takeback_tree::ChangeSide>| {
            side.map_or("nothing".to_owned(), |side| format_bytes(side.size))
        };
        let (old, new) = (size(change.from), size(change.to));
        return Some(format!("Not text, or too large to compare: {old} → {new}."));
    }
    if change.kind == ChangeKind::ModeChanged {
        let mode = |side: Option<takeback_tree::ChangeSide>| {
            side.map_or(String::new(), |side| format!("{:o}", side.mode.0 & 0o7777))
        };
        let (old, new) = (mode(change.from), mode(change.to));
        return Some(format!("Only the permissions changed: {old} → {new}."));
    }
    None
}

fn compare_lines(old: &[&[u8]], new: &[&[u8]], context: usize) -> Vec<Section> {
    let hunks = find_hunks(old, new);
    let mut sections = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let gap = old_at..hunk.before.start;
        let leading = if index == 0 { 0 } else { context };
        add_unchanged(&mut sections, old, gap, new_at, (leading, context));
        sections.push(compare_hunk(old, new, hunk));
        (old_at, new_at) = (hunk.before.end, hunk.after.end);
    }
    add_unchanged(&mut sections, old, old_at..old.len(), new_at, (context, 0));
    sections
}

/// Adds the unchanged lines between two hunks: the first and the last few, and a fold between them.
fn add_unchanged(
    sections: &mut Vec<Section>,
    old: &[&[u8]],
    gap: std::ops::Range<usize>,
    new_start: usize,
    (leading, trailing): (usize, usize),
) {
    let same = |range: std::ops::Range<usize>| {
        let line = |at: usize| (at + 1, new_start + (at - gap.start) + 1, show_line(old[at]));
        Section::Same(range.map(line).collect())
    };
    let shown = leading.saturating_add(trailing);
    // A fold takes a line itself.
    if gap.len() <= shown.saturating_add(1) {
        if !gap.is_empty() {
            sections.push(same(gap.clone()));
        }
        return;
    }
    if leading > 0 {
        sections.push(same(gap.start..gap.start + leading));
    }
    sections.push(Section::Fold(gap.len() - shown));
    if trailing > 0 {
        sections.push(same(gap.end - trailing..gap.end));
    }
}

fn compare_hunk(old: &[&[u8]], new: &[&[u8]], hunk: &takeback_tree::Hunk) -> Section {
    let show = |lines: &[&[u8]], start: usize| -> Vec<Line> {
        let line = |(index, line): (usize, &&[u8])| Line {
            number: start + index + 1,
            parts: vec![(false, show_line(line))],
        };
        lines.iter().enumerate().map(line).collect()
    };
    let mut before = show(&old[hunk.before.clone()], hunk.before.start);
    let mut after = show(&new[hunk.after.clone()], hunk.after.start);
    // Lines are paired in order. Pairs of unequal hunks are mostly unrelated.
    if before.len() == after.len() {
        for (old, new) in before.iter_mut().zip(&mut after) {
            if let Some((old_parts, new_parts)) = compare_words(&old.parts[0].1, &new.parts[0].1) {
                (old.parts, new.parts) = (old_parts, new_parts);
            }
        }
    }
    Section::Changed { old: before, new: after }
}

type Parts = Vec<(bool, String)>;

/// Marks the words in which two lines differ. Returns `None` if the lines have too little in common
/// for marks to help.
fn compare_words(old: &str, new: &str) -> Option<(Parts, Parts)> {
    let (old, new) = (split_words(old), split_words(new));
    if old.len().max(new.len()) > MAX_WORDS {
        return None;
    }
    let old_bytes: Vec<&[u8]> = old.iter().map(|word| word.as_bytes()).collect();
    let new_bytes: Vec<&[u8]> = new.iter().map(|word| word.as_bytes()).collect();
    let hunks = find_hunks(&old_bytes, &new_bytes);
    let changed: usize = hunks
        .iter()
        .map(|hunk| {
            old[hunk.before.clone()].concat().len() + new[hunk.after.clone()].concat().len()
        })
        .sum();
    let total = old.concat().len() + new.concat().len();
    if total == 0 || changed * 10 > total * 7 {
        return None;
    }
    let before = mark(&old, hunks.iter().map(|hunk| hunk.before.clone()));
    let after = mark(&new, hunks.iter().map(|hunk| hunk.after.clone()));
    Some((before, after))
}

/// Joins words into marked and unmarked parts.
fn mark(words: &[&str], marked: impl Iterator<Item = std::ops::Range<usize>>) -> Parts {
    let mut parts = Vec::new();
    let mut at = 0;
    let mut push = |is_marked: bool, words: &[&str]| {
        if !words.is_empty() {
            parts.push((is_marked, words.concat()));
        }
    };
    for range in marked {
        push(false, &words[at..range.start]);
        push(true, &words[range.clone()]);
        at = range.end;
    }
    push(false, &words[at..]);
    parts
}

/// Splits a line into words, runs of spaces, and single other characters.
fn split_words(line: &str) -> Vec<&str> {
    let kind = |character: char| match character {
        character if character.is_alphanumeric() || character == '_' => 1,
        character if character.is_whitespace() => 2,
        _ => 0,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, character) in line.char_indices() {
        let is_new = last.is_some_and(|last| last == 0 || last != kind(character));
        if is_new {
            words.push(&line[start..at]);
            start = at;
        }
        last = Some(kind(character));
    }
    if start < line.len() {
        words.push(&line[start..]);
    }
    words
}

/// Turns the bytes of a line into text that shows what it holds.
fn show_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let text = visible(&String::from_utf8_lossy(line)).replace('\n', "\\n");
    match text.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{} … ({} bytes)", &text[..end], line.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(old: &str, new: &str) -> Vec<Section> {
        compare_lines(&split_lines(old.as_bytes()), &split_lines(new.as_bytes()), CONTEXT)
    }

    #[test]
    fn unchanged_regions_fold_with_their_number_of_lines() {
        let lines: Vec<String> = (1..=40).map(|number| format!("line {number}\n")).collect();
        let old = lines.concat();
        let new = old.replace("line 20\n", "line twenty\n");
        let found = sections(&old, &new);
        let shape: Vec<String> = found
            .iter()
            .map(|section| match section {
                Section::Fold(count) => format!("fold {count}"),
                Section::Same(lines) => format!("same {}", lines.len()),
                Section::Changed { old, new } => format!("changed {} {}", old.len(), new.len()),
            })
            .collect();
        assert_eq!(shape, ["fold 16", "same 3", "changed 1 1", "same 3", "fold 17"]);
    }

    #[test]
    fn changed_words_are_marked() {
        let (old, new) = compare_words("let total = price * 2;", "let total = price * 3;").unwrap();
        assert_eq!(
            old,
            [
                (false, "let total = price * ".to_owned()),
                (true, "2".to_owned()),
                (false, ";".to_owned()),
            ]
        );
        assert_eq!(new[1], (true, "3".to_owned()));
        assert!(compare_words("alpha beta", "gamma delta epsilon").is_none());
    }

    #[test]
    fn every_word_is_kept() {
        for line in ["", "  a_b  c+=d", "é(中)\t—"] {
            assert_eq!(split_words(line).concat(), line);
        }
    }

    #[test]
    fn hostile_bytes_are_shown_as_text() {
        assert_eq!(show_line(b"a\x1b[31m\xff\n"), "a\\u{1b}[31m\u{fffd}");
        let long = "x".repeat(3_000);
        assert!(show_line(long.as_bytes()).ends_with("… (3000 bytes)"));
    }
}
