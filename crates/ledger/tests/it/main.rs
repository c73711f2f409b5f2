//! The ledger from outside.

mod oracle;
mod support;
