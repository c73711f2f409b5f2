//! The state of a turn that is not over yet.

use serde::{Deserialize, Serialize};
use takeback_ledger::Tokens;

use super::{Circumstances, ModelStep, SUBAGENT, Step};
use crate::entry::{CallStart, Entry};
use crate::front_end::TurnOutcome;
use crate::model::{AttemptFailure, Finish, RequestedCall};
use crate::recovery::{self, Attempts, Recovery};

/// The state of a turn that is not over yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TurnState {
    /// The number of the message that contains the prompt.
    pub prompt: i64,
    /// The number of the turn in its session.
    pub number: i64,
    /// True if this is the last turn for a goal whose budget is spent.
    #[serde(default)]
    pub wraps_up: bool,
    /// The calls of the last reply, in order.
    #[serde(default)]
    pub calls: Vec<CallState>,
    /// True if a request was sent and its outcome is not recorded yet.
    #[serde(default)]
    pub is_asking: bool,
    #[serde(default)]
    pub attempts: Attempts,
    /// The output limit, if it is not the provider's usual one.
    #[serde(default)]
    pub max_output: Option<u64>,
    /// True if the fallback provider has taken over.
    #[serde(default)]
    pub is_failed_over: bool,
    /// The outcome, once the model has finished its answer.
    #[serde(default)]
    pub outcome: Option<TurnOutcome>,
    #[serde(default)]
    pub repeated: RepeatedErrors,
    /// The number of replies with calls since the last valid call ended.
    #[serde(default)]
    pub unusable_replies: u32,
    #[serde(default)]
    pub tokens: Tokens,
    #[serde(default)]
    pub cost: Option<f64>,
}

/// A tool call of the last reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CallState {
    pub call: RequestedCall,
    pub progress: CallProgress,
}

/// The progress of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum CallProgress {
    /// The model asked for the call.
    Requested,
    /// The user has to decide.
    Asked { because: String, remember: Option<String> },
    /// The user allowed the call.
    Allowed,
    /// The call is not made. The model reads the reason.
    Refused(String),
    /// The tool was started.
    Started(CallStart),
    /// A subagent is working on the call.
    Spawned { task: String },
    /// The result is in the session.
    Ended,
}

/// A tool call that fails again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepeatedErrors {
    pub(super) name: String,
    arguments: String,
    pub(super) count: u32,
}

impl TurnState {
    pub(super) fn new(prompt: i64, number: i64, wraps_up: bool) -> TurnState {
        TurnState {
            prompt,
            number,
            wraps_up,
            calls: Vec::new(),
            is_asking: false,
            attempts: Attempts::default(),
            max_output: None,
            is_failed_over: false,
            outcome: None,
            repeated: RepeatedErrors::default(),
            unusable_replies: 0,
            tokens: Tokens::default(),
            cost: None,
        }
    }

    pub(super) fn find_call(&mut self, id: &str) -> Option<&mut CallState> {
        self.calls.iter_mut().find(|state| state.call.id == id)
    }

    /// Returns true if a call is for a subagent.
    pub(super) fn is_delegated(&self, index: usize) -> bool {
        self.calls[index].call.name == SUBAGENT
    }

