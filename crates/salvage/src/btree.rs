//! Pages of table b-trees and the cells in them.

use std::collections::HashSet;
use std::ops::Range;

use crate::pages::Page;
use crate::record::{Plausibility, judge_local_part, read_u16, read_u32, read_varint};

pub(crate) const INTERIOR_TABLE: u8 = 0x05;
pub(crate) const LEAF_TABLE: u8 = 0x0d;
pub(crate) const INTERIOR_INDEX: u8 = 0x02;
pub(crate) const LEAF_INDEX: u8 = 0x0a;

/// The minimum size of a cell: when a cell is deleted, a freeblock takes its place, and a freeblock
/// needs four bytes.
const SMALLEST_CELL: usize = 4;

/// A cell: a row in a leaf, or a child in an interior page.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The range of bytes that the cell occupies in the page.
    extent: Range<usize>,
    /// The rowid. In an interior page, the largest rowid in the child.
    pub(crate) key: i64,
    /// The left child. In a leaf, the first overflow page, or 0 if there is none.
    pub(crate) link: u32,
    /// The length of the whole payload.
    pub(crate) payload: u64,
    /// The part of the payload that is in this page.
    pub(crate) local: Range<usize>,
}

/// A page of a table b-tree.
pub(crate) struct TreePage {
    pub(crate) is_leaf: bool,
    /// The valid cells, in the order of the cell pointers.
    pub(crate) cells: Vec<Cell>,
    /// The last child of an interior page.
    pub(crate) right_child: u32,
    /// The number of invalid cells.
    pub(crate) skipped: u64,
    /// True if cells, freeblocks and fragments together exactly fill the cell content area.
    pub(crate) adds_up: bool,
}

/// A range of rowids: greater than `after`, and up to and including `up_to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) after: Option<i64>,
    pub(crate) up_to: i64,
}

impl Bounds {
    pub(crate) const NONE: Bounds = Bounds { after: None, up_to: i64::MAX };

    fn contains(&self, key: i64) -> bool {
        self.after.is_none_or(|after| key > after) && key <= self.up_to
    }
}

/// Parses a page of a table b-tree in a database with `count` pages. Returns `None` for any other
/// page.
pub(crate) fn parse_tree_page(page: &Page, count: u32) -> Option<TreePage> {
    let bytes = page.bytes.get(..page.usable)?;
    let header = page.header_offset();
    let is_leaf = match *bytes.get(header)? {
        LEAF_TABLE => true,
        INTERIOR_TABLE => false,
        _ => return None,
    };
    let pointers = header + if is_leaf { 8 } else { 12 };
    let room = bytes.len().checked_sub(pointers)? / 2;
    let number_of_cells = usize::from(read_u16(bytes, header + 3)?);
    let mut tree = TreePage {
        is_leaf,
        cells: Vec::new(),
        right_child: if is_leaf { 0 } else { read_u32(bytes, header + 8)? },
        skipped: 0,
        adds_up: false,
    };
    let largest_payload = u64::from(count) * bytes.len() as u64;
    for index in 0..number_of_cells.min(room) {
        let at = usize::from(read_u16(bytes, pointers + 2 * index)?);
        let cell = if at < pointers {
            None
        } else if is_leaf {
            parse_leaf_cell(bytes, at).filter(|cell| cell.payload <= largest_payload)
        } else {
            parse_interior_cell(bytes, at).filter(|cell| (2..=count).contains(&cell.link))
        };
        tree.cells.extend(cell);
    }
    tree.skipped = (number_of_cells - tree.cells.len()) as u64;
    tree.drop_deleted(content_start(bytes, header)?);
    tree.drop_overlapping();
    tree.adds_up = tree.skipped == 0 && is_filled_exactly(bytes, header, pointers, &tree.cells);
    Some(tree)
}

fn parse_leaf_cell(bytes: &[u8], at: usize) -> Option<Cell> {
    let (payload, width) = read_varint(bytes.get(at..)?)?;
    let (rowid, more) = read_varint(bytes.get(at + width..)?)?;
    let start = at + width + more;
    let local = start..start.checked_add(local_size(payload, bytes.len()))?;
    let content = bytes.get(local.clone())?;
    let all_here = content.len() as u64 == payload;
    let link = if all_here { 0 } else { read_u32(bytes, local.end)? };
    let end = if all_here { local.end } else { local.end + 4 };
    let extent = at..end.max(at + SMALLEST_CELL);
    let sensible = match judge_local_part(content, payload) {
        Plausibility::Yes => true,
        Plausibility::Unknown => !all_here,
        Plausibility::No => false,
    };
    let sensible = sensible && extent.end <= bytes.len();
    sensible.then_some(Cell { extent, key: rowid as i64, link, payload, local })
}

/// Returns how many bytes of a payload are stored in the leaf itself. The rest overflows.
fn local_size(payload: u64, usable: usize) -> usize {
    let usable = usable as u64;
    let most = usable - 35;
    let least = (usable - 12) * 32 / 255 - 23;
    let local = if payload <= most {
        payload
    } else {
        let fills_last_page = least + (payload - least) % (usable - 4);
        if fills_last_page <= most { fills_last_page } else { least }
    };
    usize::try_from(local).expect("the local part fits in a page")
}

fn parse_interior_cell(bytes: &[u8], at: usize) -> Option<Cell> {
    let link = read_u32(bytes, at)?;
    let (key, width) = read_varint(bytes.get(at + 4..)?)?;
    let extent = at..at + 4 + width;
    Some(Cell { extent, key: key as i64, link, payload: 0, local: 0..0 })
}

