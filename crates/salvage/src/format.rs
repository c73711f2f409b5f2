//! The database header, and how to find the page size without it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::btree;
use crate::pages::Page;
use crate::record::{read_u16, read_u32};

const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_SIZES: [usize; 8] = [4096, 1024, 512, 2048, 8192, 16384, 32768, 65536];
/// The maximum number of reserved bytes per page to try when searching for the format. Few
/// databases reserve bytes; those that do keep a nonce or a checksum in them.
const MOST_RESERVED: usize = 64;
/// The number of pages that are sampled to find the page size.
const SAMPLE: u32 = 64;

/// The layout that all pages of a database share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFormat {
    pub(crate) page_size: usize,
    /// The page size without the bytes reserved at the end of each page.
    pub(crate) usable: usize,
}

/// The fields of the database header that are needed here.
pub(crate) struct DatabaseHeader {
    format: PageFormat,
    /// The number of pages; `None` if the recorded number is out of date. Old versions of SQLite do
    /// not update it.
    pub(crate) page_count: Option<u32>,
    pub(crate) first_trunk: u32,
    pub(crate) free_pages: u32,
    pub(crate) auto_vacuum: bool,
    pub(crate) utf16: bool,
}

impl DatabaseHeader {
    /// Parses the header. Returns `None` if it is too damaged to be trusted.
    pub(crate) fn parse(bytes: &[u8; 100]) -> Option<DatabaseHeader> {
        let page_size = match read_u16(bytes, 16)? {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.checked_sub(usize::from(bytes[20]))?;
        let magic = bytes.starts_with(MAGIC);
        let constants = bytes[21..24] == [64, 32, 32] && (1..=4).contains(&read_u32(bytes, 44)?);
        if !PAGE_SIZES.contains(&page_size) || usable < 480 || !(magic || constants) {
            return None;
        }
        let up_to_date = read_u32(bytes, 24)? == read_u32(bytes, 92)?;
        Some(DatabaseHeader {
            format: PageFormat { page_size, usable },
            page_count: read_u32(bytes, 28).filter(|&count| count > 0 && up_to_date),
            first_trunk: read_u32(bytes, 32)?,
            free_pages: read_u32(bytes, 36)?,
            auto_vacuum: read_u32(bytes, 52)? != 0,
            utf16: matches!(read_u32(bytes, 56)?, 2 | 3),
        })
    }
}

/// Finds the format in which the pages of the file are consistent. This is the format in the
/// header, unless no page fits it and some pages fit another format. If there is a log, only the
/// page size in its header is tried, because a checksum protects that header.
pub(crate) fn find_format(
    file: &File,
    size: u64,
    header: Option<&DatabaseHeader>,
    wal: Option<usize>,
) -> PageFormat {
    let sizes: Vec<usize> = wal.map_or(PAGE_SIZES.to_vec(), |size| vec![size]);
    let said = header.map(|header| header.format).filter(|said| sizes.contains(&said.page_size));
    if let Some(said) = said
        && PageSample::read_from(file, size, said.page_size).count_pages_that_add_up(said) > 0
    {
        return said;
    }
    let default = PageFormat { page_size: sizes[0], usable: sizes[0] };
    let mut best = (0, said.unwrap_or(default));
    for page_size in sizes {
        let mut sample = PageSample::read_from(file, size, page_size);
        for reserved in 0..=MOST_RESERVED.min(page_size - 480) {
            let format = PageFormat { page_size, usable: page_size - reserved };
            let score = sample.count_pages_that_add_up(format);
            if score > best.0 {
                best = (score, format);
            }
        }
    }
    best.1
}

/// A sample of the pages, read under the assumption that they have a certain size.
struct PageSample {
    count: u32,
    pages: Vec<Page>,
}

impl PageSample {
    fn read_from(file: &File, size: u64, page_size: usize) -> PageSample {
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
        PageSample { count, pages }
    }

    /// Counts the pages whose contents add up in this format. A b-tree page is filled from its end,
    /// so its contents add up only if the page size is right.
    fn count_pages_that_add_up(&mut self, format: PageFormat) -> usize {
        let adds_up = |page: &mut Page| {
            page.usable = format.usable;
            btree::parse_tree_page(page, self.count).is_some_and(|tree| tree.adds_up)
        };
        self.pages.iter_mut().map(adds_up).filter(|&adds_up| adds_up).count()
    }
}
