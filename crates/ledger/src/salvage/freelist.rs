//! The freelist: pages that hold nothing any more but often still look as they did.

use super::pages::{Page, PageSet, Pages};
use super::record::be32;

pub(super) struct Freelist {
    pub(super) pages: PageSet,
    /// Whether every trunk could be read and there are as many pages as the header says.
    pub(super) whole: bool,
}

impl Freelist {
    /// Follows the list from the header as far as it goes.
    pub(super) fn read(pages: &Pages) -> Freelist {
        let mut list = Freelist { pages: PageSet::new(pages), whole: false };
        let Some(header) = &pages.header else { return list };
        let mut next = header.first_trunk;
        while next != 0 {
            let Some(trunk) = Trunk::find(pages, next) else { return list };
            if !list.add(next, &trunk) {
                return list;
            }
            next = trunk.next;
        }
        list.whole = list.pages.len() == header.free_pages;
        list
    }

    /// Takes in a trunk that was found by looking at all pages, because the list is not whole.
    pub(super) fn add_if_trunk(&mut self, pages: &Pages, number: u32) {
        if let Some(trunk) = Trunk::find(pages, number)
            && !trunk.leaves.is_empty()
        {
            self.add(number, &trunk);
        }
    }

    /// False if one of the pages was in the list already.
    fn add(&mut self, number: u32, trunk: &Trunk) -> bool {
        let mut new = self.pages.insert(number);
        for &leaf in &trunk.leaves {
            new &= self.pages.insert(leaf);
        }
        new
    }
}

struct Trunk {
    next: u32,
    leaves: Vec<u32>,
}

impl Trunk {
    fn find(pages: &Pages, number: u32) -> Option<Trunk> {
        if number < 2 || pages.is_special(number) {
            return None;
        }
        Trunk::parse(&pages.read(number)?, pages.count)
    }

    /// Nearly no other page passes for one: all its page numbers have to be possible.
    fn parse(page: &Page, count: u32) -> Option<Trunk> {
        let bytes = page.bytes.get(..page.usable)?;
        let next = be32(bytes, 0)?;
        let length = be32(bytes, 4)? as usize;
        if next == 1 || next > count || length > page.usable / 4 - 2 {
            return None;
        }
        let leaves: Vec<u32> =
            (0..length).map(|index| be32(bytes, 8 + 4 * index)).collect::<Option<_>>()?;
        let possible = leaves.iter().all(|leaf| (2..=count).contains(leaf));
        possible.then_some(Trunk { next, leaves })
    }
}
