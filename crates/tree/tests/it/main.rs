//! The integration tests of the crate: one file per subject.

#![allow(clippy::unwrap_used)]

mod capture;
mod model;
mod restore;
mod support;
