//! Tests of the durable agent.

#![allow(clippy::unwrap_used)]

mod model_cancel;
mod model_connections;
mod model_cuts;
mod model_failures;
mod model_replies;
mod model_support;
