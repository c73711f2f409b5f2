//! The state of a task: a fold of its journal.
//!
//! While a task runs, only [`State::apply`] changes its state, and [`State::next`] determines the
//! next step from the state alone. So the state at every step can be derived from the journal.

mod known_file_list;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_ledger::Tokens;

pub use self::turn::{CallProgress, CallState, RepeatedErrors, TurnState};
use crate::entry::{Bill, Entry};
use crate::front_end::{Answer, TurnOutcome};
use crate::goal::GoalReport;
use crate::tools::KnownFiles;

/// The number of identical calls in a row that may fail before the user is asked.
const MAX_REPEATED_ERRORS: u32 = 3;

/// The number of replies in a row that may contain only calls that cannot be made, such as calls to
/// unknown tools, before the user is asked.
const MAX_UNUSABLE_REPLIES: u32 = 5;

/// The name of the tool with which the model delegates work to a subagent.
pub const SUBAGENT: &str = "subagent";

/// The text that the model reads if a subagent was working on another machine.
const SUBAGENT_LOST: &str = "The subagent was working on another machine, which was lost. It is \
    unknown how much of the work it did. Check before you repeat it.";

/// The state of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct State {
    /// The turn that is not over yet.
    pub turn: Option<TurnState>,
    /// The outcome of the last turn.
    pub last_outcome: Option<TurnOutcome>,
    /// The session of the conversation, if it is not the one that the task began with.
    pub session: Option<String>,
    /// The number of rewinds that the previous session had at the time of the last compression.
    pub moves_before: i64,
    /// The number of the last message whose tool result is left out of requests; 0 if there is
    /// none. All earlier tool results are also left out.
    pub cleared: i64,
    /// The files whose content the model knows.
    #[serde(with = "known_file_list")]
    pub known_files: KnownFiles,
    /// Prefixes of calls that the user allowed for the rest of the task.
    pub allowed: BTreeSet<String>,
    /// The model's report on the goal, in the last turn.
    pub goal_report: Option<GoalReport>,
    /// The number of turns so far.
    pub turns: u64,
    pub tokens: Tokens,
    pub cost: Option<f64>,
}

/// The circumstances, other than the state, that a step depends on.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Circumstances {
    /// The provider's usual output limit.
    pub max_output: u64,
    /// The wait before the second attempt.
    pub first_wait: Duration,
    pub has_fallback: bool,
    pub can_clear: bool,
    pub can_compress: bool,
}

/// The next step of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for a prompt.
    Wait,
    /// Send the request that is recorded as begun. If an earlier process began the request, record
    /// instead that its reply is lost.
    ForgetRequest,
    /// Ask the model.
    Ask(ModelStep),
    /// Change the output limit.
    LimitOutput(u64),
    /// Switch to the fallback provider.
    FailOver,
    /// Leave the results of old calls out of requests.
    Clear,
    /// Summarize the older part of the conversation.
    Compress,
    /// Ask the user about a call.
    Approve(usize),
    /// Make a call.
    Call(usize),
    /// Let subagents work on these calls, in parallel.
    Delegate(Vec<usize>),
    /// Tell the model why a call is not made.
    Refuse(usize),
    /// Determine the outcome of a call that was started before the process ended.
    Settle(usize),
    /// End the turn.
    End(TurnOutcome),
}

/// A request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ModelStep {
    pub max_output: u64,
    /// The time to wait before the request, because earlier attempts failed.
    pub wait: Duration,
    /// True if the fallback provider is asked.
    pub use_fallback: bool,
}

impl State {
    /// Applies one entry to the state. An entry that does not fit the state changes nothing.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Prompted { message, turn, wraps_up } => {
                self.turns += 1;
                self.goal_report = None;
                self.turn = Some(TurnState::new(*message, *turn, *wraps_up));
            }
            Entry::TurnEnded { outcome } => {
                self.turn = None;
                self.last_outcome = Some(outcome.clone());
            }
            Entry::TakenBack => self.turn = None,
            Entry::Adopted { .. } => self.adopt(),
            Entry::Returned { session } => {
                self.session = Some(session.clone());
                self.cleared = 0;
                self.turn = None;
            }
            Entry::Cleared { through } => {
                self.cleared = *through;
                if let Some(turn) = &mut self.turn {
                    turn.attempts.note_smaller_request();
                }
            }
            Entry::Compressed { session, turn: number, prompt, moves, bill } => {
                self.session = Some(session.clone());
                self.cleared = 0;
                self.moves_before = *moves;
                self.add_bill(bill);
                if let Some(turn) = &mut self.turn {
                    (turn.number, turn.prompt) = (*number, *prompt);
                    turn.is_asking = false;
                    turn.attempts.compressions += 1;
                    turn.attempts.note_smaller_request();
                }
            }
            Entry::GoalReported { report } => self.goal_report = Some(report.clone()),
            Entry::Answered { call, answer } => self.apply_answer(call, answer),
            Entry::Ended { call, is_error, is_unusable, known_files, bill, .. } => {
                self.add_bill(bill);
                let known = known_files.iter().map(|file| (file.path.clone(), file.digest.clone()));
                self.known_files.extend(known);
                if let Some(turn) = &mut self.turn {
                    turn.end_call(call, *is_error, *is_unusable);
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

    /// Adapts the state of a task that another machine was working on. The files that the model
    /// knows are on the other machine, so the model has to read them again here. A call that was
    /// running there may have had effects that the files here do not show, so it is not repeated.
    fn adopt(&mut self) {
        self.known_files.clear();
        for state in self.turn.iter_mut().flat_map(|turn| &mut turn.calls) {
            match &mut state.progress {
                CallProgress::Started(start) if !start.reads => start.has_effects = true,
                CallProgress::Spawned { .. } => {
                    state.progress = CallProgress::Refused(SUBAGENT_LOST.to_owned());
                }
                _ => {}
            }
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
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use takeback_runtime::entry::Entry;
    /// use takeback_runtime::state::{Circumstances, State, Step};
    ///
    /// let circumstances = Circumstances {
    ///     max_output: 8_192,
    ///     first_wait: Duration::from_secs(1),
    ///     has_fallback: false,
    ///     can_clear: false,
    ///     can_compress: false,
    /// };
    /// let mut state = State::default();
    /// assert_eq!(state.next(circumstances), Step::Wait);
    /// state.apply(&Entry::Prompted { message: 1, turn: 1, wraps_up: false });
    /// assert!(matches!(state.next(circumstances), Step::Ask(_)));
    /// ```
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
            let because =
                format!("the same call of {} failed several times in a row", turn.repeated.name);
            return Step::End(TurnOutcome::Blocked { because });
        }
        if turn.unusable_replies >= MAX_UNUSABLE_REPLIES {
            let because = "the model keeps asking for calls that cannot be made".to_owned();
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
