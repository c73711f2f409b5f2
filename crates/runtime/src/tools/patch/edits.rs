//! Exact replacements in the bytes of a file.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use bstr::ByteSlice;
use serde::Deserialize;

use crate::tools::text::{cut_text, has_crlf, to_crlf};

/// The maximum number of bytes of a file that an error shows.
const MAX_SHOWN: usize = 2000;

/// The maximum number of line numbers that an error lists.
const MAX_LISTED: usize = 5;

/// A piece of text and its replacement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

/// A replacement at one place in the file.
struct Replacement<'e> {
    range: Range<usize>,
    new: Cow<'e, str>,
    /// The number of the edit, starting at 1.
    edit: usize,
}

/// Applies all edits to the original content. Returns the new content and the number of
/// replacements. The error tells the model which edit fails, and why.
pub(super) fn apply_edits(content: &[u8], edits: &[Edit]) -> Result<(Vec<u8>, usize), String> {
    if edits.is_empty() {
        return Err("there are no edits".to_owned());
    }
    let mut replacements = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        let found = find_replacements(content, edit, at + 1).map_err(|error| match edits {
            [_] => error,
            _ => format!("edit {}: {error}", at + 1),
        })?;
        replacements.extend(found);
    }
    replacements.sort_by_key(|replacement| replacement.range.start);
    let overlap = replacements.windows(2).find(|pair| pair[0].range.end > pair[1].range.start);
    if let Some([one, other]) = overlap {
        let (first, second) = (one.edit.min(other.edit), one.edit.max(other.edit));
        let line = find_line(content, other.range.start);
        return Err(format!("edits {first} and {second} overlap in line {line}: join them"));
    }
    let mut patched = Vec::with_capacity(content.len());
    let mut done = 0;
    for Replacement { range, new, .. } in &replacements {
        patched.extend_from_slice(&content[done..range.start]);
        patched.extend_from_slice(new.as_bytes());
        done = range.end;
    }
    patched.extend_from_slice(&content[done..]);
    Ok((patched, replacements.len()))
}

fn find_replacements<'e>(
    content: &[u8],
    edit: &'e Edit,
    number: usize,
) -> Result<Vec<Replacement<'e>>, String> {
    if edit.old.is_empty() {
        return Err("`old` is empty".to_owned());
    }
    if edit.old == edit.new {
        return Err("`old` and `new` are the same".to_owned());
    }
    let (old, new) = adapt_line_endings(content, edit);
    let found: Vec<usize> = content.find_iter(old.as_bytes()).collect();
    match found.len() {
        0 => Err(describe_not_found(content, &edit.old)),
        1 => Ok(()),
        _ if edit.all => Ok(()),
        times => {
            let lines = found.iter().take(MAX_LISTED).map(|at| find_line(content, *at).to_string());
            let lines = lines.collect::<Vec<_>>().join(", ");
            let more = if times > MAX_LISTED { ", …" } else { "" };
            Err(format!(
                "`old` is found {times} times (lines {lines}{more}): add lines around it, or set \
                 `all`"
            ))
        }
    }?;
    let replace = |at| Replacement { range: at..at + old.len(), new: new.clone(), edit: number };
    Ok(found.into_iter().map(replace).collect())
}

/// Returns the old and the new text with the line endings of the file. If a file has CRLF line
/// endings, the model is shown the file as if it had plain LF line endings.
fn adapt_line_endings<'e>(content: &[u8], edit: &'e Edit) -> (Cow<'e, str>, Cow<'e, str>) {
    let is_found_later =
        || !content.contains_str(&edit.old) && content.contains_str(to_crlf(&edit.old));
    match has_crlf(content) || (edit.old.contains('\n') && is_found_later()) {
        true => (to_crlf(&edit.old).into(), to_crlf(&edit.new).into()),
        false => (edit.old.as_str().into(), edit.new.as_str().into()),
    }
}

