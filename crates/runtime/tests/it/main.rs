//! Tests of the agent with a scripted model, real files and a real ledger.

#![allow(clippy::unwrap_used)]

mod goals;
mod kills;
mod long_turns;
mod matrix;
mod model_cancel;
mod model_connections;
mod model_cuts;
mod model_failures;
mod model_replies;
mod model_support;
mod recovery;
mod shared;
mod subagents;
mod support;
mod tools_fetch;
mod tools_files;
mod tools_permissions;
mod tools_search;
mod tools_support;
mod tools_terminal;
mod turns;
