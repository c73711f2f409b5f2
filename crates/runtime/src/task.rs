//! A task: one conversation with the agent, journaled step by step.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use takeback_ledger::{Event, MessageRecord, ParentKind, SessionRecord, TaskChange};
use takeback_undo::{Deadline, Report, ReportedEvent, TurnId, hook, rollback};

use crate::agent::{AGENT, Agent};
use crate::append::TurnEnd;
use crate::cancel::Cancel;
use crate::clearing::can_clear;
use crate::conversation::Conversation;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent, TurnOutcome};
use crate::goal::{GoalRun, finish_spec};
use crate::journal::Journal;
use crate::model::ToolSpec;
use crate::request::PreparedRequest;
use crate::state::{Circumstances, State, Step};

/// A task that this process holds. While this process holds it, no other process can continue it.
pub struct Task {
    pub(crate) agent: Arc<Agent>,
    pub(crate) journal: Journal,
    pub(crate) session: SessionRecord,
    /// The directory that the agent works in, canonical.
    pub(crate) directory: PathBuf,
    /// The number of agents above this one.
    pub(crate) depth: usize,
    pub(crate) state: State,
    pub(crate) conversation: Conversation,
    pub(crate) cancel: Cancel,
    /// The goal that the task works on now.
    pub(crate) goal: Option<GoalRun>,
    /// The request that is already in the journal, but has not been sent yet.
    pub(crate) prepared: Option<PreparedRequest>,
    /// The turn that has just ended, if its end has not been reported yet.
    pub(crate) ended: Option<TurnEnd>,
}

/// The reason why [`Task::proceed`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The turn is over.
    TurnEnded(TurnOutcome),
    /// There is no open turn.
    Idle,
    /// A call waits for the user's answer.
    Waiting,
    /// The turn is open, and another process can continue it: see [`Cancel::suspend`].
    Suspended,
}

impl Task {
    /// Returns the id of the session in the ledger.
    pub fn session_id(&self) -> &str {
        &self.session.id
    }

    /// Returns the id of the task.
    pub fn id(&self) -> &str {
        self.journal.task()
    }

    /// Returns the state, which is a fold of the journal.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the [`Cancel`] that stops the running turn.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Returns the text of the model's last answer.
    pub fn last_answer(&mut self) -> Result<&str, TaskError> {
        self.refresh()?;
        Ok(self.conversation.last_answer())
    }

    /// Returns true if a turn is open, for example because a process was killed.
    pub fn is_interrupted(&self) -> bool {
        self.state.turn.is_some()
    }

    /// Begins a turn with a prompt, and continues until the turn is over or waits for the user.
    pub fn prompt(&mut self, text: &str, front: &dyn FrontEnd) -> Result<Pause, TaskError> {
        self.refresh()?;
        if self.state.turn.is_some() {
            return Err(TaskError::TurnIsOpen);
        }
        self.begin_turn(text)?;
        self.take_steps(front)
    }

    /// Continues the open turn until it is over or waits for the user.
    pub fn proceed(&mut self, front: &dyn FrontEnd) -> Result<Pause, TaskError> {
        self.refresh()?;
        if self.state.turn.is_some() {
            self.set_state("running")?;
        }
        self.take_steps(front)
    }

    /// Takes one step after another until the turn is over or waits for the user.
    fn take_steps(&mut self, front: &dyn FrontEnd) -> Result<Pause, TaskError> {
        loop {
            if let Some(end) = self.ended.take() {
                return Ok(self.conclude_turn(end, front));
            }
            if self.cancel.is_suspended() && self.state.turn.is_some() {
                self.journal.rest();
                return Ok(Pause::Suspended);
            }
            if self.cancel.is_cancelled() && self.state.turn.is_some() {
                self.append_end(&TurnOutcome::Cancelled)?;
                continue;
            }
            match self.state.next(self.circumstances()) {
                Step::Wait => return Ok(Pause::Idle),
                Step::ForgetRequest => match self.prepared.take() {
                    Some(prepared) => self.send_request(prepared, front)?,
                    None => self.append(&[], |_| vec![Entry::Lost])?,
                },
                Step::Ask(step) => match self.find_overrun(&self.state) {
                    Some(outcome) => self.append_end(&outcome)?,
                    None => self.ask_model(step, front)?,
                },
                Step::LimitOutput(max_output) => {
                    self.append(&[], |_| vec![Entry::LimitedOutput { max_output }])?;
                }
                Step::FailOver => self.fail_over(front)?,
                Step::Clear => self.clear()?,
                Step::Compress => drop(self.compress(front)?),
                Step::Approve(index) => {
                    if !self.approve_call(index, front)? && !self.cancel.is_suspended() {
                        return self.wait_for_user();
                    }
                }
                Step::Call(index) => self.make_call(index, front)?,
                Step::Delegate(indices) => {
                    if !self.delegate(&indices, front)? && !self.cancel.is_suspended() {
                        return self.wait_for_user();
                    }
                }
                Step::Refuse(index) => self.refuse_call(index, front)?,
                Step::Settle(index) => self.settle_call(index, front)?,
                Step::End(outcome) => self.append_end(&outcome)?,
            }
        }
    }