/// Returns the number of the line that contains a position.
fn find_line(content: &[u8], at: usize) -> usize {
    1 + content[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// Explains that a text was not found, and shows the lines of the file that are most similar to it.
fn describe_not_found(content: &[u8], old: &str) -> String {
    let lines: Vec<Cow<'_, str>> = content.lines().map(String::from_utf8_lossy).collect();
    let wanted: Vec<&str> = old.lines().collect();
    let Some(at) = find_similar(&lines, &wanted) else {
        return "`old` is not found: read the file again".to_owned();
    };
    let end = (at + wanted.len()).min(lines.len());
    let shown = lines[at..end].join("\n");
    let shown = cut_text(&shown, MAX_SHOWN);
    format!("`old` is not found exactly. The most similar lines, from line {}:\n{shown}", at + 1)
}

/// Finds the place where as many of the wanted lines as possible match, ignoring spaces around the
/// lines. If no line matches, finds the line that has the most words in common with the longest
/// wanted line.
fn find_similar(lines: &[Cow<'_, str>], wanted: &[&str]) -> Option<usize> {
    /// The maximum number of wanted lines that are compared, which limits the time.
    const MAX_COMPARED: usize = 50;
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let wanted: Vec<&str> = wanted.iter().take(MAX_COMPARED).map(|line| line.trim()).collect();
    let count_equal = |at: usize| {
        let pairs = trimmed[at..].iter().zip(&wanted);
        pairs.filter(|(line, wanted)| line == wanted && !line.is_empty()).count()
    };
    let find_best = |score: &dyn Fn(usize) -> usize| {
        let scored = (0..trimmed.len()).map(|at| (score(at), at)).filter(|(score, _)| *score > 0);
        // If several places match equally well, the first is the most likely one.
        scored.max_by_key(|(score, at)| (*score, std::cmp::Reverse(*at)))
    };
    if let Some((_, at)) = find_best(&count_equal) {
        return Some(at);
    }
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())?;
    let words: HashSet<&str> = split_words(longest).collect();
    let count_common =
        |at: usize| split_words(trimmed[at]).collect::<HashSet<_>>().intersection(&words).count();
    let (common, at) = find_best(&count_common)?;
    (3 * common >= words.len()).then(|| at.saturating_sub(offset))
}

fn split_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit { old: old.to_owned(), new: new.to_owned(), all: false }
    }

    fn apply(content: &str, edits: &[Edit]) -> Result<String, String> {
        apply_edits(content.as_bytes(), edits).map(|(new, _)| String::from_utf8(new).unwrap())
    }

    #[test]
    fn all_edits_refer_to_the_original_text() {
        let patched =
            apply("one two three", &[edit("three", "one"), edit("one", "two"), edit("two", "3")]);
        assert_eq!(patched.as_deref(), Ok("two 3 one"));
    }

    #[test]
    fn adjacent_edits_do_not_overlap() {
        assert_eq!(apply("abcd", &[edit("cd", "2"), edit("ab", "1")]).as_deref(), Ok("12"));
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let error = apply("x\nabc", &[edit("bc", "1"), edit("ab", "2")]);
        assert_eq!(error.unwrap_err(), "edits 1 and 2 overlap in line 2: join them");
        let all = Edit { all: true, ..edit("a", "x") };
        assert!(apply("aba", &[all, edit("aba", "y")]).unwrap_err().contains("overlap"));
    }

    #[test]
    fn an_ambiguous_edit_is_refused_unless_it_applies_to_all_matches() {
        let error = apply("a\nb\na\n", &[edit("a", "x")]).unwrap_err();
        assert_eq!(error, "`old` is found 2 times (lines 1, 3): add lines around it, or set `all`");
        let all = || Edit { all: true, ..edit("a", "xa") };
        assert_eq!(apply("a\nb\na\n", &[all()]).as_deref(), Ok("xa\nb\nxa\n"));
        assert_eq!(apply_edits(b"aaa", &[all()]).unwrap().1, 3);
    }

    #[test]
    fn useless_edits_are_refused() {
        assert_eq!(apply("a", &[]).unwrap_err(), "there are no edits");
        assert_eq!(apply("a", &[edit("", "b")]).unwrap_err(), "`old` is empty");
        let error = apply("a b", &[edit("a", "c"), edit("b", "b")]).unwrap_err();
        assert_eq!(error, "edit 2: `old` and `new` are the same");
    }

    #[test]
    fn the_error_for_a_missing_text_shows_the_most_similar_lines() {
        let file = "fn one() {\n    call(1);\n}\n\nfn two() {\n    call(2);\n}\n";
        let error = apply(file, &[edit("fn two() {\n  call(2);\n}", "x")]).unwrap_err();
        assert_eq!(
            error,
            "`old` is not found exactly. The most similar lines, from line 5:\nfn two() {\n    \
             call(2);\n}"
        );
        let error = apply(file, &[edit("pub fn one(a: u8) {", "x")]).unwrap_err();
        assert!(error.ends_with("from line 1:\nfn one() {"), "{error}");
        let error = apply(file, &[edit("nothing like it", "x")]).unwrap_err();
        assert_eq!(error, "`old` is not found: read the file again");
        assert!(apply("", &[edit("a", "x")]).is_err());
    }

    #[test]
    fn crlf_line_endings_are_kept() {
        let crlf = "a\r\nb\r\nc\r\n";
        assert_eq!(apply(crlf, &[edit("b", "x\ny")]).as_deref(), Ok("a\r\nx\r\ny\r\nc\r\n"));
        assert_eq!(apply(crlf, &[edit("a\nb\n", "z\n")]).as_deref(), Ok("z\r\nc\r\n"));
        assert_eq!(apply(crlf, &[edit("\nb", "\nz")]).as_deref(), Ok("a\r\nz\r\nc\r\n"));
        assert_eq!(apply(crlf, &[edit("a\r\nb", "z")]).as_deref(), Ok("z\r\nc\r\n"));
        let mixed = "a\r\nb\nc\n";
        assert_eq!(apply(mixed, &[edit("a\nb", "x\ny")]).as_deref(), Ok("x\r\ny\nc\n"));
        assert_eq!(apply(mixed, &[edit("b\nc", "x\ny")]).as_deref(), Ok("a\r\nx\ny\n"));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let (patched, _) = apply_edits(b"\xff a \xfe", &[edit("a", "b")]).unwrap();
        assert_eq!(patched, b"\xff b \xfe");
    }
}
