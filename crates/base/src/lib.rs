//! Helpers shared by all crates, one module per subject:
//!
//! - [`durable`]: takeback's own files and directories, which only their owner may read;
//!   atomic replacement; locks that die with their process
//! - [`hex`]: hexadecimal digits
//! - [`errors`]: an error together with its causes, as text
//! - [`directory`]: directories that are opened through no link
//! - [`lock_wait`]: waiting for a lock that another process holds
//! - [`paths`]: normalised and canonical paths; paths as bytes
//!
//! This crate depends on no other crate of the project.

pub mod durable;
pub mod directory;
pub mod errors;
pub mod hex;
pub mod lock_wait;
pub mod paths;