    fn wait_for_user(&mut self) -> Result<Pause, TaskError> {
        self.set_state("waiting")?;
        self.journal.rest();
        Ok(Pause::Waiting)
    }

    /// Sets the state that the list of tasks shows.
    fn set_state(&mut self, state: &str) -> Result<(), TaskError> {
        let (task, now) = (self.id().to_owned(), self.agent.opened.now());
        Ok(self.journal.ledger()?.set_task_state(&task, state, now)?)
    }

    /// Describes the tools to the model.
    pub(crate) fn tool_specs(&self) -> Vec<ToolSpec> {
        let finish = self.goal.is_some().then(finish_spec);
        self.agent.tool_specs(self.depth).into_iter().chain(finish).collect()
    }

    fn circumstances(&self) -> Circumstances {
        self.circumstances_in(&self.state)
    }

    /// Returns the circumstances of the next step in this state.
    pub(crate) fn circumstances_in(&self, state: &State) -> Circumstances {
        let use_fallback = state.turn.as_ref().is_some_and(|turn| turn.is_failed_over);
        // The next step depends on all messages only if the conversation is too long. Otherwise
        // they are not examined, because there may be many.
        let is_too_long = state.turn.as_ref().is_some_and(|turn| turn.attempts.is_overflow());
        let messages = &self.conversation.messages;
        Circumstances {
            max_output: self.agent.provider(use_fallback).max_output,
            first_wait: self.agent.client.first_wait(),
            has_fallback: self.agent.fallback.is_some(),
            can_clear: is_too_long && can_clear(messages, &[], state.cleared),
            can_compress: is_too_long && self.can_compress(),
        }
    }

    /// Continues the conversation in another session.
    pub(crate) fn enter_session(&mut self, id: &str) -> Result<(), TaskError> {
        self.session = self.journal.ledger()?.session(id)?;
        self.conversation = Conversation::default();
        self.conversation.refresh(self.journal.ledger()?, id)?;
        Ok(())
    }

    /// Detects changes that another process has made to the conversation, for example in a
    /// rollback.
    pub(crate) fn refresh(&mut self) -> Result<(), TaskError> {
        self.return_to_old_session()?;
        if self.conversation.refresh(self.journal.ledger()?, &self.session.id)? {
            self.journal.share_again(&self.state)?;
        }
        let prompt = self.state.turn.as_ref().map(|turn| turn.prompt);
        let is_there = |seq| self.conversation.messages.iter().any(|message| message.seq == seq);
        if prompt.is_some_and(|prompt| !is_there(prompt)) {
            let change = TaskChange { state: Some("idle"), ..TaskChange::default() };
            self.append_change(&change, |_| vec![Entry::TakenBack])?;
        }
        Ok(())
    }

    /// Goes back to the session that preceded the last compression, if a rollback has since moved
    /// the end of that session's conversation.
    pub(crate) fn return_to_old_session(&mut self) -> Result<(), TaskError> {
        let is_continuation = self.session.parent_kind == Some(ParentKind::Compaction);
        let Some(old) = self.session.parent_session_id.clone().filter(|_| is_continuation) else {
            return Ok(());
        };
        let moves = self.journal.ledger()?.conversation_mark(&old)?.moves;
        if moves <= self.state.moves_before {
            return Ok(());
        }
        let left = self.session.id.clone();
        let events = [
            Event::SessionEnd { session: left, reason: "rolled back".to_owned() },
            Event::SessionResumed { session: old.clone() },
        ];
        let change = TaskChange {
            events: &events,
            session: Some(&old),
            state: Some("idle"),
            ..TaskChange::default()
        };
        self.append_change(&change, |_| vec![Entry::Returned { session: old.clone() }])?;
        self.enter_session(&old)?;
        // The other machines still have the old session as it was before the rollback.
        self.journal.share_again(&self.state)
    }

