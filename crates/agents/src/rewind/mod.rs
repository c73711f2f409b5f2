//! Takes an agent's own conversation back to an earlier point, by writing a copy of its log that
//! ends at that point.
//!
//! A table, [`REWINDS`], lists how this is done for each agent. The original is never changed, so
//! going forward again means continuing the original. A copy is written only if everything about it
//! is certain: the format is known, the first message to leave out is found exactly once, and
//! reading the copy with takeback's own reader yields exactly the messages that are to be kept.
//! Otherwise nothing is written, and the user is told how to go back by hand.
//!
//! `check` compares a copy with the messages to keep, `copy` writes its files, and there is one
//! module per format.

mod chain;
mod check;
mod cline;
mod codex;
mod codex_daemon;
mod codex_history;
mod copilot;
mod copy;
mod directory;
mod droid;
mod gemini;
mod lines;
mod opencode;
mod pi;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use takeback_base::{foreign, hex};
use takeback_ledger::{LogPage, Time};

pub(crate) use self::check::read_pages;
pub use self::copy::PreparedCopy;
pub(crate) use self::copy::{missing_directories, remove_copy, remove_temporary_files};
pub use self::directory::MovedDirectory;
pub use self::table::REWINDS;

pub(crate) use self::check::count_messages;
use self::check::{check_content, has_exactly, read_content};
pub(crate) use self::cline::MessagePart;
pub(crate) use self::codex_daemon::{Daemon, ThreadStatus};
use self::codex_history::read_whole_log;
use crate::logs::{LogError, LogFormat, LogRef, log_format};

/// The maximum size of a log that is copied.
pub(crate) const MAX_LOG: u64 = 512 << 20;

/// The means of taking back an agent's own conversation.
pub struct Rewind {
    /// The name of the agent.
    pub agent: &'static str,
    way: Way,
    /// The program of the agent. Without arguments, it starts a new conversation.
    program: &'static str,
    /// The arguments that make the program continue a conversation. `{}` is replaced by the id of
    /// the conversation, and `{file}` by the path of its log.
    continue_with: &'static [&'static str],
    /// The line that the user types into the running agent to continue a conversation. `{}` is
    /// replaced by the id of the conversation, and `{saved}` by the name under which Gemini CLI
    /// finds it.
    typed: Option<&'static str>,
    /// True if the agent may delete the log of a session that it has continued.
    pub may_delete_logs: bool,
    /// True if a session may have several logs, each of which continues an earlier one, and the
    /// agent resumes only from the newest. Codex begins another log when a conversation is taken
    /// back inside Codex.
    pub(crate) continues_logs: bool,
    /// The means of taking back a conversation that is open in the agent.
    pub(crate) in_place: InPlace,
}

/// The means of taking back an open conversation under its own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// takeback cannot do this, so the agent has to open a copy.
    Never,
    /// The agent's daemon takes the conversation back.
    Daemon,
    /// takeback's plugin leaves messages out of the requests to the model.
    Plugin,
}

/// The means of making a copy.
enum Way {
    /// takeback writes files, whose contents this function returns.
    Files(fn(&Cut<'_>) -> Result<Copy, RewindError>),
    /// opencode imports a document.
    Import,
}

/// Finds the means of taking back an agent's own conversation.
pub fn find_rewind(agent: &str) -> Option<&'static Rewind> {
    REWINDS.iter().find(|rewind| rewind.agent == agent)
}

/// The conversation to copy, and the point where the copy ends.
#[derive(Clone, Debug)]
pub struct RewindRequest<'a> {
    /// The log of the conversation.
    pub log: &'a LogRef,
    /// The agent's own id for the session.
    pub session: &'a str,
    /// The agent's own id for the new session. If it is `None`, an id is generated.
    pub new: Option<&'a str>,
    /// The origins of the messages to keep.
    pub kept: &'a BTreeSet<String>,
    /// The origin of the last message to keep.
    pub last: &'a str,
    /// The first message to leave out after the last one to keep; `None` if there is none.
    pub gone: Option<GoneMessage<'a>>,
    /// The origins of the messages that must be left out although later messages are kept. Such
    /// messages exist if a conversation continued after it was taken back in place. Only copies
    /// for Cline can leave them out.
    pub undone: BTreeSet<String>,
    /// The working directory of the copy, if it differs from that of the original.
    pub moved: Option<MovedDirectory<'a>>,
    /// The directory for takeback's own files, such as copies for an agent that can read a log from
    /// any path.
    pub own_directory: &'a Path,
    /// The time at which the copy is made.
    pub now: Time,
}

