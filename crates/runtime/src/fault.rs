//! Fault points: places where tests kill the process. Without the `faults` feature, they compile to
//! nothing.

#[cfg(feature = "faults")]
mod armed {
    use std::sync::atomic::{AtomicI64, Ordering};

    static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

    /// Kills the process, as `kill -9` would, at the `nth` fault point from now, counting from
    /// zero.
    pub fn kill_at(nth: i64) {
        LEFT.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn pass() {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

#[cfg(feature = "faults")]
pub use armed::kill_at;

/// Marks a point at which a test can kill the process.
pub(crate) fn pass_point() {
    #[cfg(feature = "faults")]
    armed::pass();
}
