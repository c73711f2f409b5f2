//! Reading agents' own logs of their conversations into the ledger, starting where the last read
//! stopped.
//!
//! The formats are listed in a table, [`LOG_FORMATS`]. A line that is not complete yet is left for
//! the next read. A line that cannot be parsed is counted. A record of an unknown kind is ignored.

mod anthropic_content;
mod claude;
mod cline;
mod codex;
mod copilot;
mod document_log;
mod droid;
mod entry_writer;
mod gemini;
mod google_content;
mod line_log;
mod log_identity;
mod log_ref;
mod opencode;
mod pi;
mod qwen;
mod reader_state;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_ledger::{Bookmark, Ledger, LedgerError, LogFact, LogIntake, LogPage, Time, Tokens};

pub(crate) use self::codex::generation as codex_generation;
pub(crate) use self::gemini::{PROJECT_ROOT, find_project_root};
pub use self::log_ref::LogRef;

use self::entry_writer::{EntryRef, EntryWriter};
use self::reader_state::ReaderState;

/// The location and format of an agent's logs.
pub struct LogFormat {
    /// The name of the agent.
    pub agent: &'static str,
    /// The environment variable that holds the path of the agent's own directory.
    pub env_var: Option<&'static str>,
    /// The path of the agent's own directory if the variable is not set, relative to the user's
    /// home directory.
    pub home_directory: &'static str,
    /// The path of the log directory, relative to the agent's own directory.
    pub log_directory: &'static str,
    shape: LogShape,
    /// The endings of log file names.
    endings: &'static [&'static str],
}

/// A function that reads one record of a log: a line, or a whole document.
type ReadRecord = fn(&Value, &mut ReadContext<'_>);

/// The structure of a log.
enum LogShape {
    /// One JSON object per line.
    Lines(ReadRecord),
    /// One JSON document, which the agent rewrites on every change.
    Document(ReadRecord),
    /// One JSON object per line, or a document in older versions of the agent.
    LinesOrDocument(ReadRecord, ReadRecord),
    /// The opencode database.
    Database,
}

/// The input and output of a format's reader.
struct ReadContext<'a> {
    /// The path of the log.
    path: &'a Path,
    /// The offset of the line in the log.
    offset: u64,
    /// Facts from earlier lines.
    state: &'a mut ReaderState,
    out: &'a mut EntryWriter,
}

impl ReadContext<'_> {
    /// Counts the tokens of an entry that the agent may log several times. Tokens that were counted
    /// before are left out.
    fn count_tokens(&mut self, entry: &EntryRef, tokens: Tokens, model: Option<&str>) {
        if tokens == Tokens::default() {
            return;
        }
        let (more, is_first) = self.state.count_tokens(&entry.origin, tokens);
        let entry = if is_first { entry.clone() } else { entry.part(tokens.total()) };
        self.out.push_usage(&entry, more.to_usage(model, i64::from(is_first)));
    }
}

/// All log formats that takeback reads.
pub const LOG_FORMATS: &[LogFormat] = &[
    LogFormat {
        agent: "claude",
        env_var: Some("CLAUDE_CONFIG_DIR"),
        home_directory: ".claude",
        log_directory: "projects",
        shape: LogShape::Lines(claude::read_line),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "codex",
        env_var: Some("CODEX_HOME"),
        home_directory: ".codex",
        log_directory: "sessions",
        shape: LogShape::Lines(codex::read_line),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "gemini",
        env_var: Some("GEMINI_CLI_HOME"),
        home_directory: "",
        log_directory: ".gemini/tmp",
        shape: LogShape::LinesOrDocument(gemini::read_line, gemini::read_document),
        endings: &[".jsonl", ".json"],
    },
    LogFormat {
        agent: "qwen",
        env_var: Some("QWEN_HOME"),
        home_directory: ".qwen",
        log_directory: "projects",
        shape: LogShape::Lines(qwen::read_line),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "droid",
        env_var: Some("FACTORY_HOME_OVERRIDE"),
        home_directory: "",
        log_directory: ".factory/sessions",
        shape: LogShape::Lines(droid::read_line),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "copilot",
        env_var: Some("COPILOT_HOME"),
        home_directory: ".copilot",
        log_directory: "session-state",
        shape: LogShape::Lines(copilot::read_line),
        endings: &["events.jsonl"],
    },
    LogFormat {
        agent: "cline",
        env_var: Some("CLINE_DIR"),
        home_directory: ".cline",
        log_directory: "data/sessions",
        shape: LogShape::Document(cline::read_document),
        endings: &[".messages.json"],
    },
    LogFormat {
        agent: "opencode",
        env_var: Some("XDG_DATA_HOME"),
        home_directory: ".local/share",
        log_directory: "opencode",
        shape: LogShape::Database,
        endings: &["opencode.db"],
    },
    LogFormat {
        agent: "pi",
        env_var: Some("PI_CODING_AGENT_DIR"),
        home_directory: ".pi/agent",
        log_directory: "sessions",
        shape: LogShape::Lines(pi::read_line),
        endings: &[".jsonl"],
    },
];

