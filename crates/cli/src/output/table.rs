//! Tables for users. No row is wider than the terminal.
//!
//! ```text
//! let mut table = Table::new([Column::right(), Column::left().shrinks(2, 12), Column::free()]);
//! table.add([Cell::new("1"), Cell::new(reason), Cell::new(prompt).between("“", "”")]);
//! table.print();
//! ```
//!
//! Cells escape control characters, so that text cannot control the terminal. If the columns do not
//! fit, they are shortened in the order of their ranks, the lowest rank first. If that is not
//! enough, the ends of the rows are cut off.

#[cfg(test)]
mod tests;

use super::style::{Style, paint};
use super::terminal;
use super::text::{disarm, shorten, shorten_start, width_of};

/// The space between two columns.
const GAP: usize = 2;

/// A column, and how it can shrink on a narrow terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    alignment: Alignment,
    /// The minimum width, even if all cells are shorter.
    at_least: usize,
    /// The maximum width of a cell, even on a wide terminal.
    at_most: usize,
    shrinks: Option<Shrinks>,
    keeps_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
    /// Each cell is as wide as its text, and an empty cell leaves no gap.
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Shrinks {
    rank: u8,
    /// The smallest useful width. If it is 0, the column is left out instead of being shortened.
    to: usize,
}

impl Column {
    const fn new(alignment: Alignment) -> Column {
        Column { alignment, at_least: 0, at_most: usize::MAX, shrinks: None, keeps_end: false }
    }

    /// Creates a column as wide as its widest cell, aligned to the left.
    pub(crate) const fn left() -> Column {
        Column::new(Alignment::Left)
    }

    /// Creates a column as wide as its widest cell, aligned to the right.
    pub(crate) const fn right() -> Column {
        Column::new(Alignment::Right)
    }

    /// Creates a column in which each cell is as wide as its text. An empty cell leaves no gap.
    pub(crate) const fn free() -> Column {
        Column::new(Alignment::Free)
    }

    pub(crate) const fn at_least(self, columns: usize) -> Column {
        Column { at_least: columns, ..self }
    }

    pub(crate) const fn at_most(self, columns: usize) -> Column {
        Column { at_most: columns, ..self }
    }

    /// Allows the column to be shortened to the width `to` if a row is too long. Columns with lower
    /// ranks are shortened first. A column that can shrink to 0 is never cut: it is left out
    /// entirely.
    pub(crate) const fn shrinks(self, rank: u8, to: usize) -> Column {
        Column { shrinks: Some(Shrinks { rank, to }), ..self }
    }

    /// Makes the column cut off the beginning of long text instead of its end. This suits paths.
    pub(crate) const fn keeps_end(self) -> Column {
        Column { keeps_end: true, ..self }
    }
}

/// A piece of text in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    before: String,
    text: String,
    after: String,
    style: Option<Style>,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Cell {
        Cell { text: disarm(text.as_ref()), ..Cell::default() }
    }

    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Cell {
        Cell { style: Some(style), ..Cell::new(text) }
    }

    pub(crate) fn with_style(self, style: Style) -> Cell {
        Cell { style: Some(style), ..self }
    }

    /// Puts text around the cell's own text. When the cell is shortened, the text around it is kept
    /// as long as there is room.
    pub(crate) fn between(self, before: &str, after: &str) -> Cell {
        Cell { before: disarm(before), after: disarm(after), ..self }
    }

    fn width(&self) -> usize {
        width_of(&self.before) + width_of(&self.text) + width_of(&self.after)
    }

    fn shorten(&mut self, width: usize, keeps_end: bool) {
        if self.width() <= width {
            return;
        }
        let cut = if keeps_end { shorten_start } else { shorten };
        let around = width_of(&self.before) + width_of(&self.after);
        match width.checked_sub(around).filter(|left| *left > 0) {
            Some(left) => self.text = cut(&self.text, left),
            None => {
                let whole = format!("{}{}{}", self.before, self.text, self.after);
                *self = Cell { text: cut(&whole, width), style: self.style, ..Cell::default() };
            }
        }
    }

    fn painted(&self) -> String {
        let whole = format!("{}{}{}", self.before, self.text, self.after);
        self.style.map_or(whole.clone(), |style| paint(style, &whole))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text)
    }
}

