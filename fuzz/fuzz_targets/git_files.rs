//! Files in a git repository: the index, HEAD and packed refs, the configuration, trees and
//! commits. The first byte says which kind of file the input is.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use support::SCRATCH;
use takeback_tree::fuzzing;

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0, bytes)) => fuzzing::git_index(&SCRATCH, bytes),
    Some((1, bytes)) => fuzzing::git_refs(&SCRATCH, bytes),
    Some((2, bytes)) => fuzzing::git_config(&SCRATCH, bytes),
    Some((3, bytes)) => fuzzing::object(&SCRATCH, bytes),
    _ => {}
});
