//! Tests that kill the process: the next process continues at exactly the step where the killed one
//! stopped.

mod boundaries;
mod child;
mod outcome;
mod random;
mod stories;
