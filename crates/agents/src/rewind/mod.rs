//! Returning an agent's own conversation to an earlier point, by writing a copy of its log that
//! ends there.
//!
//! The ways are listed in a table, [`REWINDS`]. The original is never changed, so going forward
//! again means continuing the original. A copy is written only if everything about it is certain:
//! the format is known, the first message to leave out is found exactly once, and reading the copy
//! with takeback's own reader yields exactly the messages that are to be kept. Otherwise nothing is
//! written, and the user is told how to go back by hand.

mod chain;
mod cline;
mod codex;
mod copilot;
mod droid;
mod gemini;
mod lines;
mod pi;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_base::{durable, foreign, hex};
use takeback_ledger::{LogFact, LogPage, MessageRecord};

use crate::logs::{LogError, LogFormat, LogRef, log_format};

/// The maximum size of a log that is copied.
const MAX_LOG: u64 = 512 << 20;

/// The way in which an agent's own conversation is taken back.
pub struct Rewind {
    /// The name of the agent.
    pub agent: &'static str,
    /// Makes the files of the copy.
    cut: fn(&Cut<'_>) -> Result<Copy, RewindError>,
    /// The words that start the agent anew, in the directory of the conversation.
    program: &'static str,
    /// The words, after the program, that continue a conversation. `{}` stands for its id, and
    /// `{file}` for its file.
    continue_with: &'static [&'static str],
    /// The line that continues a conversation if it is typed into the running agent.
    typed: Option<&'static str>,
    /// False if the agent gives the copy another id when it opens it.
    pub keeps_id: bool,
}

/// All ways.
pub const REWINDS: &[Rewind] = &[
    Rewind {
        agent: "claude",
        cut: chain::cut_claude,
        program: "claude",
        continue_with: &["--resume", "{}"],
        typed: Some("/resume {}"),
        keeps_id: true,
    },
    Rewind {
        agent: "codex",
        cut: codex::cut,
        program: "codex",
        continue_with: &["resume", "{}"],
        typed: Some("/resume {}"),
        keeps_id: true,
    },
    Rewind {
        agent: "gemini",
        cut: gemini::cut,
        program: "gemini",
        continue_with: &["--session-file", "{file}"],
        typed: None,
        keeps_id: false,
    },
    Rewind {
        agent: "qwen",
        cut: chain::cut_qwen,
        program: "qwen",
        continue_with: &["--resume", "{}"],
        typed: Some("/resume {}"),
        keeps_id: true,
    },
    Rewind {
        agent: "copilot",
        cut: copilot::cut,
        program: "copilot",
        continue_with: &["--resume={}"],
        typed: Some("/resume {}"),
        keeps_id: true,
    },
    Rewind {
        agent: "droid",
        cut: droid::cut,
        program: "droid",
        continue_with: &["--resume", "{}"],
        typed: None,
        keeps_id: true,
    },
    Rewind {
        agent: "cline",
        cut: cline::cut,
        program: "cline",
        continue_with: &["-i", "--id", "{}"],
        typed: None,
        keeps_id: true,
    },
    Rewind {
        agent: "pi",
        cut: pi::cut,
        program: "pi",
        continue_with: &["--session", "{}"],
        typed: None,
        keeps_id: true,
    },
];

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
    /// The origins of the messages to keep.
    pub kept: &'a BTreeSet<String>,
    /// The origin of the first message to leave out.
    pub first_gone: &'a str,
    /// True if that message is the user's prompt, with which a turn begins.
    pub is_prompt: bool,
    /// The directory for copies that the agent reads from any place.
    pub own_directory: &'a Path,
}

/// A copy that was written.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct WrittenCopy {
    /// The agent's own id of the new session.
    pub session: String,
    pub log: LogRef,
    /// The content of the new log, for the ledger.
    pub pages: Vec<LogPage>,
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
    /// The agent's own id of the first entry to leave out.
    anchor: &'a str,
    is_prompt: bool,
    own_directory: &'a Path,
}

/// The files of a copy.
struct Copy {
    log: PathBuf,
    content: Vec<u8>,
    /// Other files that belong to the session. They are written first.
    others: Vec<(PathBuf, Vec<u8>)>,
}

impl Copy {
    fn of_log(log: PathBuf, content: Vec<u8>) -> Copy {
        Copy { log, content, others: Vec::new() }
    }
}

