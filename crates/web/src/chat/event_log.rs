//! The latest events of a conversation, for clients that were disconnected.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::sse;

/// The maximum number of events that are kept.
const MAX_EVENTS: usize = 4_096;

/// The maximum size of the events that are kept, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// An event of a conversation.
#[derive(Clone, Debug)]
pub(super) struct LoggedEvent {
    pub(super) id: u64,
    name: &'static str,
    data: Arc<str>,
}

/// The latest events, oldest first.
#[derive(Default)]
pub(super) struct EventLog {
    last_id: u64,
    events: VecDeque<LoggedEvent>,
    bytes: usize,
}

impl LoggedEvent {
    pub(super) fn new(id: u64, name: &'static str, data: &str) -> LoggedEvent {
        LoggedEvent { id, name, data: data.into() }
    }

    pub(super) fn to_sse(&self) -> sse::Event {
        sse::Event::default().event(self.name).id(self.id.to_string()).data(&*self.data)
    }
}

impl EventLog {
    /// Creates a log whose ids are larger than `first`.
    pub(super) fn new(first: u64) -> EventLog {
        EventLog { last_id: first, ..EventLog::default() }
    }

    pub(super) fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Adds an event, and forgets the oldest ones if there are too many.
    pub(super) fn push(&mut self, name: &'static str, data: &str) -> LoggedEvent {
        self.last_id += 1;
        let event = LoggedEvent::new(self.last_id, name, data);
        self.bytes += event.data.len();
        self.events.push_back(event.clone());
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.data.len();
        }
        event
    }

    /// Returns the events after the event with this id. Returns `None` if any of these events have
    /// been forgotten.
    pub(super) fn since(&self, id: u64) -> Option<Vec<LoggedEvent>> {
        let oldest = self.events.front().map_or(self.last_id, |event| event.id - 1);
        let is_known = (oldest..=self.last_id).contains(&id);
        is_known.then(|| self.events.iter().filter(|event| event.id > id).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_events_are_returned_until_they_are_forgotten() {
        let mut log = EventLog::new(100);
        assert_eq!(log.since(100).map(|missed| missed.len()), Some(0));
        for _ in 0..MAX_EVENTS + 5 {
            log.push("text", "{}");
        }
        let last = 100 + MAX_EVENTS as u64 + 5;
        assert_eq!(log.last_id(), last);
        assert_eq!(log.since(last - 3).map(|missed| missed.len()), Some(3));
        assert_eq!(log.since(105).map(|missed| missed.len()), Some(MAX_EVENTS));
        assert!(log.since(104).is_none(), "the first five are forgotten");
        assert!(log.since(last + 1).is_none(), "an id of another server");
    }

    #[test]
    fn large_events_are_forgotten_sooner() {
        let mut log = EventLog::new(0);
        let large = "x".repeat(MAX_BYTES / 2);
        for _ in 0..3 {
            log.push("call_ended", &large);
        }
        assert!(log.since(0).is_none());
        assert_eq!(log.since(1).map(|missed| missed.len()), Some(2));
    }
}
