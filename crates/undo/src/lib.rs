//! Checkpoints, rollback and undo: joins the store of trees and the ledger.

pub mod import;
