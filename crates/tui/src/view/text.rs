//! Builds lines with columns of fixed width, and shortens texts and numbers to fit.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use takeback_base::columns::{shorten, width_of};

/// A line of limited width that is built from left to right.
pub(super) struct LineBuilder {
    spans: Vec<Span<'static>>,
    left: usize,
}

impl LineBuilder {
    pub(super) fn new(width: usize) -> LineBuilder {
        LineBuilder { spans: Vec::new(), left: width }
    }

    /// Returns the number of columns that are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Adds text, shortened to the columns that are left.
    pub(super) fn add(&mut self, text: &str, style: Style) -> &mut LineBuilder {
        let text = shorten(text, self.left);
        self.left -= width_of(&text).min(self.left);
        self.spans.push(Span::styled(text, style));
        self
    }

    /// Adds text, padded or shortened to exactly this many columns.
    pub(super) fn add_filled(
        &mut self,
        text: &str,
        style: Style,
        columns: usize,
    ) -> &mut LineBuilder {
        let text = shorten(text, columns.min(self.left));
        let gap = columns.saturating_sub(width_of(&text));
        self.add(&text, style).add(&" ".repeat(gap), Style::new())
    }

    /// Adds text, aligned to the right in this many columns.
    pub(super) fn add_right(
        &mut self,
        text: &str,
        style: Style,
        columns: usize,
    ) -> &mut LineBuilder {
        let gap = columns.saturating_sub(width_of(text));
        self.add(&" ".repeat(gap), Style::new()).add(text, style)
    }

    pub(super) fn build(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

/// Formats a number in at most four characters if it is below a billion: `729`, `9999`, `12k`,
/// `2M`.
pub(super) fn short_number(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Wraps text into lines of at most this many columns, at spaces if possible.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word = word.to_owned();
            if !line.is_empty() && width_of(&line) + 1 + width_of(&word) > columns {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            while width_of(&line) + width_of(&word) > columns {
                let room = columns - width_of(&line);
                let head: String = take_columns(&word, room);
                if head.is_empty() {
                    if line.is_empty() {
                        break;
                    }
                } else {
                    word = word[head.len()..].to_owned();
                    line.push_str(&head);
                }
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

/// Returns as much of the beginning of a text as fits into this many columns.
fn take_columns(text: &str, columns: usize) -> String {
    let mut taken = String::new();
    for character in text.chars() {
        taken.push(character);
        if width_of(&taken) > columns {
            taken.pop();
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces_and_long_words_are_split() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap("a\n\nb", 10), ["a", "", "b"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("日", 1), ["日"]);
    }

    #[test]
    fn long_numbers_are_abbreviated() {
        let shown: Vec<String> = [7, 9_999, 12_345, 2_000_000].map(short_number).into();
        assert_eq!(shown, ["7", "9999", "12k", "2M"]);
    }
}
