//! The text of `config.toml`.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback::fuzzing::read_config(&support::SCRATCH, bytes));
