//! Parallel work, even on systems that refuse to start threads.

use std::error::Error;
use std::sync::OnceLock;

use rayon::ThreadPoolBuilder;

/// Prepares this thread for parallel work. If no other thread can be started, for example because
/// of `RLIMIT_NPROC`, this thread does all of the work. Without this preparation, rayon would
/// panic.
pub(crate) fn prepare_threads() {
    static HAS_POOL: OnceLock<bool> = OnceLock::new();
    let has_pool = *HAS_POOL.get_or_init(|| match ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // An error without a source means that there already is a pool.
        Err(error) => error.source().is_none(),
    });
    if !has_pool && rayon::current_thread_index().is_none() {
        let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        // The pool must live as long as this thread, which is a part of it.
        std::mem::forget(alone);
    }
}
