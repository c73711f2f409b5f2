//! The parts of takeback's own agent that talk to the user or to a program.

pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod terminal;
