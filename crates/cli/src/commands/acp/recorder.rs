//! The thread that takes checkpoints and writes to the ledger while messages are passed on.
//!
//! Work is done in the order in which it arrives. If a checkpoint must be complete before the
//! conversation continues, the conversation waits for it, but no longer than `timeout_ms`. A
//! failure never holds up the conversation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use takeback_agents::{Agent, find_agent, warning_text};
use takeback_ledger::Event;
use takeback_undo::rollback::{notice_text, take_notices};
use takeback_undo::{Deadline, Handled, Opened, Report, ReportedEvent, Unprotected};

use super::super::rpc::{LateReports, Stamp, read_stamp};
use crate::background;
use crate::context::Context;
use crate::fired;
use crate::reporting::{
    self, PendingReport, ReportView, Waited, strict_refusal, tampering_refusal, workspace_of,
};
use crate::slash::{SlashAnswer, SlashLine, answer_line};

/// The idle time after which the ledger is closed, so that other processes can repair it.
const IDLE: Duration = Duration::from_millis(500);

/// The additional time, after `timeout_ms`, that the conversation waits if earlier work takes too
/// long.
const GRACE: Duration = Duration::from_millis(500);

/// The maximum time that the proxy waits for the rest of the work at the end of the conversation.
const LAST_WORK: Duration = Duration::from_secs(20);

/// A piece of work for the thread.
type Work = Box<dyn FnOnce(&mut Worker) + Send>;

/// The connection to the thread. If there is no thread, messages are passed on without checkpoints.
pub(super) struct Recorder {
    sender: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The maximum time that the conversation waits for a checkpoint.
    limit: Duration,
}

/// The result of a report that the agent waited for.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// The reason why the call must not be made.
    pub(super) refusal: Option<String>,
    /// A warning for the user about files that no checkpoint can restore.
    pub(super) warning: Option<String>,
    /// A text about rollbacks, which must be added to the agent's prompt.
    pub(super) notice: Option<String>,
}

impl Recorder {
    /// Starts the thread. Without a context, nothing is recorded.
    pub(super) fn start(context: Option<Context>) -> Recorder {
        let none = Recorder { sender: None.into(), thread: None.into(), limit: Duration::ZERO };
        let Some(context) = context else { return none };
        let settings = reporting::open(&context).map(|(opened, _)| opened.settings().timeout_ms);
        let limit = Duration::from_millis(settings.unwrap_or(0)) + GRACE;
        let (sender, work) = mpsc::channel();
        let worker = Worker { context, stamp: None, late: LateReports::default() };
        match thread::Builder::new().spawn(move || worker.run(&work)) {
            Ok(thread) => {
                Recorder { sender: Some(sender).into(), thread: Some(thread).into(), limit }
            }
            Err(_) => none,
        }
    }

    /// Gives work to the thread, and does not wait for it.
    pub(super) fn submit(&self, work: impl FnOnce(&mut Worker) + Send + 'static) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            // The thread catches all panics, so it lives as long as the proxy.
            let _ = sender.send(Box::new(work));
        }
    }

    /// Gives work to the thread, and waits for the result. When the time limit is up, returns the
    /// default value instead. The flag that is passed to the work is true while this function is
    /// still waiting.
    pub(super) fn wait_for<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker, &AtomicBool) -> T + Send + 'static,
    ) -> T {
        let (sender, done) = mpsc::channel();
        let is_awaited = Arc::new(AtomicBool::new(true));
        let awaited = is_awaited.clone();
        self.submit(move |worker| drop(sender.send(work(worker, &awaited))));
        // If the work takes longer, it continues in the background.
        let result = done.recv_timeout(self.limit);
        is_awaited.store(false, Ordering::SeqCst);
        result.unwrap_or_default()
    }

    /// Waits until all work is done, but no longer than [`LAST_WORK`].
    pub(super) fn finish(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let (sender, done) = mpsc::channel();
        let waiter = thread::Builder::new().spawn(move || {
            let _ = thread.join();
            let _ = sender.send(());
        });
        if waiter.is_ok() {
            // If work is left unfinished, the next takeback process repeats or repairs it.
            let _ = done.recv_timeout(LAST_WORK);
        }
    }
}

/// The state of the thread.
pub(super) struct Worker {
    context: Context,
    /// The stamp that the files in takeback's home had when the home was last opened.
    stamp: Option<Stamp>,
    late: LateReports,
}

