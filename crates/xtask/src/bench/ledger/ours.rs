//! Using the ledger in this process.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use takeback_ledger::{Ledger, LedgerOptions, MessageRecord, SessionRecord, Time};

use super::corpus::{Corpus, Message};
use super::figures::Latencies;
use crate::Failure;
use crate::bench::takeback::explain_error;

/// The number of messages that are appended in one batch while the ledger grows.
const TOGETHER: usize = 4_000;

pub(crate) fn open_ledger(path: &Path) -> Result<Ledger, Failure> {
    Ledger::open(path, &LedgerOptions::default()).map_err(explain_error)
}

pub(crate) fn create_session(ledger: &mut Ledger, id: &str) -> Result<(), Failure> {
    let session = SessionRecord { id: id.to_owned(), source: "bench".into(), ..Default::default() };
    ledger.create_session(&session, now()).map_err(explain_error)
}

pub(crate) fn to_record(message: &Message) -> MessageRecord {
    MessageRecord {
        role: message.role.to_owned(),
        content: message.content.clone().map(Into::into),
        tool_name: message.tool_name.map(Into::into),
        tool_call_id: message.tool_call_id.clone(),
        tool_calls: message.tool_calls.clone(),
        ..MessageRecord::default()
    }
}

pub(crate) fn now() -> Time {
    SystemTime::now().into()
}

/// Appends messages one by one, and measures each append, including all other work that the library
/// does at the same time.
pub(crate) fn append_each(ledger: &mut Ledger, messages: &[Message]) -> Result<Latencies, Failure> {
    let mut sessions: Vec<&str> = messages.iter().map(|message| &*message.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        create_session(ledger, session)?;
    }
    let mut latencies = Vec::with_capacity(messages.len());
    for message in messages {
        let record = to_record(message);
        let start = Instant::now();
        ledger.append(&message.session, &[record], now()).map_err(explain_error)?;
        latencies.push(milliseconds(start.elapsed()));
    }
    Ok(Latencies::new(latencies))
}

/// Appends `count` messages in batches. Returns the number of bytes of their text.
pub(crate) fn grow_ledger(
    ledger: &mut Ledger,
    corpus: &mut Corpus,
    count: usize,
) -> Result<usize, Failure> {
    let mut bytes = 0;
    for start in (0..count).step_by(TOGETHER) {
        let messages = corpus.take_messages(TOGETHER.min(count - start));
        bytes += messages.iter().map(Message::text_length).sum::<usize>();
        let mut sessions: HashMap<&str, Vec<MessageRecord>> = HashMap::new();
        for message in &messages {
            sessions.entry(&message.session).or_default().push(to_record(message));
        }
        for (session, records) in sessions {
            create_session(ledger, session)?;
            ledger.append(session, &records, now()).map_err(explain_error)?;
        }
    }
    Ok(bytes)
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
