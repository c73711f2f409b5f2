//! Tests of the screens with real workspaces and plans, but without a terminal or threads.

mod actions;
mod looks;
mod moving;
mod player;
mod sessions;
