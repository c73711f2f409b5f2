//! Shows the history on a terminal screen, where the user can look at changes and take them back.
//!
//! `model` is the state, `update` changes it, and `view` shows it. None of the three has side
//! effects. `work` reads and changes takeback's home in other threads. Like the commands, it calls
//! [`plan`](takeback_undo::rollback::plan) and [`apply`](takeback_undo::rollback::apply). [`run`]
//! connects all of these modules with a terminal.

mod content;
mod host;
mod input;
mod layout;
mod message;
mod model;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod update;
mod view;
mod work;

pub use host::{Error, Host, Problem};
pub use terminal::{Options, ScreenKind, run};
pub use theme::{Colors, Theme};
