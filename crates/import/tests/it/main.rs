//! Imports from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checkpoints;
mod sessions;
mod sessions_live;
mod sessions_real;
mod sessions_versions;
