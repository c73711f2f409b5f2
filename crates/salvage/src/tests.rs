//! Tests with databases that SQLite creates and that the tests then damage. SQLite also shows which
//! page each row is on.

mod cells;
mod damage;
mod kinds;
mod random;
mod wal;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::{DamagedDatabase, SalvageReport, SalvagedRow, Value};

/// A row as text that can be compared and sorted.
type Content = String;

fn row_content(rowid: i64, values: &[Value]) -> Content {
    format!("{rowid} {values:?}")
}

fn value(value: rusqlite::types::Value) -> Value {
    match value {
        rusqlite::types::Value::Null => Value::Null,
        rusqlite::types::Value::Integer(number) => Value::Integer(number),
        rusqlite::types::Value::Real(number) => Value::Real(number),
        rusqlite::types::Value::Text(text) => Value::Text(text),
        rusqlite::types::Value::Blob(bytes) => Value::Blob(bytes),
    }
}

/// A database created by SQLite.
struct Sample {
    dir: TempDir,
    connection: Connection,
}

impl Sample {
    fn new(pragmas: &str) -> Sample {
        let dir = TempDir::new().unwrap();
        let connection = Connection::open(dir.path().join("sample.db")).unwrap();
        connection.execute_batch(pragmas).unwrap();
        Sample { dir, connection }
    }

