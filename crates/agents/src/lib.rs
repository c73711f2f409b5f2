//! Other people's agents: what their hooks tell, and how their models are told something.
//!
//! Agents are a table, [`AGENTS`]. [`parse`] turns what one of them writes on a hook's standard
//! input into a report; [`Agent::say`] puts a text for its model into the form that it takes. What
//! was said is in the agents' own logs, [`LOGS`], which [`LogFormat::catch_up`] brings into the
//! ledger.

mod claude;
mod cline;
mod copilot;
mod cursor;
mod files;
mod generic;
mod goose;
mod install;
mod logs;
mod notice;
mod outcome;
mod parse;
mod plugin;
mod slash;
mod spec;
mod tools;
mod voice;
mod wire;
mod wiring;

pub use install::{
    Change, For, InstallError, Installer, PackageFile, Plan, Review, Wired, package,
};
pub use logs::{CaughtUp, Found, LOGS, LogError, LogFormat, Read, log_format};
pub use notice::notice_text;
pub use parse::{Heard, ParseError, parse};
pub use slash::{Slash, words};
pub use spec::{AGENTS, Agent, Refusal, Signal, Tools, Voice, agent, resume};
pub use wiring::Program;
