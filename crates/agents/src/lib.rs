//! Other people's agents: what their hooks tell, and how their models are told something.
//!
//! Agents are a table, [`AGENTS`]. [`parse`] turns what one of them writes on a hook's standard
//! input into a report; [`Agent::say`] puts a text for its model into the form that it takes.

mod claude;
mod cline;
mod copilot;
mod cursor;
mod generic;
mod goose;
mod notice;
mod outcome;
mod parse;
mod plugin;
mod spec;
mod tools;
mod voice;
mod wire;

pub use notice::notice_text;
pub use parse::{Heard, ParseError, parse};
pub use spec::{AGENTS, Agent, Signal, Tools, Voice, agent};
