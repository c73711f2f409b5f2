//! Lines at the bottom of a terminal that change while more output appears above them.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use unicode_segmentation::UnicodeSegmentation;

use super::terminal::Size;
use super::text::width_of;

/// The sequence that makes a terminal show all changes in one step, if the terminal supports this.
const BEGIN_UPDATE: &str = "\u{1b}[?2026h";
const END_UPDATE: &str = "\u{1b}[?2026l";

/// The live lines that a terminal shows. The cursor is at the end of the last one or, if there are
/// none, at the beginning of an empty row.
///
/// Only lines that the cursor can still reach are live: a terminal cannot change rows that have
/// scrolled out of its screen. If the live lines do not fit on the screen, only the last ones are
/// shown.
#[derive(Default)]
pub(crate) struct LiveRegion {
    shown: Vec<String>,
}

impl LiveRegion {
    /// Returns the text that prints finished lines in place of the live ones, and new live lines
    /// below them. Unchanged lines are not printed again.
    pub(crate) fn update(&mut self, finished: &[String], live: &[String], size: Size) -> String {
        let live = last_rows(live, size);
        let lines: Vec<&String> = finished.iter().chain(live).collect();
        let mut same = self.shown.iter().zip(&lines).take_while(|(old, new)| old == *new).count();
        if same > 0 && same == lines.len() && same < self.shown.len() {
            // The cursor must end up after the last line, so the last line is printed again.
            same -= 1;
        }
        let mut text = String::new();
        match self.shown.get(same) {
            // The lines on the screen are unchanged, and new ones follow.
            None => push_lines(&mut text, &lines[same..], same > 0),
            Some(old) if same + 1 == self.shown.len() && is_begun(old, lines.get(same)) => {
                text.push_str(&lines[same][old.len()..]);
                push_lines(&mut text, &lines[same + 1..], true);
            }
            Some(_) => {
                let rows: usize = self.shown[same..].iter().map(|line| rows_of(line, size)).sum();
                text.push_str(BEGIN_UPDATE);
                text.push('\r');
                match (rows - 1).min(size.rows.saturating_sub(1)) {
                    0 => {}
                    up => write!(text, "\u{1b}[{up}A").expect("writing to a string succeeds"),
                }
                text.push_str("\u{1b}[J");
                push_lines(&mut text, &lines[same..], false);
                text.push_str(END_UPDATE);
            }
        }
        if live.is_empty() && !lines.is_empty() {
            text.push_str("\r\n");
        }
        self.shown = live.to_vec();
        text
    }
}

/// True if the old line is the beginning of the new one.
fn is_begun(old: &str, new: Option<&&String>) -> bool {
    new.is_some_and(|new| new.starts_with(old))
}

fn push_lines(text: &mut String, lines: &[&String], is_behind_line: bool) {
    for (number, line) in lines.iter().enumerate() {
        if number > 0 || is_behind_line {
            text.push_str("\r\n");
        }
        text.push_str(line);
    }
}

/// Returns as many of the last lines as fit on the screen, leaving one row for the finished lines.
fn last_rows(lines: &[String], size: Size) -> &[String] {
    let mut rows = 0;
    let fits = |line: &&String| {
        rows += rows_of(line, size);
        rows < size.rows.max(2)
    };
    let count = lines.iter().rev().take_while(fits).count();
    // At least the last line is shown, even if it is longer than the screen.
    &lines[lines.len() - count.max(1).min(lines.len())..]
}

/// Returns the number of rows that a line occupies.
fn rows_of(line: &str, size: Size) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    if plain.is_ascii() {
        return plain.len().div_ceil(size.columns).max(1);
    }
    let (mut rows, mut used) = (1, 0);
    for grapheme in plain.graphemes(true) {
        let width = width_of(grapheme);
        // A wide character that does not fit at the end of a row moves to the next row.
        if used + width > size.columns {
            (rows, used) = (rows + 1, 0);
        }
        used += width;
    }
    rows
}