/// Finds an agent's log format.
pub fn log_format(agent: &str) -> Option<&'static LogFormat> {
    LOG_FORMATS.iter().find(|format| format.agent == agent)
}

/// The result of reading one page of a log.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ReadPage {
    pub page: LogPage,
    /// The numbers of the lines that could not be parsed, starting at 1.
    pub bad_lines: Vec<u64>,
    pub has_more: bool,
}

/// The reason why a log could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum LogError {
    /// Reading the file failed.
    #[error("cannot read {path}")]
    Io { path: PathBuf, source: io::Error },
    /// The document is not in the agent's format.
    #[error("cannot parse {path}: {reason}")]
    Malformed { path: PathBuf, reason: String },
    /// Reading the database failed.
    #[error("cannot read the database {path}")]
    Database { path: PathBuf, source: rusqlite::Error },
    /// Reading or writing the ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The maximum number of bad lines whose numbers are kept.
const MAX_BAD_LINES: usize = 1_000;

/// The result of reading a log to its end.
#[derive(Clone, Debug, Default)]
pub struct CatchUp {
    /// The sessions and messages that were added to the ledger.
    pub taken_in: LogIntake,
    /// The numbers of the first 1,000 lines that could not be parsed, starting at 1.
    pub bad_lines: Vec<u64>,
}

impl LogFormat {
    /// Reads the next page of a log, after a bookmark or from the beginning.
    pub fn read_page(&self, log: &LogRef, from: Option<Bookmark>) -> Result<ReadPage, LogError> {
        let is_document = log.path.extension() == Some("json".as_ref());
        let read = match (&self.shape, &log.session) {
            (LogShape::Lines(read), _) => line_log::read_page(self.agent, &log.path, from, *read),
            (LogShape::Document(read), _) => {
                document_log::read_page(self.agent, &log.path, from, *read)
            }
            (LogShape::LinesOrDocument(_, read), _) if is_document => {
                document_log::read_page(self.agent, &log.path, from, *read)
            }
            (LogShape::LinesOrDocument(read, _), _) => {
                line_log::read_page(self.agent, &log.path, from, *read)
            }
            (LogShape::Database, Some(session)) => {
                return opencode::read_page(self.agent, &log.path, session, from);
            }
            (LogShape::Database, None) => return Ok(ReadPage::default()),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                LogError::Malformed { path: log.path.clone(), reason: error.to_string() }
            }
            _ => LogError::Io { path: log.path.clone(), source: error },
        })
    }

    /// Reads the rest of a log into the ledger. `root` maps a directory to its workspace.
    pub fn catch_up(
        &self,
        ledger: &mut Ledger,
        log: &LogRef,
        root: &dyn Fn(&Path) -> PathBuf,
        now: Time,
    ) -> Result<CatchUp, LogError> {
        let mut caught_up = CatchUp::default();
        let name = log.name();
        loop {
            let mut read = self.read_page(log, ledger.bookmark(&name)?)?;
            if read.page.from.as_ref() == Some(&read.page.to) {
                return Ok(caught_up);
            }
            for entry in &mut read.page.entries {
                if let LogFact::Session(record) = &mut entry.fact
                    && let Some(directory) = &mut record.workspace
                {
                    *directory = root(Path::new(directory)).display().to_string();
                }
            }
            // If another process has moved the bookmark in the meantime, continue from there.
            let Some(taken_in) = ledger.take_in_page(&read.page, now)? else { continue };
            let room = MAX_BAD_LINES.saturating_sub(caught_up.bad_lines.len());
            caught_up.bad_lines.extend(read.bad_lines.into_iter().take(room));
            caught_up.taken_in.add(taken_in);
            if !read.has_more {
                return Ok(caught_up);
            }
        }
    }
}