impl Worker {
    fn run(mut self, work: &Receiver<Work>) {
        let mut is_idle = true;
        loop {
            let next = match is_idle {
                true => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => work.recv_timeout(IDLE),
            };
            match next {
                Ok(work) => {
                    self.refresh();
                    // If one piece of work panics, the next one must still be done.
                    let _ = catch_unwind(AssertUnwindSafe(|| work(&mut self)));
                    background::reap_children();
                    is_idle = false;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.context.close_ledger();
                    is_idle = true;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.late.wait_for_all();
    }

    /// Opens takeback's home again if the configuration or the store has been replaced.
    fn refresh(&mut self) {
        let stamp = read_stamp(&self.context.home);
        if self.stamp != Some(stamp) {
            self.context.reopen();
            self.stamp = Some(stamp);
        }
    }

    /// Handles a report. `since` is the time at which the agent began to wait; `None` if the agent
    /// does not wait.
    pub(super) fn report(&mut self, report: &Report, since: Option<Instant>) -> Answered {
        let mut answered = Answered::default();
        let Some((opened, failures)) = reporting::open(&self.context) else { return answered };
        for failure in &failures {
            opened.note_failure(&workspace_of(&opened, &report.directory), failure);
        }
        let mut view = ReportView::default();
        view.note_tampering(&opened, report);
        let deadline = match since {
            None if report.event.is_captured() => Deadline::announced(),
            _ => Deadline::open(),
        };
        let pending = PendingReport::start(&opened, report, deadline);
        let pending = pending.waiting_since(since.unwrap_or_else(Instant::now));
        match pending.wait() {
            Waited::Done(handled) => {
                pending.spawn_follow_up(&self.context, &handled, None);
                answered.warning = warn(&opened, report, &handled);
                answered.refusal = refuse_unsafe(&opened, &handled.failures, &handled.unprotected);
            }
            Waited::TooLong { message } => {
                answered.refusal = refuse_unsafe(&opened, &[message], &[]);
                self.late.add(pending, &self.context);
            }
            Waited::Broken { message } => {
                answered.refusal = refuse_unsafe(&opened, &[message.to_owned()], &[]);
            }
        }
        if view.refused {
            answered.refusal = Some(tampering_refusal(&view.tampering));
        }
        let is_call = matches!(report.event, ReportedEvent::BeforeTool(_));
        answered.refusal = answered.refusal.filter(|_| is_call && since.is_some());
        answered
    }

    /// Records that an editor has used takeback, if `takeback install` knows the editor.
    pub(super) fn note_editor(&self, name: &str) {
        if find_agent(name).is_some_and(Agent::is_editor) {
            fired::record_run(&self.context.home, name);
        }
    }

    /// Takes the notices that are waiting for a session.
    pub(super) fn take_notices(&self, session: &str) -> Option<String> {
        // Notices about rollbacks are delivered even if checkpoints are switched off.
        let notices = take_notices(self.context.opened().ok()?, session).ok()?;
        notice_text(&notices)
    }

    /// Writes events to the ledger.
    pub(super) fn record(&self, events: &[Event]) {
        /// The time to wait for other processes that are writing to the ledger.
        const LEDGER_WAIT: Duration = Duration::from_millis(500);
        let Some((opened, _)) = reporting::open(&self.context) else { return };
        if let Err(error) = opened.record_events(events, LEDGER_WAIT) {
            let message = format!("cannot record the conversation: {error}");
            opened.note_failure(&self.context.directory, &message);
        }
    }

    /// Answers a slash command that the user typed in a session.
    pub(super) fn answer_slash(&self, line: &SlashLine<'_>, directory: &Path) -> SlashAnswer {
        let context = self.context.in_directory(directory);
        answer_line(line, &context).unwrap_or_default().plain()
    }
}

/// Returns the warning about files that no checkpoint can restore, and that the user has not been
/// told about yet.
fn warn(opened: &Opened, report: &Report, handled: &Handled) -> Option<String> {
    if !matches!(report.event, ReportedEvent::BeforeTool(_)) || !opened.settings().enabled {
        return None;
    }
    let new: Vec<&Unprotected> = handled.unprotected.iter().filter(|lost| lost.is_new).collect();
    warning_text(&new, &[])
}

/// Returns the reason why strict mode refuses a call. Returns `None` if the call is protected, or
/// if strict mode is off.
fn refuse_unsafe(opened: &Opened, failures: &[String], lost: &[Unprotected]) -> Option<String> {
    let lost = lost.iter().filter(|lost| !lost.is_replaceable).map(ToString::to_string);
    let reasons: Vec<String> = failures.iter().cloned().chain(lost).collect();
    (opened.settings().strict && !reasons.is_empty()).then(|| strict_refusal(&reasons))
}
