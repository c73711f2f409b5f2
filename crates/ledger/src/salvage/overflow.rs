//! Overflow chains: the rest of payloads that are too long for their leaf.

use std::ops::Range;

use super::btree::Cell;
use super::pages::{Page, PageSet, Pages};
use super::record::be32;

/// Which pages hold overflowing payloads. Two looks at each cell are needed: only after the first
/// it is known which chains run into each other.
pub(super) struct Overflow {
    /// Of cells that a root leads to.
    used: PageSet,
    /// Of cells in orphaned leaves. They may be old, so the others take precedence.
    used_by_orphans: PageSet,
    /// Of two cells, one of which must be wrong; nobody knows which.
    shared: PageSet,
    /// Each page is needed once. Damage leads to some more, a malicious file to endless ones.
    steps_left: u64,
}

pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    /// The part that came from a page full of zeros. Within a chain such a page would be its end,
    /// so it can only be the last one.
    pub(super) wiped: Range<usize>,
}

impl Overflow {
    pub(super) fn new(pages: &Pages) -> Overflow {
        let (used, used_by_orphans) = (PageSet::new(pages), PageSet::new(pages));
        let shared = PageSet::new(pages);
        let steps_left = u64::from(pages.count) * 16 + 10_000;
        Overflow { used, used_by_orphans, shared, steps_left }
    }

    pub(super) fn is_used(&self, page: u32) -> bool {
        self.used.contains(page) || self.used_by_orphans.contains(page)
    }

    /// Notes which pages the cell's payload takes, if its chain is as long as it has to be and
    /// passes through no page in `closed`.
    pub(super) fn claim(&mut self, pages: &Pages, closed: &PageSet, cell: &Cell, orphan: bool) {
        let needed = (cell.payload - cell.local.len() as u64).div_ceil(capacity(pages) as u64);
        let mut chain = Vec::new();
        let mut next = cell.link;
        while next != 0 {
            if self.steps_left == 0 {
                self.shared.insert(cell.link);
                return;
            }
            if !orphan && self.used.contains(next) || self.used_by_orphans.contains(next) {
                self.shared.insert(next);
                return;
            }
            let possible = !closed.contains(next) && !pages.is_special(next);
            if !possible || self.used.contains(next) || chain.len() as u64 == needed {
                return;
            }
            self.steps_left -= 1;
            chain.push(next);
            let Some(following) = pages.next_overflow(next) else { return };
            next = following;
        }
        if chain.len() as u64 == needed {
            let used = if orphan { &mut self.used_by_orphans } else { &mut self.used };
            chain.into_iter().for_each(|page| {
                used.insert(page);
            });
        }
    }

    /// The cell's whole payload, after all cells have claimed their pages.
    pub(super) fn read(
        &self,
        pages: &Pages,
        page: &Page,
        cell: &Cell,
        orphan: bool,
    ) -> Option<Payload> {
        let length = usize::try_from(cell.payload).ok()?;
        let used = if orphan { &self.used_by_orphans } else { &self.used };
        let mut bytes = page.bytes.get(cell.local.clone())?.to_vec();
        let mut wiped = 0..0;
        let mut next = cell.link;
        while next != 0 {
            let missing = length - bytes.len();
            if missing == 0 || !used.contains(next) || self.shared.contains(next) {
                return None;
            }
            let page = pages.read(next)?;
            let start = bytes.len();
            let content = page.bytes.get(4..4 + missing.min(capacity(pages)))?;
            bytes.extend_from_slice(content);
            if page.bytes.iter().all(|&byte| byte == 0) {
                wiped = start..bytes.len();
            }
            next = be32(&page.bytes, 0)?;
        }
        (bytes.len() == length).then_some(Payload { bytes, wiped })
    }
}

/// How much of a payload an overflow page takes.
fn capacity(pages: &Pages) -> usize {
    pages.format.usable - 4
}
