//! Deltas of packs: a byte for the length of the base, the base, and the delta.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::delta(bytes));
