//! The database header, and the page size when the header does not tell it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::btree;
use super::pages::Page;
use super::record::{be16, be32};

const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_SIZES: [usize; 8] = [4096, 1024, 512, 2048, 8192, 16384, 32768, 65536];
/// Reserved bytes are rare, and where they are used they are a nonce and a checksum.
const MOST_RESERVED: usize = 64;
/// How many pages have a say in what the page size is.
const SAMPLE: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) page_size: usize,
    /// The page size without the bytes reserved at the end of each page.
    pub(super) usable: usize,
}

/// What is needed of the first 100 bytes.
pub(super) struct Header {
    format: Format,
    /// Only if it is up to date: old versions of SQLite do not write it.
    pub(super) page_count: Option<u32>,
    pub(super) first_trunk: u32,
    pub(super) free_pages: u32,
    pub(super) auto_vacuum: bool,
    pub(super) utf16: bool,
}

impl Header {
    /// `None` if it is damaged so badly that nothing in it can be believed.
    pub(super) fn parse(bytes: &[u8; 100]) -> Option<Header> {
        let page_size = match be16(bytes, 16)? {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.checked_sub(usize::from(bytes[20]))?;
        let magic = bytes.starts_with(MAGIC);
        let constants = bytes[21..24] == [64, 32, 32] && (1..=4).contains(&be32(bytes, 44)?);
        if !PAGE_SIZES.contains(&page_size) || usable < 480 || !(magic || constants) {
            return None;
        }
        let up_to_date = be32(bytes, 24)? == be32(bytes, 92)?;
        Some(Header {
            format: Format { page_size, usable },
            page_count: be32(bytes, 28).filter(|&count| count > 0 && up_to_date),
            first_trunk: be32(bytes, 32)?,
            free_pages: be32(bytes, 36)?,
            auto_vacuum: be32(bytes, 52)? != 0,
            utf16: matches!(be32(bytes, 56)?, 2 | 3),
        })
    }
}

/// The format in which pages of the file make sense: what the header says, unless no page agrees
/// with it and some agree with another. The log's page size is checksummed and beyond doubt.
pub(super) fn find(file: &File, size: u64, header: Option<&Header>, wal: Option<usize>) -> Format {
    let sizes: Vec<usize> = wal.map_or(PAGE_SIZES.to_vec(), |size| vec![size]);
    let said = header.map(|header| header.format).filter(|said| sizes.contains(&said.page_size));
    if let Some(said) = said
        && Sample::read(file, size, said.page_size).pages_that_add_up(said) > 0
    {
        return said;
    }
    let default = Format { page_size: sizes[0], usable: sizes[0] };
    let mut best = (0, said.unwrap_or(default));
    for page_size in sizes {
        let mut sample = Sample::read(file, size, page_size);
        for reserved in 0..=MOST_RESERVED.min(page_size - 480) {
            let format = Format { page_size, usable: page_size - reserved };
            let score = sample.pages_that_add_up(format);
            if score > best.0 {
                best = (score, format);
            }
        }
    }
    best.1
}

/// Some of the pages, if pages have a certain size.
struct Sample {
    count: u32,
    pages: Vec<Page>,
}

impl Sample {
    fn read(file: &File, size: u64, page_size: usize) -> Sample {
        let count = u32::try_from(size / page_size as u64).unwrap_or(u32::MAX - 1);
        let step = (count / SAMPLE).max(1);
        let mut pages = Vec::new();
        for number in (1..=count).step_by(step as usize) {
            let mut bytes = vec![0; page_size];
            let at = u64::from(number - 1) * page_size as u64;
            if file.read_exact_at(&mut bytes, at).is_ok() {
                pages.push(Page { number, bytes, usable: page_size });
            }
        }
        Sample { count, pages }
    }

    /// How many are b-tree pages without contradictions. As a b-tree page is filled from its end,
    /// it makes no sense in any other size.
    fn pages_that_add_up(&mut self, format: Format) -> usize {
        let adds_up = |page: &mut Page| {
            page.usable = format.usable;
            btree::parse(page, self.count).is_some_and(|tree| tree.adds_up)
        };
        self.pages.iter_mut().map(adds_up).filter(|&adds_up| adds_up).count()
    }
}