fn is_filled_exactly(bytes: &[u8], header: usize, pointers: usize, cells: &[Cell]) -> bool {
    let sum = || {
        let start = content_start(bytes, header)?;
        let fragments = usize::from(*bytes.get(header + 7)?);
        let cell_sizes: usize = cells.iter().map(|cell| cell.extent.len()).sum();
        let used = cell_sizes + sum_freeblocks(bytes, header, start)? + fragments;
        Some(pointers + 2 * cells.len() <= start && start + used == bytes.len())
    };
    sum().unwrap_or(false)
}

fn content_start(bytes: &[u8], header: usize) -> Option<usize> {
    match read_u16(bytes, header + 5)? {
        0 => Some(65_536),
        start => Some(usize::from(start)),
    }
}

/// Adds up the sizes of all freeblocks, which are linked in ascending order.
fn sum_freeblocks(bytes: &[u8], header: usize, content_start: usize) -> Option<usize> {
    let mut sum = 0;
    let mut lowest = content_start;
    let mut at = usize::from(read_u16(bytes, header + 1)?);
    while at != 0 {
        let size = usize::from(read_u16(bytes, at + 2)?);
        if at < lowest || size < SMALLEST_CELL || at + size > bytes.len() {
            return None;
        }
        sum += size;
        lowest = at + size;
        at = usize::from(read_u16(bytes, at)?);
    }
    Some(sum)
}

impl TreePage {
    /// Drops cells that lie before the cell content area, because they may have been deleted. If
    /// most cells lie there, the recorded start of the area is wrong, and all cells are kept.
    fn drop_deleted(&mut self, content_start: usize) {
        let live = self.cells.iter().filter(|cell| cell.extent.start >= content_start).count();
        if live * 2 >= self.cells.len() {
            self.retain_cells(|cell| cell.extent.start >= content_start);
        }
    }

    /// Drops cells that share bytes, because the page does not show which of them is real.
    fn drop_overlapping(&mut self) {
        let mut extents: Vec<_> = self.cells.iter().map(|cell| cell.extent.clone()).collect();
        extents.sort_by_key(|extent| (extent.start, extent.end));
        // A damaged pointer often repeats another one, so both point to the same cell.
        extents.dedup();
        let mut shared = vec![false; extents.len()];
        let mut furthest = 0;
        for index in 1..extents.len() {
            if extents[index].start < extents[furthest].end {
                shared[furthest] = true;
                shared[index] = true;
            }
            if extents[index].end > extents[furthest].end {
                furthest = index;
            }
        }
        if !shared.contains(&true) {
            return;
        }
        let alone = extents.into_iter().zip(shared).filter(|(_, shared)| !shared);
        let alone: HashSet<_> = alone.map(|(extent, _)| extent).collect();
        self.retain_cells(|cell| alone.contains(&cell.extent));
    }

    fn retain_cells(&mut self, good: impl Fn(&Cell) -> bool) {
        let before = self.cells.len();
        self.cells.retain(good);
        self.skipped += (before - self.cells.len()) as u64;
    }

    /// True if at least half of the keys are within the bounds that the parent sets.
    pub(crate) fn has_keys_within(&self, bounds: &Bounds) -> bool {
        let within = self.cells.iter().filter(|cell| bounds.contains(cell.key)).count();
        within * 2 >= self.cells.len()
    }

    /// Chooses the largest set of cells that are within the bounds and in order. The result
    /// contains true for each chosen cell and false for every other cell.
    pub(crate) fn in_order(&self, bounds: &Bounds) -> Vec<bool> {
        let keys: Vec<i64> = self.cells.iter().map(|cell| cell.key).collect();
        longest_ascending(&keys, bounds)
    }

    /// Drops cells whose rowids are out of order or out of bounds.
    pub(crate) fn drop_out_of_order(&mut self, bounds: &Bounds) {
        let mut in_order = self.in_order(bounds).into_iter();
        let before = self.cells.len();
        self.cells.retain(|_| in_order.next().unwrap_or(false));
        self.skipped += (before - self.cells.len()) as u64;
    }
}

fn longest_ascending(keys: &[i64], bounds: &Bounds) -> Vec<bool> {
    // `ends[n]` is the index of the lowest key that ends an ascending subsequence of `n + 1` keys.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; keys.len()];
    for (index, &key) in keys.iter().enumerate() {
        if !bounds.contains(key) {
            continue;
        }
        let length = ends.partition_point(|&end| keys[end] < key);
        before[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut chosen = vec![false; keys.len()];
    let mut last = ends.last().copied();
    while let Some(index) = last {
        chosen[index] = true;
        last = before[index];
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ascending_subsequence_is_found() {
        let chosen = |keys: &[i64], after, up_to| {
            let bounds = Bounds { after, up_to };
            let chosen = longest_ascending(keys, &bounds);
            let kept = keys.iter().zip(chosen).filter(|(_, chosen)| *chosen);
            kept.map(|(key, _)| *key).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[1, 2, 999, 4, 5], None, i64::MAX), [1, 2, 4, 5]);
        assert_eq!(chosen(&[1, 2, -7, 4, 4, 5], None, i64::MAX), [1, 2, 4, 5]);
        assert_eq!(chosen(&[1, 2, 3, 4, 5], Some(1), 4), [2, 3, 4]);
        assert_eq!(chosen(&[i64::MIN, i64::MAX], None, i64::MAX), [i64::MIN, i64::MAX]);
        assert_eq!(chosen(&[], None, i64::MAX), [0; 0]);
    }
}
