//! Tests of the ledger through its public interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod calls;
mod contract;
mod exchange;
mod forks;
mod goals;
mod logs;
mod long_lived;
mod masking;
mod masking_corpus;
mod messages;
mod opening;
mod oracle;
mod outbox;
mod processes;
mod repair;
mod repair_interrupted;
mod rewind;
mod search;
mod sessions;
mod spool;
mod support;
mod task_leases;
mod task_processes;
mod task_repair;
mod tasks;
mod threads;
mod usage;
