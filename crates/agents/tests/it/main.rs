//! Parsing hook payloads, reading logs, and updating older installations.

#![allow(clippy::unwrap_used)]

mod copies;
mod generated_logs;
mod hidden;
mod in_place;
mod log_catch_up;
mod log_copy;
mod log_fuzz;
mod log_hostile;
mod log_reading;
mod older_install;
mod payload_fixtures;
mod payload_fuzz;
mod payload_shapes;
mod rewind;
