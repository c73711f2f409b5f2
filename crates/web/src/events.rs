//! The stream of events: which workspaces and conversations have changed.
//!
//! Later events have larger ids, even after the server has been restarted. A client that reconnects
//! receives the events that it missed, or a `gap` event if the server no longer has them.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::response::sse;
use futures_core::Stream;
use serde::Serialize;
use takeback_undo::Opened;
use takeback_undo::history::history_changed_at;
use tokio::sync::mpsc;
use tokio::task;
use tokio::time::sleep;

use crate::app::App;
use crate::problem::Problem;

/// The maximum number of open streams.
const MAX_STREAMS: usize = 256;

/// The number of past events that a client can catch up on.
const KEPT: usize = 256;

/// The number of events that a stream buffers. A client that falls further behind is disconnected,
/// and catches up when it returns.
const BUFFER: usize = KEPT + 8;

/// The time between two checks of the home for changes. The home is checked only while a stream is
/// open.
const INTERVAL: Duration = Duration::from_millis(700);

/// A change that other programs or other pages made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// A workspace has new checkpoints, or has lost some.
    Workspace(String),
    /// A conversation has new messages, or other data in the ledger has changed.
    Ledger,
}

/// All streams, and the latest events.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
    is_watched: AtomicBool,
}

#[derive(Default)]
struct HubState {
    last_id: u64,
    recent: VecDeque<(u64, Change)>,
    streams: Vec<mpsc::Sender<sse::Event>>,
    seen: Option<Seen>,
}

/// The values by which a change to the home is detected.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    workspaces: BTreeMap<String, Option<SystemTime>>,
    ledger: [Option<(u64, SystemTime)>; 2],
}

impl Seen {
    /// Returns the time of the latest change.
    pub(crate) fn latest(&self) -> Option<SystemTime> {
        let ledger = self.ledger.iter().flatten().map(|(_, time)| *time);
        self.workspaces.values().flatten().copied().chain(ledger).max()
    }
}

/// The events that one client receives.
pub(crate) struct EventStream(mpsc::Receiver<sse::Event>);

impl EventStream {
    pub(crate) fn new(receiver: mpsc::Receiver<sse::Event>) -> EventStream {
        EventStream(receiver)
    }
}

impl Stream for EventStream {
    type Item = Result<sse::Event, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, HubState> {
        // The state is consistent after every call, so a panic in another thread does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream that begins after the event that the client saw last.
    pub(crate) fn subscribe(&self, now: u64, last: Option<u64>) -> Result<EventStream, Problem> {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_closed());
        if state.streams.len() >= MAX_STREAMS {
            return Err(Problem::new(503, "too many event streams are open")
                .hint("close pages that you no longer need"));
        }
        // Ids begin at the current time in milliseconds, so a client of an earlier server never
        // sees an id twice.
        state.last_id = state.last_id.max(now);
        for event in state.missed_since(last) {
            // The buffer has room for all missed events.
            let _ = sender.try_send(event);
        }
        state.streams.push(sender);
        Ok(EventStream(receiver))
    }

    /// Tells all streams about a change.
    pub(crate) fn publish(&self, change: Change) {
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        if state.recent.len() == KEPT {
            state.recent.pop_front();
        }
        let event = change.event(id);
        state.recent.push_back((id, change));
        state.streams.retain(|stream| stream.try_send(event.clone()).is_ok());
    }

    /// Ends all streams, because the server is stopping.
    pub(crate) fn end_all(&self) {
        self.lock().streams.clear();
    }

    fn has_streams(&self) -> bool {
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_closed());
        !state.streams.is_empty()
    }

    /// Compares the home with its state at the last check, and publishes the differences.
    fn compare(&self, now: &Seen) {
        let before = self.lock().seen.replace(now.clone());
        let Some(before) = before else { return };
        let mut changed: Vec<&String> = Vec::new();
        for (id, time) in &now.workspaces {
            if before.workspaces.get(id) != Some(time) {
                changed.push(id);
            }
        }
        changed.extend(before.workspaces.keys().filter(|id| !now.workspaces.contains_key(*id)));
        for id in changed {
            self.publish(Change::Workspace(id.clone()));
        }
        if before.ledger != now.ledger {
            self.publish(Change::Ledger);
        }
    }
}

