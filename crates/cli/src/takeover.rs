//! Divides the work between `takeback acp` and the agent's own hooks in the same session.
//!
//! If an agent has takeback's hooks and an editor talks to it through `takeback acp`, the hooks and
//! the proxy both see each prompt and each call. The proxy reports the prompts. The hooks report
//! the calls, because the agent waits for hooks. Hooks and proxy share a directory, whose path the
//! agent's processes inherit:
//!
//! ```text
//! lock                locked by the proxy while it lives
//! <session>           a session of the proxy; the file's name is a digest of the session's id
//! <session>.calls     the ids of the calls that hooks reported, one per line; empty at first
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::durable::{self, FileLock};
use takeback_base::hex;
use takeback_undo::{Report, ReportedEvent};

/// The variable that tells the agent's processes the path of the directory.
pub(crate) const VARIABLE: &str = "TAKEBACK_ACP";

/// The directory in takeback's home that holds the directories of all proxies.
const ROOT: &str = "acp";

const LOCK: &str = "lock";

/// The content of the file that the directory holds for each session of the proxy.
#[derive(Serialize, Deserialize)]
struct SessionFile {
    /// The name of the agent in the ledger.
    agent: String,
}

/// The directory of this proxy.
pub(crate) struct Takeover {
    directory: PathBuf,
    _lock: FileLock,
}

/// The part of a report that a hook handles.
#[derive(Debug, PartialEq)]
pub(crate) enum HookDuty {
    /// The whole report, because no proxy reports this event.
    Report,
    /// Nothing, because the proxy reports this event.
    Nothing,
}

/// The reports that the hooks of an agent have made in a session of the proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HookReports {
    Nothing,
    /// The agent has hooks, but they have reported no call. Some agents run only some of their
    /// hooks when an editor uses them.
    NoCallYet,
    Calls,
}

