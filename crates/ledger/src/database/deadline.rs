//! The deadline of an operation that waits for other processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time at which an operation stops waiting for other processes. Clones share the deadline.
#[derive(Clone)]
pub(super) struct Deadline {
    start: Instant,
    /// Nanoseconds after `start`.
    end: Arc<AtomicU64>,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline { start: Instant::now(), end: Arc::default() }
    }
}

impl Deadline {
    /// Sets the deadline to the current time plus `wait`.
    pub(super) fn set(&self, wait: Duration) {
        let end = (self.start.elapsed() + wait).as_nanos();
        self.end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sleeps briefly, or returns false if the deadline has passed. SQLite calls this when another
    /// process holds a lock.
    pub(super) fn pause(&self, tries: i32) -> bool {
        let end = Duration::from_nanos(self.end.load(Ordering::Relaxed));
        let left = end.saturating_sub(self.start.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(random_pause(tries).min(left));
        true
    }
}

/// Chooses a random pause that is short at first and never longer than about 10 ms. Because it is
/// random, waiting processes do not all retry at the same time.
fn random_pause(tries: i32) -> Duration {
    let ceiling = 200_u64 << tries.clamp(0, 6);
    let mut random = [0; 8];
    // Without randomness, all processes wait equally long, which is slower but correct.
    let _ = getrandom::fill(&mut random);
    Duration::from_micros(50 + u64::from_le_bytes(random) % ceiling.min(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_with_the_deadline() {
        let deadline = Deadline::default();
        deadline.set(Duration::ZERO);
        assert!(!deadline.pause(0));
        deadline.set(Duration::from_secs(60));
        assert!(deadline.pause(0));
    }
}
