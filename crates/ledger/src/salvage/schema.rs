//! The schema: which tables there are and where their trees begin.

use rusqlite::types::Value;

use super::Table;
use super::btree::{self, Cell, LEAF_TABLE};
use super::overflow::Overflow;
use super::pages::{Page, PageSet, Pages};
use super::record;
use super::survey::claim;
use super::walk::Walk;

/// The root of `sqlite_schema`.
const ROOT: u32 = 1;
const KINDS: [&str; 4] = ["table", "index", "view", "trigger"];

/// How much of it could be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    Unreadable,
    Damaged,
    Whole,
    Utf16,
}

pub(super) fn read(
    pages: &Pages,
    walk: &mut Walk<'_>,
    closed: &PageSet,
    overflow: &mut Overflow,
) -> (Schema, Vec<Table>) {
    let mut leaves = Vec::new();
    let mut follow = |walk: &mut Walk<'_>, root| {
        walk.start(root);
        while let Some((page, leaf)) = walk.next_leaf() {
            claim(overflow, pages, closed, &leaf.cells, false);
            leaves.push((page, leaf));
        }
    };
    follow(walk, ROOT);
    let damaged = walk.findings.links_lost;
    if damaged {
        for leaf in leaves_without_root(pages, walk) {
            follow(walk, leaf);
        }
    }
    let mut schema = match (leaves.is_empty(), damaged) {
        (true, _) => Schema::Unreadable,
        (_, true) => Schema::Damaged,
        _ => Schema::Whole,
    };
    let mut tables = Vec::new();
    for (page, leaf) in &leaves {
        if !leaf.adds_up || leaf.skipped > 0 {
            schema = Schema::Damaged;
        }
        for cell in &leaf.cells {
            match row(pages, page, cell, overflow) {
                Row::Table(table) => tables.push(table),
                Row::Other => {}
                Row::Utf16 => return (Schema::Utf16, Vec::new()),
                Row::Unreadable => schema = Schema::Damaged,
            }
        }
    }
    (schema, without_contradictions(&tables))
}

/// Leaves with nothing but rows of a schema, when the way to them is lost.
fn leaves_without_root(pages: &Pages, walk: &Walk<'_>) -> Vec<u32> {
    let lost = |&number: &u32| {
        let is_leaf = pages.first_byte(number) == Some(LEAF_TABLE);
        if !is_leaf || walk.visited.contains(number) || pages.is_special(number) {
            return false;
        }
        let Some(page) = pages.read(number) else { return false };
        btree::parse(&page, pages.count).is_some_and(|leaf| {
            !leaf.cells.is_empty() && leaf.cells.iter().all(|cell| begins_like_schema(&page, cell))
        })
    };
    (2..=pages.count).filter(lost).collect()
}

fn begins_like_schema(page: &Page, cell: &Cell) -> bool {
    let local = page.bytes.get(cell.local.clone()).unwrap_or_default();
    let Some((5, content)) = record::column_count_and_content(local) else { return false };
    KINDS.iter().any(|kind| content.starts_with(kind.as_bytes()))
}

enum Row {
    Table(Table),
    /// An index, a view, a trigger, or a virtual table.
    Other,
    Utf16,
    Unreadable,
}

fn row(pages: &Pages, page: &Page, cell: &Cell, overflow: &Overflow) -> Row {
    let payload = overflow.read(pages, page, cell, false);
    let values = payload.and_then(|payload| record::decode(&payload.bytes, &payload.wiped));
    let Some([Value::Text(kind), Value::Text(name), _, root, _]) = values.as_deref() else {
        return Row::Unreadable;
    };
    match (kind.as_str(), root) {
        ("table", &Value::Integer(root @ 1..)) => match u32::try_from(root) {
            Ok(root) => Row::Table(Table { name: name.clone(), root }),
            Err(_) => Row::Unreadable,
        },
        (kind, _) if KINDS.contains(&kind) => Row::Other,
        (kind, _) if kind.contains('\0') => Row::Utf16,
        _ => Row::Unreadable,
    }
}

/// Leaves that were found without a root may be old: a table that is said to have two roots has
/// none that is known.
fn without_contradictions(tables: &[Table]) -> Vec<Table> {
    let mut known: Vec<Table> = Vec::new();
    for table in tables {
        let contradicted = |other: &Table| other.name == table.name && other.root != table.root;
        if !tables.iter().any(contradicted) && !known.contains(table) {
            known.push(table.clone());
        }
    }
    known
}
