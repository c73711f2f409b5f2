//! Sessions, messages, turns, tool calls, effects, notices and cost of AI agents, in one SQLite
//! database.

mod database;
mod event;
mod exchange;
mod ledger;
mod lineage;
mod logs;
mod mask;
mod messages;
mod records;
mod redact;
pub mod render;
mod repair;
pub mod replay;
mod schema;
mod search;
mod sessions;
mod spool;
mod time;
mod titles;
mod turns;
mod usage;
mod verify;

pub use database::{Journal, OpenError};
pub use event::{Event, Recorded};
pub use exchange::{BadLine, ExchangeError, ImportError, ImportReport, Imported};
pub use ledger::{Ledger, LedgerError, Options};
pub use lineage::Descendant;
pub use logs::{Bookmark, LogEntry, LogPage, TakenIn, Told};
pub use mask::transcript as mask;
pub use messages::Which;
pub use records::{
    CallRecord, EffectRecord, MessageRecord, ParentKind, SessionRecord, Tokens, Transcript,
    UsageRecord,
};
pub use redact::Redactor;
pub use repair::{RepairError, RepairReport, repair};
pub use search::{Hit, SearchOptions, SearchOutcome, matches};
pub use sessions::{ListOptions, PruneOptions, SessionState, SessionSummary};
pub use time::Time;
pub use titles::{TITLE_LENGTH, TitleError, clean_title};
pub use turns::{Notice, Turn, Undone};
pub use usage::{UsageBy, UsageTotal};
pub use verify::VerifyReport;
