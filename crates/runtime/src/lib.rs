//! A durable agent on takeback's crates.
//!
//! Every step of a task is an entry in a journal, which is part of the ledger. The state of a task
//! is a fold of its journal, so a process that is killed continues at the exact step.

pub mod cancel;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod model;
pub mod tools;

pub use cancel::Cancel;
