//! The server as its clients see it: through a plain connection.

#![allow(clippy::unwrap_used)]

mod apis;
mod client;
mod connections;
