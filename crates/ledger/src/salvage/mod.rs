//! Reads the rows that are left in a damaged SQLite database, page by page and without SQLite.
//!
//! The reference is SQLite's document "Database File Format", and the names are taken from there.
//! What is read back is what SQLite would have returned, never more: rows that were deleted stay
//! so as far as the file still tells that they were.
//!
//! 1. `pages`, `wal`, `format`: which pages there are and how large they are.
//! 2. `survey`, `schema`: what each page is for. Trees are followed from their roots (`walk`), the freelist
//!    is read, overflow chains are followed; leaves that remain are orphaned.
//! 3. [`Rows`] follows the same trees again and reads their rows, a leaf at a time.

mod btree;
mod format;
mod freelist;
mod overflow;
mod pages;
mod record;
mod schema;
mod survey;
#[cfg(test)]
mod tests;
mod wal;
mod walk;

use std::io;
use std::path::Path;

use rusqlite::types::Value;

use btree::Cell;
use pages::{Page, Pages};
use survey::{Root, Survey};
use walk::Walk;

/// A damaged database.
pub(crate) struct Salvage {
    pages: Pages,
    survey: Survey,
}

/// A table that the schema names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) root: u32,
}

/// One row as it is stored: a column that is the rowid is NULL in `values`, columns that were
/// added later may be missing at the end, and whole numbers in REAL columns are integers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// `None` if no root leads to its page.
    pub(crate) table: Option<String>,
    /// The uppermost page that leads to it. Rows with the same number are of the same table.
    pub(crate) group: u32,
    pub(crate) rowid: i64,
    pub(crate) values: Vec<Value>,
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) pages: u32,
    /// Frames of the write-ahead log up to its last commit.
    pub(crate) wal_frames: u64,
    pub(crate) header_readable: bool,
    pub(crate) schema_whole: bool,
    /// If not, rows that were deleted and old copies of others may be among those without a table.
    pub(crate) freelist_whole: bool,
    pub(crate) free_pages: u32,
    /// Pages that a tree leads to but that are not there or are something else.
    pub(crate) unreadable_pages: u32,
    /// Pages that were read although something in them is wrong.
    pub(crate) inconsistent_pages: u32,
    /// Leaves that no root leads to.
    pub(crate) orphaned_pages: u32,
    /// Rows of readable leaves that are not readable themselves, as far as [`Rows`] has come.
    pub(crate) skipped_cells: u64,
}

impl Salvage {
    /// Looks at the database file and the committed frames of its write-ahead log.
    pub(crate) fn open(path: &Path) -> io::Result<Salvage> {
        let pages = Pages::open(path)?;
        let survey = Survey::take(&pages)?;
        Ok(Salvage { pages, survey })
    }

    /// The tables in the schema, as far as it can be read.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> &[Table] {
        &self.survey.tables
    }

    /// Every readable row once, except those of the schema itself.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            salvage: self,
            walk: Walk::new(&self.pages, &self.survey.closed),
            roots: self.survey.roots.iter(),
            root: Root { page: 0, table: None },
            leaf: None,
            skipped_cells: 0,
        }
    }
}

/// The rows of a damaged database.
pub(crate) struct Rows<'a> {
    salvage: &'a Salvage,
    walk: Walk<'a>,
    roots: std::slice::Iter<'a, Root>,
    root: Root,
    leaf: Option<Leaf>,
    skipped_cells: u64,
}

struct Leaf {
    page: Page,
    cells: std::vec::IntoIter<Cell>,
}

impl Rows<'_> {
    /// How it went so far; complete after the last row.
    pub(crate) fn report(&self) -> Report {
        Report { skipped_cells: self.skipped_cells, ..self.salvage.survey.report.clone() }
    }

    fn read(&self, page: &Page, cell: &Cell) -> Option<Row> {
        let Salvage { pages, survey } = self.salvage;
        let orphan = self.root.table.is_none();
        let payload = survey.overflow.read(pages, page, cell, orphan)?;
        let values = record::decode(&payload.bytes, &payload.wiped)?;
        let table = self.root.table.and_then(|index| survey.tables.get(index));
        let table = table.map(|table| table.name.clone());
        Some(Row { table, group: self.root.page, rowid: cell.key, values })
    }

    /// False if there are no more leaves.
    fn next_leaf(&mut self) -> bool {
        loop {
            if let Some((page, tree)) = self.walk.next_leaf() {
                self.skipped_cells += tree.skipped;
                self.leaf = Some(Leaf { page, cells: tree.cells.into_iter() });
                return true;
            }
            let Some(&root) = self.roots.next() else { return false };
            self.root = root;
            self.walk.start(root.page);
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(mut leaf) = self.leaf.take() {
                if let Some(cell) = leaf.cells.next() {
                    let row = self.read(&leaf.page, &cell);
                    self.leaf = Some(leaf);
                    match row {
                        Some(row) => return Some(row),
                        None => self.skipped_cells += 1,
                    }
                }
            } else if !self.next_leaf() {
                return None;
            }
        }
    }
}
