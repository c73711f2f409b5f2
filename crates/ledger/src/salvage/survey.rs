//! What each page is for, found out before any row is read.

use std::collections::HashSet;
use std::io;

use super::btree::{self, Cell, INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE};
use super::freelist::Freelist;
use super::overflow::Overflow;
use super::pages::{PageSet, Pages};
use super::schema::{self, Schema};
use super::walk::{Findings, Walk};
use super::{Report, Table};

/// Where a tree or what is left of one begins.
#[derive(Clone, Copy)]
pub(super) struct Root {
    pub(super) page: u32,
    /// The index of its table; `None` if it is orphaned.
    pub(super) table: Option<usize>,
}

pub(super) struct Survey {
    pub(super) tables: Vec<Table>,
    pub(super) roots: Vec<Root>,
    /// Pages that no parent leads to, whatever it says: two do, or they are free.
    pub(super) closed: PageSet,
    pub(super) overflow: Overflow,
    pub(super) report: Report,
    schema: Schema,
    visited: PageSet,
    /// There may be pages that nothing leads to.
    links_lost: bool,
}

impl Survey {
    pub(super) fn take(pages: &Pages) -> io::Result<Survey> {
        let mut closed = PageSet::new(pages);
        let (mut survey, disputed) = Survey::of_trees(pages, closed.clone());
        if !disputed.is_empty() {
            for page in disputed {
                closed.insert(page);
            }
            (survey, _) = Survey::of_trees(pages, closed);
        }
        let utf16 = pages.header.as_ref().is_some_and(|header| header.utf16);
        if survey.schema == Schema::Utf16 || survey.schema == Schema::Unreadable && utf16 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the text is not UTF-8"));
        }
        survey.find_orphans(pages);
        Ok(survey)
    }

    /// Follows the trees from their roots. Pages that were reached twice come back beside.
    fn of_trees(pages: &Pages, closed: PageSet) -> (Survey, Vec<u32>) {
        let mut walk = Walk::new(pages, &closed);
        let mut overflow = Overflow::new(pages);
        let (schema, tables) = schema::read(pages, &mut walk, &closed, &mut overflow);
        let mut roots = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            if closed.contains(table.root) || is_without_rowid(pages, table) {
                continue;
            }
            roots.push(Root { page: table.root, table: Some(index) });
            walk.start(table.root);
            while let Some((_, leaf)) = walk.next_leaf() {
                claim(&mut overflow, pages, &closed, &leaf.cells, false);
            }
        }
        let Walk { visited, findings, .. } = walk;
        let links_lost = findings.links_lost || schema != Schema::Whole;
        let report = report(pages, &findings, &schema);
        let survey =
            Survey { tables, roots, closed, overflow, report, schema, visited, links_lost };
        (survey, findings.disputed)
    }

    /// Looks at the pages that nothing leads to.
    fn find_orphans(&mut self, pages: &Pages) {
        let last = self.last_page(pages);
        let free = self.free_pages(pages, last);
        self.report.free_pages = free.len();
        // If all trees are whole, only pages that the freelist lost can be left.
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
        let tops = topmost(pages, &interiors);
        self.closed.extend(&free);
        self.follow_orphans(pages, tops.into_iter().chain(leaves));
    }

    /// The pages of the freelist. Where a tree leads to one of them, the tree is believed, as
    /// SQLite does.
    fn free_pages(&mut self, pages: &Pages, last: u32) -> PageSet {
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

    /// Behind the end that the header tells there may be old pages. If a tree leads there, the
    /// header is wrong.
    fn last_page(&self, pages: &Pages) -> u32 {
        let told = pages.header.as_ref().and_then(|header| header.page_count);
        let told = told.unwrap_or(pages.count).min(pages.count);
        // The log tells the end as well, and can not be wrong.
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
        let mut walk = Walk::new(pages, &self.closed);
        walk.visited = self.visited.clone();
        for page in roots {
            if walk.visited.contains(page) || self.overflow.is_used(page) {
                continue;
            }
            self.roots.push(Root { page, table: None });
            walk.start(page);
            while let Some((_, leaf)) = walk.next_leaf() {
                self.report.orphaned_pages += u32::from(!leaf.cells.is_empty());
                claim(&mut self.overflow, pages, &self.closed, &leaf.cells, true);
            }
        }
        self.report.unreadable_pages += walk.findings.unreadable;
        self.report.inconsistent_pages += walk.findings.inconsistent;
    }
}

fn report(pages: &Pages, findings: &Findings, schema: &Schema) -> Report {
    Report {
        pages: pages.count,
        wal_frames: pages.wal_frames(),
        header_readable: pages.header.is_some(),
        schema_whole: *schema == Schema::Whole,
        unreadable_pages: findings.unreadable,
        inconsistent_pages: findings.inconsistent,
        ..Report::default()
    }
}

/// Notes the overflow pages of a leaf's cells.
pub(super) fn claim(
    overflow: &mut Overflow,
    pages: &Pages,
    closed: &PageSet,
    cells: &[Cell],
    orphan: bool,
) {
    for cell in cells.iter().filter(|cell| cell.link != 0) {
        overflow.claim(pages, closed, cell, orphan);
    }
}

fn is_without_rowid(pages: &Pages, table: &Table) -> bool {
    matches!(pages.first_byte(table.root), Some(LEAF_INDEX | INTERIOR_INDEX))
}

/// Of interior pages that nothing leads to, those that none of the others leads to either.
fn topmost(pages: &Pages, interiors: &[u32]) -> Vec<u32> {
    let known: HashSet<u32> = interiors.iter().copied().collect();
    let mut below = HashSet::new();
    let mut intact = Vec::new();
    for &number in interiors {
        let tree = pages.read(number).and_then(|page| btree::parse(&page, pages.count));
        let Some(tree) = tree.filter(|tree| tree.adds_up) else { continue };
        let children = tree.cells.iter().map(|cell| cell.link).chain([tree.right_child]);
        below.extend(children.filter(|child| known.contains(child)));
        intact.push(number);
    }
    intact.retain(|number| !below.contains(number));
    intact
}
