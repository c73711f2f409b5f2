//! Tests of the agent, one file per subject.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod tools_fetch;
mod tools_files;
mod tools_permissions;
mod tools_search;
mod tools_support;
mod tools_terminal;
