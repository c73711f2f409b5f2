//! Handles agents' reports while the agents are waiting.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use takeback_tree::Oid;
use takeback_undo::{Deadline, Handled, HistoryProtection, Opened, Report, Unprotected, hook};

use crate::background;
use crate::config::Config;
use crate::context::Context;

/// The failure that is recorded when a capture takes too long. It is withdrawn once the background
/// process has completed the capture.
const LATE: &str = "not done within timeout_ms; the work continues in the background";

/// The answer to a report, in JSON.
#[derive(Default, Serialize)]
pub(crate) struct ReportView {
    /// The id of the session in the ledger.
    pub(crate) session: String,
    /// False if checkpoints are switched off.
    pub(crate) enabled: bool,
    pub(crate) checkpoints: Vec<Oid>,
    /// True if something is unprotected because of a failure.
    pub(crate) missed: bool,
    /// True if the capture is still running.
    pub(crate) late: bool,
    pub(crate) failures: Vec<String>,
    pub(crate) unprotected: Vec<UnprotectedView>,
    /// Descriptions of what the call would do to takeback's own history, settings or hooks.
    pub(crate) tampering: Vec<String>,
    /// True if the call must not run, because of `tampering` or because strict mode refuses it.
    pub(crate) refused: bool,
}

impl ReportView {
    /// Records what a call would do to takeback's own history, and whether the call is refused for
    /// that reason.
    pub(crate) fn note_tampering(&mut self, opened: &Opened, report: &Report) {
        self.tampering = hook::find_tampering(opened, report);
        self.refused =
            !self.tampering.is_empty() && opened.protection().history == HistoryProtection::Refuse;
    }

    /// Refuses a call that is not fully protected, as strict mode does.
    pub(crate) fn refuse_unprotected(&mut self) {
        let is_unsafe = self.unprotected.iter().any(|lost| !lost.replaceable);
        self.refused |= is_unsafe || !self.failures.is_empty();
    }
}

/// A path that a call may change and that no checkpoint can restore.
#[derive(Serialize)]
pub(crate) struct UnprotectedView {
    path: String,
    reason: String,
    replaceable: bool,
}

impl From<&Unprotected> for UnprotectedView {
    fn from(lost: &Unprotected) -> UnprotectedView {
        let path = lost.path.to_string_lossy().into_owned();
        let (reason, replaceable) = (lost.reason.clone(), lost.is_replaceable);
        UnprotectedView { path, reason, replaceable }
    }
}

/// Explains to an agent why a call that would harm takeback's history is refused.
pub(crate) fn tampering_refusal(tampering: &[String]) -> String {
    format!(
        "takeback refused this call, because it would {}. If the user wants this, the user can do \
         it in a terminal, or set `history = \"warn\"` under [protection] in takeback's config.toml",
        tampering.join("; ")
    )
}

/// Explains to an agent why strict mode refuses a call.
pub(crate) fn strict_refusal(reasons: &[String]) -> String {
    format!(
        "takeback could not protect this call, and strict mode refuses such calls: {}",
        reasons.join("; ")
    )
}

/// Opens takeback's home for an agent, and returns it with the errors in the configuration. If
/// there are errors, only the valid settings apply. Returns `None` if checkpoints are switched off.
pub(crate) fn open(context: &Context) -> Option<(Arc<Opened>, Vec<String>)> {
    if context.is_switched_off() {
        return None;
    }
    let (opened, failures) = match context.opened_arc() {
        Ok(opened) => (opened.clone(), Vec::new()),
        Err(failure) => {
            let (config, _) = Config::read_anyway(&context.home, context.profile());
            (Arc::new(context.open_with(config)), vec![failure.to_string()])
        }
    };
    opened.settings().enabled.then_some((opened, failures))
}

/// Returns the workspace that contains a directory. The list of that workspace's checkpoints also
/// shows the failures in the directory.
pub(crate) fn workspace_of(opened: &Opened, directory: &Path) -> PathBuf {
    opened.find_root(directory).unwrap_or_else(|_| directory.to_owned())
}

/// A report that is being handled in a separate thread.
pub(crate) struct PendingReport {
    opened: Arc<Opened>,
    report: Report,
    session: String,
    /// The directory that the agent works in.
    directory: PathBuf,
    /// The maximum time that the agent waits; `None` if the agent waits until the work is done.
    limit: Option<Duration>,
    deadline: Arc<Deadline>,
    handled: Receiver<Handled>,
}

/// The outcome of waiting for a report to be handled.
pub(crate) enum Waited {
    Done(Handled),
    /// The agent stopped waiting.
    TooLong {
        message: String,
    },
    /// The thread panicked.
    Broken {
        message: &'static str,
    },
}

