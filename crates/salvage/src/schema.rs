//! The schema: the tables and their root pages.

use crate::Value;

use crate::SchemaTable;
use crate::btree::{self, Cell, LEAF_TABLE};
use crate::overflow::Overflow;
use crate::pages::{Page, PageSet, Pages};
use crate::record;
use crate::survey::claim_chains;
use crate::walk::TreeWalk;

/// The root page of `sqlite_schema`.
const ROOT: u32 = 1;
const KINDS: [&str; 4] = ["table", "index", "view", "trigger"];

/// The state of the schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaState {
    Unreadable,
    Damaged,
    Whole,
    Utf16,
}

/// Reads the tables from the readable rows of the schema.
pub(crate) fn read_tables(
    pages: &Pages,
    walk: &mut TreeWalk<'_>,
    closed: &PageSet,
    overflow: &mut Overflow,
) -> (SchemaState, Vec<SchemaTable>) {
    let mut leaves = Vec::new();
    let mut follow = |walk: &mut TreeWalk<'_>, root| {
        walk.start_at(root);
        while let Some((page, leaf)) = walk.next_leaf() {
            claim_chains(overflow, pages, closed, &leaf.cells, false);
            leaves.push((page, leaf));
        }
    };
    follow(walk, ROOT);
    let damaged = walk.damage.links_lost;
    if damaged {
        for leaf in leaves_without_root(pages, walk) {
            follow(walk, leaf);
        }
    }
    let mut schema = match (leaves.is_empty(), damaged) {
        (true, _) => SchemaState::Unreadable,
        (_, true) => SchemaState::Damaged,
        _ => SchemaState::Whole,
    };
    let mut tables = Vec::new();
    for (page, leaf) in &leaves {
        if !leaf.adds_up || leaf.skipped > 0 {
            schema = SchemaState::Damaged;
        }
        for cell in &leaf.cells {
            match read_entry(pages, page, cell, overflow) {
                SchemaEntry::Table(table) => tables.push(table),
                SchemaEntry::Other => {}
                SchemaEntry::Utf16 => return (SchemaState::Utf16, Vec::new()),
                SchemaEntry::Unreadable => schema = SchemaState::Damaged,
            }
        }
    }
    (schema, drop_contradictions(&tables))
}

/// Finds leaves that contain only schema rows but were not reached from the root.
fn leaves_without_root(pages: &Pages, walk: &TreeWalk<'_>) -> Vec<u32> {
    let lost = |&number: &u32| {
        let is_leaf = pages.first_byte(number) == Some(LEAF_TABLE);
        if !is_leaf || walk.visited.contains(number) || pages.is_special(number) {
            return false;
        }
        let Some(page) = pages.read_page(number) else { return false };
        btree::parse_tree_page(&page, pages.count).is_some_and(|leaf| {
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

/// A row of the schema.
enum SchemaEntry {
    Table(SchemaTable),
    /// An index, a view, a trigger, or a virtual table.
    Other,
    Utf16,
    Unreadable,
}

fn read_entry(pages: &Pages, page: &Page, cell: &Cell, overflow: &Overflow) -> SchemaEntry {
    let payload = overflow.read_payload(pages, page, cell, false);
    let values = payload.and_then(|payload| record::decode_record(&payload.bytes, &payload.wiped));
    let Some([Value::Text(kind), Value::Text(name), _, root, _]) = values.as_deref() else {
        return SchemaEntry::Unreadable;
    };
    match (kind.as_str(), root) {
        ("table", &Value::Integer(root @ 1..)) => match u32::try_from(root) {
            Ok(root) => SchemaEntry::Table(SchemaTable { name: name.clone(), root }),
            Err(_) => SchemaEntry::Unreadable,
        },
        (kind, _) if KINDS.contains(&kind) => SchemaEntry::Other,
        (kind, _) if kind.contains('\0') => SchemaEntry::Utf16,
        _ => SchemaEntry::Unreadable,
    }
}

/// Drops tables that have two different root pages in the schema. One of the entries may come from
/// an old leaf, and the file does not show which one.
fn drop_contradictions(tables: &[SchemaTable]) -> Vec<SchemaTable> {
    let mut known: Vec<SchemaTable> = Vec::new();
    for table in tables {
        let contradicted =
            |other: &SchemaTable| other.name == table.name && other.root != table.root;
        if !tables.iter().any(contradicted) && !known.contains(table) {
            known.push(table.clone());
        }
    }
    known
}
