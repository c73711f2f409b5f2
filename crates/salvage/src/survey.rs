//! The purpose of each page, determined before any row is read.

use std::collections::HashSet;
use std::io;

use crate::btree::{self, Cell, INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE};
use crate::freelist::Freelist;
use crate::overflow::Overflow;
use crate::pages::{PageSet, Pages};
use crate::schema::{self, SchemaState};
use crate::walk::{TreeWalk, WalkDamage};
use crate::{SalvageReport, SchemaTable};

/// The topmost page of a tree, or of a part of a tree that is cut off from its root.
#[derive(Clone, Copy)]
pub(crate) struct TreeRoot {
    pub(crate) page: u32,
    /// The index of the table in the schema; `None` if the tree is orphaned.
    pub(crate) table: Option<usize>,
}

/// The purpose of each page.
pub(crate) struct Survey {
    pub(crate) tables: Vec<SchemaTable>,
    pub(crate) roots: Vec<TreeRoot>,
    /// Pages that a walk never enters from a parent page, because two parents claim them or because
    /// they are free.
    pub(crate) closed: PageSet,
    pub(crate) overflow: Overflow,
    pub(crate) report: SalvageReport,
    schema: SchemaState,
    visited: PageSet,
    /// True if there may be unreachable pages.
    links_lost: bool,
}

impl Survey {
    pub(crate) fn take(pages: &Pages) -> io::Result<Survey> {
        let mut closed = PageSet::new(pages);
        let (mut survey, disputed) = Survey::of_trees(pages, closed.clone());
        if !disputed.is_empty() {
            for page in disputed {
                closed.insert(page);
            }
            (survey, _) = Survey::of_trees(pages, closed);
        }
        let utf16 = pages.header.as_ref().is_some_and(|header| header.utf16);
        if survey.schema == SchemaState::Utf16 || survey.schema == SchemaState::Unreadable && utf16
        {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the text is not UTF-8"));
        }
        survey.find_orphans(pages);
        Ok(survey)
    }

