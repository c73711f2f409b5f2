//! What the model does: it writes a file, and then it removes a directory in a shell.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use takeback_script::{Message, Reply, Request, Role};

use super::programs::Program;

/// What the user says first, and what they say when things went back.
pub(crate) const WORK: &str = "Please do job-one now";
pub(crate) const GREETING: &str = "Please say hello to visitor-two";

/// The file that the model writes, and what is in it.
pub(crate) const FILE: (&str, &str) = ("written.txt", "written by the model\n");
/// The directory that the model removes.
pub(crate) const DIRECTORY: &str = "src";

/// Done once, while the model thinks about what came of its work.
pub(crate) type Meanwhile = Box<dyn FnOnce() + Send>;

/// What the model is asked is all that its answers depend on.
#[derive(Clone)]
pub(crate) struct Script {
    program: &'static Program,
    project: PathBuf,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

impl Script {
    pub(crate) fn new(program: &'static Program, project: PathBuf) -> Script {
        Script { program, project, meanwhile: Arc::default() }
    }

    /// When the work is done, this is done before the model goes on; then it looks around.
    pub(crate) fn interrupt(&self, meanwhile: Meanwhile) {
        *self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner) = Some(meanwhile);
    }

    pub(crate) fn reply(&self, request: &Request) -> Reply {
        let remove = (self.program.shell)(&format!("rm -r {DIRECTORY}"));
        let shell = &remove.calls.first().expect("a shell is called").name;
        // Titles, summaries and the like are made without tools.
        if !request.offers(shell) {
            return Reply::text("Two jobs");
        }
        match calls_since(request, WORK) {
            Some(0) => {
                let path = self.project.join(FILE.0);
                (self.program.write)(&path.display().to_string(), FILE.1)
            }
            Some(1) => remove,
            Some(2) => {
                let meanwhile =
                    self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).take();
                match meanwhile {
                    Some(meanwhile) => {
                        meanwhile();
                        (self.program.shell)("ls")
                    }
                    None => Reply::text("Job one is done."),
                }
            }
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
