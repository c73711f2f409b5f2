//! Sessions with the program: what was typed, what came back.

#![allow(clippy::unwrap_used)]

mod rollback;
mod session;
mod sessions;
mod sessions_care;
mod sessions_exchange;
mod store;
