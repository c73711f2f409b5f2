//! The jobs of a conversation: a turn, the rest of a turn, a goal, a summary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use takeback_ledger::Budget;
use takeback_runtime::{AGENT, FrontEnd, Pause, Task, TaskError, adopt_session};
use takeback_undo::Opened;

use super::front::RoomFront;
use super::host::BuiltAgent;
use super::room::Room;
use super::rooms::{JobSlot, read_state};
use crate::app::Work;
use crate::problem::{Problem, WorkError};
use crate::view::goal::view_goal;

/// The work that a job does.
pub(crate) enum Job {
    /// A turn with this prompt.
    Prompt(String),
    /// The rest of an interrupted turn.
    Proceed,
    /// A new goal.
    StartGoal { objective: String, budget: Budget },
    /// A new run of a goal, with this budget.
    ResumeGoal { goal: String, budget: Option<Budget> },
    /// A run of a goal that was interrupted because its process ended.
    ContinueGoal { goal: String },
    /// A summary of older turns.
    Compress,
}

/// The conversation in which a job runs.
pub(crate) enum JobPlace {
    /// A new conversation in this directory.
    New { directory: PathBuf, model: Option<String> },
    /// The conversation of this session.
    Session(String),
    /// The conversation of this task.
    Task(String),
}

/// A job whose task is open.
struct OpenJob {
    job: Job,
    task: Task,
    room: Arc<Room>,
    app: Arc<crate::app::App>,
    opened: Arc<Opened>,
    slot: JobSlot,
}

/// A job that has begun, but whose thread is not running yet. Dropping it ends the job.
struct Begun {
    room: Option<Arc<Room>>,
    slot: Option<JobSlot>,
    last_event: u64,
}

/// A job whose thread is running.
pub(crate) struct StartedJob {
    /// The id of the session.
    pub(crate) session: String,
    /// The id of the last event before those of the job. The job may already have caused events.
    pub(crate) last_event: u64,
}

impl Begun {
    fn new(room: &Arc<Room>, slot: JobSlot) -> Result<Begun, Problem> {
        let last_event = room.begin_job()?;
        Ok(Begun { room: Some(room.clone()), slot: Some(slot), last_event })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.end_job(None, &json!({}));
        }
    }
}

/// Starts a job in a thread of its own. Problems that can be detected in advance are reported
/// immediately: no provider, a missing directory, a turn that is already running.
pub(crate) fn start_job(work: &Work, place: &JobPlace, job: Job) -> Result<StartedJob, WorkError> {
    let slot = work.app.rooms.take_slot(&work.app)?;
    let session = match place {
        JobPlace::New { directory, model } => {
            let task = begin_task(work, directory, model.as_deref())?;
            let room = work.app.rooms.enter(&work.opened, task.session_id())?;
            if let Some(model) = model {
                room.set_model(model);
            }
            return run_job(work, task, job, Begun::new(&room, slot)?);
        }
        JobPlace::Session(session) => session.clone(),
        JobPlace::Task(task) => find_ledger(work)?.task(task)?.session,
    };
    if !is_own(&session) {
        return Err(TaskError::Foreign(session).into());
    }
    let room = work.app.rooms.enter(&work.opened, &session)?;
    let begun = Begun::new(&room, slot)?;
    let task = open_task(work, place, &room.session(), room.model().as_deref())?;
    run_job(work, task, job, begun)
}

/// Returns true if a session belongs to takeback's own agent.
fn is_own(session: &str) -> bool {
    session.split_once(':').is_some_and(|(agent, _)| agent == AGENT)
}

fn find_ledger(work: &Work) -> Result<takeback_undo::LedgerGuard<'_>, WorkError> {
    Ok(work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?)
}

fn begin_task(work: &Work, directory: &Path, model: Option<&str>) -> Result<Task, WorkError> {
    let BuiltAgent { agent, new_session } = work.app.chat.build_agent(directory, model)?;
    work.opened.close_ledger();
    Ok(Task::begin(agent, directory, new_session, &work.app.chat.new_id())?)
}

fn open_task(
    work: &Work,
    place: &JobPlace,
    session: &str,
    model: Option<&str>,
) -> Result<Task, WorkError> {
    let directory = find_ledger(work)?.session(session)?.workspace.map(PathBuf::from);
    let directory = directory.unwrap_or_else(|| work.app.chat.directory());
    if !directory.is_dir() {
        let path = work.app.tilde(&directory);
        return Err(Problem::new(409, format!("the directory {path} no longer exists"))
            .hint("if it was moved, run `takeback checkpoints move OLD NEW`")
            .into());
    }
    let BuiltAgent { agent, new_session } = work.app.chat.build_agent(&directory, model)?;
    work.opened.close_ledger();
    Ok(match place {
        JobPlace::Task(task) => Task::resume_task(agent, task)?,
        _ => {
            adopt_session(&agent, session, &new_session)?;
            Task::resume(agent, session, &work.app.chat.new_id())?
        }
    })
}

