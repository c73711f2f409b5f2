//! Reading a file that other processes may be writing to.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::cache::Cutoff;
use crate::beneath::{self, Stat};
use crate::object;
use crate::oid::Oid;

/// The maximum number of times that a changing file is read.
const MAX_ATTEMPTS: usize = 5;

/// The maximum size of the buffer that a thread keeps for its next file.
const MAX_KEPT_BUFFER: usize = 8 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The reason why a file could not be read.
pub(super) enum ReadFailure {
    Io(io::Error),
    TooLarge(Stat),
    /// The file changed each time it was read.
    Changing,
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> ReadFailure {
        ReadFailure::Io(error)
    }
}

/// Reads the content that a file had at one moment, and passes it to `use_content`. Returns the
/// stat and the id that belong to this content.
///
/// A file that was just written may be in the middle of another write that the stat does not show,
/// because file times are set when a write begins. Such a file is accepted once two reads in a row
/// return the same content.
pub(super) fn read_stable_content(
    fd: BorrowedFd<'_>,
    name: &[u8],
    size_limit: u64,
    present: Cutoff,
    use_content: impl FnOnce(Oid, &[u8]),
) -> Result<(Stat, Oid), ReadFailure> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut previous = None;
        for _ in 0..MAX_ATTEMPTS {
            let file = beneath::open_file(fd, name)?;
            let before = beneath::stat_fd(&file)?;
            if !before.is_file() {
                return Err(ReadFailure::Changing);
            }
            if before.size > size_limit {
                return Err(ReadFailure::TooLarge(before));
            }
            let size = before.size as usize;
            if buffer.len() <= size {
                buffer.resize(size + 1, 0);
            }
            // With room for one more byte, the end of the file is detected without another call.
            let read = fill_buffer(&file, &mut buffer[..=size])?;
            let after = beneath::stat_fd(&file)?;
            if read != size || before != after {
                previous = None;
                continue;
            }
            let oid = Oid::of(object::ObjectKind::Blob, &buffer[..size]);
            if present.is_racy(&after) && previous != Some(oid) {
                previous = Some(oid);
                continue;
            }
            use_content(oid, &buffer[..size]);
            if buffer.len() > MAX_KEPT_BUFFER {
                *buffer = Vec::new();
            }
            return Ok((after, oid));
        }
        Err(ReadFailure::Changing)
    })
}

/// The content of a file, read once, and the file's stat before the read.
pub(super) struct ReadOnce {
    pub(super) stat: Stat,
    pub(super) content: Vec<u8>,
    /// True if the size and stat of the file were unchanged after the read.
    pub(super) is_same: bool,
}

/// Reads a file once, even if it changes during the read. Returns `None` if the file does not
/// exist.
pub(super) fn read_once(
    fd: BorrowedFd<'_>,
    name: &[u8],
    size_limit: u64,
) -> Result<Option<ReadOnce>, ReadFailure> {
    let file = match beneath::open_file(fd, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let stat = beneath::stat_fd(&file)?;
    if !stat.is_file() {
        return Err(ReadFailure::Changing);
    }
    if stat.size > size_limit {
        return Err(ReadFailure::TooLarge(stat));
    }
    let mut content = vec![0; stat.size as usize + 1];
    let read = fill_buffer(&file, &mut content)?;
    content.truncate(read.min(stat.size as usize));
    let is_same = read as u64 == stat.size && beneath::stat_fd(&file)? == stat;
    Ok(Some(ReadOnce { stat, content, is_same }))
}

/// Reads until the file ends or the buffer is full, and returns the number of bytes read.
fn fill_buffer(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => return Ok(filled),
            Ok(read) => {
                filled += read;
                // The buffer has one byte more than the expected size. A short read of a regular
                // file means that the end was reached, so no further call is needed.
                if filled == buffer.len() || filled + 1 == buffer.len() {
                    return Ok(filled);
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
