//! Tests that use the server as clients do, over plain HTTP connections.

#![allow(clippy::unwrap_used)]

mod apis;
mod client;
mod connections;
mod faults;
