//! The findings of `takeback doctor`, for the health page and the API.

use serde::Serialize;
use utoipa::ToSchema;

/// The results of the checks of `takeback doctor`.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Checkup {
    /// True if all checkpoints and messages were read.
    pub is_thorough: bool,
    pub agents: Vec<CheckedAgent>,
    pub findings: Vec<Finding>,
}

/// An agent on this machine.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CheckedAgent {
    pub title: String,
    /// A description of how takeback is installed in the agent's configurations.
    pub state: String,
    /// The time at which one of the agent's hooks last ran, in RFC 3339.
    pub last_hook: Option<String>,
    /// The actions of the agent that its hooks do not report.
    pub not_covered: Vec<String>,
}

/// A problem that needs the user's attention, and a hint about what to do.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Finding {
    pub message: String,
    pub hint: String,
}
