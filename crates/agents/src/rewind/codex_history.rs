//! The whole history of a Codex conversation. After a fork, or after the user rewinds the
//! conversation inside Codex, a new log contains only what comes later. Its header names the log
//! that it continues, and the point in that log from which it continues.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_base::foreign;

use super::lines::{join_lines, parse_lines};
use super::{MAX_LOG, RewindError};
use crate::logs::{codex_generation, log_format};

/// The maximum number of logs in a chain.
const MAX_LOGS: usize = 64;

/// A log joined with the logs that it continues, as if Codex had written everything into one log.
pub(super) struct WholeLog {
    pub(super) content: Vec<u8>,
    /// A map from the id of an entry in `content` to its id in the ledger, if the two differ.
    pub(super) origins: BTreeMap<String, String>,
}

/// One of the logs that make up a conversation.
struct Piece {
    path: PathBuf,
    bytes: Vec<u8>,
    header: Value,
}

/// Reads a log together with the logs that it continues. Returns `None` if the log does not
/// continue another one.
pub(super) fn read_whole_log(path: &Path, bytes: &[u8]) -> Result<Option<WholeLog>, RewindError> {
    let mut pieces = vec![Piece::parse(path.to_owned(), bytes.to_vec())?];
    loop {
        let first = pieces.last().expect("the list begins with the log itself");
        if first.header["history_base"].is_null() {
            break;
        }
        if pieces.len() == MAX_LOGS {
            return Err(RewindError::UnknownFormat("it continues too many other logs"));
        }
        let base = find_base(first)?;
        pieces.push(base);
    }
    if pieces.len() == 1 {
        return Ok(None);
    }
    let id = pieces[0].id()?.to_owned();
    let mut whole = WholeLog { content: Vec::new(), origins: BTreeMap::new() };
    for (number, piece) in pieces.iter().rev().enumerate() {
        whole.push(piece, number == 0, &id)?;
    }
    Ok(Some(whole))
}

impl WholeLog {
    /// Adds the lines of a piece. Only the oldest piece keeps its header.
    fn push(&mut self, piece: &Piece, is_oldest: bool, id: &str) -> Result<(), RewindError> {
        let own = piece.id()?;
        let generation = codex_generation(&piece.path, own);
        let mut texts = Vec::new();
        for (number, line) in parse_lines(&piece.bytes)?.iter().enumerate() {
            let ordinal = line.value["ordinal"].as_u64();
            let ordinal = ordinal.ok_or(RewindError::UnknownFormat("a line has no number"))?;
            if number == 0 && !is_oldest {
                continue;
            }
            if let Some(generation) = generation {
                self.origins.insert(format!("#{ordinal}"), format!("#{ordinal}_{generation}"));
            }
            texts.push(line.text.replace(own, id));
        }
        self.content.extend(join_lines(texts.iter().map(String::as_str)));
        Ok(())
    }
}

impl Piece {
    fn parse(path: PathBuf, bytes: Vec<u8>) -> Result<Piece, RewindError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or_default();
        let first: Value = serde_json::from_slice(&bytes[..end])
            .map_err(|_| RewindError::UnknownFormat("its first line is not JSON"))?;
        if first["type"] != "session_meta" {
            return Err(RewindError::UnknownFormat("its beginning does not name the session"));
        }
        let header = first["payload"].clone();
        Ok(Piece { path, bytes, header })
    }

    /// Returns the name by which the header of a later log refers to this log. For the session's
    /// first log, the name is the id of the session; each later log has an id of its own.
    fn name(&self) -> Option<&str> {
        let id = self.id().ok()?;
        Some(codex_generation(&self.path, id).unwrap_or(id))
    }

    fn id(&self) -> Result<&str, RewindError> {
        let id = self.header["id"].as_str().filter(|id| !id.is_empty());
        id.ok_or(RewindError::UnknownFormat("its header has no id"))
    }
}

/// Finds the log that the given log continues, and reads it up to the point of continuation. A
/// conversation in which the user went back has several logs, only one of which contains this
/// point.
fn find_base(piece: &Piece) -> Result<Piece, RewindError> {
    let base = &piece.header["history_base"];
    let unknown = RewindError::UnknownFormat("the log that it continues was not found");
    let end = base["end_byte_offset"].as_u64().and_then(|end| usize::try_from(end).ok());
    let (Some(id), Some(end), Some(number)) =
        (base["thread_id"].as_str(), end, base["end_ordinal_exclusive"].as_u64())
    else {
        return Err(unknown);
    };
    let is_root = |directory: &&Path| directory.ends_with("sessions");
    let parent = piece.path.parent().unwrap_or(Path::new("/"));
    let root = parent.ancestors().find(is_root).unwrap_or(parent);
    let format = log_format("codex").expect("Codex is in the table");
    let mut found: Vec<Piece> = Vec::new();
    for log in format.logs_of_session(id, None, root) {
        let Ok(mut bytes) = foreign::read_regular(&log.path, MAX_LOG) else { continue };
        bytes.truncate(end);
        let ends_there = bytes.len() == end && last_number(&bytes) == number.checked_sub(1);
        if let Ok(piece) = Piece::parse(log.path, bytes)
            && ends_there
            && piece.name() == Some(id)
        {
            found.push(piece);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        _ => Err(unknown),
    }
}

/// Returns the number of the last line, if the bytes end with a complete line.
fn last_number(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes.strip_suffix(b"\n")?).ok()?;
    let line: Value = serde_json::from_str(text.lines().next_back()?).ok()?;
    line["ordinal"].as_u64()
}
