//! The write-ahead log: pages that were committed after the database file was last written.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::record::read_u32;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number without its lowest bit. That bit is set if the checksums use big-endian words.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// A log with at least one complete commit.
pub(crate) struct Wal {
    file: File,
    pub(crate) page_size: usize,
    /// The number of pages in the database after the last commit.
    pub(crate) page_count: u32,
    /// The number of frames up to the last commit.
    pub(crate) frames: u64,
    /// The offset of the newest committed content of each page.
    pages: HashMap<u32, u64>,
}

impl Wal {
    /// Opens the log. Returns `None` if there is no log, or if the log has no complete commit.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Wal>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut header = [0; HEADER];
        if !read_fully(&mut reader, &mut header)? {
            return Ok(None);
        }
        let Some(mut chain) = FrameChain::begin(&header) else { return Ok(None) };
        let mut pages = HashMap::new();
        let mut uncommitted = Vec::new();
        let (mut frames, mut committed, mut page_count) = (0, 0, 0);
        let mut frame = vec![0; FRAME_HEADER + chain.page_size];
        while read_fully(&mut reader, &mut frame)? {
            let Some((page, size_after_commit)) = chain.accept_frame(&frame) else { break };
            uncommitted.push((page, chain.content_offset(frames)));
            frames += 1;
            if size_after_commit > 0 {
                pages.extend(uncommitted.drain(..));
                (committed, page_count) = (frames, size_after_commit);
            }
        }
        let page_size = chain.page_size;
        let wal = Wal { file, page_size, page_count, frames: committed, pages };
        Ok((committed > 0).then_some(wal))
    }

    pub(crate) fn has_page(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    pub(crate) fn last_page(&self) -> u32 {
        self.pages.keys().copied().max().unwrap_or(0)
    }

    /// Fills `bytes` with the beginning of a page. Returns false if the log does not have the page.
    pub(crate) fn read_beginning(&self, page: u32, bytes: &mut [u8]) -> bool {
        let Some(&at) = self.pages.get(&page) else { return false };
        bytes.len() <= self.page_size && self.file.read_exact_at(bytes, at).is_ok()
    }
}

/// The chain that each frame must continue: the log's salts and the checksum of all earlier frames.
struct FrameChain {
    page_size: usize,
    salts: [u8; 8],
    big_endian: bool,
    sum: (u32, u32),
}

impl FrameChain {
    fn begin(header: &[u8; HEADER]) -> Option<FrameChain> {
        let magic = read_u32(header, 0)?;
        let page_size = usize::try_from(read_u32(header, 8)?).ok()?;
        let valid = magic & !1 == MAGIC
            && read_u32(header, 4)? == VERSION
            && page_size.is_power_of_two()
            && (512..=65_536).contains(&page_size);
        let salts = header.get(16..24)?.try_into().ok()?;
        let mut chain = FrameChain { page_size, salts, big_endian: magic & 1 == 1, sum: (0, 0) };
        chain.add_to_sum(header.get(..24)?);
        (valid && chain.sum == (read_u32(header, 24)?, read_u32(header, 28)?)).then_some(chain)
    }

    /// Checks a frame and advances to the next. Returns the number of the frame's page. Also
    /// returns the number of pages in the database if the frame ends a commit, otherwise 0. Returns
    /// `None` if the frame does not continue the chain.
    fn accept_frame(&mut self, frame: &[u8]) -> Option<(u32, u32)> {
        self.add_to_sum(frame.get(..8)?);
        self.add_to_sum(frame.get(FRAME_HEADER..)?);
        let valid = frame.get(8..16)? == self.salts
            && self.sum == (read_u32(frame, 16)?, read_u32(frame, 20)?)
            && read_u32(frame, 0)? > 0;
        valid.then_some((read_u32(frame, 0)?, read_u32(frame, 4)?))
    }

    fn add_to_sum(&mut self, bytes: &[u8]) {
        let word = |word: &[u8]| {
            let word = word.try_into().expect("each word has four bytes");
            if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let (mut a, mut b) = self.sum;
        for pair in bytes.chunks_exact(8) {
            let (left, right) = pair.split_at(4);
            a = a.wrapping_add(word(left)).wrapping_add(b);
            b = b.wrapping_add(word(right)).wrapping_add(a);
        }
        self.sum = (a, b);
    }

    fn content_offset(&self, frame: u64) -> u64 {
        HEADER as u64 + frame * (FRAME_HEADER + self.page_size) as u64 + FRAME_HEADER as u64
    }
}

/// Fills `bytes` from the reader. Returns false if the reader does not have enough bytes left.
fn read_fully(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
