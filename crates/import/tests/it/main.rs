//! Tests of the imports through the public interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod checkpoints;
mod sessions;
mod sessions_busy;
mod sessions_hostile;
mod sessions_real;
mod sessions_versions;
mod support;