/// Rows of cells in columns.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new(), indent: 0 }
    }

    /// Indents each row by this many spaces.
    pub(crate) fn indented(self, indent: usize) -> Table {
        Table { indent, ..self }
    }

    /// Adds a row with a cell for each column. If cells are missing at the end, they are empty.
    pub(crate) fn add(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        assert!(row.len() <= self.columns.len(), "a row has a cell for each column");
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    pub(crate) fn print(self) {
        self.lines(terminal::columns()).iter().for_each(|line| println!("{line}"));
    }

    /// Renders the rows so that none is wider than `columns`.
    pub(crate) fn lines(mut self, columns: Option<usize>) -> Vec<String> {
        for row in &mut self.rows {
            for (cell, column) in row.iter_mut().zip(&self.columns) {
                cell.shorten(column.at_most, column.keeps_end);
            }
        }
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|at| self.widest(at)).collect();
        if let Some(columns) = columns {
            self.fit(&mut widths, columns);
        }
        let indent = " ".repeat(self.indent);
        let whole = self.rows.iter().map(|row| self.line(row, &widths, columns));
        whole.map(|line| format!("{indent}{line}").trim_end().to_owned()).collect()
    }

    /// Returns the width of a column: the width of its widest cell, or 0 if all its cells are
    /// empty.
    fn widest(&self, at: usize) -> usize {
        match self.rows.iter().map(|row| row[at].width()).max() {
            Some(widest) if widest > 0 => widest.max(self.columns[at].at_least),
            _ => 0,
        }
    }

    /// Shortens columns, in the order of their ranks, until every row fits. Then widens shortened
    /// columns again if leaving out other columns freed more space than needed.
    fn fit(&mut self, widths: &mut [usize], columns: usize) {
        let full = (self.rows.clone(), widths.to_vec());
        let mut ranked: Vec<(u8, usize, usize)> = (0..self.columns.len())
            .filter_map(|at| self.columns[at].shrinks.map(|shrinks| (shrinks.rank, at, shrinks.to)))
            .collect();
        ranked.sort_unstable();
        for (_, at, least) in &ranked {
            let excess = |row: &Vec<Cell>, widths: &[usize]| {
                self.row_width(row, widths).saturating_sub(columns)
            };
            let excess: Vec<usize> = self.rows.iter().map(|row| excess(row, widths)).collect();
            self.resize(*at, widths, &full, |width, row| {
                let excess = row.map_or(excess.iter().max().copied(), |row| Some(excess[row]));
                match excess.unwrap_or(0) {
                    0 => width,
                    _ if *least == 0 => 0,
                    excess => width.min(width.saturating_sub(excess).max(*least)),
                }
            });
        }
        for (_, at, _) in ranked.iter().rev().filter(|(.., least)| *least > 0) {
            let room = |row: &Vec<Cell>, widths: &[usize]| {
                columns.saturating_sub(self.row_width(row, widths))
            };
            let room: Vec<usize> = self.rows.iter().map(|row| room(row, widths)).collect();
            self.resize(*at, widths, &full, |width, row| {
                width + row.map_or(room.iter().min().copied(), |row| Some(room[row])).unwrap_or(0)
            });
        }
    }

    /// Changes the width of a column. `new_width` computes the new width from the current one: once
    /// for all rows, or for each row separately if the column is free.
    fn resize(
        &mut self,
        at: usize,
        widths: &mut [usize],
        (full_rows, full_widths): &(Vec<Vec<Cell>>, Vec<usize>),
        new_width: impl Fn(usize, Option<usize>) -> usize,
    ) {
        let Column { alignment, keeps_end, .. } = self.columns[at];
        if alignment != Alignment::Free {
            widths[at] = new_width(widths[at], None).min(full_widths[at]);
        }
        for (number, (row, full)) in self.rows.iter_mut().zip(full_rows).enumerate() {
            let width = match alignment {
                Alignment::Free => new_width(row[at].width(), Some(number)),
                Alignment::Left | Alignment::Right => widths[at],
            };
            row[at] = full[at].clone();
            row[at].shorten(width, keeps_end);
        }
    }

    /// Returns the width of a row, up to the end of its last cell that has text.
    fn row_width(&self, row: &[Cell], widths: &[usize]) -> usize {
        let (mut end, mut last) = (self.indent, self.indent);
        for (at, cell) in row.iter().enumerate() {
            let width = self.cell_width(at, cell, widths);
            if width == 0 {
                continue;
            }
            let start = if end == self.indent { end } else { end + GAP };
            end = start + width;
            if cell.width() > 0 {
                let is_padded = self.columns[at].alignment == Alignment::Right;
                last = if is_padded { end } else { start + cell.width() };
            }
        }
        last
    }

    fn cell_width(&self, at: usize, cell: &Cell, widths: &[usize]) -> usize {
        match self.columns[at].alignment {
            Alignment::Free => cell.width(),
            Alignment::Left | Alignment::Right => widths[at],
        }
    }

    /// Renders a row. If the row is too long even after columns were shortened, its end is cut off.
    fn line(&self, row: &[Cell], widths: &[usize], columns: Option<usize>) -> String {
        let mut left = columns.map_or(usize::MAX, |columns| columns.saturating_sub(self.indent));
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width = self.cell_width(at, cell, widths);
            if width == 0 {
                continue;
            }
            if !line.is_empty() {
                line.push_str("  ");
                left = left.saturating_sub(GAP);
            }
            let mut cell = cell.clone();
            cell.shorten(width.min(left), self.columns[at].keeps_end);
            let padding = " ".repeat(width.min(left).saturating_sub(cell.width()));
            left = left.saturating_sub(width);
            match self.columns[at].alignment {
                Alignment::Right => line.extend([padding, cell.painted()]),
                Alignment::Left => line.extend([cell.painted(), padding]),
                Alignment::Free => line.push_str(&cell.painted()),
            }
        }
        line
    }
}
