//! All conversations that pages follow, or in which a job runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use takeback_ledger::{Ledger, LedgerError, TaskFilter};
use takeback_runtime::list_tasks;
use takeback_undo::Opened;

use super::room::{Room, SeenState};
use crate::app::App;
use crate::problem::{Problem, WorkError};

/// If there are more rooms than this, idle rooms that no page follows are removed.
const MAX_ROOMS: usize = 32;

/// The maximum number of jobs that may run at the same time.
const MAX_JOBS: usize = 8;

/// All rooms, by their sessions.
#[derive(Default)]
pub(crate) struct Rooms {
    rooms: Mutex<HashMap<String, Arc<Room>>>,
    jobs: Mutex<usize>,
    /// Notified when a job ends, and when the server stops.
    job_ended: Condvar,
    is_stopping: AtomicBool,
}

/// The right to run one of the limited number of jobs.
pub(super) struct JobSlot(Arc<App>);

impl Drop for JobSlot {
    fn drop(&mut self) {
        *self.0.rooms.lock_jobs() -= 1;
        self.0.rooms.job_ended.notify_all();
    }
}

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Room>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_jobs(&self) -> MutexGuard<'_, usize> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Room>> {
        self.lock().values().cloned().collect()
    }

    /// Returns the room of a session, if there is one.
    pub(crate) fn find(&self, session: &str) -> Option<Arc<Room>> {
        self.lock().get(session).cloned()
    }

    /// Returns the room of a session, and creates it if there is none.
    pub(crate) fn enter(&self, opened: &Opened, session: &str) -> Result<Arc<Room>, WorkError> {
        if let Some(room) = self.find(session) {
            return Ok(room);
        }
        let ledger = opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        let seen = read_state(&ledger, session)?;
        drop(ledger);
        // Ids begin at the current time, so a client of an earlier server never sees an id twice.
        let first_id = u64::try_from(opened.now().0).unwrap_or(0).saturating_mul(1_000);
        let room = Arc::new(Room::new(session, seen.mark.last_seq, first_id));
        room.note_state(seen);
        let mut rooms = self.lock();
        if rooms.len() >= MAX_ROOMS {
            rooms.retain(|_, room| room.is_busy() || room.has_streams());
        }
        Ok(rooms.entry(session.to_owned()).or_insert(room).clone())
    }

    /// Registers a room under a second session, in which the room's conversation continues.
    pub(super) fn add_name(&self, session: &str, room: &Arc<Room>) {
        self.lock().insert(session.to_owned(), room.clone());
    }

    /// Returns the sessions in which a job runs, each with its state: `running`, or `asks you`.
    pub(crate) fn busy_sessions(&self) -> HashMap<String, &'static str> {
        let rooms = self.all();
        let word = |room: &Room| if room.is_asking() { "asks you" } else { "running" };
        let busy = rooms.iter().filter(|room| room.is_busy());
        busy.map(|room| (room.session(), word(room))).collect()
    }

    /// Returns true if a page follows a conversation.
    pub(crate) fn has_streams(&self) -> bool {
        self.all().iter().any(|room| room.has_streams())
    }

    /// Checks in the ledger whether other processes have changed the conversations that pages
    /// follow, and tells the pages about the changes.
    pub(crate) fn look_at(&self, opened: &Opened) {
        let rooms = self.all();
        let followed = rooms.iter().filter(|room| !room.is_busy() && room.has_streams());
        let Ok(Some(ledger)) = opened.ledger() else { return };
        for room in followed {
            if let Ok(now) = read_state(&ledger, &room.session()) {
                room.note_state(now);
            }
        }
    }

    /// Acquires the right to run a job. Fails if too many are running.
    pub(super) fn take_slot(&self, app: &Arc<App>) -> Result<JobSlot, Problem> {
        let mut jobs = self.lock_jobs();
        if self.is_stopping() {
            return Err(Problem::new(503, "the server is stopping"));
        }
        if *jobs >= MAX_JOBS {
            return Err(Problem::new(503, "too many turns are running")
                .hint("wait until one of them ends, or stop one"));
        }
        *jobs += 1;
        Ok(JobSlot(app.clone()))
    }

    /// Waits until another job can begin. Returns false if the server stops.
    pub(super) fn wait_for_slot(&self) -> bool {
        let is_full = |jobs: &mut usize| *jobs >= MAX_JOBS && !self.is_stopping();
        let jobs = self.job_ended.wait_while(self.lock_jobs(), is_full);
        drop(jobs);
        !self.is_stopping()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Ends all streams, and stops each running turn before its next step. The turns stay open, so
    /// that they can be continued later.
    pub(crate) fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.job_ended.notify_all();
        for room in self.all() {
            room.suspend();
            room.end_streams();
        }
    }

    /// If tool calls are running, waits for them, but no longer than `patience`. Then interrupts
    /// all turns that are still running. If the model is answering, the part of the answer that has
    /// arrived is kept, and the rest is requested when the turn continues.
    pub(crate) fn finish_stop(&self, patience: Duration) {
        if self.all().iter().any(|room| room.is_calling()) {
            self.wait_for_jobs(patience);
        }
        for room in self.all() {
            room.suspend();
            room.interrupt();
        }
        self.wait_for_jobs(patience);
    }

    fn wait_for_jobs(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut jobs = self.lock_jobs();
        while *jobs > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.job_ended.wait_timeout(jobs, left);
            (jobs, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads the state of a conversation, which is compared with an earlier one to detect changes.
pub(super) fn read_state(ledger: &Ledger, session: &str) -> Result<SeenState, LedgerError> {
    let mark = ledger.conversation_mark(session)?;
    let filter = TaskFilter { session: Some(session.to_owned()), ..TaskFilter::default() };
    let task = list_tasks(ledger, &filter)?.into_iter().next();
    Ok(SeenState { mark, task: task.map(|task| task.state) })
}
