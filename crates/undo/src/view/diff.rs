//! The lines of a changed file, for a unified view or side by side.

use std::ops::Range;

use takeback_base::text::format_bytes;
use takeback_tree::{
    ChangeKind, ChangeSide, Hunk, ObjectError, Oid, Store, TreeChange, find_hunks, split_lines,
};

use super::highlight::{Piece, Token, find_pieces};
use super::text::{mask_text, visible};

/// The number of unchanged lines that are shown around changed lines.
const CONTEXT: usize = 3;

/// The maximum length of a line that is shown in full, in characters.
const MAX_LINE: usize = 2_000;

/// A line with more words than this is not compared word by word.
const MAX_WORDS: usize = 400;

/// The content of a changed file, as far as it can be shown.
#[allow(missing_docs, reason = "the names are self-explanatory")]
#[derive(Debug)]
pub enum FileDiff {
    Lines(Vec<Section>),
    /// The old and the new version of a picture; `None` for a version that does not exist.
    Images([Option<Image>; 2]),
    /// The reason why no lines are shown, as a sentence.
    Note(String),
}

/// One side of a changed picture.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Image {
    pub oid: Oid,
    pub size: u64,
}

/// A part of a file.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Section {
    /// Unchanged lines that are not shown.
    Fold(usize),
    /// Lines that both sides have, with their numbers in the old and the new file.
    Same(Vec<(usize, usize, Vec<Part>)>),
    /// Lines that were replaced.
    Changed { old: Vec<Line>, new: Vec<Line> },
}

/// A changed line.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Line {
    pub number: usize,
    pub parts: Vec<Part>,
}

/// A part of a line that is shown in one style.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Part {
    /// True if the other side's line does not have this part.
    pub is_marked: bool,
    pub token: Token,
    pub text: String,
}

/// The options for comparing files.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffView {
    /// True if all unchanged lines are shown, without folds.
    pub is_whole: bool,
    /// True if differences in spaces are ignored.
    pub is_loose: bool,
    /// True if secrets are masked.
    pub is_masked: bool,
}

impl FileDiff {
    /// Returns the number of lines that are shown.
    #[allow(clippy::len_without_is_empty, reason = "at least a note is shown")]
    pub fn len(&self) -> usize {
        let FileDiff::Lines(sections) = self else { return 1 };
        let lines = |section: &Section| match section {
            Section::Fold(_) => 1,
            Section::Same(lines) => lines.len(),
            Section::Changed { old, new } => old.len() + new.len(),
        };
        sections.iter().map(lines).sum()
    }
}

/// Reads both sides of a change and compares their lines.
pub fn diff_file(
    store: &Store,
    change: &TreeChange,
    view: DiffView,
) -> Result<FileDiff, ObjectError> {
    if is_image(change) {
        let image = |side: &ChangeSide| Image { oid: side.oid, size: side.size };
        return Ok(FileDiff::Images(
            [&change.from, &change.to].map(|side| side.as_ref().map(image)),
        ));
    }
    if let Some(note) = find_note(change) {
        return Ok(FileDiff::Note(note));
    }
    let read = |side: Option<ChangeSide>| match side {
        Some(side) if !side.mode.is_directory() => store.blob(&side.oid),
        _ => Ok(Vec::new()),
    };
    let (old, new) = (read(change.from)?, read(change.to)?);
    if old == new {
        return Ok(FileDiff::Note("The content is the same.".into()));
    }
    let mask = |content: Vec<u8>| match view.is_masked {
        true => mask_text(&String::from_utf8_lossy(&content)).into_bytes(),
        false => content,
    };
    let (old, new) = (mask(old), mask(new));
    let name = String::from_utf8_lossy(change.path.name());
    let sections = compare_files(&old, &new, &name, view);
    match sections.iter().any(|section| matches!(section, Section::Changed { .. })) {
        true => Ok(FileDiff::Lines(sections)),
        false if view.is_loose => Ok(FileDiff::Note("Only spaces differ.".into())),
        false => Ok(FileDiff::Note("Only a masked secret differs.".into())),
    }
}

