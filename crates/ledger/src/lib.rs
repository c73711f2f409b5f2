//! The sessions, messages, turns, tool calls, effects, notices and costs of AI agents, in one
//! SQLite database.

mod calls;
mod database;
mod event;
mod exchange;
pub mod foreign_database;
mod ledger;
mod lineage;
mod logs;
mod mask;
mod messages;
mod notices;
mod records;
mod redact;
pub mod render;
mod repair;
pub mod replay;
mod rewinds;
mod schema;
mod search;
mod sessions;
mod spool;
mod tasks;
mod time;
mod titles;
mod turns;
mod usage;
mod verify;

pub use calls::Moment;
pub use database::{JournalMode, OpenError};
pub use event::{Event, Recorded};
pub use exchange::{
    BadLine, ExchangeError, ImportError, ImportReport, ImportedSession, InterruptedImport, MAX_BAD,
    MAX_LINE,
};
pub use ledger::{Ledger, LedgerError, LedgerOptions};
pub use lineage::{Descendant, ForkLog, MadeFork, NewFork};
pub use logs::{Bookmark, LogEntry, LogFact, LogIntake, LogPage, MessageOrigin};
pub use mask::mask_transcript;
pub use messages::MessageFilter;
pub use notices::Notice;
pub use records::{
    CallRecord, EffectRecord, MessageRecord, ParentKind, SessionRecord, Tokens, Transcript,
    UsageRecord,
};
pub use redact::Redactor;
pub use repair::{RepairError, RepairReport, repair_ledger};
pub use rewinds::{ConversationMark, ConversationMove, ConversationPoint, RewindOutcome};
pub use search::{SearchHit, SearchOptions, SearchResults, matches};
pub use sessions::{ListOptions, PruneOptions, SessionSettings, SessionState, SessionSummary};
pub use tasks::{
    AppendOutcome, AppendedMessage, Budget, GoalRecord, GoalState, GoalUpdate, JournalEntry, Lease,
    LoadedTask, Snapshot, Spending, TaskChange, TaskFilter, TaskRecord,
};
pub use time::Time;
pub use titles::TitleError;
pub use turns::{CallId, Turn, TurnEnd};
pub use usage::{UsageBy, UsageTotal};
pub use verify::VerifyReport;
