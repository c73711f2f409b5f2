//! Agents' own logs of their conversations: read as far as they go, and on from there.
//!
//! Formats are a table, [`LOGS`]. A line that is not complete yet is left for the next time, one
//! that cannot be read is counted, one of an unknown kind is passed over.

mod anthropic;
mod claude;
mod cline;
mod codex;
mod copilot;
mod document;
mod droid;
mod find;
mod gemini;
mod google;
mod identity;
mod lines;
mod opencode;
mod page;
mod pi;
mod qwen;
mod state;

use std::io;
use std::path::{Path, PathBuf};

use takeback_ledger::{Bookmark, Ledger, LedgerError, LogPage, TakenIn, Time, Told};

pub use find::Found;

use self::page::{At, Writer};
use self::state::{State, Tokens};

/// How an agent keeps its logs.
pub struct LogFormat {
    /// The agent.
    pub agent: &'static str,
    /// The variable of the environment that says where its files are.
    pub variable: Option<&'static str>,
    /// Where they are otherwise, in the user's home directory.
    pub home: &'static str,
    /// Where its logs are among them.
    pub logs: &'static str,
    shape: Shape,
    /// How the names of its logs end.
    endings: &'static [&'static str],
}

enum Shape {
    /// One JSON object per line.
    Lines(fn(&serde_json::Value, &mut Reading<'_>)),
    /// One JSON document, written anew each time.
    Document(fn(&serde_json::Value, &mut Reading<'_>)),
    /// JSON by lines, or a document in older versions.
    Either(fn(&serde_json::Value, &mut Reading<'_>), fn(&serde_json::Value, &mut Reading<'_>)),
    /// opencode's database.
    Database,
}

/// What a format's reader works with.
struct Reading<'a> {
    /// The log.
    path: &'a Path,
    /// Where the line begins.
    offset: u64,
    /// What is known from what was read before.
    state: &'a mut State,
    /// Where entries go.
    out: &'a mut Writer,
}

impl Reading<'_> {
    /// Tokens of an entry that may be written again: what was not counted yet.
    fn count(&mut self, at: &At, tokens: Tokens, model: Option<&str>) {
        if tokens == Tokens::default() {
            return;
        }
        let (more, is_first) = self.state.count(&at.origin, tokens);
        let at = if is_first { at.clone() } else { at.part(tokens.total()) };
        self.out.usage(&at, more.usage(model, i64::from(is_first)));
    }
}

/// Every format that is known.
pub const LOGS: &[LogFormat] = &[
    LogFormat {
        agent: "claude",
        variable: Some("CLAUDE_CONFIG_DIR"),
        home: ".claude",
        logs: "projects",
        shape: Shape::Lines(claude::read),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "codex",
        variable: Some("CODEX_HOME"),
        home: ".codex",
        logs: "sessions",
        shape: Shape::Lines(codex::read),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "gemini",
        variable: Some("GEMINI_CLI_HOME"),
        home: "",
        logs: ".gemini/tmp",
        shape: Shape::Either(gemini::read, gemini::read_document),
        endings: &[".jsonl", ".json"],
    },
    LogFormat {
        agent: "qwen",
        variable: Some("QWEN_HOME"),
        home: ".qwen",
        logs: "projects",
        shape: Shape::Lines(qwen::read),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "droid",
        variable: Some("FACTORY_HOME_OVERRIDE"),
        home: "",
        logs: ".factory/sessions",
        shape: Shape::Lines(droid::read),
        endings: &[".jsonl"],
    },
    LogFormat {
        agent: "copilot",
        variable: Some("COPILOT_HOME"),
        home: ".copilot",
        logs: "session-state",
        shape: Shape::Lines(copilot::read),
        endings: &["events.jsonl"],
    },
    LogFormat {
        agent: "cline",
        variable: Some("CLINE_DIR"),
        home: ".cline",
        logs: "data/sessions",
        shape: Shape::Document(cline::read),
        endings: &[".messages.json"],
    },
    LogFormat {
        agent: "opencode",
        variable: Some("XDG_DATA_HOME"),
        home: ".local/share",
        logs: "opencode",
        shape: Shape::Database,
        endings: &["opencode.db"],
    },
    LogFormat {
        agent: "pi",
        variable: Some("PI_CODING_AGENT_DIR"),
        home: ".pi/agent",
        logs: "sessions",
        shape: Shape::Lines(pi::read),
        endings: &[".jsonl"],
    },
];

/// How the agent of this name keeps its logs.
pub fn log_format(agent: &str) -> Option<&'static LogFormat> {
    LOGS.iter().find(|format| format.agent == agent)
}

/// A part of a log, and what could not be read of it.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// What it says.
    pub page: LogPage,
    /// Lines that cannot be read, from 1.
    pub bad: Vec<u64>,
    /// Whether there is more.
    pub more: bool,
}

/// Why a log was not read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file.
    #[error("cannot read {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The document is not what it should be.
    #[error("{path} cannot be read: {reason}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The database.
    #[error("cannot read the database {path}")]
    Database {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// What reading a log to its end brought in.
#[derive(Clone, Debug, Default)]
pub struct CaughtUp {
    /// What is in the ledger.
    pub taken: TakenIn,
    /// Lines that cannot be read, from 1.
    pub bad: Vec<u64>,
}

impl LogFormat {
    /// Reads on in a log from where somebody stopped.
    pub fn read(&self, found: &Found, from: Option<Bookmark>) -> Result<Read, LogError> {
        let read = match (&self.shape, &found.session) {
            (Shape::Lines(read), _) => lines::read(self.agent, &found.path, from, *read),
            (Shape::Document(read), _) => document::read(self.agent, &found.path, from, *read),
            (Shape::Either(_, read), _) if found.path.extension() == Some("json".as_ref()) => {
                document::read(self.agent, &found.path, from, *read)
            }
            (Shape::Either(read, _), _) => lines::read(self.agent, &found.path, from, *read),
            (Shape::Database, Some(session)) => {
                return opencode::read(self.agent, &found.path, session, from);
            }
            (Shape::Database, None) => return Ok(Read::default()),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                LogError::Malformed { path: found.path.clone(), reason: error.to_string() }
            }
            _ => LogError::Io { path: found.path.clone(), source: error },
        })
    }

    /// Brings a log into the ledger, as far as it goes. `root` gives the workspace that a directory
    /// belongs to.
    pub fn catch_up(
        &self,
        ledger: &mut Ledger,
        found: &Found,
        root: &dyn Fn(&Path) -> PathBuf,
        now: Time,
    ) -> Result<CaughtUp, LogError> {
        let mut caught_up = CaughtUp::default();
        let log = found.name();
        loop {
            let mut read = self.read(found, ledger.bookmark(&log)?)?;
            if read.page.from.as_ref() == Some(&read.page.to) {
                return Ok(caught_up);
            }
            for entry in &mut read.page.entries {
                if let Told::Session(record) = &mut entry.told
                    && let Some(directory) = &mut record.workspace
                {
                    *directory = root(Path::new(directory)).display().to_string();
                }
            }
            // Somebody else has read on meanwhile: from there, then.
            let Some(taken) = ledger.take_in_page(&read.page, now)? else { continue };
            caught_up.bad.extend(read.bad);
            caught_up.taken.add(taken);
            if !read.more {
                return Ok(caught_up);
            }
        }
    }
}
