//! Packs that may be damaged, without an index.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::pack(&support::SCRATCH, bytes));
