//! The commands that only read. `programs` lists them by name, each with the rule for its
//! arguments. Programs whose arguments form a language each have a file of their own.

mod argument_rules;
mod awk;
pub(super) mod builtins;
mod curl;
mod find;
mod git;
pub(super) mod programs;
mod sed;
mod tar;
pub(super) mod variables;

pub(super) use argument_rules::{AllowedOptions, only};
