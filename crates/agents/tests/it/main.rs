//! Parses hook payloads, reads logs, and updates what older versions installed.

#![allow(clippy::unwrap_used)]

mod log_catch_up;
mod log_copy;
mod log_fuzz;
mod log_reading;
mod older_install;
mod payload_fixtures;
mod payload_fuzz;
mod payload_shapes;
