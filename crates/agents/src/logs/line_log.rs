//! Reading logs that have one JSON object per line and only grow.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;
use takeback_base::{durable, foreign};
use takeback_ledger::{Bookmark, LogPage};

use super::entry_writer::EntryWriter;
use super::log_identity::file_identity;
use super::reader_state::ReaderState;
use super::{ReadContext, ReadPage, ReadRecord};
use crate::payload::json_object::mend_json;

/// The size, in bytes, after which a page ends. A page is held in memory as a whole, and written in
/// one transaction.
const PAGE_SIZE: u64 = 4 << 20;

/// The maximum length of a line that is parsed.
const MAX_LINE: u64 = 64 << 20;

/// The maximum length of a line that is skipped. In a sparse file, a line can be practically
/// endless.
const MAX_SKIPPED: u64 = 1 << 30;

/// Reads the next page of a log. If the log has been replaced or rewritten since the bookmark was
/// set, reads from the beginning.
pub(super) fn read_page(
    agent: &'static str,
    path: &Path,
    from: Option<Bookmark>,
    read_line: ReadRecord,
) -> io::Result<ReadPage> {
    let file = open_log(path)?;
    let known = from.as_ref().filter(|from| is_same_log(file.as_ref(), from));
    let mut offset = known.map_or(0, |known| known.offset);
    let mut state = known.map(ReaderState::from_bookmark).unwrap_or_default();
    let mut out = EntryWriter::new(agent);
    let (mut bad_lines, mut has_more) = (Vec::new(), false);
    if let Some(file) = &file {
        let mut reader = BufReader::with_capacity(1 << 16, file);
        reader.seek(SeekFrom::Start(offset))?;
        let end = offset + PAGE_SIZE;
        while let Some(line) = next_line(&mut reader)? {
            match line.parse() {
                // This is the rest of a line that has already been reported as too long.
                _ if state.is_in_long_line => {}
                Some(value) => {
                    let mut context =
                        ReadContext { path, offset, state: &mut state, out: &mut out };
                    read_line(&value, &mut context);
                }
                None if line.is_blank() => {}
                // The agent is still writing this line.
                None if !line.is_complete() && !line.is_too_long() => break,
                // A line that is already too long will not become valid, so it is skipped even if
                // it is incomplete.
                None => bad_lines.push(state.line + 1),
            }
            offset += line.length();
            state.line += u64::from(line.is_complete());
            let is_long = state.is_in_long_line || line.is_too_long();
            state.is_in_long_line = is_long && !line.is_complete();
            if offset >= end {
                has_more = true;
                break;
            }
        }
    }
    let to = Bookmark {
        log: path.display().to_string(),
        agent: agent.to_owned(),
        offset,
        identity: file.as_ref().map_or(Ok(String::new()), |file| file_identity(file, offset))?,
        state: state.to_json(),
    };
    let page = LogPage { from, to, entries: out.entries };
    Ok(ReadPage { page, bad_lines, has_more })
}

/// True if the log has not been replaced or rewritten since the bookmark was set.
fn is_same_log(file: Option<&File>, from: &Bookmark) -> bool {
    let identity = file.and_then(|file| file_identity(file, from.offset).ok());
    identity.is_some_and(|identity| identity == from.identity)
}

/// Opens a log. Returns `None` if it does not exist, because an agent may name a log before
/// creating it.
pub(super) fn open_log(path: &Path) -> io::Result<Option<File>> {
    durable::if_exists(foreign::open_regular(path))
}

/// A line of a log, with its line ending if it has one.
enum LogLine {
    Whole(Vec<u8>),
    /// A line that is too long to be parsed.
    TooLong {
        length: u64,
        is_complete: bool,
    },
}

impl LogLine {
    fn length(&self) -> u64 {
        match self {
            LogLine::Whole(bytes) => bytes.len() as u64,
            LogLine::TooLong { length, .. } => *length,
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            LogLine::Whole(bytes) => bytes.ends_with(b"\n"),
            LogLine::TooLong { is_complete, .. } => *is_complete,
        }
    }

    fn is_blank(&self) -> bool {
        matches!(self, LogLine::Whole(bytes) if bytes.trim_ascii().is_empty())
    }

    fn is_too_long(&self) -> bool {
        matches!(self, LogLine::TooLong { .. })
    }

    /// Parses the line, which must be an object. An incomplete object is never valid JSON, so a
    /// line that can be parsed is complete, even without a line ending.
    fn parse(&self) -> Option<Value> {
        let LogLine::Whole(bytes) = self else { return None };
        if foreign::has_too_many_values(bytes) {
            return None;
        }
        let value = serde_json::from_slice::<Value>(bytes)
            .or_else(|_| serde_json::from_slice(&mend_json(bytes)));
        value.ok().filter(Value::is_object)
    }
}

fn next_line(reader: &mut BufReader<&File>) -> io::Result<Option<LogLine>> {
    let mut bytes = Vec::new();
    if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.ends_with(b"\n") || (bytes.len() as u64) < MAX_LINE {
        return Ok(Some(LogLine::Whole(bytes)));
    }
    let mut length = bytes.len() as u64;
    loop {
        bytes.clear();
        let read = reader.by_ref().take(1 << 16).read_until(b'\n', &mut bytes)?;
        length += read as u64;
        let is_complete = bytes.ends_with(b"\n");
        if is_complete || read == 0 {
            return Ok(Some(LogLine::TooLong { length, is_complete }));
        }
        if length > MAX_SKIPPED {
            let message = format!("it has a line of more than {} GB", MAX_SKIPPED >> 30);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
}
