//! Sessions with the program: what was typed, what came back.

#![allow(clippy::unwrap_used)]

mod agent;
mod agents;
mod agents_together;
mod doctor;
mod hooks;
mod hooks_back;
mod hooks_together;
mod hooks_trouble;
mod install;
mod install_trouble;
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
mod rpc_fuzz;
mod rpc_trouble;
mod run;
mod session;
mod sessions;
mod sessions_care;
mod sessions_exchange;
mod store;
mod terminal;
mod transcript;
mod undo_merge;
mod undo_turns;
