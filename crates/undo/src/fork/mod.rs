//! Forks: a new session with the conversation as it was at an earlier point and, in a new
//! directory, the files as they were at that point. Nothing that already exists is changed.
//!
//! `point` parses what the user typed. `source` finds the conversation and the checkpoint at that
//! point, and `turn_end` finds the checkpoint with the files at the end of a turn. `destination`
//! chooses the new directory. `staging` fills it in a way that allows an interrupted fork to be
//! finished or removed later.

mod destination;
mod point;
mod source;
mod staging;
mod turn_end;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use takeback_base::hex;
use takeback_base::paths::canonicalize_existing;
use takeback_ledger::{LedgerError, NewFork, OpenError};
use takeback_tree::{
    AnyPath, CaptureError, CheckoutError, Head, Oid, PinError, RelPath, StoreError, Uncovered,
};

use self::source::{ForkSource, find_source};
use self::staging::make_directory;
use crate::Opened;
use crate::history::record::Checkpoint;
use crate::history::{FindError, TakeError};
use crate::rollback::Resume;

pub use self::staging::finish_forks;

/// A request to fork.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ForkRequest {
    pub from: ForkPoint,
    pub files: ForkFiles,
    /// True if the workspace's repository is also copied into the new directory.
    pub repository: bool,
    /// The id of the new session. If it is `None`, an id is generated.
    pub id: Option<String>,
    /// True if the session's own agent is to continue the fork, instead of takeback's agent.
    #[serde(default)]
    pub for_own_agent: bool,
    /// The agent that the session must belong to; `None` accepts any.
    #[serde(default)]
    pub agent: Option<String>,
}

impl ForkRequest {
    /// Creates a request to fork the conversation, and to copy the files into a new directory
    /// beside the workspace.
    pub fn new(from: ForkPoint) -> ForkRequest {
        ForkRequest {
            from,
            files: ForkFiles::Beside,
            repository: true,
            id: None,
            for_own_agent: false,
            agent: None,
        }
    }
}

/// The location of a fork's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForkFiles {
    /// Only the conversation is forked.
    Skip,
    /// Only the conversation is forked. It continues in this directory, whose files stay as they
    /// are.
    Stay(PathBuf),
    /// A new directory beside the workspace, such as `shop-fork` beside `shop`.
    Beside,
    /// This directory, which must be empty or not exist yet.
    Into(PathBuf),
}

/// The point at which a fork begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ForkPoint {
    /// A checkpoint of the workspace that `directory` belongs to, given by its row number, step,
    /// name or id. The fork continues the conversation of that checkpoint's session.
    Checkpoint { directory: PathBuf, checkpoint: String },
    /// A point in a session. The session is given by its id, the beginning of its id, or its title.
    Session { session: String, at: SessionPoint },
}

/// A point in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionPoint {
    /// The end of the last turn that has not been taken back.
    LastTurn,
    /// The end of the turn with this number: its last message, and the files as they were after the
    /// turn's last call that may have changed files.
    Turn(i64),
    /// A checkpoint of the session's workspace, given by its row number, step, name or id.
    Checkpoint(String),
    /// The current state of the workspace.
    Now,
}

/// A completed fork.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct Fork {
    /// The new session; `None` if the checkpoint belongs to no conversation.
    pub session: Option<String>,
    /// The session that was forked.
    pub parent: Option<String>,
    /// The last turn of the parent that the new session contains; 0 if it contains none.
    pub turn: Option<i64>,
    pub messages: Option<i64>,
    pub title: Option<String>,
    /// The checkpoint whose files were written.
    pub checkpoint: Option<Oid>,
    /// The workspace that the files come from.
    pub workspace: Option<AnyPath>,
    /// The new directory; `None` if only the conversation was forked.
    pub directory: Option<AnyPath>,
    /// The number of files and symlinks that were written.
    pub files: u64,
    /// The number of files that share their blocks with files in the workspace.
    pub cloned: u64,
    /// The paths that the checkpoint does not cover and that the new directory therefore lacks.
    pub uncovered: Vec<Uncovered>,
    /// The databases that were captured while they were being written to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<RelPath>,
    /// The files that were written without their setuid or setgid bit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unprivileged: Vec<RelPath>,
    /// The commit and the branch of the copied repository; `None` if there is no copy.
    pub repository: Option<Head>,
    /// The repositories inside the workspace. The new directory has their files, but not their
    /// `.git`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RelPath>,
    /// The command that continues the conversation in the agent that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A checkpoint near the requested point.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct NearCheckpoint {
    pub id: Oid,
    pub time: String,
    pub reason: String,
}

