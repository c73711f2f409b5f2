//! Events that hooks report. They are written immediately, or spooled and written by the next
//! process.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_base::paths;

use crate::messages::Appender;
use crate::sessions::{self, head};
use crate::spool::Spool;
use crate::{
    CallRecord, EffectRecord, Ledger, LedgerError, LedgerOptions, MessageRecord, Redactor,
    SessionRecord, Time, UsageRecord, calls, mask, notices, turns, usage,
};

/// An event in a session, as a hook reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Event {
    /// The session began, or there is new information about it; see [`Ledger::create_session`].
    Session { record: Box<SessionRecord> },
    /// Messages were added.
    Messages { session: String, messages: Vec<MessageRecord> },
    /// The current turn has ended.
    TurnEnd { session: String },
    /// The session has ended.
    SessionEnd { session: String, reason: String },
    /// A session that had ended was resumed.
    SessionResumed { session: String },
    /// A tool was called, or there is new information about a call.
    Call { session: String, call: CallRecord },
    /// A command had an effect that no rollback reverses.
    Effect { session: String, effect: EffectRecord },
    /// Tokens were used.
    Usage { session: String, usage: UsageRecord },
    /// A notice is waiting for the agent.
    Notice { session: String, body: Value },
    /// The agent has received the notices with these ids.
    NoticesDelivered { session: String, ids: Vec<i64> },
}

/// The destination that events were written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The ledger has the events.
    Written,
    /// The spool has the events, because writing to the ledger failed.
    Spooled {
        /// The error that prevented the write to the ledger.
        because: String,
    },
}

impl Ledger {
    /// Writes events, all or none, and waits at most `wait` for other processes. If the events
    /// cannot be written to the ledger now (because other processes have locked it, it is damaged,
    /// or the disk is full), they go into the spool. The next process adds them to the ledger.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use takeback_ledger::{CallRecord, Event, Ledger, LedgerOptions, Recorded, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// let session =
    ///     SessionRecord { id: "mine:1".into(), source: "mine".into(), ..SessionRecord::default() };
    /// let call = CallRecord { call: "1".into(), tool: "bash".into(), ..CallRecord::default() };
    /// let events = [
    ///     Event::Session { record: Box::new(session) },
    ///     Event::Call { session: "mine:1".into(), call },
    /// ];
    /// assert_eq!(ledger.record(&events, Duration::from_secs(1), now)?, Recorded::Written);
    /// assert_eq!(ledger.transcript("mine:1")?.calls[0].tool, "bash");
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(
        &mut self,
        events: &[Event],
        wait: Duration,
        now: Time,
    ) -> Result<Recorded, LedgerError> {
        let events = mask_if(self.redact, events);
        let usual_wait = self.database.wait();
        self.set_wait(wait);
        self.database.limit_waiting(true);
        // Events in the spool are older, so they go first.
        let written = match self.take_in_spool() {
            Ok(true) => self
                .database
                .write(|transaction| apply_events(transaction, &events, now).map(|_| ())),
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
            ) => spool_events(&self.spool, &events, now, &error),
            Err(error) => Err(error),
        }
    }

    /// Opens the ledger and records events in it, as [`Ledger::record`] does. Waits as long as the
    /// options allow. If the ledger cannot be opened, the events go into the spool.
    pub fn record_in(
        path: &Path,
        options: &LedgerOptions,
        events: &[Event],
        now: Time,
    ) -> Result<Recorded, LedgerError> {
        match Ledger::open_alone(path, options) {
            Ok(mut ledger) => ledger.record(events, options.wait, now),
            Err(error) => {
                let path = paths::canonicalize_or_keep(path);
                spool_events(&Spool::beside(&path), &mask_if(options.redact, events), now, &error)
            }
        }
    }
}

/// Returns the events. If `redact` is true, masks the secrets in them.
pub(crate) fn mask_if(redact: bool, events: &[Event]) -> Cow<'_, [Event]> {
    match redact {
        true => Cow::Owned(events.iter().map(Event::to_masked).collect()),
        false => Cow::Borrowed(events),
    }
}

fn spool_events(
    spool: &Spool,
    events: &[Event],
    now: Time,
    error: &dyn std::error::Error,
) -> Result<Recorded, LedgerError> {
    spool.add_events(events, now)?;
    Ok(Recorded::Spooled { because: error.to_string() })
}

/// Writes events in a transaction. Returns the session and number of each message that they add.
pub(crate) fn apply_events(
    transaction: &Transaction<'_>,
    events: &[Event],
    now: Time,
) -> Result<Vec<(String, i64)>, LedgerError> {
    let mut added = Vec::new();
    for event in events {
        match event {
            Event::Session { record } => {
                sessions::upsert_session(transaction, record, now)?;
            }
            Event::Messages { session, messages } => {
                let mut appender = Appender::new(transaction, head(transaction, session)?);
                for message in messages {
                    added.push((session.clone(), appender.append(message, now)?));
                }
                appender.finish()?;
            }
            Event::TurnEnd { session } => turns::end_turn(transaction, session, now)?,
            Event::SessionEnd { session, reason } => {
                sessions::end_session(transaction, session, reason, now)?;
            }
            Event::SessionResumed { session } => sessions::reopen_session(transaction, session)?,
            Event::Call { session, call } => calls::record_call(transaction, session, call)?,
            Event::Effect { session, effect } => {
                calls::record_effect(transaction, session, effect, now)?;
            }
            Event::Usage { session, usage } => {
                usage::record_usage(transaction, session, usage, now)?;
            }
            Event::NoticesDelivered { session, ids } => {
                notices::deliver_notices(transaction, session, ids, now)?;
            }
            Event::Notice { session, body } => {
                let key = head(transaction, session)?.key;
                transaction.execute(
                    "INSERT INTO notices (session, created_at, body) VALUES (?1, ?2, ?3)",
                    params![key, now, body.to_string()],
                )?;
            }
        }
    }
    Ok(added)
}

impl Event {
    /// Returns the event with its secrets masked.
    fn to_masked(&self) -> Event {
        let mut event = self.clone();
        match &mut event {
            Event::Session { record } => mask::mask_session(record),
            Event::Messages { messages, .. } => messages.iter_mut().for_each(mask::mask_message),
            Event::Call { call, .. } => mask::mask_call(call),
            Event::Effect { effect, .. } => mask::mask_effect(effect),
            Event::Notice { body, .. } => Redactor::shared().mask_json(body),
            Event::Usage { usage, .. } => mask::mask_usage(usage),
            Event::SessionEnd { reason, .. } => mask::mask_text(reason),
            Event::TurnEnd { .. }
            | Event::SessionResumed { .. }
            | Event::NoticesDelivered { .. } => {}
        }
        event
    }
}
