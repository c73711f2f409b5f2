//! Cancelling a turn from another thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Action = Arc<dyn Fn() + Send + Sync>;

/// A switch that stops a running turn. Its clones share one state.
///
/// ```
/// use std::time::Duration;
///
/// use takeback_runtime::Cancel;
///
/// let cancel = Cancel::default();
/// let switch = cancel.clone();
/// let waiting = std::thread::spawn(move || cancel.wait(Duration::from_secs(3600)));
/// switch.cancel();
/// assert!(!waiting.join().unwrap(), "the wait was cut short");
/// ```
#[derive(Clone, Default)]
pub struct Cancel(Arc<Switch>);

#[derive(Default)]
struct Switch {
    shared: Mutex<Shared>,
    cancelled: Condvar,
}

#[derive(Default)]
struct Shared {
    is_cancelled: bool,
    is_suspended: bool,
    next: u64,
    actions: BTreeMap<u64, Action>,
}

/// A guard for an action: when the guard is dropped, the action is removed.
pub struct CancelGuard {
    cancel: Cancel,
    number: u64,
}

impl Cancel {
    /// Stops the turn: wakes up the threads that are waiting, and runs the registered actions.
    pub fn cancel(&self) {
        let actions: Vec<Action> = {
            let mut shared = self.lock();
            shared.is_cancelled = true;
            shared.actions.values().cloned().collect()
        };
        self.0.cancelled.notify_all();
        actions.iter().for_each(|action| action());
    }

    /// Stops the work on the turn before its next step, and leaves the turn open, so that another
    /// process can continue it. To interrupt the current step too, call [`Cancel::cancel`]
    /// afterwards.
    pub fn suspend(&self) {
        self.lock().is_suspended = true;
    }

    /// Returns true if the turn is to be left open.
    pub fn is_suspended(&self) -> bool {
        self.lock().is_suspended
    }

    /// Waits for `time`, or until the turn is cancelled. Returns false if the turn was cancelled.
    pub fn wait(&self, time: Duration) -> bool {
        let shared = self.lock();
        let waited =
            self.0.cancelled.wait_timeout_while(shared, time, |shared| !shared.is_cancelled);
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !shared.is_cancelled
    }

    /// Allows the next turn to run.
    pub fn reset(&self) {
        self.lock().is_cancelled = false;
    }

    /// Returns true if the turn is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    /// Runs `action` when the turn is cancelled, or immediately if the turn is already cancelled.
    /// The action must make the calling thread stop waiting.
    pub fn on_cancel(&self, action: impl Fn() + Send + Sync + 'static) -> CancelGuard {
        let action: Action = Arc::new(action);
        let mut shared = self.lock();
        let number = shared.next;
        shared.next += 1;
        shared.actions.insert(number, action.clone());
        let is_cancelled = shared.is_cancelled;
        drop(shared);
        if is_cancelled {
            action();
        }
        CancelGuard { cancel: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.cancel.lock().actions.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn an_action_runs_once_for_each_cancellation_until_its_guard_is_dropped() {
        let (cancel, count) = (Cancel::default(), Arc::new(AtomicUsize::new(0)));
        let counter = count.clone();
        let guard = cancel.on_cancel(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        cancel.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(guard);
        cancel.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_wait_ends_when_the_turn_is_cancelled() {
        let cancel = Cancel::default();
        assert!(cancel.wait(Duration::from_millis(1)));
        let other = cancel.clone();
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(3600)));
        cancel.cancel();
        assert!(!waiting.join().unwrap());
    }

    #[test]
    fn an_action_runs_at_once_if_the_turn_is_already_cancelled() {
        let (cancel, count) = (Cancel::default(), Arc::new(AtomicUsize::new(0)));
        cancel.cancel();
        let counter = count.clone();
        let _guard = cancel.on_cancel(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(count.load(Ordering::SeqCst), 1);
        cancel.reset();
        assert!(!cancel.is_cancelled());
    }
}