/// Returns true if a binary file has the extension of a picture format that browsers support. Its
/// content is checked later.
pub fn is_image(change: &TreeChange) -> bool {
    const ENDINGS: [&str; 8] = ["png", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "ico"];
    let name = String::from_utf8_lossy(change.path.name()).to_ascii_lowercase();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    change.binary && !change.private && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Finds the type of a picture by its first bytes. Vector graphics are text, and are shown as text.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_container = bytes.get(4..8) == Some(b"ftyp");
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'B', b'M', ..] => Some("image/bmp"),
        [0, 0, 1, 0, ..] => Some("image/x-icon"),
        _ if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => Some("image/webp"),
        _ if is_container && bytes.get(8..12) == Some(b"avif") => Some("image/avif"),
        _ => None,
    }
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
        let size = |side: Option<ChangeSide>| {
            side.map_or("nothing".to_owned(), |side| format_bytes(side.size))
        };
        let (old, new) = (size(change.from), size(change.to));
        return Some(format!("Not text, or too large to compare: {old} → {new}."));
    }
    if change.kind == ChangeKind::ModeChanged {
        let mode = |side: Option<ChangeSide>| {
            side.map_or(String::new(), |side| format!("{:o}", side.mode.0 & 0o7777))
        };
        let (old, new) = (mode(change.from), mode(change.to));
        return Some(format!("Only the permissions changed: {old} → {new}."));
    }
    None
}

/// One side of a comparison.
struct Side<'a> {
    lines: Vec<&'a [u8]>,
    /// The lines as the user sees them.
    texts: Vec<String>,
    pieces: Option<Vec<Vec<Piece>>>,
}

impl<'a> Side<'a> {
    fn new(content: &'a [u8], name: &str) -> Side<'a> {
        let lines = split_lines(content);
        let texts: Vec<String> = lines.iter().map(|line| show_line(line)).collect();
        let pieces = find_pieces(name, &texts);
        Side { lines, texts, pieces }
    }

    /// Returns the lines without spaces.
    fn bare_lines(&self) -> Vec<Vec<u8>> {
        let bare = |line: &&[u8]| {
            line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
        };
        self.lines.iter().map(bare).collect()
    }

    /// Splits a line at the ends of its marked parts and of its pieces.
    fn parts(&self, at: usize, marked: &[(bool, usize)]) -> Vec<Part> {
        let text = &self.texts[at];
        let whole = [(Token::Plain, text.len())];
        let pieces = self.pieces.as_ref().map_or(&whole[..], |pieces| &pieces[at]);
        let mut pieces = pieces.iter().copied();
        let (mut token, mut left) = pieces.next().unwrap_or((Token::Plain, text.len()));
        let mut parts = Vec::new();
        let mut start = 0;
        for (is_marked, length) in marked {
            let end = start + length;
            while start < end {
                if left == 0 {
                    (token, left) = pieces.next().unwrap_or((Token::Plain, end - start));
                }
                let length = left.min(end - start);
                let text = text[start..start + length].to_owned();
                parts.push(Part { is_marked: *is_marked, token, text });
                (start, left) = (start + length, left - length);
            }
        }
        parts
    }

    fn plain_parts(&self, at: usize) -> Vec<Part> {
        self.parts(at, &[(false, self.texts[at].len())])
    }
}

/// Compares two versions of a file.
fn compare_files(old: &[u8], new: &[u8], name: &str, view: DiffView) -> Vec<Section> {
    let context = if view.is_whole { usize::MAX } else { CONTEXT };
    let (old, new) = (Side::new(old, name), Side::new(new, name));
    let hunks = match view.is_loose {
        false => find_hunks(&old.lines, &new.lines),
        true => {
            let (old, new) = (old.bare_lines(), new.bare_lines());
            let old: Vec<&[u8]> = old.iter().map(Vec::as_slice).collect();
            let new: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
            find_hunks(&old, &new)
        }
    };
    let mut sections = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let gap = old_at..hunk.before.start;
        let leading = if index == 0 { 0 } else { context };
        add_unchanged(&mut sections, &new, gap, new_at, (leading, context));
        sections.push(compare_hunk(&old, &new, hunk));
        (old_at, new_at) = (hunk.before.end, hunk.after.end);
    }
    add_unchanged(&mut sections, &new, old_at..old.lines.len(), new_at, (context, 0));
    sections
}

