//! The ledger from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contract;
mod exchange;
mod logs;
mod long_lived;
mod losses;
mod opening;
mod oracle;
mod processes;
mod repair;
mod spool;
mod support;
