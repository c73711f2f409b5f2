//! Tests of the operations over an opened home.
#![allow(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod authorship;
mod kept_plans;
mod one_story;
mod opened;
mod support;
