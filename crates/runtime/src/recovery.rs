//! Choosing what to do when an attempt to get a reply fails or delivers only a part of the reply.
//!
//! There are four strategies: ask again if nothing was delivered; ask for the rest of an answer
//! that was cut off; ask with another output limit; and shorten a conversation that no longer fits.
//! Each strategy has a limit, so every turn ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::front_end::TurnOutcome;
use crate::model::{AttemptFailure, FailureKind};

/// The number of requests in a row that may fail without delivering anything.
const MAX_FAILURES: u32 = 5;

/// The number of times in a row that a provider may be overloaded before the fallback takes over.
const MAX_OVERLOADS: u32 = 3;

/// The number of times that the model is asked for the rest of an answer that was cut off.
const MAX_CONTINUATIONS: u32 = 4;

/// The number of times that a text may reach the output limit.
const MAX_LONG_TEXTS: u32 = 3;

/// The number of times that a tool call may reach the output limit.
const MAX_LONG_CALLS: u32 = 1;

/// The maximum number of times that a conversation is compressed in one turn.
const MAX_COMPRESSIONS: u32 = 2;

/// The largest output limit that is tried, in tokens.
const LARGEST_OUTPUT: u64 = 65_536;

/// The smallest output limit that is tried, in tokens.
const SMALLEST_OUTPUT: u64 = 1_024;

/// The longest wait between two attempts, unless the provider asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait that a provider may ask for. If a provider asks for more, the request is not
/// repeated.
const LONGEST_REQUESTED_WAIT: Duration = Duration::from_secs(600);

/// The failed attempts to get one reply, counted by the kind of problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempts {
    /// Requests in a row that delivered nothing.
    pub failures: u32,
    /// Requests in a row that failed because the provider was overloaded.
    pub overloads: u32,
    /// Answers that were cut off.
    pub continuations: u32,
    /// Texts that reached the output limit.
    pub long_texts: u32,
    /// Tool calls that reached the output limit.
    pub long_calls: u32,
    /// Compressions in this turn.
    pub compressions: u32,
    /// The problem with the latest attempt.
    pub setback: Option<Setback>,
}

/// The problem with an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setback {
    /// Nothing was delivered.
    Failed(AttemptFailure),
    /// A part of the answer was delivered.
    Cut(AttemptFailure),
    /// A text reached the output limit.
    LongText,
    /// A tool call reached the output limit, so it was not made.
    LongCall,
}

/// The circumstances that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The current output limit.
    pub max_output: u64,
    /// The wait before the second attempt. It doubles with each further attempt.
    pub first_wait: Duration,
    /// True if another provider can take over.
    pub has_fallback: bool,
    /// True if results of old calls can be left out.
    pub can_clear: bool,
    /// True if the older part of the conversation can be summarized.
    pub can_compress: bool,
}

/// The next action after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovery {
    /// Ask the model after a wait.
    Ask {
        /// The time to wait.
        wait: Duration,
    },
    /// Ask the model with another output limit.
    LimitOutput(u64),
    /// Ask the fallback provider.
    FailOver,
    /// Leave the results of old calls out of requests.
    Clear,
    /// Summarize the older part of the conversation.
    Compress,
    /// End the turn.
    GiveUp(TurnOutcome),
}

impl Attempts {
    /// Counts an attempt that delivered nothing.
    pub(crate) fn count_failure(&mut self, failure: &AttemptFailure) {
        self.failures += 1;
        let is_overload = failure.kind == FailureKind::Overloaded;
        self.overloads = if is_overload { self.overloads + 1 } else { 0 };
        self.setback = Some(Setback::Failed(failure.clone()));
    }

    /// Counts an answer that was cut off.
    pub(crate) fn count_cut(&mut self, failure: &AttemptFailure) {
        self.continuations += 1;
        (self.failures, self.overloads) = (0, 0);
        self.setback = Some(Setback::Cut(failure.clone()));
    }

    /// Returns true if the latest attempt failed because the conversation did not fit into the
    /// context window.
    pub(crate) fn is_overflow(&self) -> bool {
        matches!(&self.setback, Some(Setback::Failed(failure)) if failure.kind == FailureKind::Overflow)
    }

    /// Forgets the failures, because the next request is smaller than the ones that failed.
    pub(crate) fn note_smaller_request(&mut self) {
        (self.failures, self.overloads, self.setback) = (0, 0, None);
    }

