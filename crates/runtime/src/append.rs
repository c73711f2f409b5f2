//! Appending to the journal as few times as possible.
//!
//! An append is a synced transaction, which is the most expensive part of a step. Two rules decide
//! when an append is needed. First, everything that has happened is appended before anything else
//! happens, so that no reply is paid for twice and no call is made twice. Second, a step that
//! affects the world outside the process, such as a request or a call, is appended before it is
//! taken. The steps in between affect nothing outside the process, so one append contains all of
//! them, up to and including the announcement of the next request. For example, one append contains
//! a prompt and its request, a result and the request that carries it, or the last reply and the
//! end of the turn.

use takeback_ledger::{AppendedMessage, Event, GoalUpdate, MessageRecord, TaskChange, Tokens};

use crate::entry::Entry;
use crate::error::TaskError;
use crate::front_end::TurnOutcome;
use crate::request::PreparedRequest;
use crate::state::{State, Step};
use crate::task::Task;

/// The provisional number of a message that is not written yet.
const UNWRITTEN: i64 = i64::MAX;

/// The steps that an append contains in addition to those that the caller passed to it.
#[derive(Default)]
struct Following {
    entries: Vec<Entry>,
    request: Option<PreparedRequest>,
    end: Option<TurnEnd>,
}

/// The end of a turn, and the changes that are written together with it.
pub(crate) struct TurnEnd {
    pub(crate) outcome: TurnOutcome,
    /// The number of the turn in its session.
    pub(crate) number: i64,
    pub(crate) tokens: Tokens,
    pub(crate) cost: Option<f64>,
    pub(crate) goal: Option<GoalUpdate>,
}

impl Task {
    /// Appends entries to the journal together with the ledger's events, and applies them to the
    /// state. `build` receives the messages that the events add.
    pub(crate) fn append(
        &mut self,
        events: &[Event],
        build: impl Fn(&[AppendedMessage]) -> Vec<Entry>,
    ) -> Result<(), TaskError> {
        self.append_change(&TaskChange { events, ..TaskChange::default() }, build)
    }

    /// Appends entries to the journal together with a change to the task.
    pub(crate) fn append_change(
        &mut self,
        change: &TaskChange<'_>,
        build: impl Fn(&[AppendedMessage]) -> Vec<Entry>,
    ) -> Result<(), TaskError> {
        let Following { entries, request, end } = self.look_ahead(change, &build);
        let build_all = |messages: &[AppendedMessage]| -> Vec<Entry> {
            build(messages).into_iter().chain(entries.iter().cloned()).collect()
        };
        match &end {
            Some(end) => {
                let turn_end = Event::TurnEnd { session: self.session.id.clone() };
                let events = [change.events, &[turn_end]].concat();
                let goal = end.goal.as_ref();
                let change = TaskChange { events: &events, state: Some("idle"), goal, ..*change };
                self.write_change(&change, build_all)?;
            }
            None => self.write_change(change, build_all)?,
        }
        (self.prepared, self.ended) = (request, end);
        Ok(())
    }

    /// Appends exactly these entries.
    fn write_change(
        &mut self,
        change: &TaskChange<'_>,
        build: impl Fn(&[AppendedMessage]) -> Vec<Entry>,
    ) -> Result<(), TaskError> {
        let now = self.agent.opened.now();
        let appended = self.journal.append(change, build, now)?;
        appended.entries.iter().for_each(|entry| self.state.apply(entry));
        let written = list_messages(change.events).zip(appended.messages);
        for ((_, message), AppendedMessage { session, seq, .. }) in written {
            if session == self.session.id {
                self.conversation.push(MessageRecord { seq, ..message.clone() });
            }
        }
        self.note_goal(appended.goal);
        if appended.is_stopping {
            self.cancel.cancel();
        }
        self.journal.keep_snapshot(&self.state, now)
    }

    /// Finds the steps that follow an append and affect nothing outside the process.
    fn look_ahead(
        &self,
        change: &TaskChange<'_>,
        build: &impl Fn(&[AppendedMessage]) -> Vec<Entry>,
    ) -> Following {
        let mut following = Following::default();
        // If the change moves the task to another session, the next step depends on a different
        // conversation.
        let is_stopped = self.cancel.is_cancelled() || self.cancel.is_suspended();
        if is_stopped || change.session.is_some() {
            return following;
        }
        let messages: Vec<AppendedMessage> = list_messages(change.events)
            .map(|(session, _)| AppendedMessage {
                session: session.to_owned(),
                seq: UNWRITTEN,
                masked: false,
            })
            .collect();
        let mut state = self.state.clone();
        build(&messages).iter().for_each(|entry| state.apply(entry));
        let new: Vec<MessageRecord> = list_messages(change.events)
            .filter(|(session, _)| *session == self.session.id)
            .map(|(_, message)| MessageRecord { seq: UNWRITTEN, ..message.clone() })
            .collect();
        while let Some(entry) = self.find_following(&state, &new, &mut following) {
            state.apply(&entry);
            following.entries.push(entry);
        }
        following
    }

    /// Returns the entry for the next step, if that step affects nothing outside the process.
    fn find_following(
        &self,
        state: &State,
        new: &[MessageRecord],
        following: &mut Following,
    ) -> Option<Entry> {
        match state.next(self.circumstances_in(state)) {
            Step::LimitOutput(max_output) => Some(Entry::LimitedOutput { max_output }),
            Step::End(outcome) => {
                following.end = Some(self.describe_end(state, outcome.clone()));
                Some(Entry::TurnEnded { outcome })
            }
            Step::Ask(step) if step.wait.is_zero() && self.find_overrun(state).is_none() => {
                let prepared = self.prepare_request(step, state, new)?;
                let entry = prepared.entry();
                following.request = Some(prepared);
                Some(entry)
            }
            _ => None,
        }
    }

    /// Describes the end of the open turn.
    pub(crate) fn describe_end(&self, state: &State, outcome: TurnOutcome) -> TurnEnd {
        let (number, tokens, cost) = state
            .turn
            .as_ref()
            .map_or((0, Tokens::default(), None), |turn| (turn.number, turn.tokens, turn.cost));
        let goal = self.spend_on_goal(state, &outcome);
        TurnEnd { outcome, number, tokens, cost, goal }
    }

    /// Ends the turn for a reason that is not part of the state.
    pub(crate) fn append_end(&mut self, outcome: &TurnOutcome) -> Result<(), TaskError> {
        let end = self.describe_end(&self.state, outcome.clone());
        let events = [Event::TurnEnd { session: self.session.id.clone() }];
        let change = TaskChange {
            events: &events,
            state: Some("idle"),
            goal: end.goal.as_ref(),
            ..TaskChange::default()
        };
        self.write_change(&change, |_| vec![Entry::TurnEnded { outcome: outcome.clone() }])?;
        (self.prepared, self.ended) = (None, Some(end));
        Ok(())
    }
}

/// Lists the messages that events add, with their sessions.
fn list_messages(events: &[Event]) -> impl Iterator<Item = (&str, &MessageRecord)> {
    let written = events.iter().filter_map(|event| match event {
        Event::Messages { session, messages } => Some((session.as_str(), messages)),
        _ => None,
    });
    written.flat_map(|(session, messages)| messages.iter().map(move |message| (session, message)))
}
