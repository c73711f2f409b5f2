//! The pages of a database. A page that is committed in the write-ahead log replaces the one in the
//! file.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::format::{self, DatabaseHeader, PageFormat};
use crate::record::read_u32;
use crate::wal::Wal;

/// The offset of the bytes that SQLite uses for locks. The page that contains them holds no data.
const LOCK_BYTE: u64 = 0x4000_0000;

/// A page and its bytes.
pub(crate) struct Page {
    pub(crate) number: u32,
    pub(crate) bytes: Vec<u8>,
    /// The length of the page without the reserved bytes at its end.
    pub(crate) usable: usize,
}

impl Page {
    /// Returns the offset of the b-tree page header. Page 1 begins with the database header.
    pub(crate) fn header_offset(&self) -> usize {
        if self.number == 1 { 100 } else { 0 }
    }
}

/// All pages of a database.
pub(crate) struct Pages {
    file: File,
    wal: Option<Wal>,
    pub(crate) header: Option<DatabaseHeader>,
    pub(crate) format: PageFormat,
    /// The number of pages, which is also the number of the last page.
    pub(crate) count: u32,
    has_pointer_maps: bool,
}

impl Pages {
    pub(crate) fn open(path: &Path) -> io::Result<Pages> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let wal = Wal::open(&path_with_suffix(path, "-wal"))?;
        let mut first = [0; 100];
        let found = wal.as_ref().is_some_and(|wal| wal.read_beginning(1, &mut first))
            || file.read_exact_at(&mut first, 0).is_ok();
        let header = if found { DatabaseHeader::parse(&first) } else { None };
        let page_size = wal.as_ref().map(|wal| wal.page_size);
        let format = format::find_format(&file, size, header.as_ref(), page_size);
        let in_file = u32::try_from(size / format.page_size as u64).unwrap_or(u32::MAX - 1);
        // The log may claim billions of pages; only those that are stored matter.
        let in_wal = |wal: &Wal| wal.page_count.min(in_file.max(wal.last_page()));
        let count = wal.as_ref().map_or(in_file, in_wal);
        let mut pages = Pages { file, wal, header, format, count, has_pointer_maps: false };
        pages.has_pointer_maps = pages.looks_auto_vacuum();
        Ok(pages)
    }

    pub(crate) fn wal_frames(&self) -> u64 {
        self.wal.as_ref().map_or(0, |wal| wal.frames)
    }

    /// Reads a page. Returns `None` if any part of it is missing.
    pub(crate) fn read_page(&self, number: u32) -> Option<Page> {
        let mut bytes = vec![0; self.format.page_size];
        let page = |bytes| Page { number, bytes, usable: self.format.usable };
        self.read_beginning(number, &mut bytes).then(|| page(bytes))
    }

    /// Returns the page after this one in an overflow chain, or 0 at the end of the chain.
    pub(crate) fn next_overflow(&self, number: u32) -> Option<u32> {
        let mut next = [0; 4];
        self.read_beginning(number, &mut next).then(|| read_u32(&next, 0))?
    }

    /// Returns the first byte of a page. In a b-tree page, this byte gives the kind of the page.
    pub(crate) fn first_byte(&self, number: u32) -> Option<u8> {
        let mut byte = [0];
        self.read_beginning(number, &mut byte).then_some(byte[0])
    }

    fn read_beginning(&self, number: u32, bytes: &mut [u8]) -> bool {
        if number == 0 || number > self.count {
            return false;
        }
        if let Some(wal) = &self.wal
            && wal.has_page(number)
        {
            return wal.read_beginning(number, bytes);
        }
        let at = u64::from(number - 1) * self.format.page_size as u64;
        self.file.read_exact_at(bytes, at).is_ok()
    }

    /// True for a page that is never free, and never part of a tree or an overflow chain.
    pub(crate) fn is_special(&self, number: u32) -> bool {
        number == self.lock_byte_page() || self.is_pointer_map(number)
    }

    fn lock_byte_page(&self) -> u32 {
        let page = LOCK_BYTE / self.format.page_size as u64 + 1;
        u32::try_from(page).expect("a page has at least 512 bytes")
    }

    /// True if the header says that there are pointer maps, and page 2, where the first one would
    /// be, looks like one. The header alone is not trusted: if it were wrong, pages of trees would
    /// be ignored. Without a header, pointer maps need not be recognized, because they are not
    /// mistaken for pages of trees.
    fn looks_auto_vacuum(&self) -> bool {
        let said = self.header.as_ref().is_some_and(|header| header.auto_vacuum);
        let Some(page) = self.read_page(2).filter(|_| said) else { return false };
        let entries = page.bytes.chunks_exact(5).take(page.usable / 5);
        let of_pages = entries.take(self.count.saturating_sub(2) as usize);
        let possible = of_pages.filter(|entry| {
            matches!(entry[0], 1..=5)
                && read_u32(entry, 1).is_some_and(|parent| parent <= self.count)
        });
        let expected = (page.usable / 5).min(self.count.saturating_sub(2) as usize);
        possible.count() * 2 > expected
    }

    /// True if the page is a pointer map. Pointer maps come at regular intervals; each describes
    /// the pages up to the next one.
    fn is_pointer_map(&self, number: u32) -> bool {
        if number < 2 || !self.has_pointer_maps {
            return false;
        }
        let distance =
            u32::try_from(self.format.usable / 5 + 1).expect("a page has at most 65,536 bytes");
        // A pointer map that would be on the lock-byte page is moved to the next page.
        let place = if number - 1 == self.lock_byte_page() { number - 1 } else { number };
        (place - 2) % distance == 0
    }
}

fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A set of page numbers.
#[derive(Clone)]
pub(crate) struct PageSet(Vec<u64>);

impl PageSet {
    pub(crate) fn new(pages: &Pages) -> PageSet {
        PageSet(vec![0; pages.count as usize / 64 + 1])
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.0.get(page as usize / 64).is_some_and(|bits| bits >> (page % 64) & 1 == 1)
    }

    /// Adds a page. Returns false if it was already in the set or the database has no such page.
    pub(crate) fn insert(&mut self, page: u32) -> bool {
        let Some(bits) = self.0.get_mut(page as usize / 64) else { return false };
        let before = *bits;
        *bits |= 1 << (page % 64);
        *bits != before
    }

    pub(crate) fn extend(&mut self, other: &PageSet) {
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }
}
