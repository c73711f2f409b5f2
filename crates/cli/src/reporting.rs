//! What an agent reports is dealt with for no longer than the agent is to wait.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use takeback_undo::{Event, Handled, Keeper, Report, Turn};

use crate::background;
use crate::config::{self, Config};
use crate::context::Context;

/// What is remembered until the background is done, if a capture takes too long.
const LATE: &str = "not done within timeout_ms, so it went on in the background";

/// A keeper for what agents report, and what is wrong with its configuration; `None` if
/// checkpoints are switched off.
pub(crate) fn keeper(context: &Context) -> Option<(Arc<Keeper>, Vec<String>)> {
    if context.is_switched_off() {
        return None;
    }
    // With a configuration that cannot be read, everything is protected as by default.
    let (config, failures) = match Config::read(&context.home) {
        Ok(config) => (config, Vec::new()),
        Err(failure) => {
            let mut config = Config::default();
            config.checkpoints.strict = config::asks_to_be_strict(&context.home);
            (config, vec![failure.to_string()])
        }
    };
    let keeper = context.keeper_with(config);
    keeper.settings().enabled.then(|| (Arc::new(keeper), failures))
}

/// A report that is being dealt with.
pub(crate) struct Work {
    keeper: Arc<Keeper>,
    session: String,
    /// The workspace that failures are noted for.
    place: PathBuf,
    /// How long its agent waits; as long as it takes if it does not wait, or not for a capture.
    limit: Option<Duration>,
    /// Whether its agent does not wait any more.
    gone_on: Arc<AtomicBool>,
    done: Receiver<Handled>,
}

/// What came of waiting for it.
pub(crate) enum Waited {
    Done(Handled),
    /// The agent has to go on.
    TooLong {
        message: String,
    },
    /// There is nothing to wait for any more.
    Broken {
        message: &'static str,
    },
}

impl Work {
    /// Begins with it. `late`: the turn of an agent that has gone on already.
    pub(crate) fn begin(
        keeper: &Arc<Keeper>,
        place: &Path,
        report: &Report,
        late: Option<Turn>,
    ) -> Work {
        let captures = matches!(report.event, Event::BeforeTool(_) | Event::AfterTool { .. });
        let limit = Duration::from_millis(keeper.settings().timeout_ms);
        let limit = (captures && late.is_none()).then_some(limit);
        let gone_on = Arc::new(AtomicBool::new(late.is_some()));
        let (sender, done) = mpsc::channel();
        let (worker, work, flag) = (keeper.clone(), report.clone(), gone_on.clone());
        thread::spawn(move || {
            let handled = match late {
                Some(turn) => worker.handle_late(&work, turn),
                None => worker.handle_until(&work, &flag),
            };
            // Nobody listens any more if it took too long and the process does not stay.
            let _ = sender.send(handled);
        });
        let (session, place) = (report.session_id(), place.to_owned());
        Work { keeper: keeper.clone(), session, place, limit, gone_on, done }
    }

    /// Waits for as long as the agent does. What takes longer counts as missed until it is there.
    pub(crate) fn wait(&self) -> Waited {
        let answer = match self.limit {
            None => self.done.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => self.done.recv_timeout(limit),
        };
        match answer {
            Ok(handled) => {
                self.withdraw(&handled);
                Waited::Done(handled)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.gone_on.store(true, Ordering::SeqCst);
                self.keeper.note_missed(&self.place, LATE);
                let limit = self.limit.unwrap_or_default().as_millis();
                let message = format!("not done within {limit} ms: it goes on in the background");
                Waited::TooLong { message }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let message = "something went wrong inside: please report this";
                self.keeper.note_missed(&self.place, message);
                Waited::Broken { message }
            }
        }
    }

    /// Waits for what took too long. `None`: something went wrong inside.
    pub(crate) fn wait_longer(&self) -> Option<Handled> {
        let handled = self.done.recv().ok()?;
        self.withdraw(&handled);
        Some(handled)
    }

    /// Starts what can be done when nobody waits any more.
    /// `log` is the agent's own log of the conversation.
    pub(crate) fn leave_for_later(&self, context: &Context, handled: &Handled, log: Option<&Path>) {
        match &handled.later {
            Some(later) => background::spawn_follow_up(context, later, &self.session, log),
            None => background::spawn_upkeep(context, &self.keeper),
        }
    }

    /// What was missed is there after all.
    fn withdraw(&self, handled: &Handled) {
        if self.gone_on.load(Ordering::SeqCst) && handled.failures.is_empty() {
            self.keeper.withdraw_missed(&self.place, LATE);
        }
    }
}
