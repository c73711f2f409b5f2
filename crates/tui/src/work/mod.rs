//! Threads that read and change takeback's home, so that the screen never waits for them.

mod actions;
mod ansi;
mod conversation;
mod queue;
mod reads;
mod said;
mod sessions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use takeback_tree::Oid;
use takeback_undo::LabelChange;

use self::queue::{Next, Queue};
use crate::host::{Host, Problem};
use crate::message::{Command, Message, Read};
use crate::model::plan::{Plan, Wanted};

/// The time that must pass without a newer request before a plan is made.
const QUIET: Duration = Duration::from_millis(40);

/// The idle time after which the ledger is closed, so that other processes can repair it.
const IDLE: Duration = Duration::from_millis(500);

/// A job that needs the workspace, or changes something.
#[derive(Debug)]
pub(crate) enum Job {
    MakePlan(u64, Wanted),
    Apply(Box<Plan>),
    Label(Oid, LabelChange),
    TakeCheckpoint(String),
    FindResume(String),
}

impl Job {
    /// Returns true if the job changes something. The worker does such a job even if the screen is
    /// closed.
    fn is_change(&self) -> bool {
        matches!(self, Job::Apply(_) | Job::Label(..) | Job::TakeCheckpoint(_))
    }
}

/// The work that all threads share.
pub(crate) struct Work {
    host: Arc<dyn Host>,
    directory: PathBuf,
    has_colors: bool,
}

/// The threads, and the messages from them.
pub(crate) struct Workers {
    reads: Arc<Queue<Read>>,
    /// The reads for the filter, which may take longer than other reads.
    finds: Arc<Queue<Read>>,
    jobs: Arc<Queue<Job>>,
    messages: Receiver<Message>,
    /// The number of changes that were requested and are not done yet.
    changes: Arc<AtomicUsize>,
    /// The thread that makes plans and changes.
    worker: JoinHandle<()>,
}

impl Workers {
    /// Starts the threads.
    pub(crate) fn start(
        host: Arc<dyn Host>,
        directory: PathBuf,
        has_colors: bool,
    ) -> std::io::Result<Workers> {
        let (send, messages) = channel();
        let reads = [(); 2].map(|()| Arc::new(Queue::new()));
        let jobs = Arc::new(Queue::new());
        let work = Arc::new(Work::new(host, directory, has_colors));
        for queue in &reads {
            let (queue, work, sender) = (queue.clone(), work.clone(), send.clone());
            let reader = move || work.follow_reads(&queue, &sender);
            thread::Builder::new().name("reads".into()).spawn(reader)?;
        }
        let changes = Arc::new(AtomicUsize::new(0));
        let (queue, open_changes) = (jobs.clone(), changes.clone());
        let worker = move || work.follow_jobs(&queue, &send, &open_changes);
        let worker = thread::Builder::new().name("jobs".into()).spawn(worker)?;
        let [reads, finds] = reads;
        Ok(Workers { reads, finds, jobs, messages, changes, worker })
    }

    /// Hands a command to a thread. Returns the command if it is not meant for a thread.
    pub(crate) fn take(&self, command: Command) -> Option<Command> {
        let job = match command {
            Command::Read(read) => {
                let kind = std::mem::discriminant(&read);
                let is_find = matches!(read, Read::Paths | Read::Said(_));
                let queue = if is_find { &self.finds } else { &self.reads };
                queue.push(read, |waiting| std::mem::discriminant(waiting) == kind);
                return None;
            }
            Command::MakePlan(number, wanted) => Job::MakePlan(number, wanted),
            Command::Apply(plan) => Job::Apply(plan),
            Command::Label(id, change) => Job::Label(id, change),
            Command::TakeCheckpoint(reason) => Job::TakeCheckpoint(reason),
            Command::FindResume(session) => Job::FindResume(session),
            other => return Some(other),
        };
        let is_plan = matches!(job, Job::MakePlan(..));
        self.changes.fetch_add(usize::from(job.is_change()), Ordering::SeqCst);
        self.jobs.push(job, |waiting| is_plan && matches!(waiting, Job::MakePlan(..)));
        None
    }

    /// Returns true if a read or a job is waiting or running.
    pub(crate) fn is_busy(&self) -> bool {
        self.reads.is_busy() || self.finds.is_busy() || self.jobs.is_busy()
    }

    /// Waits for the next message, for at most this long.
    pub(crate) fn receive(&self, wait: Duration) -> Option<Message> {
        self.messages.recv_timeout(wait).ok()
    }

    /// Stops the threads. Waits for the changes that the user has requested, and returns the
    /// messages with their results. Plans and reads are dropped.
    pub(crate) fn stop(self) -> Vec<Message> {
        self.reads.close(|_| false);
        self.finds.close(|_| false);
        self.jobs.close(Job::is_change);
        if self.changes.load(Ordering::SeqCst) > 0 {
            let _ = self.worker.join();
        }
        self.messages.try_iter().collect()
    }
}

impl Work {
    pub(crate) fn new(host: Arc<dyn Host>, directory: PathBuf, has_colors: bool) -> Work {
        Work { host, directory, has_colors }
    }

    fn follow_reads(&self, queue: &Queue<Read>, sender: &Sender<Message>) {
        let mut seen = None;
        loop {
            match queue.next(IDLE, |_| None) {
                Next::Closed => return,
                Next::Idle => self.close_ledger(),
                Next::Job(read) => {
                    let is_outdated = || {
                        let kind = std::mem::discriminant(&read);
                        queue.is_outdated(|newer| std::mem::discriminant(newer) == kind)
                    };
                    let answer = catch_unwind(AssertUnwindSafe(|| {
                        self.read(&read, &mut seen, &is_outdated)
                    }));
                    let message = answer.unwrap_or_else(|_| Some(Message::Done(Err(crashed()))));
                    message.into_iter().for_each(|message| drop(sender.send(message)));
                    self.pass_on_messages(sender);
                }
            }
        }
    }

    fn follow_jobs(&self, queue: &Queue<Job>, sender: &Sender<Message>, changes: &AtomicUsize) {
        let quiet = |job: &Job| matches!(job, Job::MakePlan(..)).then_some(QUIET);
        loop {
            match queue.next(Duration::from_secs(3_600), quiet) {
                Next::Closed => return,
                Next::Idle => {}
                Next::Job(job) => {
                    let is_change = job.is_change();
                    let crash = answer_of_crash(&job);
                    let answer = catch_unwind(AssertUnwindSafe(|| self.act(job)));
                    let _ = sender.send(answer.unwrap_or(crash));
                    changes.fetch_sub(usize::from(is_change), Ordering::SeqCst);
                    self.pass_on_messages(sender);
                }
            }
        }
    }

    fn pass_on_messages(&self, sender: &Sender<Message>) {
        let lines = self.host.take_messages();
        if !lines.is_empty() {
            let _ = sender.send(Message::Notes(lines));
        }
    }

    fn close_ledger(&self) {
        if let Ok(opened) = self.host.open() {
            opened.close_ledger();
        }
    }
}

/// Returns the message that is sent if a job crashes.
fn answer_of_crash(job: &Job) -> Message {
    match job {
        Job::MakePlan(number, _) => Message::Plan(*number, Err(crashed())),
        Job::Apply(_) => Message::Applied(Err(crashed())),
        Job::Label(..) | Job::TakeCheckpoint(_) | Job::FindResume(_) => {
            Message::Done(Err(crashed()))
        }
    }
}

fn crashed() -> Problem {
    Problem::new("takeback crashed: please report this as a bug")
        .hint("`takeback doctor` checks the store and the ledger")
}
