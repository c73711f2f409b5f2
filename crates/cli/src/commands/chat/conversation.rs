//! The conversation of `takeback chat`: its task and its turns.

use std::path::{Path, PathBuf};

use serde_json::json;
use takeback_ledger::{Budget, ListOptions, LoggedTask, ParentKind};
use takeback_runtime::{
    AGENT, AdoptOptions, AdoptedTask, FrontEnd, Pause, Task, TaskError, adopt_session, adopt_task,
};

use super::agent::{AgentArguments, BuiltAgent, build_agent, describe_model, new_id};
use super::input::{PromptInput, PromptReader};
use super::stopper::{Stopper, TurnWatch};
use super::terminal::keyboard::{InterruptKey, QuietKeyboard};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// A conversation with the agent. Its task begins with the first prompt, so a user who quits before
/// that leaves nothing behind.
pub(crate) struct Conversation {
    place: Place,
    arguments: AgentArguments,
    task: Option<Task>,
    stopper: Stopper,
}

/// The directory that the agent works in.
struct Place {
    /// The context of the command, with this directory as its current directory.
    context: Context,
    /// The agent, whose system prompt names the directory.
    built: BuiltAgent,
}

impl Conversation {
    pub(crate) fn new(
        arguments: AgentArguments,
        context: &Context,
    ) -> Result<Conversation, Failure> {
        let context = context.moved_to(&context.directory);
        let arguments = arguments.with_whole_paths(&context);
        let built = build_agent(&arguments, &context)?;
        let stopper = Stopper::default();
        stopper.listen()?;
        Ok(Conversation { place: Place { context, built }, arguments, task: None, stopper })
    }

    /// Returns the context of the command. Its current directory is the one that the agent works
    /// in.
    pub(crate) fn context(&self) -> &Context {
        &self.place.context
    }

    /// Returns the id of the session, once there is one.
    pub(crate) fn session(&self) -> Option<&str> {
        self.task.as_ref().map(Task::session_id)
    }

    /// Returns the name of the model, with the name of its provider.
    pub(crate) fn model(&self) -> String {
        describe_model(&self.place.built.agent.provider)
    }

    /// Continues the session that `typed` names. If it is `None`, continues the last session in
    /// this directory.
    pub(crate) fn resume(&mut self, typed: Option<&str>) -> Result<(), Failure> {
        let session = match typed {
            Some(typed) => find_own_session(typed, self.context())?,
            None => find_last_session(self.context())?,
        };
        self.enter(Some(&session), None)
    }

    /// Leaves the current conversation, and continues another session. The agent then works in
    /// `directory` or, if that is `None`, in the session's own directory. If `session` is `None`,
    /// the next prompt begins a new session. If an error occurs, the current conversation stays
    /// open.
    pub(crate) fn enter(
        &mut self,
        session: Option<&str>,
        directory: Option<&Path>,
    ) -> Result<(), Failure> {
        let Some(session) = session else {
            let place = directory.map(|directory| self.find_place(directory)).transpose()?;
            self.settle(None, place.flatten());
            return Ok(());
        };
        let workspace = self.context().ledger()?.session(session)?.workspace.map(PathBuf::from);
        let place = match directory.or(workspace.as_deref()) {
            Some(directory) => self.find_place(directory)?,
            None => None,
        };
        if self.session() == Some(session) {
            return Ok(());
        }
        let built = &place.as_ref().unwrap_or(&self.place).built;
        adopt_session(&built.agent, session, &built.new_session)?;
        let task = Task::resume(built.agent.clone(), session, &new_id())?;
        self.settle(Some(task), place);
        Ok(())
    }

    /// Leaves the current conversation, and continues the task with this id in the task's
    /// directory. If an error occurs, the current conversation stays open.
    pub(crate) fn resume_task(&mut self, id: &str) -> Result<(), Failure> {
        if self.task.as_ref().is_some_and(|task| task.id() == id) {
            return Ok(());
        }
        let workspace = self.context().ledger()?.task(id)?.workspace;
        let place = match &workspace {
            Some(directory) => self.find_place(Path::new(directory))?,
            None => None,
        };
        let built = &place.as_ref().unwrap_or(&self.place).built;
        let task = Task::resume_task(built.agent.clone(), id)?;
        self.settle(Some(task), place);
        Ok(())
    }

