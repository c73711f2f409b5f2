//! Reports that take longer than their agent waits, and go on meanwhile.

use std::cell::RefCell;
use std::thread::{self, JoinHandle};

use crate::context::Context;
use crate::reporting::PendingReport;

/// Those that are not known to be done.
#[derive(Default)]
pub(super) struct Late {
    running: RefCell<Vec<JoinHandle<()>>>,
}

impl Late {
    /// Lets one go on.
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

    /// The process stays until all are done: a capture that is cut off is a missed one.
    pub(super) fn wait(self) {
        for work in self.running.into_inner() {
            // What went wrong in it is noted by now.
            let _ = work.join();
        }
    }
}
