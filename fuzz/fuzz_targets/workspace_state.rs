//! The state of a workspace in the store: the stat cache with its log, or the journal of an
//! interrupted restore. The first byte chooses between the two.

#![no_main]

mod support;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use takeback_tree::fuzzing::ScratchWorkspace;

static WORKSPACE: LazyLock<ScratchWorkspace> =
    LazyLock::new(|| ScratchWorkspace::new(&support::SCRATCH));

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0, bytes)) => WORKSPACE.read_cache(bytes),
    Some((1, bytes)) => WORKSPACE.recover(bytes),
    _ => {}
});
