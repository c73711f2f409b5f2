//! The conversation of `takeback chat`: which task it is, and its turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use takeback_ledger::ListOptions;
use takeback_runtime::{AGENT, Cancel, FrontEnd, Pause, Task, TaskError};

use super::agent::{AgentArguments, BuiltAgent, build_agent, new_id};
use super::terminal::keyboard::{QuietKeyboard, restore_keyboard};
use crate::context::Context;
use crate::failure::Failure;

/// A conversation with the agent. Its task begins with the first prompt, so that leaving at once
/// leaves nothing behind.
pub(crate) struct Conversation<'a> {
    context: &'a Context,
    arguments: AgentArguments,
    built: BuiltAgent,
    task: Option<Task>,
    stopper: Stopper,
}

/// Stops the running turn on Ctrl-C.
#[derive(Clone, Default)]
pub(crate) struct Stopper {
    is_running: Arc<AtomicBool>,
    cancel: Arc<std::sync::Mutex<Cancel>>,
}

impl Stopper {
    /// Handles Ctrl-C from now on: the first one stops the turn, and a second one, or one between
    /// turns, ends the program.
    pub(crate) fn listen(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new("cannot handle Ctrl-C").because(&error);
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT]).map_err(failed)?;
        let stopper = self.clone();
        let wait = move || {
            for signal in signals.forever() {
                if !stopper.stop() {
                    restore_keyboard();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        };
        std::thread::Builder::new().spawn(wait).map_err(failed)?;
        Ok(())
    }

    /// Stops the running turn. Returns false if there is none, or if it is already being stopped.
    fn stop(&self) -> bool {
        let cancel = self.cancel.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let is_first = self.is_running.load(Ordering::SeqCst) && !cancel.is_cancelled();
        if is_first {
            cancel.cancel();
        }
        is_first
    }

    fn begin(&self, cancel: &Cancel) {
        cancel.reset();
        *self.cancel.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = cancel.clone();
        self.is_running.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_running.store(false, Ordering::SeqCst);
    }
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(
        arguments: AgentArguments,
        context: &'a Context,
    ) -> Result<Conversation<'a>, Failure> {
        let built = build_agent(&arguments, context)?;
        let stopper = Stopper::default();
        stopper.listen()?;
        Ok(Conversation { context, arguments, built, task: None, stopper })
    }

    /// Returns the id of the session, once there is one.
    pub(crate) fn session(&self) -> Option<&str> {
        self.task.as_ref().map(Task::session_id)
    }

    /// Returns the name of the model, with that of its provider.
    pub(crate) fn model(&self) -> String {
        let provider = &self.built.agent.provider;
        format!("{} ({})", provider.model, provider.name)
    }

    /// Continues the session that the user means, or the last one in this directory.
    pub(crate) fn resume(&mut self, typed: Option<&str>) -> Result<(), Failure> {
        let session = match typed {
            Some(typed) => self.context.ledger()?.resolve(typed)?,
            None => self.find_last_session()?,
        };
        self.leave("resumed another session");
        let task = Task::resume(self.built.agent.clone(), &session, &new_id())?;
        self.task = Some(task);
        Ok(())
    }

    /// Continues the task with this id.
    pub(crate) fn resume_task(&mut self, id: &str) -> Result<(), Failure> {
        self.task = Some(Task::resume_task(self.built.agent.clone(), id)?);
        Ok(())
    }

    fn find_last_session(&self) -> Result<String, Failure> {
        let directory = self.context.directory.canonicalize();
        let directory = directory.unwrap_or_else(|_| self.context.directory.clone());
        let options = ListOptions {
            sources: vec![AGENT.to_owned()],
            workspace: Some(directory.display().to_string()),
            limit: Some(50),
            ..ListOptions::default()
        };
        let sessions = self.context.ledger()?.sessions(&options)?;
        // A subagent's session belongs to another one.
        let is_own = |kind| kind != Some(takeback_ledger::ParentKind::Subagent);
        let last = sessions.into_iter().find(|summary| is_own(summary.session.parent_kind));
        last.map(|summary| summary.session.id).ok_or_else(|| {
            Failure::new("no session of takeback chat in this directory")
                .hint("`takeback sessions list` lists all sessions; name one after --resume")
        })
    }

    /// Asks another model from now on.
    pub(crate) fn change_model(&mut self, name: &str) -> Result<(), Failure> {
        let arguments = self.arguments.with_model(name);
        let built = build_agent(&arguments, self.context)?;
        (self.arguments, self.built) = (arguments, built);
        if let Some(task) = self.task.take() {
            let id = task.id().to_owned();
            // The task can be taken over only once it is released.
            drop(task);
            self.resume_task(&id)?;
        }
        Ok(())
    }

    /// Begins a task that works on a goal. Returns the id of the goal.
    pub(crate) fn begin_goal(
        &mut self,
        objective: &str,
        budget: takeback_ledger::Budget,
    ) -> Result<String, Failure> {
        let (agent, new, id) = (self.built.agent.clone(), self.built.new_session.clone(), new_id());
        let directory = &self.context.directory;
        self.task = Some(Task::begin_goal(agent, directory, new, &id, objective, budget)?);
        Ok(id)
    }

    /// Returns true if the last turn was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.task.as_ref().is_some_and(Task::is_interrupted)
    }

    /// True if interrupted turns continue without a question.
    pub(crate) fn is_resumed_automatically(&self) -> bool {
        self.built.auto_resume
    }

    /// Runs a turn with this prompt.
    pub(crate) fn prompt(&mut self, text: &str, front: &dyn FrontEnd) -> Result<Pause, Failure> {
        if self.task.is_none() {
            let (agent, new) = (self.built.agent.clone(), self.built.new_session.clone());
            self.task = Some(Task::begin(agent, &self.context.directory, new, &new_id())?);
        }
        self.run(|task| task.prompt(text, front))
    }

    /// Continues the interrupted turn.
    pub(crate) fn proceed(&mut self, front: &dyn FrontEnd) -> Result<Pause, Failure> {
        self.run(|task| task.proceed(front))
    }

    /// Ends the interrupted turn.
    pub(crate) fn give_up_turn(&mut self) -> Result<(), Failure> {
        let Some(task) = self.task.take() else { return Ok(()) };
        let id = task.id().to_owned();
        drop(task);
        takeback_runtime::cancel_task(self.context.opened_arc()?, &id)?;
        self.resume_task(&id)
    }

    /// Continues in a copy of the conversation, up to and including a turn.
    pub(crate) fn fork(&mut self, turn: Option<&str>) -> Result<(), Failure> {
        let Some(session) = self.session().map(str::to_owned) else {
            return Err(Failure::new("there is no conversation to fork yet"));
        };
        let fork = fork_session(&session, turn, self.context)?;
        self.resume(Some(&fork))?;
        println!("Now in {fork}, a fork of {session}.");
        Ok(())
    }

    /// Summarizes older turns. Returns false if there are none.
    pub(crate) fn compress(&mut self, front: &dyn FrontEnd) -> Result<bool, Failure> {
        match self.task {
            Some(_) => self.run(|task| task.compress_now(front)),
            None => Ok(false),
        }
    }

    /// Runs something that Ctrl-C can stop.
    pub(crate) fn run<T>(
        &mut self,
        act: impl FnOnce(&mut Task) -> Result<T, TaskError>,
    ) -> Result<T, Failure> {
        let task = self.task.as_mut().expect("the caller has a task");
        let _quiet = QuietKeyboard::start();
        self.stopper.begin(task.cancel());
        let result = act(task);
        self.stopper.end();
        Ok(result?)
    }

    /// Ends the session. It can be continued later.
    pub(crate) fn leave(&mut self, reason: &str) {
        if let Some(mut task) = self.task.take()
            && !task.is_interrupted()
        {
            // The session is complete without this.
            let _ = task.end_session(reason);
        }
    }
}

/// Copies a session, up to and including a turn. Returns the id of the copy.
fn fork_session(session: &str, turn: Option<&str>, context: &Context) -> Result<String, Failure> {
    let mut ledger = context.ledger()?;
    let turns = ledger.turns(session)?;
    let last = match turn {
        None => None,
        Some(text) => {
            let number: i64 =
                text.parse().map_err(|_| Failure::new(format!("{text:?} is not a turn")))?;
            if !turns.iter().any(|turn| turn.turn == number && !turn.undone) {
                return Err(Failure::new(format!("this conversation has no turn {number}")));
            }
            turns.iter().find(|turn| turn.turn > number && !turn.undone).map(|next| next.first_seq)
        }
    };
    let messages = ledger.messages(session, takeback_ledger::MessageFilter::Current)?;
    let kept = messages.iter().map(|message| message.seq);
    let Some(at) = kept.filter(|seq| last.is_none_or(|last| *seq < last)).max() else {
        return Err(Failure::new("there is nothing to copy"));
    };
    let id = format!("{AGENT}:{}", new_id());
    ledger.fork(session, at, &id, context.now())?;
    Ok(id)
}