impl HubState {
    /// Returns the events with which a stream begins: the events since the client's last event, or
    /// `gap`, and then the greeting `ready` with the current id.
    fn missed_since(&self, last: Option<u64>) -> Vec<sse::Event> {
        let mut events = Vec::new();
        if let Some(last) = last {
            let oldest = self.recent.front().map_or(self.last_id, |(id, _)| id - 1);
            if last < oldest || last > self.last_id {
                events.push(event("gap", self.last_id, "{}"));
            } else {
                let missed = self.recent.iter().filter(|(id, _)| *id > last);
                events.extend(missed.map(|(id, change)| change.event(*id)));
            }
        }
        events.push(event("ready", self.last_id, "{}"));
        events
    }
}

impl Change {
    fn event(&self, id: u64) -> sse::Event {
        match self {
            Change::Workspace(workspace) => {
                let data = serde_json::json!({ "workspace": workspace }).to_string();
                event("workspace", id, &data)
            }
            Change::Ledger => event("ledger", id, "{}"),
        }
    }
}

fn event(name: &str, id: u64, data: &str) -> sse::Event {
    sse::Event::default().event(name).id(id.to_string()).data(data)
}

/// Starts to check the home regularly, unless such checks are already running. The checks end when
/// no stream is left.
pub(crate) fn start_watching(app: &Arc<App>) {
    if !app.hub.is_watched.swap(true, Ordering::SeqCst) {
        task::spawn(watch_home(app.clone()));
    }
}

async fn watch_home(app: Arc<App>) {
    let mut stopping = app.stopping.clone();
    loop {
        let seen = app.work(|work| {
            work.app.rooms.look_at(&work.opened);
            Ok(look_at(&work.opened))
        });
        let seen = seen.await;
        if let Ok(seen) = seen {
            app.hub.compare(&seen);
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            _ = stopping.wait_for(|is_stopping| *is_stopping) => {
                app.hub.end_all();
                return;
            }
        }
        if !has_streams(&app) {
            break;
        }
    }
    app.hub.is_watched.store(false, Ordering::SeqCst);
    app.hub.lock().seen = None;
    // A stream may have been opened since the list was checked.
    if has_streams(&app) {
        start_watching(&app);
    }
}

/// Returns true if a page follows the changes to the home or to a conversation.
fn has_streams(app: &App) -> bool {
    app.hub.has_streams() || app.rooms.has_streams()
}

/// Reads the values by which a change to the home is detected.
pub(crate) fn look_at(opened: &Opened) -> Seen {
    let mut seen = Seen { ledger: ledger_stamp(&opened.ledger_path()), ..Seen::default() };
    if opened.has_store()
        && let Ok(store) = opened.store()
    {
        for id in store.pinned_workspaces().unwrap_or_default() {
            seen.workspaces.insert(id.to_string(), history_changed_at(store, &id));
        }
    }
    seen
}

/// Returns the sizes and times of the ledger's files, which change with every write. An empty
/// write-ahead log is treated as missing, because opening the ledger creates it and closing the
/// ledger deletes it.
pub(crate) fn ledger_stamp(path: &Path) -> [Option<(u64, SystemTime)>; 2] {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path, Path::new(&log)].map(|path| {
        let found = fs::metadata(path).ok().filter(|found| found.len() > 0)?;
        Some((found.len(), found.modified().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(state: &HubState, last: Option<u64>) -> usize {
        state.missed_since(last).len()
    }

    #[test]
    fn a_client_receives_the_events_it_missed_or_a_gap_event() {
        let hub = Hub::default();
        drop(hub.subscribe(1_000, None).unwrap());
        for number in 0..KEPT + 10 {
            hub.publish(Change::Workspace(number.to_string()));
        }
        let state = hub.lock();
        let last = 1_000 + KEPT as u64 + 10;
        assert_eq!(state.last_id, last);
        // The greeting is always the last of these events.
        assert_eq!(names(&state, None), 1);
        assert_eq!(names(&state, Some(last)), 1);
        assert_eq!(names(&state, Some(last - 3)), 4);
        assert_eq!(names(&state, Some(last - KEPT as u64)), KEPT + 1);
        let gap = format!("{:?}", state.missed_since(Some(999)));
        assert!(gap.contains("gap"), "{gap}");
        assert_eq!(names(&state, Some(999)), 2);
        // An id that this server has not used yet.
        assert_eq!(names(&state, Some(last + 1)), 2);
    }

    #[test]
    fn the_number_of_open_streams_is_limited() {
        let hub = Hub::default();
        let open: Vec<_> = (0..MAX_STREAMS).map(|_| hub.subscribe(0, None).unwrap()).collect();
        assert_eq!(hub.subscribe(0, None).map(|_| ()).unwrap_err().status, 503);
        drop(open);
        assert!(hub.subscribe(0, None).is_ok());
    }
}
