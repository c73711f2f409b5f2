//! Renders tables in Markdown.

use anstyle::Style as Ansi;
use pulldown_cmark::Alignment;

use super::wrap::{Span, wrap_spans};
use crate::output::style::Style;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::width_of;

/// The space between two columns.
const GAP: usize = 2;

/// A table that is being read. The first row is the header.
pub(super) struct MarkdownTable {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub(super) fn new(alignments: Vec<Alignment>) -> MarkdownTable {
        MarkdownTable { alignments, rows: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn add_cell(&mut self, text: String) {
        let columns = self.alignments.len();
        if let Some(row) = self.rows.last_mut().filter(|row| row.len() < columns) {
            row.push(text);
        }
    }

    /// Renders the table. If it is too wide, each row becomes a list of its cells, so that no text
    /// is cut off.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let widest = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| width_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.alignments.len()).map(widest).collect();
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if total <= columns { self.aligned_lines(&widths) } else { self.record_lines(columns) }
    }

    fn aligned_lines(&self, widths: &[usize]) -> Vec<String> {
        let column = |alignment: &Alignment| match alignment {
            Alignment::Right => Column::right(),
            _ => Column::left(),
        };
        let mut table = Table::new(self.alignments.iter().map(column));
        for (number, row) in self.rows.iter().enumerate() {
            match number {
                0 => table.add(row.iter().map(|text| Cell::styled(Style::Label, text))),
                _ => table.add(row.iter().map(Cell::new)),
            }
            if number == 0 {
                let rule = |width: &usize| Cell::styled(Style::Faint, "─".repeat(*width));
                table.add(widths.iter().map(rule));
            }
        }
        table.lines(None)
    }

    fn record_lines(&self, columns: usize) -> Vec<String> {
        let Some((header, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                lines.push(String::new());
            }
            for (name, text) in header.iter().zip(row).filter(|(_, text)| !text.is_empty()) {
                let name = Span { text: format!("{name}: "), style: Ansi::new().bold() };
                let text = Span { text: text.clone(), style: Ansi::new() };
                lines.extend(wrap_spans(&[name, text], columns));
            }
        }
        match rows.is_empty() {
            true => {
                wrap_spans(&[Span { text: header.join("  "), style: Ansi::new().bold() }], columns)
            }
            false => lines,
        }
    }
}