/// Runs a function unless it has already been run.
pub(crate) fn run_once(work: &Mutex<Option<impl FnOnce()>>) {
    let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    work.into_iter().for_each(|work| work());
}

impl PendingReport {
    /// Starts handling a report.
    pub(crate) fn start(
        opened: &Arc<Opened>,
        report: &Report,
        deadline: Deadline,
    ) -> PendingReport {
        let captures = report.event.is_captured();
        let limit = Duration::from_millis(opened.settings().timeout_ms);
        let limit = (captures && !deadline.has_passed()).then_some(limit);
        let deadline = Arc::new(deadline);
        let (sender, handled) = mpsc::channel();
        let (worker, work, until) = (opened.clone(), report.clone(), deadline.clone());
        let work = move || {
            // The receiver no longer exists if the work took too long and the process is ending.
            let _ = sender.send(hook::handle(&worker, &work, &until));
            if work.event.ends_turn() {
                // If this fails, the background work tries again.
                let _ = hook::conclude_unended_calls(&worker, &work.session_id());
            }
        };
        let work = Arc::new(Mutex::new(Some(work)));
        let in_thread = work.clone();
        let started = thread::Builder::new().spawn(move || run_once(&in_thread));
        if started.is_err() {
            // No thread could be started, so this thread does the work while the agent waits.
            run_once(&work);
        }
        let (session, directory) = (report.session_id(), report.directory.clone());
        let (opened, report) = (opened.clone(), report.clone());
        PendingReport { opened, report, session, directory, limit, deadline, handled }
    }

    /// Shortens the wait, because the agent has been waiting since `start`.
    pub(crate) fn waiting_since(mut self, start: Instant) -> PendingReport {
        self.limit = self.limit.map(|limit| limit.saturating_sub(start.elapsed()));
        self
    }

    /// Waits until the report has been handled, but no longer than the agent waits. A capture that
    /// takes longer counts as missed until it is complete.
    pub(crate) fn wait(&self) -> Waited {
        let answer = match self.limit {
            None => self.handled.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => self.handled.recv_timeout(limit),
        };
        match answer {
            Ok(handled) => {
                self.withdraw_missed(&handled);
                self.wait_for_conclusion();
                Waited::Done(handled)
            }
            Err(RecvTimeoutError::Timeout) => {
                // The call may delete files from now on, and the late capture must still find them.
                let held = hook::hold_files(&self.opened, &self.report);
                if let Ok(handled) = self.handled.try_recv() {
                    held.into_iter().for_each(hook::HeldFiles::discard);
                    self.withdraw_missed(&handled);
                    return Waited::Done(handled);
                }
                self.deadline.pass();
                self.opened.note_missed(&self.workspace(), LATE);
                let limit = self.limit.unwrap_or_default().as_millis();
                let message = format!("not done within {limit} ms");
                Waited::TooLong { message }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let message = "takeback crashed: please report this as a bug";
                self.opened.note_missed(&self.workspace(), message);
                Waited::Broken { message }
            }
        }
    }

    /// Waits until the turn is concluded, but no longer than the agent waits for a checkpoint. The
    /// rest of the work is done in the background.
    fn wait_for_conclusion(&self) {
        if self.report.event.ends_turn() {
            let limit = Duration::from_millis(self.opened.settings().timeout_ms);
            // Nothing more is sent: the channel is closed when the thread is done.
            let _ = self.handled.recv_timeout(limit);
        }
    }

    /// Waits until a report that is taking too long has been handled. Returns `None` if its thread
    /// panicked.
    pub(crate) fn wait_longer(&self) -> Option<Handled> {
        let handled = self.handled.recv().ok()?;
        self.withdraw_missed(&handled);
        Some(handled)
    }

    /// Starts the work that can wait until the agent has moved on. `log` is the agent's log.
    pub(crate) fn spawn_follow_up(&self, context: &Context, handled: &Handled, log: Option<&Path>) {
        match &handled.follow_up {
            Some(follow_up) => {
                background::spawn_follow_up(context, follow_up, &self.session, log);
            }
            None => background::spawn_upkeep(context, &self.opened),
        }
    }

    fn workspace(&self) -> PathBuf {
        workspace_of(&self.opened, &self.directory)
    }

    /// Withdraws the record that a capture was missed, because it has been completed after all.
    fn withdraw_missed(&self, handled: &Handled) {
        if self.deadline.has_passed() && handled.failures.is_empty() {
            self.opened.withdraw_missed(&self.workspace(), LATE);
        }
    }
}
