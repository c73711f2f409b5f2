//! The pages of a database: its file, and over it what its write-ahead log committed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{self, Format, Header};
use super::record::be32;
use super::wal::Wal;

/// The page that holds this byte is never used: processes lock it.
const LOCK_BYTE: u64 = 0x4000_0000;

pub(super) struct Page {
    pub(super) number: u32,
    pub(super) bytes: Vec<u8>,
    /// The page without the bytes that are reserved at its end.
    pub(super) usable: usize,
}

impl Page {
    /// Where the b-tree page header stands: page 1 begins with the header of the database.
    pub(super) fn header(&self) -> usize {
        if self.number == 1 { 100 } else { 0 }
    }
}

pub(super) struct Pages {
    file: File,
    wal: Option<Wal>,
    pub(super) header: Option<Header>,
    pub(super) format: Format,
    /// How many pages there are; the last has this number.
    pub(super) count: u32,
    has_pointer_maps: bool,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Pages> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let wal = Wal::open(&beside(path, "-wal"))?;
        let mut first = [0; 100];
        let found = wal.as_ref().is_some_and(|wal| wal.read(1, &mut first))
            || file.read_exact_at(&mut first, 0).is_ok();
        let header = if found { Header::parse(&first) } else { None };
        let page_size = wal.as_ref().map(|wal| wal.page_size);
        let format = format::find(&file, size, header.as_ref(), page_size);
        let in_file = u32::try_from(size / format.page_size as u64).unwrap_or(u32::MAX - 1);
        // The log may say that there are billions of pages; only those stored somewhere matter.
        let in_wal = |wal: &Wal| wal.page_count.min(in_file.max(wal.last_page()));
        let count = wal.as_ref().map_or(in_file, in_wal);
        let mut pages = Pages { file, wal, header, format, count, has_pointer_maps: false };
        pages.has_pointer_maps = pages.looks_auto_vacuum();
        Ok(pages)
    }

    pub(super) fn wal_frames(&self) -> u64 {
        self.wal.as_ref().map_or(0, |wal| wal.frames)
    }

    /// A page as far as it is there in full.
    pub(super) fn read(&self, number: u32) -> Option<Page> {
        let mut bytes = vec![0; self.format.page_size];
        let page = |bytes| Page { number, bytes, usable: self.format.usable };
        self.read_beginning(number, &mut bytes).then(|| page(bytes))
    }

    /// The next page of an overflow chain or 0 at its end.
    pub(super) fn next_overflow(&self, number: u32) -> Option<u32> {
        let mut next = [0; 4];
        self.read_beginning(number, &mut next).then(|| be32(&next, 0))?
    }

    /// What kind of b-tree page it is, if it is one.
    pub(super) fn first_byte(&self, number: u32) -> Option<u8> {
        let mut byte = [0];
        self.read_beginning(number, &mut byte).then_some(byte[0])
    }

    fn read_beginning(&self, number: u32, bytes: &mut [u8]) -> bool {
        if number == 0 || number > self.count {
            return false;
        }
        if let Some(wal) = &self.wal
            && wal.has(number)
        {
            return wal.read(number, bytes);
        }
        let at = u64::from(number - 1) * self.format.page_size as u64;
        self.file.read_exact_at(bytes, at).is_ok()
    }

    /// Neither part of a tree nor of an overflow chain nor free.
    pub(super) fn is_special(&self, number: u32) -> bool {
        number == self.lock_byte_page() || self.is_pointer_map(number)
    }

    fn lock_byte_page(&self) -> u32 {
        let page = LOCK_BYTE / self.format.page_size as u64 + 1;
        u32::try_from(page).expect("a page has at least 512 bytes")
    }

    /// Whether the header says that there are pointer maps and the first of them, page 2, is one:
    /// a wrong header must not make pages of trees disappear. Without a header they need not be
    /// known, as they resemble nothing that is looked for.
    fn looks_auto_vacuum(&self) -> bool {
        let said = self.header.as_ref().is_some_and(|header| header.auto_vacuum);
        let Some(page) = self.read(2).filter(|_| said) else { return false };
        let entries = page.bytes.chunks_exact(5).take(page.usable / 5);
        let of_pages = entries.take(self.count.saturating_sub(2) as usize);
        let possible = of_pages.filter(|entry| {
            matches!(entry[0], 1..=5) && be32(entry, 1).is_some_and(|parent| parent <= self.count)
        });
        let expected = (page.usable / 5).min(self.count.saturating_sub(2) as usize);
        possible.count() * 2 > expected
    }

    /// Pointer maps come at regular distances, each for the pages up to the next.
    fn is_pointer_map(&self, number: u32) -> bool {
        if number < 2 || !self.has_pointer_maps {
            return false;
        }
        let distance = u32::try_from(self.format.usable / 5 + 1).expect("pages are small");
        // One that would be the lock-byte page is the page after it.
        let place = if number - 1 == self.lock_byte_page() { number - 1 } else { number };
        (place - 2) % distance == 0
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A set of page numbers.
#[derive(Clone)]
pub(super) struct PageSet(Vec<u64>);

impl PageSet {
    pub(super) fn new(pages: &Pages) -> PageSet {
        PageSet(vec![0; pages.count as usize / 64 + 1])
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.0.get(page as usize / 64).is_some_and(|bits| bits >> (page % 64) & 1 == 1)
    }

    /// False if it was there already, or can not be.
    pub(super) fn insert(&mut self, page: u32) -> bool {
        let Some(bits) = self.0.get_mut(page as usize / 64) else { return false };
        let before = *bits;
        *bits |= 1 << (page % 64);
        *bits != before
    }

    pub(super) fn extend(&mut self, other: &PageSet) {
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }
}