impl NearCheckpoint {
    fn of(checkpoint: &Checkpoint) -> NearCheckpoint {
        let Checkpoint { pin, record } = checkpoint;
        NearCheckpoint { id: pin.id, time: record.time.clone(), reason: record.reason.clone() }
    }
}

/// The reason why a fork was not made. After such an error, nothing is left of the fork.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ForkError {
    #[error("{0:?} is neither a checkpoint of this workspace nor a session")]
    Unknown(String),
    #[error("{0:?} is both a checkpoint of this workspace and a session")]
    Ambiguous(String),
    #[error("no turn or checkpoint follows the @ in {0:?}")]
    NoPoint(String),
    #[error("session {session} has no turn {turn}: it has {turns}")]
    NoSuchTurn { session: String, turn: i64, turns: usize },
    #[error("checkpoint {0} belongs to no conversation")]
    NoConversation(Oid),
    #[error("the ledger does not record which messages {0} had at that checkpoint")]
    PointUnknown(String),
    #[error("{0} cannot continue {1}, which belongs to another agent")]
    OtherAgent(String, String),
    #[error("session {0} has no workspace")]
    NoWorkspace(String),
    /// The last known state before the end of the turn differs from the first known state after it,
    /// so the files at the end of the turn are not known.
    #[error("the exact state of the files at the end of {} is unknown", describe_turn(session, *turn))]
    FilesUnknown {
        session: String,
        turn: Option<i64>,
        /// The last known state before the end of the turn.
        before: Option<Box<NearCheckpoint>>,
        /// The first known state after the end of the turn.
        after: Option<Box<NearCheckpoint>>,
    },
    #[error("a part of turn {turn} of {session} was taken back")]
    PartlyTakenBack { session: String, turn: i64 },
    #[error("{} already exists and is not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} is inside the workspace that is being forked", .0.display())]
    Inside(PathBuf),
    #[error("{} is {what}", path.display())]
    Refused { path: PathBuf, what: &'static str },
    #[error("cannot create {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("the latest turns are not in the ledger yet")]
    Incomplete,
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

fn describe_turn(session: &str, turn: Option<i64>) -> String {
    match turn {
        Some(turn) => format!("turn {turn} of {session}"),
        None => format!("session {session}"),
    }
}

/// Forks a session. After an error, nothing is left of the fork. If this process is killed, the
/// next fork finishes or removes the incomplete one: see [`finish_forks`].
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{
///     CheckpointOptions, ForkFiles, ForkPoint, ForkRequest, OpenOptions, Opened, fork,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// std::fs::write(project.join("cart.rs"), "broken\n")?;
/// let attempt = scratch.path().join("attempt");
/// let from = ForkPoint::Checkpoint { directory: project, checkpoint: "start".into() };
/// let request = ForkRequest {
///     files: ForkFiles::Into(attempt.clone()),
///     repository: false,
///     ..ForkRequest::new(from)
/// };
/// assert_eq!(fork::fork(&opened, &request)?.files, 1);
/// assert_eq!(std::fs::read_to_string(attempt.join("cart.rs"))?, "struct Cart;\n");
/// # Ok(())
/// # }
/// ```
pub fn fork(opened: &Opened, request: &ForkRequest) -> Result<Fork, ForkError> {
    finish_forks(opened);
    let wants_files = matches!(request.files, ForkFiles::Beside | ForkFiles::Into(_));
    let source = find_source(opened, &request.from, wants_files)?;
    check_agent(request, &source)?;
    let id = request.id.clone().unwrap_or_else(|| name_fork(opened, request, &source));
    if source.conversation.is_some() && opened.ledger_or_new()?.session(&id).is_ok() {
        return Err(LedgerError::Exists(id).into());
    }
    if wants_files {
        let mut fork = make_directory(opened, source, request, id)?;
        follow_fork(opened, request, &mut fork);
        return Ok(fork);
    }
    let Some(conversation) = &source.conversation else {
        let checkpoint = source.checkpoint.expect("without a session, there is a checkpoint");
        return Err(ForkError::NoConversation(checkpoint.pin.id));
    };
    let directory = match &request.files {
        ForkFiles::Stay(directory) => Some(canonicalize_existing(directory).display().to_string()),
        _ => None,
    };
    let workspace = directory.as_deref();
    let new = NewFork { id: &id, point: conversation.point, workspace, ..NewFork::default() };
    let now = opened.now();
    let made = opened.ledger_or_new()?.fork_at(&conversation.session, &new, now)?;
    let mut fork = Fork::of_source(&source);
    fork.add_session(made);
    follow_fork(opened, request, &mut fork);
    Ok(fork)
}

/// Copies the conversation for the agent that the session belongs to. A failure leaves the fork
/// without such a copy.
fn follow_fork(opened: &Opened, request: &ForkRequest, fork: &mut Fork) {
    let follow = opened.conversations.follow.filter(|_| request.for_own_agent);
    let Some((follow, session)) = follow.zip(fork.session.as_deref()) else { return };
    match follow(opened, session) {
        Ok(resume) => fork.resume = resume,
        Err(reason) => {
            let warning = format!("the agent's own conversation was not copied: {reason}");
            fork.warnings.push(warning);
        }
    }
}

/// Fails if the request names an agent and the session does not belong to it.
fn check_agent(request: &ForkRequest, source: &ForkSource) -> Result<(), ForkError> {
    let Some(agent) = &request.agent else { return Ok(()) };
    let session = source.conversation.as_ref().map(|conversation| conversation.session.as_str());
    match session.and_then(|session| session.split_once(':')) {
        Some((own, _)) if own == agent => Ok(()),
        _ => Err(ForkError::OtherAgent(agent.clone(), session.unwrap_or("it").to_owned())),
    }
}

/// Generates an id for the session of a fork.
fn name_fork(opened: &Opened, request: &ForkRequest, source: &ForkSource) -> String {
    let own = opened.conversations.name_fork.filter(|_| request.for_own_agent);
    let own = own.zip(source.conversation.as_ref());
    own.and_then(|(name, conversation)| name(&conversation.session))
        .unwrap_or_else(|| format!("takeback:{}", hex::random_digits(16)))
}

impl Fork {
    /// Describes a fork that has neither a session nor files yet.
    fn of_source(source: &ForkSource) -> Fork {
        let conversation = source.conversation.as_ref();
        Fork {
            session: None,
            parent: conversation.map(|conversation| conversation.session.clone()),
            turn: None,
            messages: None,
            title: None,
            checkpoint: None,
            workspace: None,
            directory: None,
            files: 0,
            cloned: 0,
            uncovered: Vec::new(),
            unsettled: Vec::new(),
            unprivileged: Vec::new(),
            repository: None,
            repositories: Vec::new(),
            resume: None,
            warnings: source.warnings.clone(),
        }
    }

    fn add_session(&mut self, made: takeback_ledger::MadeFork) {
        self.session = Some(made.session.id);
        self.turn = Some(made.turn);
        self.messages = Some(made.session.message_count);
        self.title = made.session.title;
    }
}
