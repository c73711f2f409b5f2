//! Late reports: handling them takes longer than the agent waits, so separate threads finish them.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::context::Context;
use crate::reporting::{PendingReport, run_once};

/// The work that finishes a late report.
type Work = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// The late reports, and the threads that finish them.
#[derive(Default)]
pub(in crate::commands) struct LateReports {
    running: RefCell<Vec<JoinHandle<()>>>,
    /// The reports for which no thread could be started so far.
    waiting: RefCell<Vec<Work>>,
}

impl LateReports {
    /// Finishes a report in a new thread.
    pub(in crate::commands) fn add(&self, pending: PendingReport, context: &Context) {
        let context = context.in_directory(&context.directory);
        self.add_work(Box::new(move || {
            if let Some(handled) = pending.wait_longer() {
                pending.spawn_follow_up(&context, &handled, None);
            }
        }));
        self.start_waiting(|work| thread::Builder::new().spawn(move || run_once(&work)));
    }

    fn add_work(&self, work: Box<dyn FnOnce() + Send>) {
        self.waiting.borrow_mut().push(Arc::new(Mutex::new(Some(work))));
    }

    /// Starts a thread for each report that has none. If no thread can be started, the reports wait
    /// for the next attempt, because this thread must answer the agent's next request.
    fn start_waiting(&self, start: impl Fn(Work) -> io::Result<JoinHandle<()>>) {
        let mut running = self.running.borrow_mut();
        running.retain(|work| !work.is_finished());
        self.waiting.borrow_mut().retain(|work| match start(work.clone()) {
            Ok(thread) => {
                running.push(thread);
                false
            }
            Err(_) => true,
        });
    }

    /// Waits until all reports are finished, because an interrupted capture would count as missed.
    pub(in crate::commands) fn wait_for_all(self) {
        self.waiting.into_inner().iter().for_each(|work| run_once(work));
        for work in self.running.into_inner() {
            // A failure has already been recorded.
            let _ = work.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn reports_are_finished_even_if_no_thread_can_be_started() {
        let late = LateReports::default();
        let (sender, finished) = mpsc::channel();
        let add = |name: &'static str| {
            let sender = sender.clone();
            late.add_work(Box::new(move || sender.send(name).unwrap()));
        };
        let fail = |_| Err(io::Error::from(io::ErrorKind::WouldBlock));
        add("first");
        late.start_waiting(fail);
        assert!(finished.try_recv().is_err());
        // When the next report arrives, threads can be started again.
        add("second");
        late.start_waiting(|work| thread::Builder::new().spawn(move || run_once(&work)));
        let mut both = [finished.recv().unwrap(), finished.recv().unwrap()];
        both.sort_unstable();
        assert_eq!(both, ["first", "second"]);
        add("third");
        late.start_waiting(fail);
        late.wait_for_all();
        assert_eq!(finished.try_recv(), Ok("third"));
    }
}