/// Adds the unchanged lines between two hunks: the first and the last few, and a fold between them.
fn add_unchanged(
    sections: &mut Vec<Section>,
    new: &Side<'_>,
    gap: Range<usize>,
    new_start: usize,
    (leading, trailing): (usize, usize),
) {
    let same = |range: Range<usize>| {
        let line = |at: usize| {
            let new_at = new_start + (at - gap.start);
            (at + 1, new_at + 1, new.plain_parts(new_at))
        };
        Section::Same(range.map(line).collect())
    };
    let shown = leading.saturating_add(trailing);
    // A fold itself takes up a line.
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

fn compare_hunk(old: &Side<'_>, new: &Side<'_>, hunk: &Hunk) -> Section {
    let plain = |side: &Side<'_>, range: &Range<usize>| -> Vec<Line> {
        range.clone().map(|at| Line { number: at + 1, parts: side.plain_parts(at) }).collect()
    };
    let mut before = plain(old, &hunk.before);
    let mut after = plain(new, &hunk.after);
    // Lines are paired in order. If the two sides have different numbers of lines, most pairs would
    // consist of unrelated lines.
    if before.len() == after.len() {
        for (index, (line, other)) in before.iter_mut().zip(&mut after).enumerate() {
            let (at, other_at) = (hunk.before.start + index, hunk.after.start + index);
            if let Some((marks, other_marks)) = compare_words(&old.texts[at], &new.texts[other_at])
            {
                line.parts = old.parts(at, &marks);
                other.parts = new.parts(other_at, &other_marks);
            }
        }
    }
    Section::Changed { old: before, new: after }
}

/// Marked and unmarked parts of a line, with their lengths in bytes.
type Marks = Vec<(bool, usize)>;

/// Marks the words in which two lines differ. Returns `None` if the lines have too little in common
/// for marks to help.
fn compare_words(old: &str, new: &str) -> Option<(Marks, Marks)> {
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
fn mark(words: &[&str], marked: impl Iterator<Item = Range<usize>>) -> Marks {
    let mut parts = Vec::new();
    let mut at = 0;
    let mut push = |is_marked: bool, words: &[&str]| {
        if !words.is_empty() {
            parts.push((is_marked, words.concat().len()));
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

/// Turns the bytes of a line into text, with escapes for invisible characters.
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
        compare_files(old.as_bytes(), new.as_bytes(), "a.txt", DiffView::default())
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
        assert_eq!(old, [(false, 20), (true, 1), (false, 1)]);
        assert_eq!(new, old);
        assert!(compare_words("alpha beta", "gamma delta epsilon").is_none());
    }

    #[test]
    fn marks_and_colors_are_combined() {
        let view = DiffView::default();
        let found = compare_files(b"let total = 12;\n", b"let total = 13;\n", "a.rs", view);
        let [Section::Changed { new, .. }] = &found[..] else { panic!("one hunk") };
        let parts: Vec<(bool, Token, &str)> = new[0]
            .parts
            .iter()
            .map(|part| (part.is_marked, part.token, part.text.as_str()))
            .collect();
        assert_eq!(
            parts,
            [
                (false, Token::Keyword, "let"),
                (false, Token::Plain, " total = "),
                (true, Token::Number, "13"),
                (false, Token::Plain, ";"),
            ]
        );
    }

    #[test]
    fn spaces_can_be_left_out_of_the_comparison() {
        let view = DiffView { is_loose: true, ..DiffView::default() };
        let found = compare_files(b"if x:\n  a\nb\n", b"if x:\n      a\nc\n", "a.txt", view);
        let changed = found.iter().filter(|part| matches!(part, Section::Changed { .. })).count();
        assert_eq!(changed, 1);
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
