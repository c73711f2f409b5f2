//! Helpers shared by all crates, one module per subject:
//!
//! - [`durable`]: takeback's own files and directories, which only their owner may read;
//!   atomic replacement; locks that die with their process
//! - [`foreign`]: files of other programs, read without waiting and with a bound
//! - [`hex`]: hexadecimal digits
//! - [`directory`]: directories that are opened through no link
//! - [`errors`]: an error together with its causes, as text
//! - [`lock_wait`]: waiting for a lock that another process holds
//! - [`paths`]: normalised and canonical paths; paths as bytes
//!
//! This crate depends on no other crate of the project.

pub mod directory;
pub mod durable;
pub mod errors;
pub mod foreign;
pub mod hex;
pub mod lock_wait;
pub mod paths;
