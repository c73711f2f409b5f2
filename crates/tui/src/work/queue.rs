//! A queue of jobs in which a newer job can replace a waiting one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue of jobs for one thread.
pub(super) struct Queue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
}

struct QueueState<J> {
    jobs: VecDeque<J>,
    is_closed: bool,
    /// True while the thread works on a job.
    is_working: bool,
    /// The number of all jobs that have been added so far.
    added: u64,
}

/// The next step of a thread.
pub(super) enum Next<J> {
    Job(J),
    /// There was nothing to do for a while.
    Idle,
    Closed,
}

impl<J> Queue<J> {
    pub(super) fn new() -> Queue<J> {
        let jobs = VecDeque::new();
        let state = QueueState { jobs, is_closed: false, is_working: false, added: 0 };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        // No job runs while the lock is held, so a panic cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, and drops the waiting jobs that the new job replaces.
    pub(super) fn push(&self, job: J, is_replaced: impl Fn(&J) -> bool) {
        let mut state = self.lock();
        state.jobs.retain(|waiting| !is_replaced(waiting));
        state.jobs.push_back(job);
        state.added += 1;
        self.changed.notify_all();
    }

    /// Closes the queue, and drops the waiting jobs that need not be kept. The thread ends once its
    /// current job and the kept jobs are done.
    pub(super) fn close(&self, is_kept: impl Fn(&J) -> bool) {
        let mut state = self.lock();
        state.jobs.retain(is_kept);
        state.is_closed = true;
        self.changed.notify_all();
    }

    /// Returns true if a job is waiting or running.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        state.is_working || !state.jobs.is_empty()
    }

    /// Returns true if the queue is closed, or if a waiting job meets the condition.
    pub(super) fn is_outdated(&self, is_newer: impl Fn(&J) -> bool) -> bool {
        let state = self.lock();
        state.is_closed || state.jobs.iter().any(is_newer)
    }

    /// Waits for the next job. A job with a quiet time is returned only once no other job has been
    /// added during that time, because the user may still be moving through the list.
    pub(super) fn next(&self, idle: Duration, quiet: impl Fn(&J) -> Option<Duration>) -> Next<J> {
        let mut state = self.lock();
        state.is_working = false;
        loop {
            if state.is_closed && state.jobs.is_empty() {
                return Next::Closed;
            }
            let Some(job) = state.jobs.front() else {
                let waited = self.changed.wait_timeout_while(state, idle, |state| {
                    state.jobs.is_empty() && !state.is_closed
                });
                let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
                state = guard;
                if result.timed_out() {
                    return Next::Idle;
                }
                continue;
            };
            if let Some(quiet) = quiet(job).filter(|_| !state.is_closed) {
                let added = state.added;
                let waited = self.changed.wait_timeout_while(state, quiet, |state| {
                    state.added == added && !state.is_closed
                });
                let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
                state = guard;
                if !result.timed_out() {
                    continue;
                }
            }
            state.is_working = true;
            return state.jobs.pop_front().map_or(Next::Idle, Next::Job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn next(queue: &Queue<u32>) -> Option<u32> {
        match queue.next(SOON, |_| None) {
            Next::Job(job) => Some(job),
            Next::Idle | Next::Closed => None,
        }
    }

    #[test]
    fn a_newer_job_replaces_a_waiting_one() {
        let queue = Queue::new();
        queue.push(1, |_| false);
        queue.push(2, |_| false);
        queue.push(3, |job| *job == 1);
        assert_eq!([next(&queue), next(&queue), next(&queue)], [Some(2), Some(3), None]);
    }

    #[test]
    fn a_queue_is_busy_until_its_last_job_is_done() {
        let queue = Queue::new();
        assert!(!queue.is_busy());
        queue.push(1, |_| false);
        assert!(queue.is_busy() && next(&queue) == Some(1) && queue.is_busy());
        assert!(next(&queue).is_none() && !queue.is_busy());
    }

    #[test]
    fn a_closed_queue_ends_its_thread_once_the_kept_jobs_are_done() {
        let queue: Queue<u32> = Queue::new();
        queue.push(1, |_| false);
        queue.push(2, |_| false);
        queue.close(|job| *job == 2);
        assert!(matches!(queue.next(SOON, |_| None), Next::Job(2)));
        assert!(matches!(queue.next(SOON, |_| None), Next::Closed));
        assert!(queue.is_outdated(|_| false));
    }

    #[test]
    fn a_job_with_a_quiet_time_is_still_returned() {
        let queue = Queue::new();
        queue.push(1, |_| false);
        assert!(matches!(queue.next(SOON, |_| Some(SOON)), Next::Job(1)));
    }
}
