//! Tests of the server through plain connections, as clients use it.

#![allow(clippy::unwrap_used)]

mod apis;
mod client;
mod connections;
mod faults;
