//! Packs, deltas, pack indexes and multi-pack indexes, any of which may be damaged. The first byte
//! says which of the four the input is.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use support::SCRATCH;
use takeback_tree::fuzzing;

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0, bytes)) => fuzzing::pack(&SCRATCH, bytes),
    Some((1, bytes)) => fuzzing::delta(bytes),
    Some((2, bytes)) => fuzzing::pack_index(&SCRATCH, bytes),
    Some((3, bytes)) => fuzzing::multi_pack_index(&SCRATCH, bytes),
    _ => {}
});
