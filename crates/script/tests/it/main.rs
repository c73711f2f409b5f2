//! Tests the server through plain connections, as its clients see it.

#![allow(clippy::unwrap_used)]

mod apis;
mod client;
mod connections;
