//! Tests of the operations on an opened home.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod announced;
mod authorship;
mod cut_off_forks;
mod damage;
mod example;
mod exchanged_roots;
mod failed_rollbacks;
mod forks;
mod kept_plans;
mod labels;
mod late;
mod one_story;
mod opened;
mod random_turns;
mod replaced;
mod retention;
mod secrets;
mod support;
