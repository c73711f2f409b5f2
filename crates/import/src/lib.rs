//! Imports other programs' data: their sessions, as [transcripts](takeback_ledger::Transcript) for
//! the ledger, and their checkpoints, as the older history of a workspace.
//!
//! Each program has its own module. The other program's files are never written to.

mod common_parts;
pub mod hermes;
mod older_history;

pub use older_history::{ImportError, OlderHistory, SkippedCheckpoint};
