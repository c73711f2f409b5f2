//! Tests of the screens: real workspaces and plans, but neither a terminal nor threads.

mod actions;
mod looks;
mod moving;
mod player;
mod sessions;
