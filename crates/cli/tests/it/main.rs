//! Sessions with the program: commands and their output.

#![allow(clippy::unwrap_used)]

mod agent;
mod agents;
mod agents_concurrent;
mod commands;
mod doctor;
mod documents;
mod hooks;
mod hooks_concurrent;
mod hooks_failures;
mod hooks_rollback;
mod install;
mod install_obstacles;
mod logs;
mod losses;
mod losses_more;
mod on_disk;
mod on_disk_sessions;
mod peers;
mod peers_myrm;
mod repository;
mod retention;
mod rollback;
mod rpc;
mod rpc_client;
mod rpc_errors;
mod rpc_fuzz;
mod run;
mod session;
mod sessions;
mod sessions_exchange;
mod sessions_maintenance;
mod store;
mod terminal;
mod transcript;
mod undo_merge;
mod undo_turns;
mod waiting;
