//! One conversation: the job that runs in it, the questions that wait for an answer, and the
//! clients that follow it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use axum::response::sse;
use serde_json::{Value, json};
use takeback_ledger::ConversationMark;
use takeback_runtime::{Answer, Cancel, Question};
use tokio::sync::mpsc;

use super::event_log::{EventLog, LoggedEvent};
use super::live::{Live, describe_call};
use crate::events::EventStream;
use crate::problem::Problem;

/// The maximum number of clients that follow one conversation.
const MAX_STREAMS: usize = 16;

/// The number of events that a stream buffers, in addition to the events that the client missed. A
/// client that falls further behind is disconnected, and catches up when it returns.
const BUFFER: usize = 512;

/// A conversation that pages can follow, and in which a job can run.
pub(crate) struct Room {
    state: Mutex<RoomState>,
    /// Notified when a question is answered, and when a job is asked to stop.
    changed: Condvar,
}

pub(super) struct RoomState {
    pub(super) session: String,
    pub(super) model: Option<String>,
    /// The number of the last message that is not among the live entries.
    pub(super) base: i64,
    pub(super) live: Live,
    log: EventLog,
    streams: Vec<mpsc::Sender<sse::Event>>,
    job: Option<RunningJob>,
    questions: BTreeMap<u64, Option<Answer>>,
    /// The outcome of the last turn, unless it was completed.
    last_end: Option<Value>,
    /// The state of the conversation, as last reported to clients.
    seen: Option<SeenState>,
    is_suspended: bool,
}

/// The job that runs in a conversation.
struct RunningJob {
    /// Stops the job. `None` until the job's task is open.
    cancel: Option<Cancel>,
    is_stopping: bool,
}

/// The state of a conversation in the ledger. If it differs from the state that was seen last,
/// another process has changed the conversation.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SeenState {
    pub(super) mark: ConversationMark,
    /// The state of the task, if there is one.
    pub(super) task: Option<String>,
}

/// The state of a conversation, for clients.
pub(crate) struct RoomView {
    pub(crate) session: String,
    pub(crate) model: Option<String>,
    pub(crate) base: i64,
    pub(crate) live: Vec<Value>,
    pub(crate) is_busy: bool,
    pub(crate) is_stopping: bool,
    pub(crate) last_event: u64,
    pub(crate) last_end: Option<Value>,
}

impl Room {
    /// Creates a room without a job. The ids of its events are larger than `first_id`.
    pub(super) fn new(session: &str, base: i64, first_id: u64) -> Room {
        let state = RoomState {
            session: session.to_owned(),
            model: None,
            base,
            live: Live::default(),
            log: EventLog::new(first_id),
            streams: Vec::new(),
            job: None,
            questions: BTreeMap::new(),
            last_end: None,
            seen: None,
            is_suspended: false,
        };
        Room { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RoomState> {
        // The state is consistent after every call, so a panic in another thread does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the session, which changes when older turns are summarized.
    pub(crate) fn session(&self) -> String {
        self.lock().session.clone()
    }

    /// Returns the model that was chosen for this conversation.
    pub(crate) fn model(&self) -> Option<String> {
        self.lock().model.clone()
    }

    pub(crate) fn set_model(&self, name: &str) {
        self.lock().model = Some(name.to_owned());
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.lock().job.is_some()
    }

    /// Returns true if a question waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        !self.lock().questions.is_empty()
    }

    pub(crate) fn view(&self) -> RoomView {
        let state = self.lock();
        RoomView {
            session: state.session.clone(),
            model: state.model.clone(),
            base: state.base,
            live: state.live.to_json(),
            is_busy: state.job.is_some(),
            is_stopping: state.job.as_ref().is_some_and(|job| job.is_stopping),
            last_event: state.log.last_id(),
            last_end: state.last_end.clone(),
        }
    }

    /// Opens a stream that begins after the event that the client saw last.
    pub(crate) fn subscribe(&self, last: Option<u64>) -> Result<EventStream, Problem> {
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_closed());
        if state.streams.len() >= MAX_STREAMS {
            return Err(Problem::new(503, "too many pages follow this conversation")
                .hint("close pages that you no longer need"));
        }
        let now = state.log.last_id();
        let missed = match last {
            None => Vec::new(),
            Some(last) => match state.log.since(last) {
                Some(missed) => missed,
                None => vec![LoggedEvent::new(now, "gap", "{}")],
            },
        };
        let (sender, receiver) = mpsc::channel(missed.len() + BUFFER);
        let ready = LoggedEvent::new(now, "ready", "{}");
        for event in missed.iter().chain([&ready]) {
            // The buffer has room for all missed events.
            let _ = sender.try_send(event.to_sse());
        }
        state.streams.push(sender);
        Ok(EventStream::new(receiver))
    }

    pub(super) fn has_streams(&self) -> bool {
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_closed());
        !state.streams.is_empty()
    }

    /// Ends all streams, because the server is stopping.
    pub(super) fn end_streams(&self) {
        self.lock().streams.clear();
    }

