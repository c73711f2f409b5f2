//! Overflow chains: the rest of each payload that is too long for its leaf.

use std::ops::Range;

use crate::btree::Cell;
use crate::pages::{Page, PageSet, Pages};
use crate::record::read_u32;

/// The pages that hold overflowing payloads. Each cell is visited twice, first to claim its pages
/// and then to read them, because only the claims of all cells show which chains collide.
pub(crate) struct Overflow {
    /// Overflow pages that belong to cells reachable from a root.
    used: PageSet,
    /// Overflow pages that belong to cells in orphaned leaves. These cells may be old, so the
    /// claims in `used` take precedence.
    used_by_orphans: PageSet,
    /// Pages that two cells claim. One of the cells must be wrong, but the file does not show
    /// which.
    shared: PageSet,
    /// The number of steps left before the search for chains stops. Intact chains need one step per
    /// page. Damage can add a few steps, and a malicious file could add far too many.
    steps_left: u64,
}

/// The whole payload of a cell.
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    /// The part that came from a page full of zeros. Such a page ends a chain, so it can only be
    /// the last page of the chain.
    pub(crate) wiped: Range<usize>,
}

impl Overflow {
    pub(crate) fn new(pages: &Pages) -> Overflow {
        let (used, used_by_orphans) = (PageSet::new(pages), PageSet::new(pages));
        let shared = PageSet::new(pages);
        let steps_left = u64::from(pages.count) * 16 + 10_000;
        Overflow { used, used_by_orphans, shared, steps_left }
    }

    pub(crate) fn is_used(&self, page: u32) -> bool {
        self.used.contains(page) || self.used_by_orphans.contains(page)
    }

    /// Claims the pages that the cell's payload occupies, if its chain has the right length and
    /// passes through no page in `closed`.
    pub(crate) fn claim_chain(
        &mut self,
        pages: &Pages,
        closed: &PageSet,
        cell: &Cell,
        is_orphan: bool,
    ) {
        let needed = (cell.payload - cell.local.len() as u64).div_ceil(capacity(pages) as u64);
        let mut chain = Vec::new();
        let mut next = cell.link;
        while next != 0 {
            if self.steps_left == 0 {
                self.shared.insert(cell.link);
                return;
            }
            if !is_orphan && self.used.contains(next) || self.used_by_orphans.contains(next) {
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
            let used = if is_orphan { &mut self.used_by_orphans } else { &mut self.used };
            chain.into_iter().for_each(|page| {
                used.insert(page);
            });
        }
    }

    /// Reads the cell's whole payload. All cells must have claimed their pages first.
    pub(crate) fn read_payload(
        &self,
        pages: &Pages,
        page: &Page,
        cell: &Cell,
        is_orphan: bool,
    ) -> Option<Payload> {
        let length = usize::try_from(cell.payload).ok()?;
        let used = if is_orphan { &self.used_by_orphans } else { &self.used };
        let mut bytes = page.bytes.get(cell.local.clone())?.to_vec();
        let mut wiped = 0..0;
        let mut next = cell.link;
        while next != 0 {
            let missing = length - bytes.len();
            if missing == 0 || !used.contains(next) || self.shared.contains(next) {
                return None;
            }
            let page = pages.read_page(next)?;
            let start = bytes.len();
            let content = page.bytes.get(4..4 + missing.min(capacity(pages)))?;
            bytes.extend_from_slice(content);
            if page.bytes.iter().all(|&byte| byte == 0) {
                wiped = start..bytes.len();
            }
            next = read_u32(&page.bytes, 0)?;
        }
        (bytes.len() == length).then_some(Payload { bytes, wiped })
    }
}

/// Returns the number of payload bytes that an overflow page holds.
fn capacity(pages: &Pages) -> usize {
    pages.format.usable - 4
}
