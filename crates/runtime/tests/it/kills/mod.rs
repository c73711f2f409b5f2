//! Killed processes: the next one continues at the exact step.

mod boundaries;
mod child;
mod outcome;
mod random;
mod stories;