    /// Lists the tasks that the machines of a fleet share. Returns `None` if this machine's tasks
    /// are not shared.
    pub(crate) fn list_shared_tasks(&self) -> Result<Option<Vec<LoggedTask>>, Failure> {
        Ok(takeback_runtime::list_shared_tasks(&self.place.built.agent)?)
    }

    /// Prepares a task of any machine in the fleet, so that this machine can continue it.
    pub(crate) fn adopt(
        &mut self,
        id: &str,
        options: AdoptOptions<'_>,
    ) -> Result<AdoptedTask, Failure> {
        Ok(adopt_task(&self.place.built.agent, id, options)?)
    }

    fn settle(&mut self, task: Option<Task>, place: Option<Place>) {
        self.leave("continued another session");
        self.task = task;
        if let Some(place) = place {
            self.place = place;
        }
    }

    /// Prepares to work in another directory. Returns `None` if the conversation already works
    /// there.
    fn find_place(&self, directory: &Path) -> Result<Option<Place>, Failure> {
        if self.context().directory.canonicalize().is_ok_and(|now| now == directory) {
            return Ok(None);
        }
        if !directory.is_dir() {
            let directory = directory.display();
            return Err(Failure::new(format!("the directory {directory} no longer exists")).hint(
                "if it was moved, run `takeback checkpoints move OLD NEW`; otherwise, `takeback chat \
                 --fork SESSION` continues the conversation here, and with --files also restores \
                 its files in a new directory",
            ));
        }
        let context = self.context().moved_to(directory);
        let built = build_agent(&self.arguments, &context)?;
        Ok(Some(Place { context, built }))
    }

    /// Switches to another model.
    pub(crate) fn change_model(&mut self, name: &str) -> Result<(), Failure> {
        let arguments = self.arguments.with_model(name);
        self.place.built = build_agent(&arguments, self.context())?;
        self.arguments = arguments;
        self.reopen_task()
    }

    /// Opens the task again, with the agent's current settings.
    fn reopen_task(&mut self) -> Result<(), Failure> {
        let Some(task) = self.task.take() else { return Ok(()) };
        let id = task.id().to_owned();
        // The task can be opened again only after it has been released.
        drop(task);
        self.resume_task(&id)
    }

    /// Gives the conversation a goal. Returns the id of the goal.
    pub(crate) fn begin_goal(
        &mut self,
        objective: &str,
        budget: Budget,
    ) -> Result<String, Failure> {
        let id = new_id();
        self.begun_task()?.create_goal(&id, objective, budget)?;
        Ok(id)
    }

    /// Returns the task. Begins one if there is none yet.
    fn begun_task(&mut self) -> Result<&mut Task, Failure> {
        if self.task.is_none() {
            let (agent, new) =
                (self.place.built.agent.clone(), self.place.built.new_session.clone());
            self.task = Some(Task::begin(agent, &self.place.context.directory, new, &new_id())?);
        }
        Ok(self.task.as_mut().expect("the task has just begun"))
    }

    /// Returns the id of the task, once there is one.
    pub(crate) fn task(&self) -> Option<&str> {
        self.task.as_ref().map(Task::id)
    }

