//! Returning an agent's own conversation to an earlier point, by writing a copy of its log that
//! ends there.
//!
//! The ways are listed in a table, [`REWINDS`]. The original is never changed, so going forward
//! again means continuing the original. A copy is written only if everything about it is certain:
//! the format is known, the first message to leave out is found exactly once, and reading the copy
//! with takeback's own reader yields exactly the messages that are to be kept. Otherwise nothing is
//! written, and the user is told how to go back by hand.
//!
//! `check` compares a copy with the messages to keep, `copy` writes its files, and there is one
//! module per format.

mod chain;
mod check;
mod cline;
mod codex;
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
use takeback_ledger::Time;

pub(crate) use self::check::read_pages;
pub use self::copy::PreparedCopy;
pub(crate) use self::copy::{missing_directories, remove_copy, remove_temporary_files};
pub use self::directory::MovedDirectory;
pub use self::table::REWINDS;

pub(crate) use self::check::count_messages;
use self::check::{check_content, has_exactly};
use crate::logs::{LogError, LogFormat, LogRef, log_format};

/// The maximum size of a log that is copied.
pub(crate) const MAX_LOG: u64 = 512 << 20;

/// The way in which an agent's own conversation is taken back.
pub struct Rewind {
    /// The name of the agent.
    pub agent: &'static str,
    way: Way,
    /// The words that start the agent anew, in the directory of the conversation.
    program: &'static str,
    /// The words, after the program, that continue a conversation. `{}` stands for its id, and
    /// `{file}` for its file.
    continue_with: &'static [&'static str],
    /// The line that continues a conversation if it is typed into the running agent.
    typed: Option<&'static str>,
    /// True if the agent may delete the log of a session that it has continued.
    pub may_delete_logs: bool,
}

/// The way in which a copy comes into being.
enum Way {
    /// takeback writes files, which this function makes.
    Files(fn(&Cut<'_>) -> Result<Copy, RewindError>),
    /// opencode imports a document.
    Import,
}

/// Finds the way of an agent.
pub fn find_rewind(agent: &str) -> Option<&'static Rewind> {
    REWINDS.iter().find(|rewind| rewind.agent == agent)
}

/// The conversation to copy, and the point where the copy ends.
#[derive(Clone, Debug)]
pub struct RewindRequest<'a> {
    /// The log of the conversation.
    pub log: &'a LogRef,
    /// The agent's own id of the session.
    pub session: &'a str,
    /// The agent's own id of the new session. `None` generates one.
    pub new: Option<&'a str>,
    /// The origins of the messages to keep.
    pub kept: &'a BTreeSet<String>,
    /// The origin of the last message to keep.
    pub last: &'a str,
    /// The first message to leave out; `None` if the whole conversation is copied.
    pub gone: Option<GoneMessage<'a>>,
    /// The directory that the copy works in, if it is not that of the original.
    pub moved: Option<MovedDirectory<'a>>,
    /// The directory for files of takeback's own, such as copies that the agent reads from any
    /// place.
    pub own_directory: &'a Path,
    /// The time at which the copy is made.
    pub now: Time,
}

/// The first message that a copy leaves out.
#[derive(Clone, Copy, Debug)]
pub struct GoneMessage<'a> {
    /// The agent's own id for it.
    pub origin: &'a str,
    /// True if it is the user's prompt, with which a turn begins.
    pub is_prompt: bool,
}

/// The reason why a conversation was not copied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RewindError {
    #[error("its log has a format that takeback does not know ({0})")]
    UnknownFormat(&'static str),
    #[error("the message to go back to is not in its log exactly once")]
    NoAnchor,
    #[error("a tool call would be left without its result")]
    OpenCall,
    #[error("its log has other messages than the ledger")]
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
struct Cut<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    /// The agent's own ids of the old and the new session.
    old: &'a str,
    new: &'a str,
    /// The agent's own id of the last entry to keep.
    last: &'a str,
    /// The agent's own id of the first entry to leave out; `None` if nothing is left out.
    anchor: Option<&'a str>,
    is_prompt: bool,
    moved: Option<MovedDirectory<'a>>,
    own_directory: &'a Path,
}

/// The content of a copy.
struct Copy {
    log: PathBuf,
    content: Vec<u8>,
    /// Other files that belong to the session. They are written first.
    others: Vec<(PathBuf, Vec<u8>)>,
    /// The ids of entries that differ from the original's: the new id and the old one.
    origins: BTreeMap<String, String>,
}

impl Copy {
    fn of_log(log: PathBuf, content: Vec<u8>) -> Copy {
        Copy { log, content, others: Vec::new(), origins: BTreeMap::new() }
    }
}

impl Rewind {
    /// Makes a copy of a conversation, which ends before a message, and checks it. Nothing is
    /// written yet among the agent's files.
    pub fn prepare_copy(&self, request: &RewindRequest<'_>) -> Result<PreparedCopy, RewindError> {
        let new = request.new.map_or_else(|| self.new_session(), str::to_owned);
        let cut = match self.way {
            Way::Files(cut) => cut,
            Way::Import => return opencode::prepare(self.log_format(), request, new),
        };
        let path = &request.log.path;
        let bytes = foreign::read_regular(path, MAX_LOG)?;
        // An entry of the ledger may be a part of an entry of the log.
        let entry = |origin: &'_ str| origin.split('/').next().unwrap_or_default().to_owned();
        let (last, anchor) = (entry(request.last), request.gone.map(|gone| entry(gone.origin)));
        let copy = cut(&Cut {
            path,
            bytes: &bytes,
            old: request.session,
            new: &new,
            last: &last,
            anchor: anchor.as_deref(),
            is_prompt: request.gone.is_some_and(|gone| gone.is_prompt),
            moved: request.moved,
            own_directory: request.own_directory,
        })?;
        let pages = check_content(self.log_format(), &copy, request)?;
        // What was read must not have been in the middle of a change.
        if foreign::read_regular(path, MAX_LOG)?.get(..bytes.len()) != Some(&bytes[..]) {
            return Err(RewindError::Busy);
        }
        Ok(PreparedCopy::of_files(new, copy, pages))
    }

    /// Removes a session that another program has imported only in part.
    pub(crate) fn remove_imported(&self, session: &str) -> Result<(), RewindError> {
        match self.way {
            Way::Files(_) => Ok(()),
            Way::Import => opencode::remove_session(session),
        }
    }

    /// Returns true if a log contains exactly these messages.
    pub fn is_at(&self, log: &LogRef, kept: &BTreeSet<String>) -> Result<bool, RewindError> {
        let pages = read_pages(self.log_format(), log)?;
        Ok(has_exactly(&pages, kept, &BTreeMap::new()))
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

    /// Returns the line to type into the running agent, if it has one that continues a session.
    pub fn typed(&self, session: &str) -> Option<String> {
        self.typed.map(|line| line.replace("{}", session))
    }

    /// Makes an id for a session, in the form that the agent uses.
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
