//! Text for people: shortened, measured, and disarmed. To disarm text is to escape the characters
//! that a terminal would obey instead of showing.

use std::path::Path;

pub(crate) use takeback_base::text::{disarm, format_bytes as bytes};
use takeback_tree::{BlockedPath, Uncovered};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::context::Context;

/// Disarms text that may have several lines. Line breaks stay, and tabs become spaces.
pub(crate) fn disarm_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| disarm(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the number of columns that text occupies on a terminal.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// Shortens text to this many columns, with `…` in place of the missing end. Characters that are
/// displayed as one character are kept or dropped together.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    // Shortening must be cheap for text of any length, so reading stops where the columns end.
    let Some(end) = end_of_prefix(text.graphemes(true), columns) else { return text.to_owned() };
    let kept = end_of_prefix(text[..end].graphemes(true), columns.saturating_sub(1)).unwrap_or(end);
    if columns == 0 { String::new() } else { format!("{}…", &text[..kept]) }
}

/// Shortens text to this many columns, with `…` in place of the missing beginning. The end of a
/// path says more than its beginning.
pub(crate) fn shorten_start(text: &str, columns: usize) -> String {
    if columns == 0 || width_of(text) <= columns {
        return shorten(text, columns);
    }
    let kept = end_of_prefix(text.graphemes(true).rev(), columns - 1).unwrap_or(text.len());
    format!("…{}", &text[text.len() - kept..])
}

/// Returns the number of bytes of these graphemes that fit into this many columns, or `None` if all
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

/// Joins the words of some text into one line.
pub(crate) fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats a timestamp as a local date and time.
pub(crate) fn local(moment: jiff::Timestamp) -> String {
    moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Formats a timestamp as a local time of day, with the date unless it is today.
pub(crate) fn short_local(moment: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    let (then, now) = (moment.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone));
    let format = if then.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    then.strftime(format).to_string()
}

/// Formats a time in RFC 3339 as a local time of day, with the date unless it is today.
pub(crate) fn local_time(time: &str) -> String {
    time.parse::<jiff::Timestamp>().map_or_else(|_| disarm(time), short_local)
}

/// Formats a path with `~` for the home directory, and escapes its control characters.
pub(crate) fn tilde(path: &Path, context: &Context) -> String {
    let short = context.user_home().and_then(|home| {
        let home = std::fs::canonicalize(home).ok()?;
        Some(format!("~/{}", path.strip_prefix(home).ok()?.display()))
    });
    disarm(&short.unwrap_or_else(|| path.display().to_string()))
}

/// Formats a number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a path that is not covered, with the reason.
pub(crate) fn uncovered_line(uncovered: &Uncovered) -> String {
    format!("{}  ({})", uncovered.path, disarm(&uncovered.reason.to_string()))
}

/// Names a path that cannot be restored, and says why.
pub(crate) fn blocked_line(blocked: &BlockedPath) -> String {
    format!("{}  ({})", blocked.path, disarm(&blocked.describe_reason()))
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
