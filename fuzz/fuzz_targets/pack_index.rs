//! Pack indexes and multi-pack indexes.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::pack_index(&support::SCRATCH, bytes));