    /// Begins a job, unless one is running. Returns the id of the last event before the job.
    pub(super) fn begin_job(&self) -> Result<u64, Problem> {
        let mut state = self.lock();
        if state.job.is_some() {
            return Err(Problem::new(409, "a turn is running in this conversation")
                .hint("wait until it ends, or stop it"));
        }
        if state.is_suspended {
            return Err(Problem::new(503, "the server is stopping"));
        }
        state.job = Some(RunningJob { cancel: None, is_stopping: false });
        Ok(state.log.last_id())
    }

    /// Records how to stop the job, and the number of the last message before its live entries.
    pub(super) fn open_job(&self, session: &str, base: i64, cancel: &Cancel) {
        let mut state = self.lock();
        state.live.clear();
        state.last_end = None;
        state.base = base;
        let is_suspended = state.is_suspended;
        if let Some(job) = &mut state.job {
            job.cancel = Some(cancel.clone());
            if job.is_stopping {
                cancel.cancel();
            }
            if is_suspended {
                cancel.suspend();
            }
        }
        state.enter(session);
    }

    /// Ends the job. `fields` describes the state of the conversation.
    pub(super) fn end_job(&self, seen: Option<SeenState>, fields: &Value) {
        let mut state = self.lock();
        state.job = None;
        state.questions.clear();
        if let Some(seen) = seen {
            state.base = seen.mark.last_seq;
            state.seen = Some(seen);
            state.live.clear();
        }
        state.publish("idle", fields);
    }

    /// Stops the job. Returns false if there is none.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.lock();
        let Some(job) = &mut state.job else { return false };
        job.is_stopping = true;
        let cancel = job.cancel.clone();
        state.publish("stopping", &json!({}));
        drop(state);
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
        self.changed.notify_all();
        true
    }

    /// Leaves the running turn open before its next step, so that another process can continue it.
    pub(super) fn suspend(&self) {
        let mut state = self.lock();
        state.is_suspended = true;
        if let Some(cancel) = state.job.as_ref().and_then(|job| job.cancel.as_ref()) {
            cancel.suspend();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns true if a tool call is running.
    pub(super) fn is_calling(&self) -> bool {
        let state = self.lock();
        state.job.is_some() && state.live.has_running_call()
    }

    /// Interrupts the current step of a turn that is being suspended.
    pub(super) fn interrupt(&self) {
        let cancel = self.lock().job.as_ref().and_then(|job| job.cancel.clone());
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    /// Tells all clients about a change that another process made to the conversation.
    pub(super) fn note_state(&self, now: SeenState) {
        let mut state = self.lock();
        if state.job.is_some() || state.seen.as_ref() == Some(&now) {
            return;
        }
        let is_first = state.seen.is_none();
        state.base = now.mark.last_seq;
        state.seen = Some(now);
        if !is_first {
            state.publish("changed", &json!({}));
        }
    }

    /// Shows a question to all clients, and waits for the first answer.
    pub(super) fn ask(&self, question: &Question<'_>) -> Answer {
        let mut state = self.lock();
        let mut fields = describe_call(question.call, None);
        // Ids of events are never used twice, so an answer cannot reach a later question.
        let number = state.log.last_id() + 1;
        fields["question"] = number.into();
        fields["because"] = question.because.into();
        fields["remember"] = question.remember.into();
        state.questions.insert(number, None);
        state.live.push_fixed("question", &fields);
        state.publish("question", &fields);
        let answer = loop {
            let is_stopping = state.job.as_ref().is_some_and(|job| job.is_stopping);
            if let Some(Some(answer)) = state.questions.get(&number) {
                break answer.clone();
            } else if is_stopping {
                break Answer::Deny("the user stopped the turn".to_owned());
            } else if state.is_suspended {
                break Answer::Later;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.questions.remove(&number);
        state.live.remove_question(number);
        let word = match &answer {
            Answer::Allow => "allow",
            Answer::AllowAlways => "always",
            Answer::Deny(_) => "deny",
            Answer::Later => "later",
        };
        state.publish("answered", &json!({ "question": number, "answer": word }));
        answer
    }

    /// Answers a question. Fails if the question is already answered, for example in another
    /// browser.
    pub(crate) fn answer(&self, number: u64, answer: Answer) -> Result<(), Problem> {
        let mut state = self.lock();
        match state.questions.get_mut(&number) {
            Some(waiting @ None) => *waiting = Some(answer),
            _ => return Err(Problem::new(409, "this question is already answered")),
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Tells all clients about an event.
    pub(crate) fn publish(&self, name: &'static str, fields: &Value) {
        self.lock().publish(name, fields);
    }

    /// Adds the answer to a slash command.
    pub(crate) fn add_slash(&self, fields: &Value) {
        let mut state = self.lock();
        state.live.push_fixed("slash", fields);
        state.publish("slash", fields);
    }

    /// Records the outcome of a turn that was not completed, so that pages opened later show it.
    pub(super) fn note_end(&self, fields: &Value) {
        self.lock().last_end = Some(fields.clone());
    }
}

impl RoomState {
    pub(super) fn publish(&mut self, name: &'static str, fields: &Value) {
        let event = self.log.push(name, &fields.to_string());
        self.streams.retain(|stream| stream.try_send(event.to_sse()).is_ok());
    }

    /// Continues the conversation in another session.
    pub(super) fn enter(&mut self, session: &str) {
        if self.session != session {
            session.clone_into(&mut self.session);
            self.publish("session", &json!({ "session": session }));
        }
    }
}