impl Rewind {
    /// Writes a copy of a conversation that ends before a message.
    pub fn write_copy(&self, request: &RewindRequest<'_>) -> Result<WrittenCopy, RewindError> {
        let path = &request.log.path;
        let bytes = foreign::read_regular(path, MAX_LOG)?;
        let new = new_id(self.agent);
        // An entry of the ledger may be a part of an entry of the log.
        let anchor = request.first_gone.split('/').next().unwrap_or_default();
        let copy = (self.cut)(&Cut {
            path,
            bytes: &bytes,
            old: request.session,
            new: &new,
            anchor,
            is_prompt: request.is_prompt,
            own_directory: request.own_directory,
        })?;
        let format = log_format(self.agent).expect("every agent in the table has a log format");
        let pages = write_files(format, &copy, request.kept)?;
        // What was read must not have been in the middle of a change.
        if foreign::read_regular(path, MAX_LOG)?.get(..bytes.len()) != Some(&bytes[..]) {
            durable::ignore_missing(std::fs::remove_file(&copy.log))?;
            return Err(RewindError::Busy);
        }
        Ok(WrittenCopy { session: new, log: LogRef { path: copy.log, session: None }, pages })
    }

    /// Returns true if a log contains exactly these messages.
    pub fn is_at(&self, log: &LogRef, kept: &BTreeSet<String>) -> Result<bool, RewindError> {
        let format = log_format(self.agent).expect("every agent in the table has a log format");
        Ok(list_origins(&read_pages(format, log)?) == *kept)
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
}

/// Makes an id for a session, in the form that the agent uses.
fn new_id(agent: &str) -> String {
    let digits = hex::random_digits(32);
    match agent {
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

/// Writes the files of a copy under temporary names, checks the log, and moves them into place.
/// Nothing that exists is replaced.
fn write_files(
    format: &LogFormat,
    copy: &Copy,
    kept: &BTreeSet<String>,
) -> Result<Vec<LogPage>, RewindError> {
    let directory = copy.log.parent().unwrap_or(Path::new("/"));
    durable::create_directory(directory)?;
    let (checked, pages) = check_copy(format, copy, kept)?;
    for (path, content) in &copy.others {
        let mut file = durable::Temporary::create_beside(path)?;
        file.write_all(content)?;
        file.sync_all()?;
        file.persist_new(path)?;
    }
    checked.persist_new(&copy.log)?;
    durable::sync_directory(directory)?;
    Ok(pages)
}

/// Writes the log under a temporary name, and reads it as takeback reads every log.
fn check_copy(
    format: &LogFormat,
    copy: &Copy,
    kept: &BTreeSet<String>,
) -> Result<(durable::Temporary, Vec<LogPage>), RewindError> {
    let mut file = durable::Temporary::create_beside(&copy.log)?;
    file.write_all(&copy.content)?;
    file.sync_all()?;
    let log = LogRef { path: file.path().to_owned(), session: None };
    let mut pages = read_pages(format, &log)?;
    if list_origins(&pages) != *kept {
        return Err(RewindError::Differs);
    }
    if has_open_call(&pages) {
        return Err(RewindError::OpenCall);
    }
    for page in &mut pages {
        page.to.log = copy.log.display().to_string();
    }
    Ok((file, pages))
}

fn read_pages(format: &LogFormat, log: &LogRef) -> Result<Vec<LogPage>, RewindError> {
    let mut pages: Vec<LogPage> = Vec::new();
    loop {
        let read = format.read_page(log, pages.last().map(|page| page.to.clone()))?;
        if !read.bad_lines.is_empty() {
            return Err(RewindError::UnknownFormat("a line is not JSON"));
        }
        pages.push(read.page);
        if !read.has_more {
            return Ok(pages);
        }
    }
}

fn messages(pages: &[LogPage]) -> impl Iterator<Item = (&str, &MessageRecord)> {
    let entries = pages.iter().flat_map(|page| &page.entries);
    entries.filter_map(|entry| match &entry.fact {
        LogFact::Message(message) | LogFact::Summary(message) => {
            Some((entry.origin.as_str(), &**message))
        }
        _ => None,
    })
}

fn list_origins(pages: &[LogPage]) -> BTreeSet<String> {
    messages(pages).map(|(origin, _)| origin.to_owned()).collect()
}

/// Returns true if a call has no result.
fn has_open_call(pages: &[LogPage]) -> bool {
    let mut open = BTreeSet::new();
    for (_, message) in messages(pages) {
        let calls = message.tool_calls.as_ref().and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            open.extend(call["id"].as_str().map(str::to_owned));
        }
        if let Some(result) = &message.tool_call_id {
            open.remove(result);
        }
    }
    !open.is_empty()
}
