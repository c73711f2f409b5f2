//! Reads the rows that are left in a damaged SQLite database, page by page and without SQLite.
//!
//! The code follows SQLite's document "Database File Format" and uses its terms. This crate returns
//! the rows that SQLite would have returned, and never more: a deleted row stays deleted, as long
//! as the file still shows that it was deleted. README.md lists what can be read.
//!
//! 1. `pages`, `wal` and `format` determine the pages and their size.
//! 2. `survey` and `schema` determine the purpose of each page. They follow the trees from their
//!    roots (`walk`), the freelist and the overflow chains. The remaining leaves are orphaned.
//! 3. [`SalvagedRows`] follows the same trees again and reads their rows, one leaf at a time.

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
    /// The number of the root page of the table's tree.
    pub root: u32,
}

/// One row as stored. A column that is an alias of the rowid is NULL in `values`, columns that were
/// added later may be missing at the end, and whole numbers in REAL columns are integers.
#[derive(Clone, Debug, PartialEq)]
pub struct SalvagedRow {
    /// The name of the table; `None` if the row's page is not reachable from any root.
    pub table: Option<String>,
    /// The number of the topmost page from which the row is reachable. Rows with the same group
    /// belong to the same table.
    pub group: u32,
    /// The key of the row in its table.
    pub rowid: i64,
    /// The values of the columns.
    pub values: Vec<Value>,
}

/// A column value, in one of SQLite's storage classes.
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
    /// The number of frames in the write-ahead log up to its last commit.
    pub wal_frames: u64,
    pub header_readable: bool,
    pub schema_whole: bool,
    /// True if the freelist is complete. If not, the rows without a table may include deleted rows
    /// and old copies of other rows.
    pub freelist_whole: bool,
    pub free_pages: u32,
    /// The number of pages that a tree refers to, but that are missing or of the wrong kind.
    pub unreadable_pages: u32,
    /// The number of pages that were read although part of their content is wrong.
    pub inconsistent_pages: u32,
    /// The number of leaves that are not reachable from any root.
    pub orphaned_pages: u32,
    /// The number of unreadable rows in the leaves that [`SalvagedRows`] has read so far.
    pub skipped_cells: u64,
}

impl DamagedDatabase {
    /// Opens the database file with the committed frames of its write-ahead log, and determines the
    /// purpose of each page.
    pub fn open(path: &Path) -> io::Result<DamagedDatabase> {
        let pages = Pages::open(path)?;
        let survey = Survey::take(&pages)?;
        Ok(DamagedDatabase { pages, survey })
    }

    /// Returns the tables in the readable part of the schema.
    pub fn tables(&self) -> &[SchemaTable] {
        &self.survey.tables
    }

    /// Returns every readable row once, except the rows of the schema itself. Rows with a table
    /// come first.
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

/// A leaf and its remaining cells.
struct OpenLeaf {
    page: Page,
    cells: std::vec::IntoIter<Cell>,
}

impl SalvagedRows<'_> {
    /// Returns the report so far. The report is complete after the last row.
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

    /// Moves to the next leaf. Returns false if there is none.
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
