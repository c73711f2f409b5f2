//! Brings in what other programs kept: their sessions, as [transcripts](takeback_ledger::Transcript)
//! for the ledger, and their checkpoints, as the older history of a workspace.
//!
//! A program whose formats are read here has a module of its own. Nothing of the other program is
//! ever written to.

pub mod hermes;
mod older_history;

pub use older_history::{ImportError, OlderHistory, SkippedCheckpoint};
