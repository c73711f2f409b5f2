//! What agents tell, understood.

#![allow(clippy::unwrap_used)]

mod fixtures;
mod fuzz;
mod logs;
mod shapes;