    /// Counts a reply that reached the output limit.
    pub(crate) fn count_long(&mut self, is_call: bool) {
        (self.failures, self.overloads) = (0, 0);
        if is_call {
            self.long_calls += 1;
            self.setback = Some(Setback::LongCall);
        } else {
            self.long_texts += 1;
            self.setback = Some(Setback::LongText);
        }
    }
}

/// Chooses the next action while a reply is still needed.
pub(crate) fn recover(attempts: &Attempts, options: Options) -> Recovery {
    match &attempts.setback {
        None => Recovery::Ask { wait: Duration::ZERO },
        Some(Setback::Failed(failure)) => recover_from_failure(attempts, failure, options),
        Some(Setback::Cut(_)) if attempts.continuations <= MAX_CONTINUATIONS => {
            Recovery::Ask { wait: Duration::ZERO }
        }
        Some(Setback::Cut(failure)) => {
            let because = format!("the answer was cut off again and again: {}", failure.message);
            Recovery::GiveUp(TurnOutcome::Partial { because })
        }
        Some(Setback::LongText) if attempts.long_texts <= MAX_LONG_TEXTS => raise_limit(options),
        Some(Setback::LongCall) if attempts.long_calls <= MAX_LONG_CALLS => raise_limit(options),
        Some(Setback::LongText | Setback::LongCall) => Recovery::GiveUp(TurnOutcome::Partial {
            because: format!("the reply is longer than {} tokens", options.max_output),
        }),
    }
}

fn raise_limit(options: Options) -> Recovery {
    match (options.max_output * 2).min(LARGEST_OUTPUT) {
        raised if raised > options.max_output => Recovery::LimitOutput(raised),
        _ => Recovery::Ask { wait: Duration::ZERO },
    }
}

fn recover_from_failure(
    attempts: &Attempts,
    failure: &AttemptFailure,
    options: Options,
) -> Recovery {
    let is_limited = matches!(failure.kind, FailureKind::RateLimited | FailureKind::Overloaded);
    let because = || failure.message.clone();
    let failed = || Recovery::GiveUp(TurnOutcome::Failed { because: because(), is_limited });
    let is_patient = failure.retry_after.is_none_or(|wait| wait <= LONGEST_REQUESTED_WAIT);
    let is_worth_another = attempts.failures < MAX_FAILURES && is_patient;
    match failure.kind {
        FailureKind::RateLimited if is_worth_another => {
            wait_and_ask(attempts, failure, options.first_wait)
        }
        FailureKind::RateLimited => failed(),
        FailureKind::Overloaded if options.has_fallback && attempts.overloads >= MAX_OVERLOADS => {
            Recovery::FailOver
        }
        FailureKind::Connection
        | FailureKind::Stalled
        | FailureKind::Overloaded
        | FailureKind::Server => match is_worth_another {
            true => wait_and_ask(attempts, failure, options.first_wait),
            false if options.has_fallback => Recovery::FailOver,
            false => failed(),
        },
        FailureKind::Overflow if options.can_clear => Recovery::Clear,
        FailureKind::Overflow
            if options.can_compress
                && attempts.compressions < MAX_COMPRESSIONS
                && attempts.failures < MAX_FAILURES =>
        {
            Recovery::Compress
        }
        FailureKind::Overflow if options.has_fallback => Recovery::FailOver,
        FailureKind::Overflow => Recovery::GiveUp(TurnOutcome::Blocked {
            because: format!("the conversation is too long for the model: {}", failure.message),
        }),
        FailureKind::OutputLimit if options.max_output > SMALLEST_OUTPUT => {
            Recovery::LimitOutput((options.max_output / 2).max(SMALLEST_OUTPUT))
        }
        FailureKind::OutputLimit
        | FailureKind::Unauthorized
        | FailureKind::UnknownModel
        | FailureKind::Rejected => failed(),
    }
}

/// Asks again after a wait. Unless the provider asks for a specific wait, the wait is longer after
/// each failure.
fn wait_and_ask(attempts: &Attempts, failure: &AttemptFailure, first: Duration) -> Recovery {
    let doublings = attempts.failures.saturating_sub(1).min(8);
    let usual = (first * 2u32.pow(doublings)).min(LONGEST_WAIT);
    Recovery::Ask { wait: failure.retry_after.unwrap_or(usual) }
}
