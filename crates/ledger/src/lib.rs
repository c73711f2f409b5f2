//! The sessions, messages, turns, tool calls, effects, notices and costs of AI agents, in one
//! SQLite database.
//!
//! ```
//! use takeback_ledger::{
//!     Ledger, LedgerOptions, MessageRecord, SearchOptions, SessionRecord, Time,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
//! let now = Time(1_795_003_200_000);
//! let session = SessionRecord {
//!     id: "mine:1".into(),
//!     source: "mine".into(),
//!     ..SessionRecord::default()
//! };
//! ledger.create_session(&session, now)?;
//! let prompt = MessageRecord {
//!     role: "user".into(),
//!     content: Some("Tidy up the imports".into()),
//!     ..MessageRecord::default()
//! };
//! ledger.append("mine:1", &[prompt], now)?;
//!
//! let found = ledger.search("imports", &SearchOptions::default())?;
//! assert_eq!(found.results[0].snippet, "Tidy up the >>>imports<<<");
//!
//! // A rewind marks messages as taken back, and never deletes them.
//! ledger.rewind_turns("mine:1", 1, now)?;
//! assert_eq!(ledger.search("imports", &SearchOptions::default())?.total, 0);
//! let undone = SearchOptions { undone: true, ..SearchOptions::default() };
//! assert_eq!(ledger.search("imports", &undone)?.total, 1);
//! # Ok(())
//! # }
//! ```

mod call_turns;
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
mod outbox;
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
mod threads;
mod time;
mod titles;
mod turns;
mod usage;
mod verify;

pub use call_turns::CallTurns;
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
pub use outbox::{
    Announced, CallChange, Change, EffectsChange, MessageChange, MessageRow, OutboxBatch,
    SessionChange, TurnChange, UsageChange,
};
pub use records::{
    CallRecord, EffectRecord, MessageRecord, ParentKind, SessionRecord, Tokens, Transcript,
    UsageRecord,
};
pub use redact::Redactor;
pub use repair::{RepairError, RepairReport, repair_ledger};
pub use rewinds::{ConversationMark, ConversationMove, ConversationPoint, RewindOutcome};
pub use search::{
    IndexQuery, SearchCollector, SearchHit, SearchOptions, SearchResults, beginning_of, matches,
};
pub use sessions::{
    ListOptions, PruneOptions, SessionSettings, SessionState, SessionSummary, preview_of,
};
pub use tasks::{
    AppendOutcome, AppendedMessage, Budget, GoalRecord, GoalState, GoalUpdate, JournalEntry, Lease,
    LoadedTask, LogContent, LogError, LogLease, LogRecord, LoggedTask, Snapshot, Spending,
    TaskBase, TaskChange, TaskFilter, TaskLog, TaskRecord, TaskStep,
};
pub use threads::{
    Channel, Encoded, MAX_STATE_BYTES, MAX_WRITES_BYTES, ThreadFilter, ThreadKey, ThreadPage,
    ThreadPosition, ThreadState, ThreadWrite,
};
pub use time::Time;
pub use titles::TitleError;
pub use turns::{CallId, Turn, TurnEnd};
pub use usage::{ModelUsage, PriceFn, SessionUsage, UsageBy, UsageSum, UsageTotal};
pub use verify::VerifyReport;
