//! Whole sessions, out and in: one JSON object per line.

use std::io::{BufRead, Write};

use rusqlite::Transaction;
use serde_json::Value;

use crate::messages::{self, Appender};
use crate::sessions::{self, head};
use crate::{Ledger, LedgerError, MessageRecord, Time, Transcript, mask, turns, usage};

/// What became of an imported session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Whether the session is new here.
    pub is_new: bool,
    /// How many messages were added.
    pub messages: usize,
}

/// Why a session was not imported. Nothing of it is in the ledger.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not a session.
    #[error("not a session: {0}")]
    Malformed(String),
    /// The session is here with another message under the same number.
    #[error("session {session} is here already, and its message {seq} is another one")]
    Conflict {
        /// The session.
        session: String,
        /// The message.
        seq: i64,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A line of an import that is not in the ledger.
#[derive(Debug)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: ImportError,
}

/// What an import of many sessions did.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// How many sessions were read.
    pub sessions: usize,
    /// How many of them are new here.
    pub new_sessions: usize,
    /// How many messages were added.
    pub messages: usize,
    /// What could not be imported.
    pub bad: Vec<BadLine>,
}

impl ImportReport {
    /// Counts one more.
    pub fn add(&mut self, imported: &Imported) {
        self.sessions += 1;
        self.new_sessions += usize::from(imported.is_new);
        self.messages += imported.messages;
    }
}

impl Ledger {
    /// A session with everything that belongs to it.
    pub fn transcript(&self, id: &str) -> Result<Transcript, LedgerError> {
        self.database.snapshot(|connection| {
            let session = self.session(id)?;
            let key = head(connection, id)?.key;
            let stored = messages::read_all(connection, key)?;
            Ok(Transcript {
                session,
                messages: stored.into_iter().map(|stored| stored.message).collect(),
                usage: usage::of_session(connection, key)?,
                calls: turns::calls(connection, key)?,
                effects: turns::effects(connection, key)?,
            })
        })
    }

    /// Brings in a session. One that is here already gets what it lacks: empty fields, and the
    /// messages behind its last one. Counts of messages are taken from the messages.
    pub fn import(&mut self, transcript: &Transcript, now: Time) -> Result<Imported, ImportError> {
        let mut transcript = transcript.clone();
        prepare(&mut transcript, now)?;
        if self.redact {
            mask::transcript(&mut transcript);
        }
        let imported = self.database.write(|transaction| import(transaction, &transcript, now))?;
        self.index_after_bulk(imported.messages);
        Ok(imported)
    }

