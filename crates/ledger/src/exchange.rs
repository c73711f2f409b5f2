//! The exchange of complete sessions: one JSON object per line.

use std::io::{BufRead, Read};

use rusqlite::Transaction;
use serde_json::Value;
use takeback_base::foreign;

use crate::messages::{self, Appender};
use crate::sessions::{head, upsert_session};
use crate::{Ledger, LedgerError, MessageRecord, Time, Transcript, calls, mask, turns, usage};

/// The result of importing one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ImportedSession {
    pub is_new: bool,
    /// The number of messages that were added.
    pub messages: usize,
}

/// The reason why a session was not imported. No part of it is in the ledger.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ImportError {
    #[error("not a session: {0}")]
    Malformed(String),
    /// Parsing the session could exhaust memory.
    #[error("the session has more than {} JSON values", foreign::MAX_JSON_VALUES)]
    TooManyValues,
    /// The ledger already has the session, with a different message under the same number.
    #[error("session {session} already exists with a different message {seq}")]
    Conflict { session: String, seq: i64 },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A line that was not imported.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct BadLine {
    /// The number of the line, starting at 1.
    pub line: usize,
    pub error: ImportError,
}

/// The result of importing many sessions.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ImportReport {
    /// The number of sessions that were read.
    pub sessions: usize,
    pub new_sessions: usize,
    /// The number of messages that were added.
    pub messages: usize,
    /// The lines that could not be imported; only the first [`MAX_BAD`] are kept.
    pub bad: Vec<BadLine>,
    /// The number of additional lines that could not be imported.
    pub more_bad: usize,
}

/// The maximum number of lines or sessions whose errors are kept.
pub const MAX_BAD: usize = 100;

/// The maximum length of a line. Each line holds one session.
pub const MAX_LINE: u64 = 512 << 20;

impl ImportReport {
    /// Keeps the error of a line, or only counts it if many errors are already kept.
    fn add_bad(&mut self, line: usize, error: ImportError) {
        match self.bad.len() < MAX_BAD {
            true => self.bad.push(BadLine { line, error }),
            false => self.more_bad += 1,
        }
    }

    /// Counts an imported session.
    pub fn add(&mut self, imported: &ImportedSession) {
        self.sessions += 1;
        self.new_sessions += usize::from(imported.is_new);
        self.messages += imported.messages;
    }
}

impl Ledger {
    /// Returns the session with everything that belongs to it.
    pub fn transcript(&self, id: &str) -> Result<Transcript, LedgerError> {
        self.database.snapshot(|connection| {
            let session = self.session(id)?;
            let key = head(connection, id)?.key;
            let stored = messages::read_all(connection, key)?;
            Ok(Transcript {
                session,
                messages: stored.into_iter().map(|stored| stored.message).collect(),
                usage: usage::read_usage(connection, key)?,
                calls: calls::read_calls(connection, key)?,
                effects: calls::read_effects(connection, key)?,
            })
        })
    }

    /// Imports a session. If it already exists, fills in its empty fields and adds the missing
    /// messages. Counts the messages and tool calls again, instead of trusting the counts in the
    /// transcript.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, MessageRecord, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// # let say = |role: &str, text: &str| MessageRecord {
    /// #     role: role.into(),
    /// #     content: Some(text.into()),
    /// #     ..MessageRecord::default()
    /// # };
    /// ledger.append("mine:1", &[say("user", "Tidy up")], now)?;
    /// let transcript = ledger.transcript("mine:1")?;
    ///
    /// let path = scratch.path().join("other.db");
    /// let mut other = Ledger::open(&path, &LedgerOptions::default())?;
    /// assert!(other.import(&transcript, now)?.is_new);
    /// // A second import adds only what is missing.
    /// assert_eq!(other.import(&transcript, now)?.messages, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn import(
        &mut self,
        transcript: &Transcript,
        now: Time,
    ) -> Result<ImportedSession, ImportError> {
        let mut transcript = transcript.clone();
        prepare_transcript(&mut transcript, now)?;
        if self.redact {
            mask::mask_transcript(&mut transcript);
        }
        let imported =
            self.database.write(|transaction| import_transcript(transaction, &transcript, now))?;
        self.index_after_bulk(imported.messages);
        Ok(imported)
    }

    /// Imports sessions, one JSON object per line. A line that cannot be imported is reported, and
    /// the other lines are still imported. If the ledger itself fails, or a line is longer than
    /// [`MAX_LINE`], the import ends, but the lines before that line stay imported. `progress` is
    /// called with the number of lines read so far.
    pub fn import_lines(
        &mut self,
        lines: &mut dyn BufRead,
        now: Time,
        progress: &dyn Fn(usize),
    ) -> Result<ImportReport, Box<InterruptedImport>> {
        let mut report = ImportReport::default();
        let mut text = Vec::new();
        for line in 1.. {
            match self.import_next_line(lines, &mut text, now) {
                Ok(None) => break,
                Ok(Some(LineOutcome::Blank)) => continue,
                Ok(Some(LineOutcome::Imported(imported))) => report.add(&imported),
                Ok(Some(LineOutcome::Bad(error))) => report.add_bad(line, error),
                Err(cause) => return Err(Box::new(InterruptedImport { line, report, cause })),
            }
            progress(line);
        }
        Ok(report)
    }

    /// Imports the next line. Returns `None` at the end.
    fn import_next_line(
        &mut self,
        lines: &mut dyn BufRead,
        text: &mut Vec<u8>,
        now: Time,
    ) -> Result<Option<LineOutcome>, ExchangeError> {
        text.clear();
        if lines.take(MAX_LINE + 1).read_until(b'\n', text)? == 0 {
            return Ok(None);
        }
        // The rest of the line is not read, because it may be endless.
        if text.len() as u64 > MAX_LINE {
            return Err(ExchangeError::LongLine);
        }
        if text.trim_ascii().is_empty() {
            return Ok(Some(LineOutcome::Blank));
        }
        match parse_line(text).and_then(|transcript| self.import(&transcript, now)) {
            Ok(imported) => Ok(Some(LineOutcome::Imported(imported))),
            Err(ImportError::Ledger(error)) => Err(error.into()),
            Err(error) => Ok(Some(LineOutcome::Bad(error))),
        }
    }
}

