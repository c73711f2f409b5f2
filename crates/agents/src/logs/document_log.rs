//! Reading logs that are a single JSON document. The agent rewrites the document on every change.

use std::io::{self, Read as _};
use std::path::Path;

use serde_json::Value;
use takeback_base::foreign;
use takeback_ledger::{Bookmark, LogPage};

use super::entry_writer::EntryWriter;
use super::log_identity::content_identity;
use super::reader_state::ReaderState;
use super::{ReadContext, ReadPage, ReadRecord, line_log};
use crate::payload::json_object::mend_json;

/// The maximum size of a document.
const MAX_SIZE: u64 = 128 << 20;

/// Reads a document if it has changed since the bookmark was set.
pub(super) fn read_page(
    agent: &'static str,
    path: &Path,
    from: Option<Bookmark>,
    read_document: ReadRecord,
) -> io::Result<ReadPage> {
    let mut bytes = Vec::new();
    if let Some(file) = line_log::open_log(path)? {
        file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_SIZE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 128 MB"));
    }
    let mut state = from.as_ref().map(ReaderState::from_bookmark).unwrap_or_default();
    let mut out = EntryWriter::new(agent);
    let identity = content_identity(&bytes);
    let is_same = from.as_ref().is_some_and(|from| from.identity == identity);
    if !is_same && !bytes.is_empty() {
        if foreign::has_too_many_values(&bytes) {
            let message = format!("it has more than {} JSON values", foreign::MAX_JSON_VALUES);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let value = serde_json::from_slice::<Value>(&bytes)
            .or_else(|error| serde_json::from_slice(&mend_json(&bytes)).map_err(|_| error))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut context = ReadContext { path, offset: 0, state: &mut state, out: &mut out };
        read_document(&value, &mut context);
    }
    let to = Bookmark {
        log: path.display().to_string(),
        agent: agent.to_owned(),
        offset: bytes.len() as u64,
        identity,
        state: state.to_json(),
    };
    let page = LogPage { from, to, entries: out.entries };
    Ok(ReadPage { page, bad_lines: Vec::new(), has_more: false })
}
