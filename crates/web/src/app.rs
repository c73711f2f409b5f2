//! The state that all requests share, and the way in which requests use takeback's home.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use jiff::tz::TimeZone;
use takeback_base::errors::error_messages;
use takeback_ledger::Tokens;
use takeback_tree::WorkspaceId;
use takeback_undo::Opened;
use takeback_undo::history::{WorkspaceRef, known_workspace};
use tokio::sync::watch;
use tokio::task;
use tokio::time::sleep;

use crate::cache::{AnswerCache, TimelineCache};
use crate::chat::{ChatHost, Rooms};
use crate::checkup::Checkup;
use crate::events::Hub;
use crate::plans::Plans;
use crate::problem::{Error, Problem, WorkError, status_of};

/// The idle time after which the ledger is closed, so that other processes can repair it.
const IDLE: Duration = Duration::from_millis(500);

/// Takeback's home, as the program that starts the server provides it.
pub trait Home: Send + Sync {
    /// Opens the home, or reopens it if its configuration has changed.
    fn open(&self) -> Result<Arc<Opened>, Problem>;

    /// Adds new entries from the agents' own logs to the ledger.
    fn catch_up(&self);

    /// Checks the agents, the store and the ledger, as `takeback doctor` does. If `is_thorough`,
    /// also reads all checkpoints and messages.
    fn check_up(&self, is_thorough: bool) -> Result<Checkup, Problem>;

    /// Explains an error, with the same hint as the commands. The caller sets the status later.
    fn explain(&self, error: Error) -> Problem;

    /// Returns the cost of a model's tokens, in US dollars, or `None` if its prices are unknown.
    fn price(&self, model: &str, tokens: Tokens) -> Option<f64>;
}

/// The state that all requests share.
pub(crate) struct App {
    home: Arc<dyn Home>,
    pub(crate) chat: Arc<dyn ChatHost>,
    pub(crate) zone: TimeZone,
    user_home: Option<PathBuf>,
    pub(crate) plans: Plans,
    pub(crate) timelines: TimelineCache,
    pub(crate) answers: AnswerCache,
    pub(crate) hub: Hub,
    pub(crate) rooms: Rooms,
    /// True once the server is being stopped.
    pub(crate) stopping: watch::Receiver<bool>,
    /// The number of times that a piece of work has begun or ended. While the server is idle, this
    /// number does not change.
    beats: AtomicU64,
}

/// Access to takeback's home for a piece of work, which runs in a thread that is allowed to block.
pub(crate) struct Work {
    pub(crate) app: Arc<App>,
    pub(crate) opened: Arc<Opened>,
}

impl App {
    pub(crate) fn new(
        home: Arc<dyn Home>,
        chat: Arc<dyn ChatHost>,
        zone: TimeZone,
        user_home: Option<PathBuf>,
        stopping: watch::Receiver<bool>,
    ) -> App {
        App {
            home,
            chat,
            zone,
            user_home,
            plans: Plans::default(),
            timelines: TimelineCache::default(),
            answers: AnswerCache::default(),
            hub: Hub::default(),
            rooms: Rooms::default(),
            stopping,
            beats: AtomicU64::new(0),
        }
    }

    /// Runs a piece of work in a thread that is allowed to block. The work is finished even if the
    /// client disconnects meanwhile.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<App>,
        work: impl FnOnce(&Work) -> Result<T, WorkError> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        self.beats.fetch_add(1, Ordering::Relaxed);
        let result = task::spawn_blocking(move || {
            let opened = app.home.open()?;
            let worker = Work { app, opened };
            work(&worker).map_err(|error| worker.app.explain(error))
        });
        let result = result.await;
        let beat = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
        task::spawn(close_when_idle(self.clone(), beat));
        result.unwrap_or_else(|_| {
            Err(Problem::new(500, "takeback crashed: please report this as a bug"))
        })
    }

    /// Returns the cost of a model's tokens, if its prices are known.
    pub(crate) fn price(&self, model: &str, tokens: Tokens) -> Option<f64> {
        self.home.price(model, tokens)
    }

    /// Finds an answer that was given recently and is still valid. This takes microseconds, so it
    /// needs no thread of its own.
    pub(crate) fn find_answer(&self, key: &str) -> Option<Bytes> {
        let opened = self.home.open().ok()?;
        self.answers.find(key, &opened)
    }

    /// Reads the timelines of all workspaces, so that the first page need not wait for them.
    pub(crate) async fn warm_up(self: Arc<App>) {
        // If this fails, the page that needs the timelines reports the problem.
        let _ = self.work(|work| work.all_timelines().map(drop)).await;
    }

    pub(crate) fn explain(&self, error: WorkError) -> Problem {
        match error {
            WorkError::Problem(problem) => *problem,
            WorkError::Error(error) => {
                let status = status_of(&error);
                Problem { status, ..self.home.explain(*error) }
            }
        }
    }

    /// Formats a path, with `~` in place of the user's home directory.
    pub(crate) fn tilde(&self, path: &Path) -> String {
        let short = self.user_home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        let shown = match short {
            Some(inner) if inner.as_os_str().is_empty() => "~".to_owned(),
            Some(inner) => format!("~/{}", inner.display()),
            None => path.display().to_string(),
        };
        takeback_base::text::disarm(&shown)
    }
}

/// Waits for a while, and closes the ledger unless more work has begun in the meantime.
async fn close_when_idle(app: Arc<App>, beat: u64) {
    sleep(IDLE).await;
    if app.beats.load(Ordering::Relaxed) != beat {
        return;
    }
    let closing = task::spawn_blocking(move || {
        if let Ok(opened) = app.home.open() {
            opened.close_ledger();
        }
    });
    // If this fails, the ledger stays open, which does no harm.
    let _ = closing.await;
}

impl Work {
    /// Finds a workspace that has checkpoints. The server does not know any other workspaces.
    pub(crate) fn workspace(&self, id: &str) -> Result<WorkspaceRef<'_>, WorkError> {
        let id: Result<WorkspaceId, ()> = id.parse();
        let found = match id {
            Ok(id) => known_workspace(&self.opened, &id)?,
            Err(()) => None,
        };
        found.ok_or_else(|| Problem::not_found("workspace").into())
    }

    /// Adds new entries from the agents' own logs to the ledger.
    pub(crate) fn catch_up(&self) {
        self.app.home.catch_up();
    }

    /// Checks everything, as `takeback doctor` does.
    pub(crate) fn check_up(&self, is_thorough: bool) -> Result<Checkup, WorkError> {
        Ok(self.app.home.check_up(is_thorough)?)
    }
}

impl Problem {
    /// Creates a problem from an error and its causes.
    pub fn of(error: &dyn std::error::Error) -> Problem {
        let mut messages = error_messages(error).into_iter();
        let title = messages.next().unwrap_or_default();
        Problem { causes: messages.collect(), ..Problem::new(500, title) }
    }
}
