//! Reads the rows that are left in a damaged SQLite database, page by page and without SQLite.
//!
//! The reference is SQLite's document "Database File Format", and the names are taken from there.
//! The rows that come back are those that SQLite would have returned, never more: deleted rows stay
//! deleted as far as the file still shows that they were. README.md says what can be read.
//!
//! 1. `pages`, `wal` and `format` find out which pages there are and how large they are.
//! 2. `survey` and `schema` find out what each page is for. They follow the trees from their roots
//!    (`walk`), the freelist and the overflow chains; the leaves that remain are orphaned.
//! 3. [`SalvagedRows`] follows the same trees again and reads their rows, a leaf at a time.

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

use btree::Cell;
use pages::{Page, Pages};
use survey::{Survey, TreeRoot};
use walk::TreeWalk;

/// A damaged database, open for reading.
pub struct DamagedDatabase {
    pages: Pages,
    survey: Survey,
}

/// A table that the schema names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaTable {
    /// The name of the table.
    pub name: String,
    /// The number of the page where the tree of its rows begins.
    pub root: u32,
}

/// One row as it is stored: a column that is the rowid is NULL in `values`, columns that were
/// added later may be missing at the end, and whole numbers in REAL columns are integers.
#[derive(Clone, Debug, PartialEq)]
pub struct SalvagedRow {
    /// The name of its table; `None` if no root leads to its page.
    pub table: Option<String>,
    /// The number of the uppermost page that leads to it. Rows of one group are of one table.
    pub group: u32,
    /// The row's key in its table.
    pub rowid: i64,
    /// The values of its columns.
    pub values: Vec<Value>,
}

/// A value of a column, of one of SQLite's storage classes.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The state of the database, and how much of it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SalvageReport {
    pub pages: u32,
    /// Frames of the write-ahead log up to its last commit.
    pub wal_frames: u64,
    pub header_readable: bool,
    pub schema_whole: bool,
    /// False if rows that were deleted, and old copies of others, may be among those without a
    /// table.
    pub freelist_whole: bool,
    pub free_pages: u32,
    /// Pages that a tree leads to but that are missing or are something else.
    pub unreadable_pages: u32,
    /// Pages that were read although something in them is wrong.
    pub inconsistent_pages: u32,
    /// Leaves that no root leads to.
    pub orphaned_pages: u32,
    /// Unreadable rows of readable leaves, as far as [`SalvagedRows`] has come.
    pub skipped_cells: u64,
}

impl DamagedDatabase {
    /// Opens the database file with the committed frames of its write-ahead log, and finds out
    /// what each page is for.
    pub fn open(path: &Path) -> io::Result<DamagedDatabase> {
        let pages = Pages::open(path)?;
        let survey = Survey::take(&pages)?;
        Ok(DamagedDatabase { pages, survey })
    }

    /// The tables in the schema, as far as it can be read.
    pub fn tables(&self) -> &[SchemaTable] {
        &self.survey.tables
    }

    /// Every readable row once, except those of the schema itself. Rows with a table come first.
    pub fn rows(&self) -> SalvagedRows<'_> {
        SalvagedRows {
            database: self,
            walk: TreeWalk::new(&self.pages, &self.survey.closed),
            roots: self.survey.roots.iter(),
            root: TreeRoot { page: 0, table: None },
            leaf: None,
            skipped_cells: 0,
        }
    }
}

/// The rows of a damaged database.
pub struct SalvagedRows<'a> {
    database: &'a DamagedDatabase,
    walk: TreeWalk<'a>,
    roots: std::slice::Iter<'a, TreeRoot>,
    root: TreeRoot,
    leaf: Option<OpenLeaf>,
    skipped_cells: u64,
}

/// A leaf, and those of its cells that are still to be read.
struct OpenLeaf {
    page: Page,
    cells: std::vec::IntoIter<Cell>,
}

impl SalvagedRows<'_> {
    /// The report on the rows so far; complete after the last one.
    pub fn report(&self) -> SalvageReport {
        SalvageReport { skipped_cells: self.skipped_cells, ..self.database.survey.report.clone() }
    }

    fn read_row(&self, page: &Page, cell: &Cell) -> Option<SalvagedRow> {
        let DamagedDatabase { pages, survey } = self.database;
        let is_orphan = self.root.table.is_none();
        let payload = survey.overflow.read_payload(pages, page, cell, is_orphan)?;
        let values = record::decode_record(&payload.bytes, &payload.wiped)?;
        let table = self.root.table.and_then(|index| survey.tables.get(index));
        let table = table.map(|table| table.name.clone());
        Some(SalvagedRow { table, group: self.root.page, rowid: cell.key, values })
    }

    /// Goes on to the next leaf; false if there is none.
    fn open_next_leaf(&mut self) -> bool {
        loop {
            if let Some((page, tree)) = self.walk.next_leaf() {
                self.skipped_cells += tree.skipped;
                self.leaf = Some(OpenLeaf { page, cells: tree.cells.into_iter() });
                return true;
            }
            let Some(&root) = self.roots.next() else { return false };
            self.root = root;
            self.walk.start_at(root.page);
        }
    }
}

impl Iterator for SalvagedRows<'_> {
    type Item = SalvagedRow;

    fn next(&mut self) -> Option<SalvagedRow> {
        loop {
            if let Some(mut leaf) = self.leaf.take() {
                if let Some(cell) = leaf.cells.next() {
                    let row = self.read_row(&leaf.page, &cell);
                    self.leaf = Some(leaf);
                    match row {
                        Some(row) => return Some(row),
                        None => self.skipped_cells += 1,
                    }
                }
            } else if !self.open_next_leaf() {
                return None;
            }
        }
    }
}
