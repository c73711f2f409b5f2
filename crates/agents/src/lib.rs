//! The coding agents that takeback works with: their hook payloads, their logs and their wiring.
//!
//! The agents are listed in a table, [`AGENTS`]. [`parse_payload`] turns the JSON that an agent
//! passes to its hook into a report. [`Agent::notice_output`] wraps the text of a notice in JSON
//! for the agent's model. [`warning_text()`] writes the text of a warning for the user.
//! [`Installer`] adds takeback to an agent's configuration. [`LogFormat::catch_up`] reads an
//! agent's own log into the ledger.

mod agent;
mod agent_table;
mod call_outcome;
mod conversations;
#[cfg_attr(not(feature = "faults"), doc(hidden))]
pub mod fault;
mod hook_output;
mod install;
mod known_tools;
mod logs;
mod payload;
mod rewind;
mod slash_command;
mod warning_text;
mod wiring;

pub use agent::{
    Agent, KnownTools, NoticeFormat, Refusal, Signal, WarningFormat, find_acp_agent, find_agent,
    resume_hint,
};
pub use agent_table::AGENTS;
pub use conversations::{
    ConversationError, MadeCopy, continue_session, count_hidden, finish_copies, follow_session,
    list_copies, name_fork, take_back_when_idle,
};
pub use install::{
    FileChange, HookReview, InstallError, InstallPlan, InstallScope, Installer, PackageFile,
    WiringState, build_package, find_hook_files,
};
pub use logs::{CatchUp, LOG_FORMATS, LogError, LogFormat, LogRef, ReadPage, log_format};
pub use payload::{ParsedPayload, PayloadError, parse_payload, shell_script};
pub use rewind::{
    GoneMessage, MovedDirectory, PreparedCopy, REWINDS, Rewind, RewindError, RewindRequest,
    find_rewind,
};
pub use slash_command::{SlashCommand, split_words};
pub use warning_text::{tampering_text, warning_text};
pub use wiring::{Program, argument_hint, is_own_command};
