//! Measuring the width of text on a terminal, and shortening text to a given width.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns the number of columns that text occupies on a terminal.
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// Shortens text to this many columns, with `…` in place of the missing end. Characters that are
/// displayed as one character are kept or dropped together.
pub fn shorten(text: &str, columns: usize) -> String {
    // Shortening must be cheap for text of any length, so the function stops reading once the
    // columns are full.
    let Some(end) = end_of_prefix(text.graphemes(true), columns) else { return text.to_owned() };
    let kept = end_of_prefix(text[..end].graphemes(true), columns.saturating_sub(1)).unwrap_or(end);
    if columns == 0 { String::new() } else { format!("{}…", &text[..kept]) }
}

/// Shortens text to this many columns, with `…` in place of the missing beginning. This suits
/// paths, because the end of a path matters more than its beginning.
pub fn shorten_start(text: &str, columns: usize) -> String {
    if columns == 0 || width_of(text) <= columns {
        return shorten(text, columns);
    }
    let kept = end_of_prefix(text.graphemes(true).rev(), columns - 1).unwrap_or(text.len());
    format!("…{}", &text[text.len() - kept..])
}

/// Returns the length in bytes of the graphemes that fit into this many columns, or `None` if all
/// of them fit.
fn end_of_prefix<'t>(graphemes: impl Iterator<Item = &'t str>, columns: usize) -> Option<usize> {
    let (mut end, mut used) = (0, 0);
    for grapheme in graphemes {
        used += width_of(grapheme);
        if used > columns {
            return Some(end);
        }
        end += grapheme.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_fits_is_not_shortened() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten_start("abc", 3), "abc");
        assert_eq!(shorten("日本", 4), "日本");
    }

    #[test]
    fn shortened_text_fits_into_the_columns() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let texts =
            ["plain text", "日本語の理由", "e\u{301}te\u{301}", family, "a\u{1F1E9}\u{1F1EA}b"];
        for text in texts {
            for columns in 0..12 {
                for short in [shorten(text, columns), shorten_start(text, columns)] {
                    assert!(width_of(&short) <= columns, "{short:?} for {columns}");
                }
            }
        }
    }

    #[test]
    fn characters_that_are_shown_as_one_stay_together() {
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(shorten("e\u{301}te\u{301}s", 3), "e\u{301}t…");
        assert_eq!(shorten("👨\u{200d}👩\u{200d}👧 and me", 4), "👨\u{200d}👩\u{200d}👧 …");
        assert_eq!(shorten_start("/home/日本語", 5), "…本語");
    }
}
