//! A session of takeback's own agent, in this process.

use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use takeback_base::errors::error_chain;
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Prices, Provider};
use takeback_runtime::tools::{ToolSettings, Tools};
use takeback_runtime::{
    Agent, Answer, FrontEnd, NewSession, Pause, Question, Task, TurnEvent, TurnOutcome,
};
use takeback_undo::{FollowUp, OpenOptions, Opened, hook};

use super::super::ledger::Latencies;
use super::model::{ModelTimes, start_model};
use crate::Failure;

/// The work to be done between the turns.
type FollowUps = Arc<Mutex<Vec<FollowUp>>>;

/// A session in which turns are run.
pub(super) struct Session {
    task: Option<Task>,
    follow_ups: FollowUps,
    agent: Arc<Agent>,
    id: String,
    model: ModelTimes,
}

/// The times of turns, in milliseconds.
pub(super) struct TurnTimes {
    turns: Vec<f64>,
    /// The processor time of each turn, without the time of the model. A busy machine affects the
    /// processor time less than the elapsed time.
    work: Vec<f64>,
    first_tokens: Vec<f64>,
}

impl TurnTimes {
    pub(super) fn turns(&self) -> Latencies {
        Latencies::new(self.turns.clone())
    }

    /// Returns the processor times of the turns in a range.
    pub(super) fn work(&self, range: impl RangeBounds<usize>) -> Latencies {
        let work = self.work.iter().enumerate();
        Latencies::new(work.filter(|(at, _)| range.contains(at)).map(|(_, time)| *time).collect())
    }

    /// Returns the time between sending the first token and showing it, for each turn.
    pub(super) fn first_token(&self) -> Latencies {
        Latencies::new(self.first_tokens.clone())
    }
}

impl Session {
    pub(super) fn begin(home: &Path, project: &Path, id: &str) -> Result<Session, Failure> {
        let model = ModelTimes::default();
        let url = start_model(model.clone())?;
        let follow_ups = FollowUps::default();
        let agent = Arc::new(build_agent(home.to_owned(), &url, follow_ups.clone()));
        let task = Task::begin(agent.clone(), project, NewSession::default(), id);
        let task = Some(task.map_err(|error| error_chain(&error))?);
        Ok(Session { task, follow_ups, agent, id: id.to_owned(), model })
    }

    /// Runs turns that follow each other immediately, like the turns of a goal.
    pub(super) fn take_turns(&mut self, count: usize) -> Result<TurnTimes, Failure> {
        self.take_turns_with(count, |_| {})
    }

    /// Runs turns and closes the ledger between them, as an interactive session does while it waits
    /// for its user.
    pub(super) fn take_turns_with_rests(&mut self, count: usize) -> Result<TurnTimes, Failure> {
        self.take_turns_with(count, Opened::close_ledger)
    }

    fn take_turns_with(
        &mut self,
        count: usize,
        rest: impl Fn(&Opened),
    ) -> Result<TurnTimes, Failure> {
        let mut times = TurnTimes { turns: Vec::new(), work: Vec::new(), first_tokens: Vec::new() };
        let task = self.task.as_mut().ok_or("the session has ended")?;
        for number in 0..count {
            let front = Watch::default();
            let (began, worked) = (Instant::now(), processor_time() - self.model.work());
            let pause = task.prompt(&format!("Write the notes of turn {number}."), &front);
            times.turns.push(began.elapsed().as_secs_f64() * 1e3);
            times.work.push(processor_time() - self.model.work() - worked);
            match pause.map_err(|error| error_chain(&error))? {
                Pause::TurnEnded(TurnOutcome::Complete) => {}
                other => return Err(format!("turn {number} ended with {other:?}")),
            }
            let sent = self.model.first_token();
            let shown = front.0.into_inner().unwrap_or_else(PoisonError::into_inner);
            let (Some(sent), Some(shown)) = (sent, shown) else {
                return Err(format!("turn {number} has no text"));
            };
            times.first_tokens.push((shown - sent).as_secs_f64() * 1e3);
            tend(&self.agent.opened, &self.follow_ups)?;
            rest(&self.agent.opened);
        }
        Ok(times)
    }

    /// Measures how long a new process takes before it can begin the next turn. Returns the elapsed
    /// times and the processor times.
    pub(super) fn measure_resume(&mut self, rounds: usize) -> Result<[Latencies; 2], Failure> {
        self.task = None;
        let (mut times, mut work) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            self.agent.opened.close_ledger();
            let (began, worked) = (Instant::now(), processor_time());
            let task = Task::resume_task(self.agent.clone(), &self.id);
            times.push(began.elapsed().as_secs_f64() * 1e3);
            work.push(processor_time() - worked);
            drop(task.map_err(|error| error_chain(&error))?);
        }
        Ok([times, work].map(Latencies::new))
    }
}

/// Returns the processor time of this process so far, in milliseconds.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn build_agent(home: PathBuf, url: &str, follow_ups: FollowUps) -> Agent {
    let opened = Opened::new(OpenOptions { redact: true, ..OpenOptions::new(home) });
    Agent {
        opened: Arc::new(opened),
        client: Client::new(ClientOptions::default()),
        provider: Provider {
            name: "bench".into(),
            kind: ApiKind::Openai,
            base_url: format!("{url}/v1"),
            key: None,
            model: "m".into(),
            // The window is so large that no turn is ever summarized, so the session stays long.
            context_window: 100_000_000,
            max_output: 4_096,
            prices: Some(Prices { input: 1.0, output: 5.0, ..Prices::default() }),
        },
        fallback: None,
        tools: Tools::standard(&ToolSettings::default()),
        approval: ApprovalMode::Effects,
        has_checkpoints: true,
        user_home: None,
        on_follow_up: Box::new(move |_, follow_up| {
            follow_ups.lock().unwrap_or_else(PoisonError::into_inner).push(follow_up);
        }),
        shared: None,
    }
}

/// Does the work that takeback leaves to background processes, as `takeback checkpoints tend` does.
fn tend(opened: &Opened, follow_ups: &FollowUps) -> Result<(), Failure> {
    let due = std::mem::take(&mut *follow_ups.lock().unwrap_or_else(PoisonError::into_inner));
    for follow_up in due {
        if let FollowUp::Tend { workspace, session, time } = follow_up {
            hook::tend_workspace(opened, &workspace, &session, time)
                .map_err(|error| error_chain(&error))?;
        }
    }
    let store = opened.store().map_err(|error| error_chain(&error))?;
    if store.needs_merge() {
        store.merge().map_err(|error| error_chain(&error))?;
    }
    Ok(())
}

/// A front end that records when it shows the first text.
#[derive(Default)]
struct Watch(Mutex<Option<Instant>>);

impl FrontEnd for Watch {
    fn show(&self, event: &TurnEvent<'_>) {
        if matches!(event, TurnEvent::Text(_)) {
            let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            shown.get_or_insert_with(Instant::now);
        }
    }

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Allow
    }
}