    /// Follows the trees from their roots. The second value of the result lists pages that were
    /// reached twice.
    fn of_trees(pages: &Pages, closed: PageSet) -> (Survey, Vec<u32>) {
        let mut walk = TreeWalk::new(pages, &closed);
        let mut overflow = Overflow::new(pages);
        let (schema, tables) = schema::read_tables(pages, &mut walk, &closed, &mut overflow);
        let mut roots = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            if closed.contains(table.root) || is_without_rowid(pages, table) {
                continue;
            }
            roots.push(TreeRoot { page: table.root, table: Some(index) });
            walk.start_at(table.root);
            while let Some((_, leaf)) = walk.next_leaf() {
                claim_chains(&mut overflow, pages, &closed, &leaf.cells, false);
            }
        }
        let TreeWalk { visited, damage, .. } = walk;
        let links_lost = damage.links_lost || schema != SchemaState::Whole;
        let report = begin_report(pages, &damage, &schema);
        let survey =
            Survey { tables, roots, closed, overflow, report, schema, visited, links_lost };
        (survey, damage.disputed)
    }

    /// Finds the trees and leaves that are not reachable from any root.
    fn find_orphans(&mut self, pages: &Pages) {
        let last = self.last_page(pages);
        let free = self.find_free_pages(pages, last);
        self.report.free_pages = free.len();
        // If all trees are intact, the remaining pages can only be free pages that are missing from
        // the damaged freelist.
        if !self.report.freelist_whole && !self.links_lost {
            return;
        }
        let mut interiors = Vec::new();
        let mut leaves = Vec::new();
        let left = |&number: &u32| {
            self.is_unknown(number) && !free.contains(number) && !pages.is_special(number)
        };
        for number in (2..=last).filter(left) {
            match pages.first_byte(number) {
                Some(INTERIOR_TABLE) => interiors.push(number),
                Some(LEAF_TABLE) => leaves.push(number),
                _ => {}
            }
        }
        let tops = find_topmost(pages, &interiors);
        self.closed.extend(&free);
        self.follow_orphans(pages, tops.into_iter().chain(leaves));
    }

    /// Finds the free pages. If a tree leads to a page in the freelist, the tree takes precedence,
    /// as in SQLite.
    fn find_free_pages(&mut self, pages: &Pages, last: u32) -> PageSet {
        let mut freelist = Freelist::read(pages);
        let contradicted = |number| freelist.pages.contains(number) && !self.is_unknown(number);
        let whole = freelist.whole && !(1..=pages.count).any(contradicted);
        if !whole && self.links_lost {
            for number in (2..=last).filter(|&number| self.is_unknown(number)) {
                freelist.add_if_trunk(pages, number);
            }
        }
        self.report.freelist_whole = whole;
        let mut free = PageSet::new(pages);
        for number in (2..=pages.count).filter(|&number| freelist.pages.contains(number)) {
            if self.is_unknown(number) {
                free.insert(number);
            }
        }
        free
    }

    /// Returns the last page of the database. Pages beyond the page count in the header are usually
    /// no longer in use. If a tree leads to one of them, the page count is wrong.
    fn last_page(&self, pages: &Pages) -> u32 {
        let told = pages.header.as_ref().and_then(|header| header.page_count);
        let told = told.unwrap_or(pages.count).min(pages.count);
        // The log also records the page count, and its checksums show that the count is right.
        if pages.wal_frames() > 0 || (told..pages.count).any(|page| !self.is_unknown(page + 1)) {
            pages.count
        } else {
            told
        }
    }

    fn is_unknown(&self, number: u32) -> bool {
        !self.visited.contains(number) && !self.overflow.is_used(number)
    }

    fn follow_orphans(&mut self, pages: &Pages, roots: impl Iterator<Item = u32>) {
        let mut walk = TreeWalk::new(pages, &self.closed);
        walk.visited = self.visited.clone();
        for page in roots {
            if walk.visited.contains(page) || self.overflow.is_used(page) {
                continue;
            }
            self.roots.push(TreeRoot { page, table: None });
            walk.start_at(page);
            while let Some((_, leaf)) = walk.next_leaf() {
                self.report.orphaned_pages += u32::from(!leaf.cells.is_empty());
                claim_chains(&mut self.overflow, pages, &self.closed, &leaf.cells, true);
            }
        }
        self.report.unreadable_pages += walk.damage.unreadable;
        self.report.inconsistent_pages += walk.damage.inconsistent;
    }
}

fn begin_report(pages: &Pages, damage: &WalkDamage, schema: &SchemaState) -> SalvageReport {
    SalvageReport {
        pages: pages.count,
        wal_frames: pages.wal_frames(),
        header_readable: pages.header.is_some(),
        schema_whole: *schema == SchemaState::Whole,
        unreadable_pages: damage.unreadable,
        inconsistent_pages: damage.inconsistent,
        ..SalvageReport::default()
    }
}

/// Claims the overflow pages of a leaf's cells.
pub(crate) fn claim_chains(
    overflow: &mut Overflow,
    pages: &Pages,
    closed: &PageSet,
    cells: &[Cell],
    is_orphan: bool,
) {
    for cell in cells.iter().filter(|cell| cell.link != 0) {
        overflow.claim_chain(pages, closed, cell, is_orphan);
    }
}

fn is_without_rowid(pages: &Pages, table: &SchemaTable) -> bool {
    matches!(pages.first_byte(table.root), Some(LEAF_INDEX | INTERIOR_INDEX))
}

/// Finds the topmost of the unreachable interior pages: those to which no other unreachable page
/// leads. Leaves out damaged pages.
fn find_topmost(pages: &Pages, interiors: &[u32]) -> Vec<u32> {
    let known: HashSet<u32> = interiors.iter().copied().collect();
    let mut below = HashSet::new();
    let mut intact = Vec::new();
    for &number in interiors {
        let tree =
            pages.read_page(number).and_then(|page| btree::parse_tree_page(&page, pages.count));
        let Some(tree) = tree.filter(|tree| tree.adds_up) else { continue };
        let children = tree.cells.iter().map(|cell| cell.link).chain([tree.right_child]);
        below.extend(children.filter(|child| known.contains(child)));
        intact.push(number);
    }
    intact.retain(|number| !below.contains(number));
    intact
}
