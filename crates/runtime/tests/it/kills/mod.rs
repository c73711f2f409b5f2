//! Killed processes: the next process continues at the exact step.

mod boundaries;
mod child;
mod outcome;
mod random;
mod stories;
