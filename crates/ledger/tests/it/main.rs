//! The ledger from outside.

mod contract;
mod hermes;
mod hermes_live;
mod hermes_real;
mod hermes_versions;
mod oracle;
mod support;
