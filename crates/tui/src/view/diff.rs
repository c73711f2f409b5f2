//! The diff of a turn, with syntax colors.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::Line;
use takeback_undo::view::Part;
use takeback_undo::view::text::count;

use super::files::{describe, sign_of};
use super::pane::describe_load;
use super::text::LineBuilder;
use crate::content::DiffRow;
use crate::model::pane::Pane;
use crate::theme::{Ink, Theme};

/// The number of lines before the first file.
pub(super) const HEAD_LINES: usize = 2;

pub(super) fn count_lines(pane: &Pane) -> usize {
    let rows = pane.diff.ready().map_or(0, |diff| diff.rows.len() + usize::from(diff.left_out > 0));
    rows + HEAD_LINES
}

pub(super) fn render(
    pane: &Pane,
    theme: Theme,
    range: Range<usize>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![render_choice(pane, theme), Line::default()];
    if let Some(problem) = describe_load(&pane.diff, theme) {
        lines.extend(problem);
        return lines;
    }
    let Some(diff) = pane.diff.ready() else { return lines };
    if diff.rows.is_empty() {
        lines.push(Line::raw("No difference: both states hold the same files."));
        return lines;
    }
    lines.drain(..range.start.min(HEAD_LINES));
    let start = range.start.saturating_sub(HEAD_LINES);
    let rows = diff.rows.iter().skip(start).take(range.len());
    lines.extend(rows.map(|row| render_row(row, theme, width)));
    if diff.left_out > 0 {
        let files = count(diff.left_out as u64, "more file");
        lines.push(Line::styled(format!("{files}: d shows the whole diff"), theme.style(Ink::Key)));
    }
    lines
}

/// Renders the two comparisons that the user can choose from, and the key that switches between
/// them.
fn render_choice(pane: &Pane, theme: Theme) -> Line<'static> {
    let style = |is_chosen: bool| theme.style(if is_chosen { Ink::Strong } else { Ink::Faint });
    let mut line = LineBuilder::new(usize::MAX);
    line.add("This turn", style(!pane.is_since)).add(" · ", theme.style(Ink::Faint));
    line.add("Since then, until now", style(pane.is_since));
    line.add("   v", theme.style(Ink::Key)).add(" changes this", theme.style(Ink::Faint));
    line.build()
}

fn render_row(row: &DiffRow, theme: Theme, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(width);
    match row {
        DiffRow::File(change) => {
            let (sign, ink) = sign_of(&change.kind);
            line.add(sign, theme.style(ink)).add(" ", theme.style(Ink::Text));
            line.add(&change.path.to_string(), theme.style(Ink::Strong));
            if let Some(words) = describe(change) {
                line.add(&format!("  {words}"), theme.style(Ink::Faint));
            }
            if let Some(lines) = change.lines {
                line.add(&format!("  +{}", lines.insertions), theme.style(Ink::Added));
                line.add(&format!(" −{}", lines.deletions), theme.style(Ink::Removed));
            }
        }
        DiffRow::Fold(lines) => {
            let words = format!("      · {}", count(*lines as u64, "unchanged line"));
            line.add(&words, theme.style(Ink::Faint));
        }
        DiffRow::Same(number, parts) => add_code(&mut line, *number, " ", parts, theme, None),
        DiffRow::Removed(number, parts) => {
            let inks = (Ink::Removed, Ink::RemovedWord);
            add_code(&mut line, *number, "−", parts, theme, Some(inks));
        }
        DiffRow::Added(number, parts) => {
            let inks = (Ink::Added, Ink::AddedWord);
            add_code(&mut line, *number, "+", parts, theme, Some(inks));
        }
        DiffRow::Note(note) => {
            line.add(&format!("  {note}"), theme.style(Ink::Faint));
        }
        DiffRow::Gap => {}
    }
    line.build()
}

/// Adds a line of code. Only the sign in front of a changed line has the color of the change, so
/// that the code keeps its syntax colors. Changed words are highlighted.
fn add_code(
    line: &mut LineBuilder,
    number: usize,
    sign: &str,
    parts: &[Part],
    theme: Theme,
    inks: Option<(Ink, Ink)>,
) {
    line.add_right(&number.to_string(), theme.style(Ink::Faint), 5);
    let sign_style = inks.map_or(Style::new(), |(ink, _)| theme.style(ink));
    line.add(&format!(" {sign} "), sign_style);
    for part in parts {
        let style = match inks {
            Some((_, marked)) if part.is_marked => theme.style(marked),
            // A line without syntax colors has the color of its sign.
            Some((ink, _)) if part.token == takeback_undo::view::Token::Plain => theme.style(ink),
            _ => theme.token(part.token),
        };
        line.add(&part.text.replace('\t', "    "), style);
    }
}
