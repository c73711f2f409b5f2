//! The scripted model. It writes a file, and then removes a directory with a shell command.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use takeback_script::{Message, Reply, Request, Role};

use super::program::AgentProgram;

/// The prompt that is sent before takeback is installed.
pub(crate) const INTRODUCTION: &str = "Please introduce yourself";
/// The prompt that requests the work.
pub(crate) const WORK: &str = "Please do job-one now";
/// The prompt that is sent after a rollback.
pub(crate) const GREETING: &str = "Please say hello to visitor-two";

/// A small job: its prompt, the file that the model writes for it, and the model's answer.
pub(crate) struct Job {
    pub(crate) prompt: &'static str,
    pub(crate) file: &'static str,
    pub(crate) answer: &'static str,
}

/// The jobs in the conversation that a rollback rewinds. The rollback keeps the first job and takes
/// back the second. The agent is started in a directory below the project.
pub(crate) const JOBS: [Job; 2] = [
    Job {
        prompt: "Please do job-three now",
        file: "src/three.txt",
        answer: "Job three is complete",
    },
    Job { prompt: "Please do job-four now", file: "src/four.txt", answer: "Job four is complete" },
];

/// The jobs in the conversation that is rewound in a terminal.
pub(crate) const TERMINAL_JOBS: [Job; 2] = [
    Job { prompt: "Please do job-six now", file: "six.txt", answer: "Job six is complete" },
    Job { prompt: "Please do job-seven now", file: "seven.txt", answer: "Job seven is complete" },
];

/// The job in a fork. The model creates the file with a shell command, in the directory in which
/// the agent runs the shell.
pub(crate) const FORK_JOB: Job =
    Job { prompt: "Please do job-five now", file: "five.txt", answer: "Job five is complete" };

/// The model's answer when the work is done.
pub(crate) const DONE: &str = "All of job-one is done";

/// The file that the model writes, and its content.
pub(crate) const FILE: (&str, &str) = ("written.txt", "written by the model\n");
/// The directory that the model removes.
pub(crate) const DIRECTORY: &str = "src";

/// One side of a pause: a channel to the other side, and a channel from the other side.
pub(crate) type Side = (Sender<()>, Receiver<()>);

/// A model whose answers depend only on the request, and on whether a pause is planned.
#[derive(Clone)]
pub(crate) struct ScriptedModel {
    program: &'static AgentProgram,
    project: PathBuf,
    pause: Arc<Mutex<Option<Side>>>,
}

impl ScriptedModel {
    pub(crate) fn new(program: &'static AgentProgram, project: PathBuf) -> ScriptedModel {
        ScriptedModel { program, project, pause: Arc::default() }
    }

    /// Makes the model pause when its work is done: it signals that the pause has begun, and waits
    /// for an answer before it continues.
    pub(crate) fn begin_pause(&self) -> Side {
        let (begins, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = Some((begins, ends));
        (end, begun)
    }

    /// Takes the planned pause, if there is one. Dropping it wakes the thread that is waiting for
    /// the pause to begin.
    pub(crate) fn take_pause(&self) -> Option<Side> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn choose_reply(&self, request: &Request) -> Reply {
        let remove = (self.program.shell)(&format!("rm -r {DIRECTORY}"));
        let shell = &remove.calls.first().expect("a shell is called").name;
        // Requests for titles and summaries offer no tools.
        if !request.has_tool(shell) {
            return Reply::text("Two jobs");
        }
        match calls_since(request, FORK_JOB.prompt) {
            Some(0) => return (self.program.shell)(&format!("touch {}", FORK_JOB.file)),
            Some(_) => return Reply::text(FORK_JOB.answer),
            None => {}
        }
        for job in JOBS.iter().chain(&TERMINAL_JOBS).rev() {
            match calls_since(request, job.prompt) {
                Some(0) => {
                    let path = self.project.join(job.file);
                    return (self.program.write)(&path.display().to_string(), "a job\n");
                }
                Some(_) => return Reply::text(job.answer),
                None => {}
            }
        }
        match calls_since(request, WORK) {
            Some(0) => {
                let path = self.project.join(FILE.0);
                (self.program.write)(&path.display().to_string(), FILE.1)
            }
            Some(1) => remove,
            Some(2) => match self.take_pause() {
                Some((begins, ends)) => {
                    // The pause also ends if the other side has been dropped.
                    let _ = begins.send(()).map(|()| ends.recv());
                    (self.program.shell)("ls")
                }
                None => Reply::text(DONE),
            },
            _ => Reply::text("Hello."),
        }
    }
}

/// Counts the tool calls since this prompt. Returns `None` if the prompt is missing, or if the
/// model has already answered it with text.
fn calls_since(request: &Request, said: &str) -> Option<usize> {
    // The output of a rollback, and the notice about it, quote the prompt that is taken back.
    let is_quoted = |message: &Message| {
        message.text.contains("The prompt was:") || message.text.contains("took back the prompt")
    };
    let is_said = |message: &Message| {
        message.role == Role::User && message.text.contains(said) && !is_quoted(message)
    };
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
