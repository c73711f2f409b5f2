//! What hooks report, as values: written at once, or spooled and written by the next process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::messages::Appender;
use crate::sessions::{self, head};
use crate::spool::Spool;
use crate::{
    CallRecord, EffectRecord, Ledger, LedgerError, MessageRecord, Options, Redactor, SessionRecord,
    Time, UsageRecord, mask, turns, usage,
};

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It began, or more is known about it.
    Session {
        /// See [`Ledger::create_session`].
        record: Box<SessionRecord>,
    },
    /// Somebody said something.
    Messages {
        /// In which session.
        session: String,
        /// What.
        messages: Vec<MessageRecord>,
    },
    /// The current turn is over.
    TurnEnd {
        /// In which session.
        session: String,
    },
    /// The session is over.
    SessionEnd {
        /// Which.
        session: String,
        /// Why.
        reason: String,
    },
    /// A tool was called, or more is known about a call.
    Call {
        /// In which session.
        session: String,
        /// See [`Ledger::record_call`].
        call: CallRecord,
    },
    /// Something that no rollback reverses.
    Effect {
        /// In which session.
        session: String,
        /// What.
        effect: EffectRecord,
    },
    /// Tokens and cost.
    Usage {
        /// In which session.
        session: String,
        /// How much.
        usage: UsageRecord,
    },
    /// The agent has to be told something.
    Notice {
        /// In which session.
        session: String,
        /// What.
        body: Value,
    },
}

/// Where events went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Into the ledger.
    Written,
    /// Into the spool, because the ledger could not be written.
    Spooled {
        /// Why.
        because: String,
    },
}

impl Ledger {
    /// Writes events, all or none, and waits for other processes no longer than `wait`. If that is
    /// not possible now (others kept the ledger locked, the disk is full, the ledger is damaged),
    /// they go into the spool, from where the next process takes them in.
    pub fn record(
        &mut self,
        events: &[Event],
        wait: Duration,
        now: Time,
    ) -> Result<Recorded, LedgerError> {
        let events = masked_if(self.redact, events);
        let usual_wait = self.database.wait();
        self.set_wait(wait);
        self.database.limit_waiting(true);
        // What waits in the spool came first.
        let written = match self.take_in_spool() {
            Ok(true) => self.database.write(|transaction| apply(transaction, &events, now)),
            Ok(false) => Err(LedgerError::Busy { waited: Duration::ZERO }),
            Err(error) => Err(error),
        };
        if written.is_ok() {
            self.index_after_events(&events);
        }
        self.database.limit_waiting(false);
        self.set_wait(usual_wait);
        match written {
            Ok(()) => Ok(Recorded::Written),
            Err(
                error @ (LedgerError::Busy { .. }
                | LedgerError::Damaged(_)
                | LedgerError::Open(_)
                | LedgerError::Sqlite(_)
                | LedgerError::Spool { .. }),
            ) => spool(&self.spool, &events, now, &error),
            Err(error) => Err(error),
        }
    }

    /// Opens the ledger and records events in it, as [`Ledger::record`] does, waiting as long as
    /// the options say. If it cannot be opened, the events go into the spool.
    pub fn record_in(
        path: &Path,
        options: &Options,
        events: &[Event],
        now: Time,
    ) -> Result<Recorded, LedgerError> {
        match Ledger::open_alone(path, options) {
            Ok(mut ledger) => ledger.record(events, options.wait, now),
            Err(error) => {
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                spool(&Spool::beside(&path), &masked_if(options.redact, events), now, &error)
            }
        }
    }
}

fn masked_if(redact: bool, events: &[Event]) -> Vec<Event> {
    if redact { events.iter().map(Event::masked).collect() } else { events.to_vec() }
}

fn spool(
    spool: &Spool,
    events: &[Event],
    now: Time,
    error: &dyn std::error::Error,
) -> Result<Recorded, LedgerError> {
    spool.add(events, now)?;
    Ok(Recorded::Spooled { because: error.to_string() })
}

/// Writes events.
pub(crate) fn apply(
    transaction: &Transaction<'_>,
    events: &[Event],
    now: Time,
) -> Result<(), LedgerError> {
    for event in events {
        match event {
            Event::Session { record } => {
                sessions::upsert(transaction, record, now)?;
            }
            Event::Messages { session, messages } => {
                let mut appender = Appender::new(transaction, head(transaction, session)?);
                for message in messages {
                    appender.append(message, now)?;
                }
                appender.finish()?;
            }
            Event::TurnEnd { session } => turns::end_turn(transaction, session, now)?,
            Event::SessionEnd { session, reason } => {
                sessions::end(transaction, session, reason, now)?;
            }
            Event::Call { session, call } => turns::record_call(transaction, session, call)?,
            Event::Effect { session, effect } => {
                turns::record_effect(transaction, session, effect, now)?;
            }
            Event::Usage { session, usage } => usage::record(transaction, session, usage, now)?,
            Event::Notice { session, body } => {
                let key = head(transaction, session)?.key;
                transaction.execute(
                    "INSERT INTO notices (session, created_at, body) VALUES (?1, ?2, ?3)",
                    params![key, now, body.to_string()],
                )?;
            }
        }
    }
    Ok(())
}

impl Event {
    /// The event with secrets masked.
    fn masked(&self) -> Event {
        let mut event = self.clone();
        match &mut event {
            Event::Session { record } => mask::session(record),
            Event::Messages { messages, .. } => messages.iter_mut().for_each(mask::message),
            Event::Call { call, .. } => mask::call(call),
            Event::Effect { effect, .. } => mask::effect(effect),
            Event::Notice { body, .. } => Redactor::shared().json(body),
            Event::TurnEnd { .. } | Event::SessionEnd { .. } | Event::Usage { .. } => {}
        }
        event
    }
}
