//! The integration tests of the crate: one file per subject.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod capture;
mod kill;
mod limits;
mod losses;
mod model;
mod restore;
mod support;
