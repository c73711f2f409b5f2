//! Late reports: handling them takes longer than the agent waits, so separate threads finish them.

use std::cell::RefCell;
use std::thread::{self, JoinHandle};

use crate::context::Context;
use crate::reporting::PendingReport;

/// The threads that finish late reports.
#[derive(Default)]
pub(super) struct LateReports {
    running: RefCell<Vec<JoinHandle<()>>>,
}

impl LateReports {
    /// Finishes a report in a new thread.
    pub(super) fn add(&self, pending: PendingReport, context: &Context) {
        let context = context.in_directory(&context.directory);
        let finish = move || {
            if let Some(handled) = pending.wait_longer() {
                pending.spawn_follow_up(&context, &handled, None);
            }
        };
        let mut running = self.running.borrow_mut();
        running.retain(|work| !work.is_finished());
        running.push(thread::spawn(finish));
    }

    /// Waits until all reports are finished, because an interrupted capture would count as missed.
    pub(super) fn wait_for_all(self) {
        for work in self.running.into_inner() {
            // A failure has already been recorded.
            let _ = work.join();
        }
    }
}
