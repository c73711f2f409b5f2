//! Lists sessions, searches the messages of all sessions, and reads conversations.

use takeback_ledger::{ListOptions, MessageFilter, SearchHit, SearchOptions, SessionSummary};
use takeback_undo::Opened;
use takeback_undo::view::text::{agent_of, timestamp};

use super::Work;
use crate::content::{FoundSession, Hit, Message};
use crate::host::Error;

/// The maximum number of sessions or messages in a list.
const MAX_FOUND: usize = 300;

/// The maximum number of messages to show. If a conversation has more, only the latest ones are
/// shown.
const MAX_MESSAGES: usize = 3_000;

impl Work {
    /// Finds the messages that contain these words. Without words, lists the latest sessions.
    pub(super) fn find_sessions(
        &self,
        opened: &Opened,
        words: &str,
        is_outdated: &dyn Fn() -> bool,
    ) -> Result<Vec<FoundSession>, Error> {
        let Some(mut ledger) = opened.ledger()? else { return Ok(Vec::new()) };
        if words.trim().is_empty() {
            let options = ListOptions { limit: Some(MAX_FOUND), ..ListOptions::default() };
            return Ok(ledger.sessions(&options)?.into_iter().map(from_summary).collect());
        }
        let options = SearchOptions { undone: true, limit: MAX_FOUND, ..SearchOptions::default() };
        let found = ledger.search_until(words, &options, is_outdated)?;
        Ok(found.results.into_iter().map(from_hit).collect())
    }

    /// Reads the messages of a session.
    pub(super) fn read_transcript(
        &self,
        opened: &Opened,
        session: &str,
        columns: usize,
    ) -> Result<Vec<Message>, Error> {
        let messages = match opened.ledger()? {
            Some(ledger) => ledger.messages(session, MessageFilter::All)?,
            None => Vec::new(),
        };
        let first = messages.len().saturating_sub(MAX_MESSAGES);
        Ok(self.render_messages(&messages[first..], columns))
    }
}

fn from_summary(found: SessionSummary) -> FoundSession {
    let title = found.session.title.filter(|title| !title.trim().is_empty());
    FoundSession {
        agent: agent_of(&found.session.id).to_owned(),
        session: found.session.id,
        title: title.unwrap_or(found.preview),
        time: timestamp(found.last_activity),
        hit: None,
    }
}

fn from_hit(found: SearchHit) -> FoundSession {
    FoundSession {
        agent: found.source,
        session: found.session,
        title: found.title.unwrap_or_default(),
        time: timestamp(found.time),
        hit: Some(Hit { message: found.message, role: found.role, snippet: found.snippet }),
    }
}