impl Takeover {
    /// Creates the directory of a proxy, and removes the directories of proxies that were killed.
    pub(crate) fn begin(home: &Path) -> io::Result<Takeover> {
        let root = home.join(ROOT);
        // Until a new directory is locked, another proxy would mistake it for the directory of a
        // killed proxy.
        let _guard = FileLock::exclusive_on_directory(&root)?;
        for entry in durable::if_exists(fs::read_dir(&root))?.into_iter().flatten().flatten() {
            if !is_alive(&entry.path()) {
                // Another process may be removing the directory at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let mut number = 0;
        let directory = loop {
            let directory = root.join(format!("{}-{number}", std::process::id()));
            match durable::create_new_directory(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                created => break created.map(|()| directory)?,
            }
        };
        let lock = FileLock::exclusive(&directory.join(LOCK))?;
        Ok(Takeover { directory, _lock: lock })
    }

    /// Removes the directory. From now on, hooks report everything.
    pub(crate) fn end(&self) {
        // If this fails, the next proxy removes the directory.
        let _ = fs::remove_dir_all(&self.directory);
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes over a session from the agent's hooks.
    pub(crate) fn add_session(&self, agent: &str, session: &str) -> io::Result<()> {
        let file = SessionFile { agent: agent.to_owned() };
        let text = serde_json::to_vec(&file).expect("plain data becomes JSON");
        durable::replace_file(
            &self.directory.join(file_name(session)),
            &text,
            durable::Durability::Cached,
        )
    }

    /// Returns what the agent's hooks have reported in a session.
    pub(crate) fn hook_reports(&self, session: &str) -> HookReports {
        match fs::metadata(calls_file(&self.directory, session)) {
            Err(_) => HookReports::Nothing,
            Ok(file) if file.len() == 0 => HookReports::NoCallYet,
            Ok(_) => HookReports::Calls,
        }
    }

    /// Returns true if a hook has reported a call under this id.
    pub(crate) fn has_call(&self, session: &str, call: &str) -> bool {
        let calls = fs::read_to_string(calls_file(&self.directory, session)).unwrap_or_default();
        calls.lines().any(|known| known == digest(call))
    }
}

/// Determines which part of a report a hook handles, and assigns the report to the proxy's session.
/// `directory` is the value of [`VARIABLE`].
pub(crate) fn join_session(directory: Option<&Path>, report: &mut Report) -> HookDuty {
    let Some(directory) = directory.filter(|directory| is_alive(directory)) else {
        return HookDuty::Report;
    };
    // A subagent's calls are part of its parent's session.
    let session = report.parent.as_ref().unwrap_or(&report.session).clone();
    let file = fs::read(directory.join(file_name(&session)));
    let file: Option<SessionFile> = file.ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(file) = file else { return HookDuty::Report };
    report.agent = file.agent;
    // The agent's names for turns are unknown to the proxy.
    report.turn = None;
    let call = match &report.event {
        // A call without an id still shows that hooks report calls.
        ReportedEvent::BeforeTool(call) | ReportedEvent::AfterTool { call, .. } => {
            Some(call.id.as_deref().unwrap_or_default())
        }
        _ => None,
    };
    // If this fails, the proxy also reports the calls.
    let _ = note_call(directory, &session, call);
    let is_call =
        matches!(report.event, ReportedEvent::BeforeTool(_) | ReportedEvent::AfterTool { .. });
    match is_call || report.parent.is_some() {
        true => HookDuty::Report,
        false => HookDuty::Nothing,
    }
}

/// Records that the agent's hooks are used in a session. If `call` is given, also records its id.
fn note_call(directory: &Path, session: &str, call: Option<&str>) -> io::Result<()> {
    let mut file = durable::append_file(&calls_file(directory, session))?;
    match call {
        Some(call) => writeln!(file, "{}", digest(call)),
        None => Ok(()),
    }
}

/// Returns true if the proxy that owns this directory is still running.
fn is_alive(directory: &Path) -> bool {
    let path = directory.join(LOCK);
    File::open(&path).is_ok() && matches!(FileLock::try_exclusive(&path), Ok(None))
}

fn calls_file(directory: &Path, session: &str) -> PathBuf {
    directory.join(format!("{}.calls", file_name(session)))
}

fn file_name(session: &str) -> String {
    digest(session)
}

fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use takeback_undo::ToolCall;

    use super::*;

    fn report(session: &str, parent: Option<&str>, event: ReportedEvent) -> Report {
        Report {
            agent: "claude".into(),
            session: session.into(),
            parent: parent.map(str::to_owned),
            turn: Some(takeback_undo::TurnId::Name("p1".into())),
            directory: "/shop".into(),
            model: None,
            event,
        }
    }

    fn call(id: &str) -> ReportedEvent {
        ReportedEvent::BeforeTool(ToolCall { id: Some(id.into()), ..ToolCall::default() })
    }

    #[test]
    fn hooks_leave_prompts_to_the_proxy_but_report_calls() {
        let home = tempfile::tempdir().unwrap();
        let takeover = Takeover::begin(home.path()).unwrap();
        takeover.add_session("acp", "s/1").unwrap();
        let directory = Some(takeover.directory());
        assert_eq!(takeover.hook_reports("s/1"), HookReports::Nothing);
        let mut turn = report("s/1", None, ReportedEvent::TurnStart { prompt: None });
        assert_eq!(join_session(directory, &mut turn), HookDuty::Nothing);
        assert_eq!(takeover.hook_reports("s/1"), HookReports::NoCallYet);
        assert!(!takeover.has_call("s/1", "c1"));
        let mut first = report("s/1", None, call("c1"));
        assert_eq!(join_session(directory, &mut first), HookDuty::Report);
        assert_eq!((first.session_id().as_str(), &first.turn), ("acp:s/1", &None));
        assert!(takeover.has_call("s/1", "c1") && !takeover.has_call("s/1", "c"));
        assert_eq!(takeover.hook_reports("s/1"), HookReports::Calls);
        let mut child = report("s/1/x", Some("s/1"), ReportedEvent::SessionStart);
        assert_eq!(join_session(directory, &mut child), HookDuty::Report);
        assert_eq!(child.session_id(), "acp:s/1/x");
    }

    #[test]
    fn hooks_of_other_sessions_and_of_a_killed_proxy_report_everything() {
        let home = tempfile::tempdir().unwrap();
        let takeover = Takeover::begin(home.path()).unwrap();
        takeover.add_session("claude", "s").unwrap();
        let prompt = || report("other", None, ReportedEvent::TurnStart { prompt: None });
        let mut other = prompt();
        assert_eq!(join_session(Some(takeover.directory()), &mut other), HookDuty::Report);
        assert_eq!(other, prompt());
        assert_eq!(join_session(None, &mut other), HookDuty::Report);
        // A killed proxy leaves its directory behind, without a lock.
        let killed = home.path().join("acp/1-0");
        fs::create_dir(&killed).unwrap();
        for entry in fs::read_dir(takeover.directory()).unwrap().flatten() {
            fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
        }
        let mut turn = report("s", None, ReportedEvent::TurnStart { prompt: None });
        assert_eq!(join_session(Some(&killed), &mut turn), HookDuty::Report);
        let next = Takeover::begin(home.path()).unwrap();
        assert!(!killed.exists() && takeover.directory().exists());
        next.end();
        assert_eq!(fs::read_dir(home.path().join("acp")).unwrap().count(), 1);
    }
}