impl RewindRequest<'_> {
    /// Calls `work` with the input for making a copy. `bytes` is the content of the log, and `new`
    /// is the id of the new session.
    fn with_cut<T>(&self, bytes: &[u8], new: &str, work: impl FnOnce(&Cut<'_>) -> T) -> T {
        // A message in the ledger may be only a part of an entry in the log.
        let entry = |origin: &'_ str| origin.split('/').next().unwrap_or_default().to_owned();
        let (last, anchor) = (entry(self.last), self.gone.map(|gone| entry(gone.origin)));
        work(&Cut {
            path: &self.log.path,
            bytes,
            old: self.session,
            new,
            last: &last,
            anchor: anchor.as_deref(),
            is_prompt: self.gone.is_some_and(|gone| gone.is_prompt),
            kept: self.kept,
            undone: &self.undone,
            moved: self.moved,
            own_directory: self.own_directory,
        })
    }
}

/// The first message that a copy leaves out.
#[derive(Clone, Copy, Debug)]
pub struct GoneMessage<'a> {
    /// The agent's own id for the message.
    pub origin: &'a str,
    /// True if the message is a prompt from the user, which begins a turn.
    pub is_prompt: bool,
}

/// The reason why a conversation was not copied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RewindError {
    #[error("its log has a format that takeback does not know ({0})")]
    UnknownFormat(&'static str),
    #[error("the message to go back to does not occur exactly once in its log")]
    NoAnchor,
    #[error("a tool call would be left without its result")]
    OpenCall,
    #[error("its log does not have the same messages as the ledger")]
    Differs,
    #[error("its log is being written to")]
    Busy,
    #[error("{0} did not accept a copy: {1}")]
    Program(&'static str, String),
    #[error("cannot copy its log")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The input for making a copy.
#[derive(Clone, Copy)]
struct Cut<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    /// The agent's own ids for the old and the new session.
    old: &'a str,
    new: &'a str,
    /// The agent's own id for the last entry to keep.
    last: &'a str,
    /// The agent's own id for the first entry to leave out; `None` if nothing is left out.
    anchor: Option<&'a str>,
    is_prompt: bool,
    /// The origins of the messages to keep, and of those that must be left out although later
    /// messages are kept.
    kept: &'a BTreeSet<String>,
    undone: &'a BTreeSet<String>,
    moved: Option<MovedDirectory<'a>>,
    own_directory: &'a Path,
}

/// The content of a copy.
struct Copy {
    log: PathBuf,
    content: Vec<u8>,
    /// Other files that belong to the session. They are written first.
    others: Vec<(PathBuf, Vec<u8>)>,
    /// A map from the new id of an entry to its id in the original, if the two differ.
    origins: BTreeMap<String, String>,
}

impl Copy {
    fn of_log(log: PathBuf, content: Vec<u8>) -> Copy {
        Copy { log, content, others: Vec::new(), origins: BTreeMap::new() }
    }
}

impl Rewind {
    /// Makes a copy of a conversation with only the messages to keep, and checks the copy. Nothing
    /// is written to the agent's files yet.
    pub fn prepare_copy(&self, request: &RewindRequest<'_>) -> Result<PreparedCopy, RewindError> {
        let new = request.new.map_or_else(|| self.new_session(), str::to_owned);
        let cut = match self.way {
            Way::Files(cut) => cut,
            Way::Import => return opencode::prepare(self.log_format(), request, new),
        };
        let path = &request.log.path;
        let bytes = foreign::read_regular(path, MAX_LOG)?;
        let copy = request.with_cut(&bytes, &new, cut)?;
        let pages = check_content(self.log_format(), &copy, request)?;
        // If the log was changed while it was read, the copy may be wrong.
        if foreign::read_regular(path, MAX_LOG)?.get(..bytes.len()) != Some(&bytes[..]) {
            return Err(RewindError::Busy);
        }
        Ok(PreparedCopy::of_files(new, copy, pages))
    }

    /// Finds the agent's own id for the first turn that a request leaves out. Makes all the checks
    /// that [`Rewind::prepare_copy`] makes.
    pub(crate) fn find_turn(&self, request: &RewindRequest<'_>) -> Result<String, RewindError> {
        self.prepare_copy(request)?;
        let bytes = foreign::read_regular(&request.log.path, MAX_LOG)?;
        request.with_cut(&bytes, "", codex::find_turn)
    }

    /// Lists the parts of all messages in a log, and marks those that a copy leaves out. Makes all
    /// the checks that [`Rewind::prepare_copy`] makes.
    pub(crate) fn list_parts(
        &self,
        request: &RewindRequest<'_>,
    ) -> Result<Vec<MessagePart>, RewindError> {
        self.prepare_copy(request)?;
        let bytes = foreign::read_regular(&request.log.path, MAX_LOG)?;
        request.with_cut(&bytes, "", cline::list_parts)
    }

    /// True if a conversation stays taken back only as long as takeback's plugin is installed.
    pub fn needs_plugin(&self) -> bool {
        self.in_place == InPlace::Plugin
    }

    /// Removes a session that another program has imported only in part.
    pub(crate) fn remove_imported(&self, session: &str) -> Result<(), RewindError> {
        match self.way {
            Way::Files(_) => Ok(()),
            Way::Import => opencode::remove_session(session),
        }
    }

    /// Returns true if a log contains exactly these messages. `own_directory` is for temporary
    /// files.
    pub fn is_at(
        &self,
        log: &LogRef,
        kept: &BTreeSet<String>,
        own_directory: &Path,
    ) -> Result<bool, RewindError> {
        let own = read_pages(self.log_format(), log)?;
        if !kept.is_empty() && has_exactly(&own, kept, &BTreeMap::new()) {
            return Ok(true);
        }
        let (pages, origins) = self.read_whole(log, own_directory)?;
        Ok(has_exactly(&pages, kept, &origins))
    }

    /// Returns true if all messages in a log are among the given ones.
    pub(crate) fn has_only(
        &self,
        log: &LogRef,
        known: &BTreeSet<&str>,
        own_directory: &Path,
    ) -> Result<bool, RewindError> {
        let (pages, origins) = self.read_whole(log, own_directory)?;
        Ok(check::has_only(&pages, known, &origins))
    }

    /// Reads a log, and the logs that it continues. Also returns a map from ids in the log to ids
    /// in the ledger, where the two differ.
    fn read_whole(
        &self,
        log: &LogRef,
        own_directory: &Path,
    ) -> Result<(Vec<LogPage>, BTreeMap<String, String>), RewindError> {
        let whole = match self.continues_logs {
            true => read_whole_log(&log.path, &foreign::read_regular(&log.path, MAX_LOG)?)?,
            false => None,
        };
        let Some(whole) = whole else {
            return Ok((read_pages(self.log_format(), log)?, BTreeMap::new()));
        };
        let beside = own_directory.join("whole.jsonl");
        Ok((read_content(self.log_format(), &whole.content, &beside)?, whole.origins))
    }

    pub(crate) fn log_format(&self) -> &'static LogFormat {
        log_format(self.agent).expect("every agent in the table has a log format")
    }

    /// Returns the command that continues a session.
    pub fn command(&self, session: &str, file: &Path) -> Vec<String> {
        let fill = |word: &&str| match *word {
            "{file}" => file.display().to_string(),
            word => word.replace("{}", session),
        };
        std::iter::once(self.program.to_owned())
            .chain(self.continue_with.iter().map(fill))
            .collect()
    }

    /// Returns the command that starts a new session.
    pub fn new_command(&self) -> Vec<String> {
        vec![self.program.to_owned()]
    }

    /// Returns the line to type into the running agent to continue a session, if the agent has such
    /// a line. `logs` is the directory of the agent's logs.
    pub fn typed(&self, session: &str, logs: Option<&Path>) -> Option<String> {
        let line = self.typed?;
        match line.contains("{saved}") {
            true => Some(line.replace("{saved}", &gemini::find_saved_chat(session, logs?)?)),
            false => Some(line.replace("{}", session)),
        }
    }

    /// Generates an id for a session, in the form that the agent uses.
    pub fn new_session(&self) -> String {
        let digits = hex::random_digits(32);
        match self.agent {
            "opencode" => format!("ses_{}", &digits[..26]),
            "cline" => format!("takeback_{}", &digits[..12]),
            _ => format!(
                "{}-{}-4{}-8{}-{}",
                &digits[..8],
                &digits[8..12],
                &digits[13..16],
                &digits[17..20],
                &digits[20..]
            ),
        }
    }
}