    /// Lists the unfinished calls for subagents. All other calls wait for these.
    pub(super) fn list_delegated(&self) -> Vec<usize> {
        let open = |index: &usize| {
            let progress = &self.calls[*index].progress;
            matches!(progress, CallProgress::Requested | CallProgress::Spawned { .. })
        };
        (0..self.calls.len()).filter(|index| self.is_delegated(*index)).filter(open).collect()
    }

    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Requested { .. } => self.is_asking = true,
            Entry::Lost => self.is_asking = false,
            Entry::Replied { message, finish, calls, cut_calls, .. } => {
                self.take_reply(message.is_some(), finish, calls, *cut_calls);
            }
            Entry::Interrupted { message, calls, failure, .. } => {
                self.take_part(message.is_some(), calls, failure);
            }
            Entry::LimitedOutput { max_output } => {
                self.max_output = Some(*max_output);
                self.attempts.setback = None;
            }
            Entry::FailedOver { .. } => {
                self.is_failed_over = true;
                (self.attempts, self.max_output) = (Attempts::default(), None);
            }
            Entry::Asked { call, because, remember } => {
                let (because, remember) = (because.clone(), remember.clone());
                self.set_progress(call, CallProgress::Asked { because, remember });
            }
            Entry::Started { call, start } => {
                self.set_progress(call, CallProgress::Started(start.clone()));
            }
            Entry::Spawned { call, task } => {
                self.set_progress(call, CallProgress::Spawned { task: task.clone() });
            }
            // `State::apply` handles the other entries.
            _ => {}
        }
    }

    fn set_progress(&mut self, call: &str, progress: CallProgress) {
        if let Some(state) = self.find_call(call) {
            state.progress = progress;
        }
    }

    fn set_calls(&mut self, calls: &[RequestedCall]) {
        let requested = |call: &RequestedCall| CallState {
            call: call.clone(),
            progress: CallProgress::Requested,
        };
        self.calls = calls.iter().map(requested).collect();
        // When a valid call ends, this count is reset to zero.
        self.unusable_replies += u32::from(!calls.is_empty());
    }

    /// Applies a whole reply. If the reply reached the output limit, the answer is not complete.
    fn take_reply(&mut self, is_kept: bool, finish: &Finish, calls: &[RequestedCall], cut: usize) {
        self.is_asking = false;
        match finish {
            Finish::Length => self.attempts.count_long(cut > 0 || !is_kept),
            Finish::Stop => self.attempts = Attempts::default(),
            Finish::Refused => {
                let because = "the provider refused to answer".to_owned();
                self.outcome = Some(TurnOutcome::Failed { because, is_limited: false });
            }
        }
        self.set_calls(calls);
        // The model continues with the results of the complete calls, so there is nothing to
        // recover from.
        if !calls.is_empty() {
            self.attempts.setback = None;
        } else if *finish == Finish::Stop {
            self.outcome = Some(TurnOutcome::Complete);
        }
    }

    /// Applies the part of a reply that arrived before the reply was cut off.
    fn take_part(&mut self, is_kept: bool, calls: &[RequestedCall], failure: &AttemptFailure) {
        self.is_asking = false;
        match is_kept {
            true => self.attempts.count_cut(failure),
            false => self.attempts.count_failure(failure),
        }
        self.set_calls(calls);
        if !calls.is_empty() {
            self.attempts.setback = None;
        }
    }

    pub(super) fn end_call(&mut self, id: &str, is_error: bool, is_unusable: bool) {
        let Some(state) = self.find_call(id) else { return };
        state.progress = CallProgress::Ended;
        let RequestedCall { name, arguments, .. } = state.call.clone();
        if !is_unusable {
            self.unusable_replies = 0;
        }
        let is_same = self.repeated.name == name && self.repeated.arguments == arguments;
        self.repeated = match (is_error, is_same) {
            (true, true) => RepeatedErrors { name, arguments, count: self.repeated.count + 1 },
            (true, false) => RepeatedErrors { name, arguments, count: 1 },
            (false, _) => RepeatedErrors::default(),
        };
    }

    pub(super) fn next_request(&self, circumstances: Circumstances) -> Step {
        let max_output = self.max_output.unwrap_or(circumstances.max_output);
        let has_fallback = circumstances.has_fallback && !self.is_failed_over;
        let Circumstances { first_wait, can_clear, can_compress, .. } = circumstances;
        let options =
            recovery::Options { max_output, first_wait, has_fallback, can_clear, can_compress };
        match recovery::recover(&self.attempts, options) {
            Recovery::Ask { wait } => {
                Step::Ask(ModelStep { max_output, wait, use_fallback: self.is_failed_over })
            }
            Recovery::LimitOutput(limit) => Step::LimitOutput(limit),
            Recovery::FailOver => Step::FailOver,
            Recovery::Clear => Step::Clear,
            Recovery::Compress => Step::Compress,
            Recovery::GiveUp(outcome) => Step::End(outcome),
        }
    }
}
