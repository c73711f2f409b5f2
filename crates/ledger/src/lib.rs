//! Sessions, messages, turns, tool calls, effects, notices and cost, in one SQLite database.
#![allow(missing_docs)]

mod records;
mod time;

pub use records::{
    CallRecord, EffectRecord, MessageRecord, ParentKind, SessionRecord, Transcript, UsageRecord,
};
pub use time::Time;
