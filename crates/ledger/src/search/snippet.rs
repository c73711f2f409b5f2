//! Snippets: the part of a message around its first match.

use std::ops::Range;

use crate::search::fold::fold_mapped;
use crate::search::query::Query;

/// The maximum number of characters shown before the first match.
const BEFORE: usize = 60;
/// The maximum number of characters shown after the first match.
const AFTER: usize = 140;

/// Extracts the text around the first match and marks each match in it. For a query that only
/// excludes terms, extracts the beginning of the message.
pub(crate) fn make_snippet(query: &Query, fields: &[String]) -> String {
    let marked = fields.iter().find_map(|field| {
        let matches = find_matches(query, field);
        (!matches.is_empty()).then_some((field, matches))
    });
    let (text, matches) = match marked {
        Some((field, matches)) => (field.as_str(), matches),
        None => {
            (fields.iter().find(|field| !field.is_empty()).map_or("", |field| field), Vec::new())
        }
    };
    let first = matches.first().cloned().unwrap_or(0..0);
    let start = go_back(text, first.start, BEFORE);
    let end = go_forward(text, first.end, AFTER);
    let mut out = String::from(if start > 0 { "…" } else { "" });
    let mut at = start;
    for found in matches.iter().filter(|found| found.end <= end) {
        push_line(&mut out, &text[at..found.start]);
        out.push_str(">>>");
        push_line(&mut out, &text[found.clone()]);
        out.push_str("<<<");
        at = found.end;
    }
    push_line(&mut out, &text[at..end]);
    if end < text.len() {
        out.push('…');
    }
    out
}

/// Adds text as one line.
fn push_line(out: &mut String, text: &str) {
    out.extend(text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }));
}

/// Finds the occurrences of all terms in the text, in order and without overlaps.
fn find_matches(query: &Query, text: &str) -> Vec<Range<usize>> {
    /// The maximum number of matches per term. No snippet is long enough to show more.
    const MOST: usize = 200;
    let (folded, starts) = fold_mapped(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    for term in query.terms() {
        let mut from = 0;
        for _ in 0..MOST {
            let Some(range) = term.find(&folded, from) else { break };
            from = range.end;
            found.push(original_range(&starts, &range));
        }
    }
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    found.retain(|range| {
        let keep = range.start >= end && range.start < range.end;
        end = if keep { range.end } else { end };
        keep
    });
    found
}

/// Returns the range of the original text that corresponds to a range of the folded text. A
/// character that was folded to several characters is included as a whole.
fn original_range(starts: &[usize], range: &Range<usize>) -> Range<usize> {
    let last = starts[range.end - 1];
    let end = starts[range.end..].iter().find(|start| **start > last).copied();
    starts[range.start]..end.unwrap_or(last)
}

/// Returns the offset of the character that is `characters` characters before `from`.
fn go_back(text: &str, from: usize, characters: usize) -> usize {
    text[..from].char_indices().rev().take(characters).last().map_or(from, |(at, _)| at)
}

/// Returns the offset of the character that is `characters` characters after `from`.
fn go_forward(text: &str, from: usize, characters: usize) -> usize {
    text[from..].char_indices().nth(characters).map_or(text.len(), |(at, _)| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet_of(query: &str, text: &str) -> String {
        make_snippet(&Query::parse(query), &[text.to_owned(), String::new(), String::new()])
    }

    #[test]
    fn matches_are_marked_in_the_original_text() {
        assert_eq!(
            snippet_of("cafe", "Le Café, un CAFE\u{301}."),
            "Le >>>Café<<<, un >>>CAFE\u{301}<<<."
        );
        assert_eq!(snippet_of("strasse", "in der Straße"), "in der >>>Straße<<<");
        assert_eq!(snippet_of("数据", "大数据库"), "大>>>数据<<<库");
        assert_eq!(snippet_of("a b", "b\na"), ">>>b<<< >>>a<<<");
        assert_eq!(snippet_of("NOT x", "hello"), "hello");
        assert_eq!(snippet_of("\"a b\" OR b", "a b"), ">>>a b<<<");
    }

    #[test]
    fn a_frequent_term_does_not_hide_an_earlier_match() {
        let text = format!("the needle {}{}", "- ".repeat(100), "hay ".repeat(300));
        let snippet = snippet_of("hay OR needle", &text);
        assert!(snippet.starts_with("the >>>needle<<< -"), "{snippet}");
    }

    #[test]
    fn long_text_is_cut_around_the_match() {
        let text = format!("{} needle {}", "x ".repeat(500), "y ".repeat(500));
        let snippet = snippet_of("needle", &text);
        assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
        assert!(snippet.contains(">>>needle<<<"));
        assert!(snippet.chars().count() < 230);
    }
}
