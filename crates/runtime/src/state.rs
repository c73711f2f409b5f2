//! The state of a task: a fold of its journal.
//!
//! [`State::apply`] is the only way in which the state changes, and [`State::next`] determines the
//! next step from the state alone. So the state is kept at every step by construction.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_ledger::Tokens;

use crate::entry::{Bill, CallStart, Entry};
use crate::front_end::{Answer, TurnOutcome};
use crate::goal::GoalReport;
use crate::model::{AttemptFailure, Finish, RequestedCall};
use crate::recovery::{self, Attempts, Recovery};
use crate::tools::KnownFiles;

/// The number of identical calls in a row that may fail before the user is asked.
const MAX_REPEATED_ERRORS: u32 = 3;

/// The name of the tool that lets a subagent work on a task of its own.
pub const SUBAGENT: &str = "subagent";

/// The state of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct State {
    /// The turn that is not over yet.
    pub turn: Option<TurnState>,
    /// The way in which the last turn ended.
    pub last_outcome: Option<TurnOutcome>,
    /// The session of the conversation, if it is not the one that the task began with.
    pub session: Option<String>,
    /// The number of rewinds of the session before the last compression, at that time.
    pub moves_before: i64,
    /// The files whose content the model knows.
    #[serde(with = "known_file_list")]
    pub known_files: KnownFiles,
    /// The command prefixes that the user allowed for the rest of the session.
    pub allowed: BTreeSet<String>,
    /// The model's word on the goal, in the last turn.
    pub goal_report: Option<GoalReport>,
    /// The number of turns so far.
    pub turns: u64,
    pub tokens: Tokens,
    pub cost: Option<f64>,
}

/// Stores the known files as a list, because a path that is not UTF-8 cannot be a key in JSON.
mod known_file_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::tools::{KnownFile, KnownFiles};

    pub(super) fn serialize<S: Serializer>(
        files: &KnownFiles,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let file = |(path, digest): (&std::path::PathBuf, &Option<String>)| KnownFile {
            path: path.clone(),
            digest: digest.clone(),
        };
        files.iter().map(file).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<KnownFiles, D::Error> {
        let files = Vec::<KnownFile>::deserialize(deserializer)?;
        Ok(files.into_iter().map(|file| (file.path, file.digest)).collect())
    }
}

/// The state of a turn that is not over yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TurnState {
    /// The number of the prompt's message.
    pub prompt: i64,
    /// The number of the turn in its session.
    pub number: i64,
    /// The calls of the last reply, in order.
    #[serde(default)]
    pub calls: Vec<CallState>,
    /// True if a request was sent and its end is not known.
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
    /// The call is not made, for a reason that the model reads.
    Refused(String),
    /// The tool was started.
    Started(CallStart),
    /// A subagent works on the call.
    Spawned { task: String },
    /// The result is in the session.
    Ended,
}

/// A tool call that fails again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepeatedErrors {
    name: String,
    arguments: String,
    count: u32,
}

/// The circumstances that a step depends on besides the state.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Circumstances {
    /// The provider's usual output limit.
    pub max_output: u64,
    pub has_fallback: bool,
    pub can_compress: bool,
}

/// The next step of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for a prompt.
    Wait,
    /// Find out what became of a request that was sent before the process ended.
    ForgetRequest,
    /// Ask the model.
    Ask(ModelStep),
    /// Change the output limit.
    LimitOutput(u64),
    /// Let the fallback provider take over.
    FailOver,
    /// Summarize older turns.
    Compress,
    /// Ask the user about a call.
    Approve(usize),
    /// Make a call.
    Call(usize),
    /// Let subagents work on these calls, in parallel.
    Delegate(Vec<usize>),
    /// Tell the model why a call is not made.
    Refuse(usize),
    /// Find out what became of a call that was started before the process ended.
    Settle(usize),
    /// End the turn.
    End(TurnOutcome),
}

/// A request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ModelStep {
    pub max_output: u64,
    /// The time to wait first, because earlier attempts failed.
    pub wait: Duration,
    /// True if the fallback provider is asked.
    pub use_fallback: bool,
}