    fn begin_turn(&mut self, text: &str) -> Result<(), TaskError> {
        let turn = self.journal.ledger()?.conversation_mark(&self.session.id)?.last_turn + 1;
        let (_, reported) = self.report(ReportedEvent::TurnStart { prompt: None }, turn);
        let session = self.session.id.clone();
        let (notice, taken) = self.read_notices()?;
        let notice = notice.map(|text| new_message("system", text));
        let prompt = new_message("user", text.to_owned());
        let wraps_up = self.has_spent_budget();
        let messages: Vec<MessageRecord> = notice.into_iter().chain([prompt]).collect();
        let resumed = Event::SessionResumed { session: session.clone() };
        let prompted = Event::Messages { session, messages };
        let events: Vec<Event> =
            reported.into_iter().chain([resumed]).chain(taken).chain([prompted]).collect();
        let change =
            TaskChange { events: &events, state: Some("running"), ..TaskChange::default() };
        self.append_change(&change, |messages| {
            let message = messages.last().expect("the prompt is a message").seq;
            vec![Entry::Prompted { message, turn, wraps_up }]
        })
    }

    /// Reads the notices that are waiting for this session. Returns their text, and the event that
    /// marks them as delivered.
    fn read_notices(&mut self) -> Result<(Option<String>, Vec<Event>), TaskError> {
        let (mut notices, ids) = rollback::read_notices(self.journal.ledger()?, &self.session.id)?;
        // This agent reads the conversation from the ledger, so the conversation contains no prompt
        // that was taken back.
        notices.iter_mut().for_each(|notice| notice.taken_back = None);
        if ids.is_empty() {
            return Ok((None, Vec::new()));
        }
        let session = self.session.id.clone();
        let event = Event::NoticesDelivered { session, ids };
        Ok((rollback::notice_text(&notices), vec![event]))
    }

    /// Reports the end of a turn to the part of takeback that takes checkpoints, and to the front
    /// end.
    fn conclude_turn(&mut self, end: TurnEnd, front: &dyn FrontEnd) -> Pause {
        let TurnEnd { outcome, number, tokens, cost, .. } = end;
        // The report's events are dropped, because the last append to the journal has already ended
        // the turn in the ledger.
        drop(self.report(ReportedEvent::TurnEnd, number));
        // The next turn of a goal follows at once, so the connection is kept.
        if self.goal.is_none() {
            self.journal.rest();
        }
        front.show(&TurnEvent::TurnEnded { outcome: &outcome, tokens, cost });
        Pause::TurnEnded(outcome)
    }

    /// Ends the session. It is reopened if the user continues it.
    pub fn end_session(&mut self, reason: &str) -> Result<(), TaskError> {
        let now = self.agent.opened.now();
        let ended = self.journal.ledger()?.end_session(&self.session.id, reason, now);
        self.journal.rest();
        Ok(ended.map(drop)?)
    }

    /// Summarizes older turns at the user's request. Returns false if there are none.
    pub fn compress_now(&mut self, front: &dyn FrontEnd) -> Result<bool, TaskError> {
        self.refresh()?;
        if self.state.turn.is_some() {
            return Err(TaskError::TurnIsOpen);
        }
        let can_compress = self.can_compress();
        let failure = self.compress(front)?;
        self.journal.rest();
        match failure {
            Some(because) => Err(TaskError::NoSummary(because)),
            None => Ok(can_compress),
        }
    }

    /// Reports an event to the part of takeback that takes checkpoints. Returns its answer, and the
    /// events that the next append writes into the ledger.
    pub(crate) fn report(&self, event: ReportedEvent, turn: i64) -> (hook::Handled, Vec<Event>) {
        let report = self.new_report(event, turn);
        let (mut handled, events) =
            hook::handle_unwritten(&self.agent.opened, &report, &Deadline::open());
        if let Some(follow_up) = handled.follow_up.take() {
            (self.agent.on_follow_up)(&self.session.id, follow_up);
        }
        (handled, events)
    }

    /// Describes an event in the turn with this number.
    pub(crate) fn new_report(&self, event: ReportedEvent, turn: i64) -> Report {
        let name = |id: &str| id.split_once(':').map_or(id, |(_, name)| name).to_owned();
        Report {
            agent: AGENT.to_owned(),
            session: name(&self.session.id),
            parent: match self.depth {
                0 => None,
                _ => self.session.parent_session_id.as_deref().map(name),
            },
            turn: Some(TurnId::Number(turn)),
            directory: self.directory.clone(),
            model: Some(self.agent.provider.model.clone()),
            event,
        }
    }
}

/// Creates a message that consists of a text.
pub(crate) fn new_message(role: &str, text: String) -> MessageRecord {
    MessageRecord {
        role: role.to_owned(),
        content: Some(Value::from(text)),
        ..MessageRecord::default()
    }
}