    /// Creates a database with tables of all kinds, rows that contain the name of their table, and
    /// free pages.
    fn with_usual_tables(pragmas: &str, rows: usize) -> Sample {
        let sample = Sample::new(pragmas);
        sample.run_sql(
            "CREATE TABLE small (name TEXT, number INTEGER);
             CREATE TABLE large (name TEXT, number INTEGER, body TEXT, ratio REAL);
             CREATE TABLE mixed (id INTEGER PRIMARY KEY, name, value);
             CREATE TABLE empty (name);
             CREATE TABLE dropped (name, body);
             CREATE TABLE keyed (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
             CREATE INDEX by_name ON small (name, number);
             CREATE VIEW one AS SELECT 1",
        );
        sample.insert_rows("small", rows, "'small ' || i, i * i - 99");
        let body = "'large ' || i || ':' || substr(replace(hex(zeroblob(3000)), '00', 'text ' || i), 1, i * 97 % 3000)";
        sample.insert_rows(
            "large",
            rows / 40,
            &format!("'large ' || i, i, {body}, i / 7.0 + 0.01"),
        );
        let values = "CASE i % 8 WHEN 0 THEN NULL WHEN 1 THEN -i WHEN 2 THEN i << (i % 62)
             WHEN 3 THEN 0.1 * i WHEN 4 THEN x'00ff' WHEN 5 THEN zeroblob(9) WHEN 6 THEN 'ä€𝄞'
             ELSE 1 END";
        sample.insert_rows("mixed", rows / 4, &format!("i * 3 - 40, 'mixed ' || i, {values}"));
        sample.insert_rows("dropped", rows / 16, "'dropped ' || i, hex(zeroblob(i % 300))");
        sample.insert_rows("keyed", rows / 8, "'keyed ' || i, i");
        // This adds interior pages, overflow pages, and leaf pages that hold rows to the freelist.
        sample.run_sql(
            "DROP TABLE dropped;
             DELETE FROM small WHERE rowid % 5 = 0;
             DELETE FROM small WHERE rowid BETWEEN 100 AND 300;
             DELETE FROM large WHERE rowid BETWEEN 20 AND 30",
        );
        sample
    }

    fn run_sql(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    fn insert_rows(&self, table: &str, rows: usize, values: &str) {
        self.run_sql(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO {table} SELECT {values} FROM n"
        ));
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("sample.db")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn query_number(&self, sql: &str) -> usize {
        let number: i64 = self.connection.query_row(sql, [], |row| row.get(0)).unwrap();
        usize::try_from(number).unwrap()
    }

    fn query_numbers(&self, sql: &str) -> BTreeSet<usize> {
        let mut query = self.connection.prepare(sql).unwrap();
        let number = |row: &rusqlite::Row<'_>| row.get::<_, u32>(0).map(|number| number as usize);
        query.query_map([], number).unwrap().map(Result::unwrap).collect()
    }

    fn page_size(&self) -> usize {
        self.query_number("PRAGMA page_size")
    }

    fn root_page(&self, table: &str) -> usize {
        self.query_number(&format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"))
    }

    /// Reads all rows as they are stored. Groups them by table and orders them by rowid.
    fn rows(&self) -> BTreeMap<String, Vec<Content>> {
        let tables = self.query_strings(
            "SELECT name FROM pragma_table_list WHERE type = 'table' AND NOT wr AND schema = 'main'
             AND name <> 'sqlite_schema'",
        );
        tables.into_iter().map(|table| (table.clone(), self.rows_of(&table))).collect()
    }

    fn rows_of(&self, table: &str) -> Vec<Content> {
        let sql = format!("SELECT rowid, * FROM {table} ORDER BY rowid");
        let mut query = self.connection.prepare(&sql).unwrap();
        let names: Vec<String> = query.column_names().map(str::to_owned).collect();
        let width = names.len();
        let row = |row: &rusqlite::Row<'_>| {
            let mut values: Vec<Value> = (1..width).map(|i| value(row.get(i).unwrap())).collect();
            // A column that is an alias of the rowid is not stored.
            if names[1] == "id" {
                values[0] = Value::Null;
            }
            Ok(row_content(row.get(0).unwrap(), &values))
        };
        query.query_map([], row).unwrap().map(Result::unwrap).collect()
    }

    fn query_strings(&self, sql: &str) -> Vec<String> {
        let mut query = self.connection.prepare(sql).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// The rows that depend on each page, according to SQLite.
struct Residence {
    /// The rows that are lost with each page.
    rows: BTreeMap<usize, BTreeSet<Content>>,
    interiors: BTreeSet<usize>,
    /// The pages of the schema.
    schema: BTreeSet<usize>,
}

impl Residence {
    fn of_rows(sample: &Sample) -> Residence {
        let (mut rows, mut interiors) = (BTreeMap::new(), BTreeSet::new());
        for (table, contents) in sample.rows() {
            let mut query = sample
                .connection
                .prepare("SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = ?")
                .unwrap();
            let page = |row: &rusqlite::Row<'_>| {
                let number = |i| row.get::<_, u32>(i).map(|number| number as usize);
                Ok((row.get(0)?, (number(1)?, row.get::<_, String>(2)?, number(3)?)))
            };
            let pages: BTreeMap<String, (usize, String, usize)> =
                query.query_map([&table], page).unwrap().map(Result::unwrap).collect();
            let mut left = contents.iter();
            let mut in_leaf: BTreeMap<&str, Vec<&Content>> = BTreeMap::new();
            for (path, (number, _, cells)) in pages.iter().filter(|(_, page)| page.1 == "leaf") {
                let here: Vec<&Content> = left.by_ref().take(*cells).collect();
                rows.insert(*number, here.iter().map(ToString::to_string).collect());
                in_leaf.insert(path, here);
            }
            assert_eq!(left.next(), None, "{table}");
            for (path, (number, kind, _)) in &pages {
                if kind == "internal" {
                    interiors.insert(*number);
                } else if kind == "overflow" {
                    let (leaf, cell) = path.split_once('+').unwrap().0.rsplit_once('/').unwrap();
                    let row = in_leaf[format!("{leaf}/").as_str()]
                        [usize::from_str_radix(cell, 16).unwrap()];
                    rows.insert(*number, BTreeSet::from([row.clone()]));
                }
            }
        }
        let schema = sample.query_numbers("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'");
        Residence { rows, interiors, schema }
    }

    /// True if, without this page, rows on other pages can no longer be attributed to a table.
    fn leads_to_others(&self, page: usize) -> bool {
        self.interiors.contains(&page) || self.schema.contains(&page)
    }

    fn rows_on(&self, page: usize) -> BTreeSet<Content> {
        self.rows.get(&page).cloned().unwrap_or_default()
    }
}

/// The salvaged rows, and the report.
struct Salvaged {
    rows: Vec<SalvagedRow>,
    report: SalvageReport,
}

impl Salvaged {
    fn from_file(path: &Path) -> Salvaged {
        let salvage = DamagedDatabase::open(path).unwrap();
        let mut rows = salvage.rows();
        let found: Vec<SalvagedRow> = rows.by_ref().collect();
        Salvaged { rows: found, report: rows.report() }
    }

    /// Salvages a database file that consists of these bytes.
    fn from_bytes(bytes: &[u8]) -> Salvaged {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("damaged.db");
        fs::write(&path, bytes).unwrap();
        Salvaged::from_file(&path)
    }

    /// Returns the rows whose table is known, grouped by table, in the order in which they were
    /// salvaged.
    fn by_table(&self) -> BTreeMap<String, Vec<Content>> {
        let mut tables: BTreeMap<String, Vec<Content>> = BTreeMap::new();
        for row in &self.rows {
            if let Some(table) = &row.table {
                tables.entry(table.clone()).or_default().push(row_content(row.rowid, &row.values));
            }
        }
        tables
    }

    fn orphans(&self) -> Vec<&SalvagedRow> {
        self.rows.iter().filter(|row| row.table.is_none()).collect()
    }

    /// Returns all rows, sorted. A row that was salvaged twice appears twice.
    fn sorted_contents(&self) -> Vec<Content> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|row| row_content(row.rowid, &row.values)).collect();
        rows.sort();
        rows
    }

    /// Asserts that every row that is attributed to a table is in that table.
    fn assert_tables_are_right(&self, rows: &BTreeMap<String, Vec<Content>>, what: &str) {
        for (table, contents) in self.by_table() {
            let right: BTreeSet<_> = rows[&table].iter().collect();
            assert!(contents.iter().all(|content| right.contains(content)), "{what}: {table}");
        }
    }
}

/// Returns all rows of all tables, sorted, except the lost ones.
fn all_but(rows: &BTreeMap<String, Vec<Content>>, lost: &BTreeSet<Content>) -> Vec<Content> {
    let all = rows.values().flatten().filter(|row| !lost.contains(*row));
    let mut all: Vec<Content> = all.cloned().collect();
    all.sort();
    all
}

/// Asserts that two lists of rows are equal. The message shows only the first difference.
#[track_caller]
fn assert_same_rows(found: &[Content], expected: &[Content], what: &str) {
    let differing = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert_eq!(differing, None, "{what}: {} of {}", found.len(), expected.len());
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[track_caller]
fn assert_same_tables(salvaged: &Salvaged, sample: &Sample, what: &str) {
    let (found, expected) = (salvaged.by_table(), not_empty(sample.rows()));
    assert!(found.keys().eq(expected.keys()), "{what}: {:?}", found.keys());
    for (table, rows) in expected {
        assert_same_rows(&found[&table], &rows, &format!("{what}, {table}"));
    }
    assert!(salvaged.orphans().is_empty(), "{what}");
}

fn not_empty(rows: BTreeMap<String, Vec<Content>>) -> BTreeMap<String, Vec<Content>> {
    rows.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
}

fn page_mut(bytes: &mut [u8], page_size: usize, number: usize) -> &mut [u8] {
    &mut bytes[(number - 1) * page_size..number * page_size]
}
