//! Files in the `.git` of a workspace: the index, HEAD and packed refs, the configuration.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| takeback_tree::fuzzing::git_files(&support::SCRATCH, bytes));