fn parse_line(line: &[u8]) -> Result<Transcript, ImportError> {
    if foreign::has_too_many_values(line) {
        return Err(ImportError::TooManyValues);
    }
    serde_json::from_slice(line).map_err(|error| ImportError::Malformed(error.to_string()))
}

/// The result of importing one line.
enum LineOutcome {
    Blank,
    Imported(ImportedSession),
    Bad(ImportError),
}

/// An import that ended early.
#[derive(Debug, thiserror::Error)]
#[error("the import ended at line {line}")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct InterruptedImport {
    pub line: usize,
    /// The result of importing the lines before `line`. They stay imported.
    pub report: ImportReport,
    #[source]
    pub cause: ExchangeError,
}

/// The reason why an import or an export ended early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ExchangeError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("cannot read or write sessions")]
    Io(#[from] std::io::Error),
    #[error("the line is longer than {} MB", MAX_LINE >> 20)]
    LongLine,
}

/// The exclusive upper bound of imported counts and message numbers. It keeps sums from
/// overflowing.
const LARGEST: i64 = 1 << 50;

/// Validates a transcript that is being imported, and assigns numbers and times to messages that
/// have none.
fn prepare_transcript(transcript: &mut Transcript, now: Time) -> Result<(), ImportError> {
    let malformed = |text: &str| Err(ImportError::Malformed(text.to_owned()));
    let session = &mut transcript.session;
    if session.id.is_empty() {
        return malformed("missing id");
    }
    let first = transcript.messages.iter().filter_map(|message| message.timestamp).min();
    let started = *session.started_at.get_or_insert(first.unwrap_or(now));
    let mut last = 0;
    let mut time = started;
    let usage = transcript.usage.iter().map(|usage| (usage.tokens, usage.api_call_count));
    let mut counts = usage.chain([(session.tokens, session.api_call_count)]);
    let is_countable = |count: i64| (0..LARGEST).contains(&count);
    if counts.any(|(tokens, calls)| !tokens.all(is_countable) || !is_countable(calls)) {
        return malformed("a count is negative or too large");
    }
    for message in &mut transcript.messages {
        if message.role.is_empty() {
            return malformed("a message has no role");
        }
        if message.seq == 0 {
            message.seq = last + 1;
        }
        if message.seq >= LARGEST {
            return malformed("a message number is too large");
        }
        if message.seq <= last {
            return malformed("the message numbers are not ascending");
        }
        last = message.seq;
        // A message without a time gets the time of the message before it.
        time = *message.timestamp.get_or_insert(time);
        normalize_calls(message);
    }
    Ok(())
}

/// Parses a list of tool calls that a program stored as a JSON string.
fn normalize_calls(message: &mut MessageRecord) {
    if let Some(Value::String(json)) = &message.tool_calls
        && !foreign::has_too_many_values(json.as_bytes())
        && let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(json)
    {
        message.tool_calls = Some(value);
    }
}

fn import_transcript(
    transaction: &Transaction<'_>,
    transcript: &Transcript,
    now: Time,
) -> Result<ImportedSession, ImportError> {
    let session = &transcript.session;
    let is_new = upsert_session(transaction, session, now)?;
    let head = head(transaction, &session.id)?;
    let key = head.key;

    let new = find_missing(transaction, key, transcript)?;
    let mut appender = Appender::new(transaction, head);
    for message in &new {
        appender.append_as(message.seq, message, now)?;
    }
    appender.finish()?;
    messages::link_summaries(transaction, key)?;
    turns::recount_session(transaction, key)?;
    if is_new {
        for usage in &transcript.usage {
            usage::insert_usage(transaction, key, usage)?;
        }
        for effect in &transcript.effects {
            calls::record_effect(transaction, &session.id, effect, now)?;
        }
    }
    for call in &transcript.calls {
        calls::record_call(transaction, &session.id, call)?;
    }
    Ok(ImportedSession { is_new, messages: new.len() })
}

/// Finds the messages that the ledger lacks. Fails if the ledger has a different message under the
/// same number. If the transcript ends later than the session in the ledger, the messages that it
/// marks as undone or compacted are also marked in the ledger; otherwise, no marks change.
fn find_missing<'t>(
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

/// True if two messages are the same, apart from secrets that are masked in the stored message.
fn is_same(stored: &MessageRecord, imported: &MessageRecord) -> bool {
    let same = |other: &MessageRecord| {
        stored.role == other.role
            && stored.content == other.content
            && stored.tool_calls == other.tool_calls
            && stored.tool_call_id == other.tool_call_id
            && stored.tool_name == other.tool_name
    };
    same(imported) || same(&messages::mask_copy(imported))
}
