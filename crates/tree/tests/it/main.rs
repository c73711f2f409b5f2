//! The integration tests of the crate: one file per subject.

#![allow(clippy::unwrap_used, clippy::type_complexity, unreachable_pub)]

mod attachments;
mod capture;
mod changing;
mod checkout;
mod corrupt;
mod databases;
mod deep;
mod edit;
mod expected;
mod ignore;
mod kept_plans;
mod kill;
mod limits;
mod losses;
mod model;
mod named;
mod owners;
mod permissions;
mod processes;
mod racy;
mod restore;
mod single;
mod support;
mod turns;
