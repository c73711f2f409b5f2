//! `.gitignore`: a byte for the length of a path, followed by the path and the patterns.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::gitignore(bytes));
