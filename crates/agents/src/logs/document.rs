//! Logs that are one JSON document, written anew each time.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::Value;
use takeback_ledger::{Bookmark, LogPage};

use super::page::Writer;
use super::state::State;
use super::{Read, Reading, identity};
use crate::wire;

/// A longer one is not read.
const LARGEST: u64 = 128 << 20;

pub(super) fn read(
    agent: &'static str,
    path: &Path,
    from: Option<Bookmark>,
    read: fn(&Value, &mut Reading<'_>),
) -> io::Result<Read> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        file => {
            file?.take(LARGEST + 1).read_to_end(&mut bytes)?;
        }
    }
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large"));
    }
    let mut state: State = from
        .as_ref()
        .and_then(|from| serde_json::from_value(from.state.clone()).ok())
        .unwrap_or_default();
    let mut out = Writer::new(agent);
    let identity = identity::of_bytes(&bytes);
    let is_same = from.as_ref().is_some_and(|from| from.identity == identity);
    if !is_same && !bytes.is_empty() {
        let value = serde_json::from_slice::<Value>(&bytes)
            .or_else(|error| serde_json::from_slice(&wire::mended(&bytes)).map_err(|_| error))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut reading = Reading { path, offset: 0, state: &mut state, out: &mut out };
        read(&value, &mut reading);
    }
    let to = Bookmark {
        log: path.display().to_string(),
        agent: agent.to_owned(),
        offset: bytes.len() as u64,
        identity,
        state: serde_json::to_value(&state).expect("plain data becomes JSON"),
    };
    Ok(Read { page: LogPage { from, to, entries: out.entries }, bad: Vec::new(), more: false })
}
