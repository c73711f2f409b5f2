//! Converts the errors of the other crates into failures, and adds hints.

mod checkpoints;
#[cfg(feature = "fleet")]
mod fleet;
mod fork;
mod ledger;
#[cfg(feature = "fleet")]
mod objects;
mod provider;
mod rollback;
mod store;
mod task;
mod upkeep;

const VERIFY: &str = "`takeback checkpoints verify` shows what is affected";
const SPACE: &str = "check the permissions and the free space of takeback's directory";
const LATER: &str = "try again when that process is done";
const LIST: &str = "`takeback list` lists the checkpoints of this workspace";
const BUSY: &str = "other processes are writing; try again when they are done";
