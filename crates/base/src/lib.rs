//! Helpers shared by all crates, one module per subject:
//!
//! - [`columns`]: the width of text on a terminal, and text shortened to fit
//! - [`durable`]: takeback's own files and directories, readable only by their owner; atomic
//!   replacement; locks that are released when their process ends
//! - [`foreign`]: reading other programs' files without blocking and up to a size limit
//! - [`hex`]: hexadecimal digits
//! - [`directory`]: opening directories without following links
//! - [`errors`]: an error together with its causes, as text
//! - [`lock_wait`]: waiting for a lock that another process holds
//! - [`owners`]: owners of files that root writes for a user
//! - [`paths`]: normalized and canonical paths; paths as bytes
//! - [`scratch`]: a directory for temporary files that are removed even if their process is killed
//! - [`text`]: untrusted text that must not control the terminal; mistyped names
//!
//! This crate depends on no other crate in the project.

pub mod columns;
pub mod directory;
pub mod durable;
pub mod errors;
pub mod foreign;
pub mod hex;
pub mod lock_wait;
pub mod owners;
pub mod paths;
pub mod scratch;
pub mod text;