impl State {
    /// Changes the state by one entry. An entry that does not fit the state changes nothing.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Prompted { message, turn } => {
                self.turns += 1;
                self.goal_report = None;
                self.turn = Some(TurnState::new(*message, *turn));
            }
            Entry::TurnEnded { outcome } => {
                self.turn = None;
                self.last_outcome = Some(outcome.clone());
            }
            Entry::TakenBack => self.turn = None,
            Entry::Returned { session } => {
                self.session = Some(session.clone());
                self.turn = None;
            }
            Entry::Compressed { session, turn: number, prompt, moves, bill } => {
                self.session = Some(session.clone());
                self.moves_before = *moves;
                self.add_bill(bill);
                if let Some(turn) = &mut self.turn {
                    (turn.number, turn.prompt) = (*number, *prompt);
                    turn.is_asking = false;
                    turn.attempts.compressions += 1;
                    turn.attempts.setback = None;
                }
            }
            Entry::GoalReported { report } => self.goal_report = Some(report.clone()),
            Entry::Answered { call, answer } => self.apply_answer(call, answer),
            Entry::Ended { call, is_error, known_files, bill, .. } => {
                self.add_bill(bill);
                let known = known_files.iter().map(|file| (file.path.clone(), file.digest.clone()));
                self.known_files.extend(known);
                if let Some(turn) = &mut self.turn {
                    turn.end_call(call, *is_error);
                }
            }
            Entry::Replied { bill, .. } | Entry::Interrupted { bill, .. } => {
                self.add_bill(bill);
                if let Some(turn) = &mut self.turn {
                    turn.apply(entry);
                }
            }
            _ => {
                if let Some(turn) = &mut self.turn {
                    turn.apply(entry);
                }
            }
        }
    }

    fn apply_answer(&mut self, call: &str, answer: &Answer) {
        let Some(state) = self.turn.as_mut().and_then(|turn| turn.find_call(call)) else { return };
        let CallProgress::Asked { remember, .. } = &state.progress else { return };
        match answer {
            Answer::Allow => state.progress = CallProgress::Allowed,
            Answer::AllowAlways => {
                self.allowed.extend(remember.clone());
                state.progress = CallProgress::Allowed;
            }
            Answer::Deny(reason) => {
                let text = match reason.as_str() {
                    "" => "the user refused this call".to_owned(),
                    reason => format!("the user refused this call: {reason}"),
                };
                state.progress = CallProgress::Refused(text);
            }
            Answer::Later => {}
        }
    }

    /// Gives up the calls of the last reply that have no result yet, because their input is no
    /// longer known. The model reads the reason.
    pub(crate) fn forget_calls(&mut self, reason: &str) {
        let calls = self.turn.iter_mut().flat_map(|turn| &mut turn.calls);
        for state in calls.filter(|state| state.progress != CallProgress::Ended) {
            state.progress = CallProgress::Refused(reason.to_owned());
        }
    }

    fn add_bill(&mut self, bill: &Bill) {
        let tokens = bill.tokens.unwrap_or_default();
        self.tokens += tokens;
        add_cost(&mut self.cost, bill.cost);
        if let Some(turn) = &mut self.turn {
            turn.tokens += tokens;
            add_cost(&mut turn.cost, bill.cost);
        }
    }

    /// Determines the next step.
    pub fn next(&self, circumstances: Circumstances) -> Step {
        let Some(turn) = &self.turn else { return Step::Wait };
        if turn.is_asking {
            return Step::ForgetRequest;
        }
        let open = turn.calls.iter().position(|call| call.progress != CallProgress::Ended);
        if let Some(index) = open {
            return match &turn.calls[index].progress {
                CallProgress::Asked { .. } => Step::Approve(index),
                CallProgress::Refused(_) => Step::Refuse(index),
                CallProgress::Started(_) => Step::Settle(index),
                _ if turn.is_delegated(index) => Step::Delegate(turn.list_delegated()),
                _ => Step::Call(index),
            };
        }
        if let Some(outcome) = &turn.outcome {
            return Step::End(outcome.clone());
        }
        if turn.repeated.count >= MAX_REPEATED_ERRORS {
            let because = format!("the same call of {} failed again and again", turn.repeated.name);
            return Step::End(TurnOutcome::Blocked { because });
        }
        turn.next_request(circumstances)
    }
}

fn add_cost(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0.0) + more);
    }
}

impl TurnState {
    fn new(prompt: i64, number: i64) -> TurnState {
        TurnState {
            prompt,
            number,
            calls: Vec::new(),
            is_asking: false,
            attempts: Attempts::default(),
            max_output: None,
            is_failed_over: false,
            outcome: None,
            repeated: RepeatedErrors::default(),
            tokens: Tokens::default(),
            cost: None,
        }
    }

    fn find_call(&mut self, id: &str) -> Option<&mut CallState> {
        self.calls.iter_mut().find(|state| state.call.id == id)
    }

    /// Returns true if a subagent is to work on a call.
    fn is_delegated(&self, index: usize) -> bool {
        self.calls[index].call.name == SUBAGENT
    }

    /// Lists the calls that subagents work on now. The others wait until these have ended.
    fn list_delegated(&self) -> Vec<usize> {
        let open = |index: &usize| {
            let progress = &self.calls[*index].progress;
            matches!(progress, CallProgress::Requested | CallProgress::Spawned { .. })
        };
        (0..self.calls.len()).filter(|index| self.is_delegated(*index)).filter(open).collect()
    }

    fn apply(&mut self, entry: &Entry) {
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
            // The state of the whole task handles the others.
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
    }

    /// Takes a whole reply. One that reached the output limit is not the end of the answer.
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
        // The results of complete calls lead the model on, so there is nothing left to recover.
        if !calls.is_empty() {
            self.attempts.setback = None;
        } else if *finish == Finish::Stop {
            self.outcome = Some(TurnOutcome::Complete);
        }
    }

    /// Takes the part of a reply that arrived before it was cut off.
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

    fn end_call(&mut self, id: &str, is_error: bool) {
        let Some(state) = self.find_call(id) else { return };
        state.progress = CallProgress::Ended;
        let RequestedCall { name, arguments, .. } = state.call.clone();
        let is_same = self.repeated.name == name && self.repeated.arguments == arguments;
        self.repeated = match (is_error, is_same) {
            (true, true) => RepeatedErrors { name, arguments, count: self.repeated.count + 1 },
            (true, false) => RepeatedErrors { name, arguments, count: 1 },
            (false, _) => RepeatedErrors::default(),
        };
    }

    fn next_request(&self, circumstances: Circumstances) -> Step {
        let max_output = self.max_output.unwrap_or(circumstances.max_output);
        let has_fallback = circumstances.has_fallback && !self.is_failed_over;
        let can_compress = circumstances.can_compress;
        let options = recovery::Options { max_output, has_fallback, can_compress };
        match recovery::recover(&self.attempts, options) {
            Recovery::Ask { wait } => {
                Step::Ask(ModelStep { max_output, wait, use_fallback: self.is_failed_over })
            }
            Recovery::LimitOutput(limit) => Step::LimitOutput(limit),
            Recovery::FailOver => Step::FailOver,
            Recovery::Compress => Step::Compress,
            Recovery::GiveUp(outcome) => Step::End(outcome),
        }
    }
}
