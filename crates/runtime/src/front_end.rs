//! The interface between the agent and the program that shows it.

use std::time::Duration;

use takeback_ledger::Tokens;

use crate::model::RequestedCall;
use crate::tools::ToolOutput;

/// A program that shows a turn and answers questions: a terminal, a script, a web page.
///
/// Several subagents may call its methods at the same time.
///
/// ```
/// use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent};
///
/// /// Prints the answer, and refuses every call that needs approval.
/// struct Careful;
///
/// impl FrontEnd for Careful {
///     fn show(&self, event: &TurnEvent<'_>) {
///         if let TurnEvent::Text(text) = event {
///             print!("{text}");
///         }
///     }
///
///     fn approve(&self, question: &Question<'_>) -> Answer {
///         Answer::Deny(format!("not allowed here: {}", question.because))
///     }
/// }
/// ```
pub trait FrontEnd: Sync {
    /// Shows an event. An implementation must not block for long.
    fn show(&self, event: &TurnEvent<'_>);

    /// Asks whether a call may be made. An implementation may wait for the user.
    fn approve(&self, question: &Question<'_>) -> Answer;
}

/// An event in a turn.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum TurnEvent<'a> {
    /// A piece of the model's answer.
    Text(&'a str),
    /// A piece of the model's reasoning.
    Reasoning(&'a str),
    /// A tool call begins. For a subagent's call, `subagent` is the number of the subagent.
    CallStarted {
        call: &'a RequestedCall,
        subagent: Option<usize>,
    },
    /// Output of a running call.
    CallOutput {
        call: &'a str,
        text: &'a str,
    },
    CallEnded {
        call: &'a RequestedCall,
        output: &'a ToolOutput,
        subagent: Option<usize>,
    },
    /// The last attempt failed, and the agent waits before the next one.
    Retrying {
        because: &'a str,
        wait: Duration,
    },
    /// The answer was cut off, and the model is asked to continue it.
    Continuing {
        because: &'a str,
    },
    /// The fallback provider takes over.
    FailedOver {
        because: &'a str,
        provider: &'a str,
    },
    /// Older turns were summarized, and the conversation continues in another session.
    Compressed {
        session: &'a str,
    },
    /// Something that the user should know, such as files that no checkpoint protects.
    Warning(&'a str),
    /// The turn is over.
    TurnEnded {
        outcome: &'a TurnOutcome,
        tokens: Tokens,
        cost: Option<f64>,
    },
}

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum TurnOutcome {
    /// The model finished its answer.
    Complete,
    /// The answer is cut off, and asking for the rest failed.
    Partial { because: String },
    /// The model gave no usable answer. `is_limited` is true if the provider refuses requests only
    /// temporarily.
    Failed {
        because: String,
        #[serde(default)]
        is_limited: bool,
    },
    /// The user stopped the turn.
    Cancelled,
    /// The turn cannot continue without the user.
    Blocked { because: String },
}

/// A question about a tool call.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The call that is waiting for an answer.
    pub call: &'a RequestedCall,
    /// The reason for asking.
    pub because: &'a str,
    /// The prefix of calls that can be allowed for the rest of the task, such as `git push`.
    pub remember: Option<&'a str>,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The call may be made.
    Allow,
    /// The call, and later calls with the same prefix, may be made.
    AllowAlways,
    /// The call must not be made. The model reads the reason.
    Deny(String),
    /// There is no user to answer. The turn waits.
    Later,
}
