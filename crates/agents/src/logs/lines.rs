//! Logs of one JSON object per line, which only grow.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;
use takeback_ledger::{Bookmark, LogPage};

use super::page::Writer;
use super::state::State;
use super::{Read, Reading, identity};
use crate::wire;

/// A part ends after so many bytes: they are all in memory, and in one transaction.
const PART: u64 = 4 << 20;

/// A longer line is nothing that an agent says.
const LINE: u64 = 32 << 20;

pub(super) fn read(
    agent: &'static str,
    path: &Path,
    from: Option<Bookmark>,
    read: fn(&Value, &mut Reading<'_>),
) -> io::Result<Read> {
    let file = open(path)?;
    let known = from.as_ref().filter(|from| is_same(file.as_ref(), from));
    let mut offset = known.map_or(0, |known| known.offset);
    let mut state: State = known
        .and_then(|known| serde_json::from_value(known.state.clone()).ok())
        .unwrap_or_default();
    let mut out = Writer::new(agent);
    let (mut bad, mut more) = (Vec::new(), false);
    if let Some(file) = &file {
        let mut reader = BufReader::with_capacity(1 << 16, file);
        reader.seek(SeekFrom::Start(offset))?;
        let end = offset + PART;
        while let Some(line) = next_line(&mut reader)? {
            let length = line.length();
            if let Line::Whole(bytes) = &line
                && bytes.trim_ascii().is_empty()
            {
                offset += length;
                state.line += u64::from(bytes.ends_with(b"\n"));
                continue;
            }
            let is_complete = line.is_complete();
            let is_too_long = matches!(line, Line::TooLong { .. });
            match line.parse() {
                Some(value) => {
                    let mut reading = Reading { path, offset, state: &mut state, out: &mut out };
                    read(&value, &mut reading);
                }
                // The agent is not done with it.
                None if !is_complete && !is_too_long => break,
                // Of one that is too long already the rest is no better: nobody reads that again.
                None => bad.push(state.line + 1),
            }
            offset += length;
            state.line += u64::from(is_complete);
            if offset >= end {
                more = true;
                break;
            }
        }
    }
    let to = Bookmark {
        log: path.display().to_string(),
        agent: agent.to_owned(),
        offset,
        identity: file
            .as_ref()
            .map_or(Ok(String::new()), |file| identity::of_file(file, offset))?,
        state: serde_json::to_value(&state).expect("plain data becomes JSON"),
    };
    let page = LogPage { from, to, entries: out.entries };
    Ok(Read { page, bad, more })
}

/// Whether a log is the one that was read, and not written anew.
fn is_same(file: Option<&File>, from: &Bookmark) -> bool {
    let identity = file.and_then(|file| identity::of_file(file, from.offset).ok());
    identity.is_some_and(|identity| identity == from.identity)
}

/// A log; none if there is none, because an agent may name one before it makes it.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // Opening a pipe would wait for a writer.
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        metadata => metadata.and_then(|_| File::open(path).map(Some)),
    }
}

enum Line {
    /// With its end, if it has one.
    Whole(Vec<u8>),
    /// So long that only its length is known.
    TooLong { length: u64, is_complete: bool },
}

impl Line {
    fn length(&self) -> u64 {
        match self {
            Line::Whole(bytes) => bytes.len() as u64,
            Line::TooLong { length, .. } => *length,
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            Line::Whole(bytes) => bytes.ends_with(b"\n"),
            Line::TooLong { is_complete, .. } => *is_complete,
        }
    }

    /// Only an object is a record: the beginning of one never is.
    fn parse(&self) -> Option<Value> {
        let Line::Whole(bytes) = self else { return None };
        let value = serde_json::from_slice::<Value>(bytes)
            .or_else(|_| serde_json::from_slice(&wire::mended(bytes)));
        value.ok().filter(Value::is_object)
    }
}

fn next_line(reader: &mut BufReader<&File>) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    if reader.by_ref().take(LINE).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.ends_with(b"\n") || (bytes.len() as u64) < LINE {
        return Ok(Some(Line::Whole(bytes)));
    }
    let mut length = bytes.len() as u64;
    loop {
        bytes.clear();
        let read = reader.by_ref().take(1 << 16).read_until(b'\n', &mut bytes)?;
        length += read as u64;
        let is_complete = bytes.ends_with(b"\n");
        if is_complete || read == 0 {
            return Ok(Some(Line::TooLong { length, is_complete }));
        }
    }
}
