//! Records of checkpoints, and the state files of hooks.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_undo::fuzzing::record(bytes));
