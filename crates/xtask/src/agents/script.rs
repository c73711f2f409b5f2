//! What the model does: it writes a file, and then it removes a directory in a shell.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use takeback_script::{Message, Reply, Request, Role};

use super::programs::Program;

/// What the user says before takeback is there, what they want done, and what they say when things
/// went back.
pub(crate) const INTRODUCTION: &str = "Please introduce yourself";
pub(crate) const WORK: &str = "Please do job-one now";
pub(crate) const GREETING: &str = "Please say hello to visitor-two";

/// What the model says when the work is done.
pub(crate) const DONE: &str = "All of job-one is done";

/// The file that the model writes, and what is in it.
pub(crate) const FILE: (&str, &str) = ("written.txt", "written by the model\n");
/// The directory that the model removes.
pub(crate) const DIRECTORY: &str = "src";

/// One side of a pause: what says something to the other side, and what hears it.
pub(crate) type Side = (Sender<()>, Receiver<()>);

/// What the model is asked is all that its answers depend on.
#[derive(Clone)]
pub(crate) struct Script {
    program: &'static Program,
    project: PathBuf,
    pause: Arc<Mutex<Option<Side>>>,
}

impl Script {
    pub(crate) fn new(program: &'static Program, project: PathBuf) -> Script {
        Script { program, project, pause: Arc::default() }
    }

    /// When its work is done, the model says so, and thinks about it until it hears something; then
    /// it looks around in a shell.
    pub(crate) fn pause(&self) -> Side {
        let (begins, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = Some((begins, ends));
        (end, begun)
    }

    /// Takes the pause there may be: whoever waits for it to begin waits no longer.
    pub(crate) fn take_pause(&self) -> Option<Side> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn reply(&self, request: &Request) -> Reply {
        let remove = (self.program.shell)(&format!("rm -r {DIRECTORY}"));
        let shell = &remove.calls.first().expect("a shell is called").name;
        // Titles, summaries and the like are made without tools.
        if !request.has_tool(shell) {
            return Reply::text("Two jobs");
        }
        match calls_since(request, WORK) {
            Some(0) => {
                let path = self.project.join(FILE.0);
                (self.program.write)(&path.display().to_string(), FILE.1)
            }
            Some(1) => remove,
            Some(2) => match self.take_pause() {
                Some((begins, ends)) => {
                    // It is over as well if the other side is gone.
                    let _ = begins.send(()).map(|()| ends.recv());
                    (self.program.shell)("ls")
                }
                None => Reply::text(DONE),
            },
            _ => Reply::text("Hello."),
        }
    }
}

/// How many tools were used since the user said this; `None` if they said something else since.
fn calls_since(request: &Request, said: &str) -> Option<usize> {
    let is_said = |message: &Message| message.role == Role::User && message.text.contains(said);
    let since = request.messages.iter().rposition(is_said)?;
    let later = &request.messages[since + 1..];
    let is_answered = |message: &Message| {
        message.role == Role::Assistant && message.calls.is_empty() && !message.text.is_empty()
    };
    match later.iter().any(is_answered) {
        true => None,
        false => Some(later.iter().map(|message| message.calls.len()).sum()),
    }
}