    /// Returns true if the last turn was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.task.as_ref().is_some_and(Task::is_interrupted)
    }

    /// True if interrupted turns continue without asking the user.
    pub(crate) fn is_resumed_automatically(&self) -> bool {
        self.place.built.auto_resume
    }

    /// Runs a turn with this prompt.
    pub(crate) fn prompt(&mut self, text: &str, front: &dyn FrontEnd) -> Result<Pause, Failure> {
        self.stopper.expect_turn();
        self.begun_task()?;
        let watch = TurnWatch { stopper: self.stopper.clone(), front };
        self.run_turn(|task| task.prompt(text, &watch))
    }

    /// Continues the interrupted turn.
    pub(crate) fn proceed(&mut self, front: &dyn FrontEnd) -> Result<Pause, Failure> {
        let watch = TurnWatch { stopper: self.stopper.clone(), front };
        self.run_turn(|task| task.proceed(&watch))
    }

    /// Runs a turn. With `--json`, prints which task and session the turn belongs to. Otherwise, if
    /// the turn is waiting for an answer, tells the user how to answer later.
    fn run_turn(
        &mut self,
        act: impl FnOnce(&mut Task) -> Result<Pause, TaskError>,
    ) -> Result<Pause, Failure> {
        self.print_event("turn_started");
        let pause = self.run(act)?;
        if pause == Pause::Waiting {
            self.print_event("turn_waiting");
            if let Some(task) = self.task.as_ref().filter(|_| !self.context().globals.json) {
                eprintln!("{}", describe_waiting(task.id()));
            }
        }
        Ok(pause)
    }

    /// Prints an event about the running turn, if the user asks for JSON.
    fn print_event(&self, event: &str) {
        if let Some(task) = self.task.as_ref().filter(|_| self.context().globals.json) {
            let event = json!({ "event": event, "task": task.id(), "session": task.session_id() });
            println!("{}", output::disarm_json(&event.to_string()));
        }
    }

    /// Ends the interrupted turn.
    pub(crate) fn give_up_turn(&mut self) -> Result<(), Failure> {
        let Some(task) = self.task.take() else { return Ok(()) };
        let id = task.id().to_owned();
        // The turn can be ended only after the task has been released.
        drop(task);
        let shared = self.place.built.agent.shared.clone();
        takeback_runtime::cancel_task(self.context().opened_arc()?, shared.as_ref(), &id)?;
        self.resume_task(&id)
    }

    /// Summarizes older turns. Returns false if there are no older turns.
    pub(crate) fn compress(&mut self, front: &dyn FrontEnd) -> Result<bool, Failure> {
        match self.task {
            Some(_) => self.run(|task| task.compress_now(front)),
            None => Ok(false),
        }
    }

    /// Reads the user's next prompt.
    pub(crate) fn read_prompt(&self, reader: &mut PromptReader) -> Result<PromptInput, Failure> {
        // Close the ledger, so that another process can repair it while the user thinks.
        self.context().close_ledger();
        let _key = reader.is_editor().then(InterruptKey::start);
        let input = match self.stopper.begin_prompt(reader.is_editor()) {
            true => Ok(PromptInput::Interrupted),
            false => reader.read_prompt(),
        };
        self.stopper.end_prompt();
        input
    }

    /// Runs an operation that Ctrl-C can stop.
    pub(crate) fn run<T>(
        &mut self,
        act: impl FnOnce(&mut Task) -> Result<T, TaskError>,
    ) -> Result<T, Failure> {
        let task = self.task.as_mut().expect("the caller has a task");
        let _quiet = QuietKeyboard::start();
        self.stopper.begin_turn(task.cancel());
        let done = act(task);
        self.stopper.end_turn();
        Ok(done?)
    }

    /// Ends the session. The session can still be continued later.
    pub(crate) fn leave(&mut self, reason: &str) {
        if let Some(mut task) = self.task.take()
            && !task.is_interrupted()
        {
            // If this fails, the session is complete, but not marked as ended.
            let _ = task.end_session(reason);
        }
    }
}

/// Says how the user can answer the question of a waiting turn, or end the turn.
pub(super) fn describe_waiting(task: &str) -> String {
    format!(
        "The turn is waiting for your answer: `takeback tasks resume {task}` asks again in a terminal, \
         and `takeback tasks cancel {task}` ends the turn."
    )
}

/// Finds the session that the user means. It must belong to takeback's own agent.
pub(crate) fn find_own_session(typed: &str, context: &Context) -> Result<String, Failure> {
    let session = context.ledger()?.resolve(typed)?;
    match is_own(&session) {
        true => Ok(session),
        false => Err(TaskError::Foreign(session).into()),
    }
}

/// True if a session belongs to takeback's own agent.
fn is_own(session: &str) -> bool {
    session.split_once(':').is_some_and(|(agent, _)| agent == AGENT)
}

/// Finds the last session of takeback's own agent in this directory.
fn find_last_session(context: &Context) -> Result<String, Failure> {
    let directory = context.directory.canonicalize();
    let directory = directory.unwrap_or_else(|_| context.directory.clone());
    let options =
        ListOptions { workspace: Some(directory.display().to_string()), ..ListOptions::default() };
    let sessions = context.ledger()?.sessions(&options)?;
    // Skip the sessions of subagents, which are parts of other sessions.
    let last = sessions
        .into_iter()
        .map(|summary| summary.session)
        .find(|session| is_own(&session.id) && session.parent_kind != Some(ParentKind::Subagent));
    last.map(|session| session.id).ok_or_else(|| {
        Failure::new("no takeback chat session in this directory")
            .hint("`takeback sessions list` lists all sessions; name one after --resume")
    })
}
