//! Tests of the agent with a scripted model, real files and a real ledger.

mod kills;
mod recovery;
mod subagents;
mod support;
mod turns;
