//! The tool call that a report is about: its identity, its turn, and what it may change.

use std::path::{Path, PathBuf};

use takeback_base::paths::canonicalize_parent;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, RelPath};

use super::deadline::Deadline;
use super::report::{Report, ReportedEvent, ToolCall, ToolWork};
use super::session::{Workplace, find_owner};
use super::state::{CallKey, SessionState, Turn, file_name};
use crate::Opened;
use crate::history::record::CallRef;
use crate::shell::{self, ScriptAnalysis, ScriptContext};

/// A tool call, and everything about it that its checkpoints record.
pub(super) struct CallContext<'a> {
    pub(super) report: &'a Report,
    pub(super) call: &'a ToolCall,
    pub(super) workplace: &'a Workplace,
    pub(super) deadline: &'a Deadline,
    /// The analysis of the script, if the call runs one.
    pub(super) analysis: Option<ScriptAnalysis>,
    pub(super) mutates: bool,
    /// The session that reports the call.
    pub(super) reporter: String,
    /// The session that the call belongs to. For a subagent's call, this is the parent session.
    pub(super) session: String,
    /// The workspace of `session`. The call itself may work elsewhere.
    pub(super) session_workspace: AnyPath,
    pub(super) turn: Turn,
    pub(super) key: CallKey,
    pub(super) id: String,
    pub(super) time: Time,
    /// True if this is not a call, but the prompt that begins the turn.
    pub(super) is_prompt: bool,
}

/// The paths that a script writes in one directory.
#[derive(Clone, Default)]
pub(super) struct ScriptWrites {
    pub(super) paths: Vec<RelPath>,
    /// True if the script is known to change nothing else in that directory.
    pub(super) bounded: bool,
}

impl<'a> CallContext<'a> {
    pub(super) fn new(
        opened: &Opened,
        report: &'a Report,
        call: &'a ToolCall,
        workplace: &'a Workplace,
        session: &SessionState,
        deadline: &'a Deadline,
    ) -> CallContext<'a> {
        let within = workplace.is_workspace.then_some(workplace.root.as_path());
        let analysis = analyze_call(opened, call, &report.directory, within);
        let mutates = may_mutate(call, analysis.as_ref());
        let time = opened.now();
        let key = call_key(call);
        let id = match (&call.id, mutates) {
            (Some(id), _) => id.clone(),
            // The same command may run many times in a turn, so the time tells the calls apart.
            (None, true) => format!("{}-{}", key.text, time.0),
            (None, false) => format!("{}-{}", key.text, session.turns),
        };
        let owner = find_owner(opened, session);
        let turn = deadline.late_turn().cloned().unwrap_or_else(|| owner.current_turn());
        CallContext {
            report,
            call,
            workplace,
            deadline,
            analysis,
            mutates,
            reporter: session.session.clone(),
            session: owner.session,
            session_workspace: owner.workspace,
            turn,
            key,
            id,
            time,
            is_prompt: matches!(report.event, ReportedEvent::BeforePrompt { .. }),
        }
    }

    /// Returns the root of the workspace that the call works in.
    pub(super) fn root(&self) -> &'a Path {
        &self.workplace.root
    }

    /// Returns the path of the file that lists the paths captured before the call. The list is
    /// needed because the agent may work in another directory when the call ends.
    pub(super) fn paths_file(&self, opened: &Opened) -> PathBuf {
        let name = file_name(&[&self.reporter, &self.key.text]);
        opened.checkpoints_directory().join("calls").join(name)
    }

    /// Returns the tool's name as it appears in the reasons of checkpoints.
    pub(super) fn tool(&self) -> &'a str {
        match self.call.tool.as_str() {
            "" => "a tool",
            tool => tool,
        }
    }

    /// Describes the call as the reason for a checkpoint.
    pub(super) fn describe_reason(&self) -> String {
        match self.is_prompt {
            true => "before the prompt".to_owned(),
            false => self.call.describe_reason(self.tool(), self.root()),
        }
    }

    /// Finds the paths that the call's script writes in a directory, as far as they are known.
    pub(super) fn writes_in(&self, directory: &Path) -> ScriptWrites {
        let Some(analysis) = &self.analysis else { return ScriptWrites::default() };
        let mut writes = ScriptWrites { paths: Vec::new(), bounded: analysis.bounded };
        for path in &analysis.paths {
            let path = canonicalize_parent(path);
            // A script that names the whole directory may change any file in it.
            writes.bounded &= !directory.starts_with(&path);
            let inner = path.strip_prefix(directory).ok();
            let inner = inner.and_then(|inner| RelPath::from_path(inner).ok());
            writes.paths.extend(inner.filter(|inner| !inner.is_root()));
        }
        writes
    }

    /// Describes the call for a record.
    pub(super) fn to_ref(&self, named: &[RelPath], writes: &ScriptWrites) -> CallRef {
        CallRef {
            agent: self.report.agent.clone(),
            session: self.session.clone(),
            subagent: (self.reporter != self.session).then(|| self.reporter.clone()),
            turn: self.turn.id.clone(),
            id: self.id.clone(),
            tool: self.call.tool.clone(),
            named: named.to_vec(),
            writes: writes.paths.clone(),
            script: self.call.script().is_some(),
            bounded: writes.bounded,
            began: None,
            newest: None,
        }
    }
}

/// Analyzes the script of a call. If `workspace` is `None`, every path is treated as outside the
/// workspace.
pub(super) fn analyze_call(
    opened: &Opened,
    call: &ToolCall,
    directory: &Path,
    workspace: Option<&Path>,
) -> Option<ScriptAnalysis> {
    let home = opened.forbidden.home();
    let workspace = workspace.unwrap_or(Path::new("/dev/null"));
    Some(shell::analyze_script(call.script()?, &ScriptContext { directory, workspace, home }))
}

/// Returns the key by which the start and the end of a call are matched.
pub(super) fn call_key(call: &ToolCall) -> CallKey {
    match &call.id {
        Some(id) => CallKey { text: id.clone(), is_name: true },
        None => {
            let text = file_name(&[&call.tool, &call.input.to_string()]);
            CallKey { text, is_name: false }
        }
    }
}

/// Returns false if a call is known to change no file, and true otherwise.
pub(super) fn may_mutate(call: &ToolCall, analysis: Option<&ScriptAnalysis>) -> bool {
    match &call.work {
        ToolWork::Reads => false,
        ToolWork::Shell { .. } => analysis.is_none_or(|analysis| analysis.mutates),
        ToolWork::Changes { .. } | ToolWork::Writes { .. } => true,
    }
}
