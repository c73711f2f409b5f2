//! Conversations with takeback's own agent.
//!
//! A [`Room`] represents one conversation. It runs at most one job at a time, for example a turn,
//! in a thread of its own, and reports all events to every page that shows the conversation. The
//! task is opened for each job and closed after it, so that a terminal can continue the
//! conversation between two jobs.

mod event_log;
mod front;
mod host;
mod job;
mod live;
mod markdown_blocks;
mod room;
mod rooms;
mod take_up;

pub(crate) use self::host::NoAgent;
pub use self::host::{BuiltAgent, ChatHost, SlashAction, SlashAnswer, SlashLine};
pub(crate) use self::job::{Job, JobPlace, StartedJob, start_job};
pub(crate) use self::room::Room;
pub(crate) use self::rooms::Rooms;
pub(crate) use self::take_up::take_up_interrupted;
