//! The freelist: pages that are no longer in use, but often still have their old content.

use crate::pages::{Page, PageSet, Pages};
use crate::record::read_u32;

/// The pages in the readable part of the freelist.
pub(crate) struct Freelist {
    pub(crate) pages: PageSet,
    /// True if every trunk could be read and the list has as many pages as the header says.
    pub(crate) whole: bool,
}

impl Freelist {
    /// Follows the list, starting at the header, as far as possible.
    pub(crate) fn read(pages: &Pages) -> Freelist {
        let mut list = Freelist { pages: PageSet::new(pages), whole: false };
        let Some(header) = &pages.header else { return list };
        let mut next = header.first_trunk;
        while next != 0 {
            let Some(trunk) = Trunk::read_at(pages, next) else { return list };
            if !list.add_trunk(next, &trunk) {
                return list;
            }
            next = trunk.next;
        }
        list.whole = list.pages.len() == header.free_pages;
        list
    }

    /// Adds a page and its leaves if the page looks like a trunk. Called for all unclaimed pages if
    /// the list is damaged.
    pub(crate) fn add_if_trunk(&mut self, pages: &Pages, number: u32) {
        if let Some(trunk) = Trunk::read_at(pages, number)
            && !trunk.leaves.is_empty()
        {
            self.add_trunk(number, &trunk);
        }
    }

    /// Adds a trunk and its leaves. Returns false if one of the pages was already in the list.
    fn add_trunk(&mut self, number: u32, trunk: &Trunk) -> bool {
        let mut new = self.pages.insert(number);
        for &leaf in &trunk.leaves {
            new &= self.pages.insert(leaf);
        }
        new
    }
}

/// A page of the freelist that lists other pages.
struct Trunk {
    next: u32,
    leaves: Vec<u32>,
}

impl Trunk {
    fn read_at(pages: &Pages, number: u32) -> Option<Trunk> {
        if number < 2 || pages.is_special(number) {
            return None;
        }
        Trunk::parse(&pages.read_page(number)?, pages.count)
    }

    /// Parses a trunk. All page numbers in it must be valid, so hardly any other page is mistaken
    /// for a trunk.
    fn parse(page: &Page, count: u32) -> Option<Trunk> {
        let bytes = page.bytes.get(..page.usable)?;
        let next = read_u32(bytes, 0)?;
        let length = read_u32(bytes, 4)? as usize;
        if next == 1 || next > count || length > page.usable / 4 - 2 {
            return None;
        }
        let leaves: Vec<u32> =
            (0..length).map(|index| read_u32(bytes, 8 + 4 * index)).collect::<Option<_>>()?;
        let possible = leaves.iter().all(|leaf| (2..=count).contains(leaf));
        possible.then_some(Trunk { next, leaves })
    }
}