/// Starts the thread of a job.
fn run_job(work: &Work, task: Task, job: Job, mut begun: Begun) -> Result<StartedJob, WorkError> {
    let room = begun.room.clone().expect("the job has begun");
    if matches!(job, Job::Prompt(_) | Job::StartGoal { .. } | Job::Compress)
        && task.is_interrupted()
    {
        return Err(TaskError::TurnIsOpen.into());
    }
    let session = task.session_id().to_owned();
    work.app.rooms.add_name(&session, &room);
    let base = find_ledger(work)?.conversation_mark(&session)?.last_seq;
    room.open_job(&session, base, task.cancel());
    room.announce_job(&job);
    let (app, opened) = (work.app.clone(), work.opened.clone());
    let slot = begun.slot.take().expect("the job has begun");
    let open = OpenJob { job, task, room, app, opened, slot };
    let thread = thread::Builder::new().name("turn".to_owned());
    thread.spawn(move || open.run()).map_err(|error| Problem::of(&error))?;
    begun.room = None;
    Ok(StartedJob { session, last_event: begun.last_event })
}

impl Room {
    /// Tells all clients that a job has begun.
    fn announce_job(&self, job: &Job) {
        let mut state = self.lock();
        let prompt = match job {
            Job::Prompt(text) => Some(crate::text::visible(text)),
            _ => None,
        };
        let fields = json!({ "prompt": prompt, "session": state.session });
        if prompt.is_some() {
            state.live.push_fixed("turn_started", &fields);
        }
        state.publish("turn_started", &fields);
    }
}

impl OpenJob {
    fn run(self) {
        let OpenJob { job, mut task, room, app, opened, slot } = self;
        let _end = EndOfThread { room: &room, slot: Some(slot) };
        let front = RoomFront { room: &room, rooms: &app.rooms, opened: &opened };
        let result = run_task(&mut task, job, &app, &front);
        let session = task.session_id().to_owned();
        // Once the task is released, the next job can begin, here or in another process.
        drop(task);
        let mut fields = match result {
            Ok(fields) => fields,
            Err(error) => {
                let problem = app.explain(error.into());
                let problem = serde_json::to_value(problem).expect("plain data becomes JSON");
                let fields = json!({ "problem": problem });
                room.note_end(&fields);
                fields
            }
        };
        fields["session"] = session.as_str().into();
        let seen = opened.ledger().ok().flatten();
        let seen = seen.and_then(|ledger| read_state(&ledger, &session).ok());
        fields["state"] = match seen.as_ref().and_then(|seen| seen.task.as_deref()) {
            Some(state) => state.into(),
            None => "idle".into(),
        };
        room.end_job(seen, &fields);
        opened.close_ledger();
    }
}

/// Releases the room of a job whose thread ends, even after a panic.
struct EndOfThread<'a> {
    room: &'a Arc<Room>,
    slot: Option<JobSlot>,
}

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let problem = Problem::new(500, "takeback crashed: please report this as a bug");
            self.room.end_job(None, &json!({ "problem": problem }));
        }
        drop(self.slot.take());
    }
}

/// Runs a job, and describes how it ended.
fn run_task(
    task: &mut Task,
    job: Job,
    app: &crate::app::App,
    front: &dyn FrontEnd,
) -> Result<Value, TaskError> {
    let goal = match job {
        Job::Prompt(text) => return task.prompt(&text, front).map(|pause| describe_pause(&pause)),
        Job::Proceed => return task.proceed(front).map(|pause| describe_pause(&pause)),
        Job::Compress => {
            let is_done = task.compress_now(front)?;
            let note = (!is_done).then_some("There are no older turns to summarize.");
            return Ok(json!({ "note": note }));
        }
        Job::StartGoal { objective, budget } => {
            let id = app.chat.new_id();
            task.create_goal(&id, &objective, budget)?;
            task.run_goal(&id, None, front)?
        }
        Job::ResumeGoal { goal, budget } => task.run_goal(&goal, budget, front)?,
        Job::ContinueGoal { goal } => task.continue_goal(&goal, front)?,
    };
    Ok(json!({ "goal": view_goal(&goal) }))
}

fn describe_pause(pause: &Pause) -> Value {
    match pause {
        Pause::Waiting => json!({ "note": "The turn is waiting for your answer." }),
        _ => json!({}),
    }
}
