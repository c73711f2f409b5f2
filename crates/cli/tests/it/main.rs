//! Sessions with the program: commands and their output.

#![allow(clippy::unwrap_used)]

mod agent;
mod agents;
mod agents_concurrent;
mod commands;
mod conversation;
mod coverage;
mod doctor;
mod gone;
mod hooks;
mod hooks_concurrent;
mod hooks_failures;
mod hooks_limits;
mod hooks_rollback;
mod install;
mod install_obstacles;
mod logs;
mod on_disk;
mod on_disk_sessions;
mod peers;
mod peers_myrm;
mod protection;
mod repository;
mod retention;
mod rollback;
mod rollback_undo;
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
mod turns;
mod undo_merge;
mod undo_turns;
mod unprotected;
mod views;
mod waiting;
mod way_back;