    /// Brings in sessions, one JSON object per line. A line that cannot be imported is reported,
    /// the others go in; if the ledger itself fails, what came before is in. Tells how many lines it has read so far.
    pub fn import_lines(
        &mut self,
        lines: &mut dyn BufRead,
        now: Time,
        progress: &dyn Fn(usize),
    ) -> Result<ImportReport, ExchangeError> {
        let mut report = ImportReport::default();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let read = serde_json::from_slice::<Transcript>(&line)
                .map_err(|error| ImportError::Malformed(error.to_string()));
            match read.and_then(|transcript| self.import(&transcript, now)) {
                Ok(imported) => report.add(&imported),
                Err(ImportError::Ledger(error)) => return Err(error.into()),
                Err(error) => report.bad.push(BadLine { line: number, error }),
            }
            progress(number);
        }
        Ok(report)
    }

    /// Writes a session as one line of JSON.
    pub fn export_line(
        &self,
        id: &str,
        redact: bool,
        out: &mut dyn Write,
    ) -> Result<(), ExchangeError> {
        let mut transcript = self.transcript(id)?;
        if redact {
            mask::transcript(&mut transcript);
        }
        serde_json::to_writer(&mut *out, &transcript).map_err(std::io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// Why an import or an export came to an end.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// What was read from or written to.
    #[error("cannot exchange sessions")]
    Io(#[from] std::io::Error),
}

/// Numbers from here on would not add up.
const LARGEST: i64 = 1 << 50;

/// Checks what came from outside and gives numbers and times to messages that have none.
fn prepare(transcript: &mut Transcript, now: Time) -> Result<(), ImportError> {
    let malformed = |text: &str| Err(ImportError::Malformed(text.to_owned()));
    let session = &mut transcript.session;
    if session.id.is_empty() {
        return malformed("it has no id");
    }
    let first = transcript.messages.iter().filter_map(|message| message.timestamp).min();
    let started = *session.started_at.get_or_insert(first.unwrap_or(now));
    let mut last = 0;
    let mut time = started;
    let usage = transcript.usage.iter().map(|usage| (usage.tokens, usage.api_call_count));
    let mut counts = usage.chain([(session.tokens, session.api_call_count)]);
    let is_countable = |count: i64| (0..LARGEST).contains(&count);
    if counts.any(|(tokens, calls)| !tokens.all(is_countable) || !is_countable(calls)) {
        return malformed("it counts what cannot be counted");
    }
    for message in &mut transcript.messages {
        if message.role.is_empty() {
            return malformed("a message has no role");
        }
        if message.seq == 0 {
            message.seq = last + 1;
        }
        if message.seq >= LARGEST {
            return malformed("the number of a message is too large");
        }
        if message.seq <= last {
            return malformed("its messages are not in the order of their numbers");
        }
        last = message.seq;
        // Without a time of its own it happened right after the one before it.
        time = *message.timestamp.get_or_insert(time);
        normalize_calls(message);
    }
    Ok(())
}

/// Some write the list of tool calls as JSON in a string.
fn normalize_calls(message: &mut MessageRecord) {
    if let Some(Value::String(json)) = &message.tool_calls
        && let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(json)
    {
        message.tool_calls = Some(value);
    }
}

fn import(
    transaction: &Transaction<'_>,
    transcript: &Transcript,
    now: Time,
) -> Result<Imported, ImportError> {
    let session = &transcript.session;
    let is_new = sessions::upsert(transaction, session, now)?;
    let head = head(transaction, &session.id)?;
    let key = head.key;

    let new = missing(transaction, key, transcript)?;
    let mut appender = Appender::new(transaction, head);
    for message in &new {
        appender.append_as(message.seq, message, now)?;
    }
    appender.finish()?;
    messages::link_summaries(transaction, key)?;
    turns::recount(transaction, key)?;
    if is_new {
        for usage in &transcript.usage {
            usage::insert(transaction, key, usage)?;
        }
        for effect in &transcript.effects {
            turns::record_effect(transaction, &session.id, effect, now)?;
        }
    }
    for call in &transcript.calls {
        turns::record_call(transaction, &session.id, call)?;
    }
    Ok(Imported { is_new, messages: new.len() })
}

/// The messages that are not here yet. Those that are have to be the same. If the conversation went
/// on there, and they were undone or summed up, they are here, too; an older copy changes nothing.
fn missing<'t>(
    transaction: &Transaction<'_>,
    key: i64,
    transcript: &'t Transcript,
) -> Result<Vec<&'t MessageRecord>, ImportError> {
    let stored = messages::read_all(transaction, key)?;
    let last = |seq: Option<i64>| seq.unwrap_or(0);
    let is_later = last(transcript.messages.last().map(|message| message.seq))
        > last(stored.last().map(|stored| stored.message.seq));
    let mut missing = Vec::new();
    for message in &transcript.messages {
        match stored.binary_search_by_key(&message.seq, |stored| stored.message.seq) {
            Err(_) => missing.push(message),
            Ok(index) if is_same(&stored[index].message, message) => {
                if is_later {
                    messages::take_over_marks(transaction, key, &stored[index].message, message)?;
                }
            }
            Ok(_) => {
                let session = transcript.session.id.clone();
                return Err(ImportError::Conflict { session, seq: message.seq });
            }
        }
    }
    Ok(missing)
}

/// What was masked here is the same there.
fn is_same(here: &MessageRecord, other: &MessageRecord) -> bool {
    let same = |other: &MessageRecord| {
        here.role == other.role
            && here.content == other.content
            && here.tool_calls == other.tool_calls
            && here.tool_call_id == other.tool_call_id
            && here.tool_name == other.tool_name
    };
    same(other) || same(&messages::masked(other))
}
