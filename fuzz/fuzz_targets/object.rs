//! Trees and commits, of the store and of other programs.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::object(&support::SCRATCH, bytes));
