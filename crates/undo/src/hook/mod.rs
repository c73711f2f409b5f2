//! The entry point for agents: turns a report into checkpoints and entries in the ledger.
//!
//! [`handle`] takes care of these parts, in this order: the session and its turn (`session`), the
//! call and the paths that it may change (`call`, `protected`), the captures before and after the
//! call (`capture`), and the ledger.

mod announced;
mod call;
mod capture;
mod deadline;
mod early;
mod follow_up;
pub(crate) mod held;
mod protected;
mod report;
mod repositories;
mod session;
pub(crate) mod state;
mod tampering;
mod unprotected;

use std::collections::VecDeque;
use std::iter;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use takeback_base::errors::error_chain;
use takeback_ledger::{
    CallRecord, EffectRecord, Event as LedgerEvent, ParentKind, Recorded, SessionRecord,
};
use takeback_tree::{AnyPath, GitDirectory, Oid};

use self::call::CallContext;
use self::capture::{CapturedPath, capture_after, capture_before, find_newest_checkpoint};
use self::early::{capture_early, is_captured};
use self::protected::{PathKind, ProtectedPath, find_protected_paths, find_substitutes};
use self::session::Workplace;
use self::state::SessionState;
use crate::Opened;
use crate::history::record::clean_reason;
use crate::rollback::finish_before_turn;

pub use self::deadline::Deadline;
pub use self::follow_up::{FollowUp, conclude_unended_calls, tend_workspace, warm_workspace};
pub use self::held::{HeldFiles, hold_files};
pub use self::report::{
    Report, ReportedEvent, ToolCall, ToolWork, find_paths, find_script, quote_word,
};
pub use self::session::current_turn;
pub use self::state::Turn;
pub use self::tampering::find_tampering;
pub use self::unprotected::{Unprotected, remember_causes};

/// The longest time that a hook waits while other processes keep it from writing to the ledger.
const LEDGER_WAIT: Duration = Duration::from_millis(500);

/// The result of handling a report.
#[derive(Debug, Default)]
pub struct Handled {
    /// The checkpoints that were taken: rows or steps.
    pub checkpoints: Vec<Oid>,
    /// The state of the workspace before the call, if it was captured.
    pub tree: Option<Oid>,
    /// The messages of the failures, which are also in the log of failures.
    pub failures: Vec<String>,
    /// True if a failure left a path unprotected.
    pub missed: bool,
    /// The paths that the call may change and that no checkpoint can restore.
    pub unprotected: Vec<Unprotected>,
    /// Work to do once the agent is no longer waiting.
    pub follow_up: Option<FollowUp>,
}

/// Handles a report, and writes it into the ledger. No failure is fatal: the result lists all
/// failures.
///
/// ```
/// use takeback_undo::{
///     Deadline, OpenOptions, Opened, Report, ReportedEvent, ToolCall, ToolWork, hook,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let script = "rm cart.rs && psql -c 'drop table carts'";
/// let call = ToolCall {
///     tool: "bash".into(),
///     work: ToolWork::run_script(script),
///     ..ToolCall::default()
/// };
/// let report = Report {
///     agent: "mine".into(),
///     session: "1".into(),
///     parent: None,
///     turn: None,
///     directory: project,
///     model: None,
///     event: ReportedEvent::BeforeTool(call),
/// };
/// let handled = hook::handle(&opened, &report, &Deadline::open());
/// assert_eq!(handled.checkpoints.len(), 1);
/// assert!(handled.failures.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn handle(opened: &Opened, report: &Report, deadline: &Deadline) -> Handled {
    let (mut handled, workspace, events) = take_up(opened, report, deadline);
    match opened.record_events(&events, LEDGER_WAIT) {
        Ok(Recorded::Written | Recorded::Spooled { .. }) => {}
        Err(error) => handled.fail(opened, &workspace.0, &error_chain(&error)),
    }
    handled
}

/// Handles a report without writing it into the ledger. Also returns the events, so that the caller
/// can write them together with its own.
pub fn handle_unwritten(
    opened: &Opened,
    report: &Report,
    deadline: &Deadline,
) -> (Handled, Vec<LedgerEvent>) {
    let (handled, _, events) = take_up(opened, report, deadline);
    (handled, events)
}

/// Takes the checkpoints that a report asks for. Also returns the workspace of the session, and the
/// events for the ledger.
fn take_up(
    opened: &Opened,
    report: &Report,
    deadline: &Deadline,
) -> (Handled, AnyPath, Vec<LedgerEvent>) {
    let mut handled = Handled::default();
    let (workplace, mut session) = session::resolve(opened, report, &mut handled);
    let state = &mut session.state;
    let entries = match &report.event {
        ReportedEvent::SessionStart => {
            // A subagent works where its parent does, so its workspace has already been captured.
            if state.parent.is_none() {
                handled.follow_up = Some(FollowUp::Warm(state.workspace.0.clone()));
            }
            session.store(opened, &mut handled);
            // The session may have ended earlier and may now be resumed.
            vec![LedgerEvent::SessionResumed { session: report.session_id() }]
        }
        ReportedEvent::TurnStart { prompt } | ReportedEvent::BeforePrompt { prompt } => {
            finish_before_turn(opened, &workplace.root);
            let (last, is_over) = (state.turns, state.over);
            let entries = session::start_turn(opened, report, state, prompt.as_deref());
            // The end of the previous turn was not reported.
            if last > 0 && !is_over && state.turns > last {
                handled.follow_up = Some(FollowUp::tend(opened, state));
            }
            session.store(opened, &mut handled);
            if matches!(report.event, ReportedEvent::BeforePrompt { .. }) && workplace.is_workspace
            {
                protect_prompt(opened, report, &workplace, &session.state, deadline, &mut handled);
            }
            entries
        }
        ReportedEvent::BeforeTool(call) => {
            // Not every agent reports the start of a turn. A late call keeps the turn that it began
            // in, because its session may already be in the next turn.
            let mut entries = Vec::new();
            if deadline.late_turn().is_none() {
                entries.extend(session::start_turn_of_call(report, state));
                // The session's state is stored before the capture, which may take longer than the
                // agent waits.
                session.store(opened, &mut handled);
            }
            let state = &session.state;
            let call = CallContext::new(opened, report, call, &workplace, state, deadline);
            entries.extend(protect_before(opened, &call, &mut handled));
            entries
        }
        ReportedEvent::AfterTool { call, outcome } => {
            let call = CallContext::new(opened, report, call, &workplace, state, deadline);
            protect_after(opened, &call, outcome.as_deref(), &mut handled)
        }
        ReportedEvent::TurnEnd => {
            session.end_turn(opened, &mut handled);
            vec![LedgerEvent::TurnEnd { session: report.session_id() }]
        }
        ReportedEvent::SessionEnd => {
            // A session that is resumed later begins another turn.
            session.end_turn(opened, &mut handled);
            let reason = "ended".to_owned();
            vec![LedgerEvent::SessionEnd { session: report.session_id(), reason }]
        }
    };
    let session = session.state;
    let events = iter::once(describe_session(report, &session)).chain(entries).collect();
    (handled, session.workspace, events)
}

/// Captures the workspace before the agent receives a prompt.
fn protect_prompt(
    opened: &Opened,
    report: &Report,
    workplace: &Workplace,
    state: &SessionState,
    deadline: &Deadline,
    handled: &mut Handled,
) {
    // Unlike a call, a prompt has no name.
    let prompt = ToolCall { id: Some(String::new()), ..ToolCall::default() };
    let context = CallContext::new(opened, report, &prompt, workplace, state, deadline);
    let path = ProtectedPath::new(opened, PathKind::Directory(workplace.root.as_path().into()));
    match capture_before(opened, &path, &context, None) {
        Ok(captured) => {
            handled.checkpoints.extend(captured.checkpoint);
            handled.tree = Some(captured.tree);
        }
        Err(error) => handled.miss(opened, &workplace.root, &error_chain(&error)),
    }
}

/// Captures everything that a call may change, and describes the call for the ledger.
fn protect_before(
    opened: &Opened,
    call: &CallContext<'_>,
    handled: &mut Handled,
) -> Vec<LedgerEvent> {
    let mut entry = CallRecord {
        call: call.id.clone(),
        tool: call.call.tool.clone(),
        input: find_input(call),
        started_at: Some(call.time),
        workspace: Some(call.root().display().to_string()),
        ..CallRecord::default()
    };
    if call.mutates {
        let protected = capture_all_before(opened, call, &mut entry, handled);
        if call.deadline.has_passed() {
            held::discard_held_files(opened, call);
        }
        // Without this file, the paths are determined again after the call.
        let _ = state::write(&call.paths_file(opened), &protected);
        conclude_unprotected(opened, call, handled);
    }
    entry.uncertain = call.deadline.has_passed();
    let mut entries = vec![LedgerEvent::Call { session: call.reporter.clone(), call: entry }];
    entries.extend(list_effects(call));
    entries
}

/// Captures every path that a call may change. Returns the paths that were captured.
fn capture_all_before(
    opened: &Opened,
    call: &CallContext<'_>,
    entry: &mut CallRecord,
    handled: &mut Handled,
) -> Vec<ProtectedPath> {
    let (waiting, unprotected) = find_protected_paths(opened, call);
    handled.unprotected.extend(unprotected);
    let workspace = waiting.iter().find(|path| path.path() == call.root());
    let early = workspace.map(|workspace| capture_early(opened, call, workspace));
    let (mut waiting, mut protected) = (VecDeque::from(waiting), Vec::new());
    // Each path is tried only once. Otherwise, two paths that are too large would be substituted
    // for each other forever.
    let mut tried: Vec<(PathKind, bool)> = Vec::new();
    let mut newest = None;
    while let Some(path) = waiting.pop_front() {
        let place = (path.kind.clone(), path.only_named);
        if tried.contains(&place) {
            continue;
        }
        tried.push(place);
        let is_elsewhere = path.path() != call.session_workspace.0;
        if is_elsewhere && newest.is_none() {
            newest = find_newest_checkpoint(opened, call);
        }
        match capture_before(opened, &path, call, newest.clone().filter(|_| is_elsewhere)) {
            Ok(CapturedPath { tree, checkpoint, unprotected }) => {
                handled.checkpoints.extend(checkpoint);
                handled.unprotected.extend(unprotected);
                if path.path() == call.root() {
                    handled.tree = Some(tree);
                }
                entry.tree_before.get_or_insert(tree.to_string());
                entry.checkpoint = entry.checkpoint.take().or(checkpoint.map(|id| id.to_string()));
                protected.push(path);
            }
            Err(error) => {
                let substitutes = find_substitutes(opened, &path, &error, call);
                let is_complete =
                    substitutes.iter().any(|path| path.only_named) && call.call.names_everything();
                // The substitutes are captured next, before the paths outside the workspace,
                // because the records of those paths refer to the workspace's newest checkpoint.
                substitutes.into_iter().rev().for_each(|path| waiting.push_front(path));
                if !is_complete {
                    let message = error_chain(&error);
                    handled.miss(opened, path.path(), &message);
                    handled.unprotected.push(Unprotected::missed(path.path(), message));
                }
            }
        }
    }
    match early {
        // If this fails, superfluous checkpoints remain, which do no harm.
        Some(early) if is_captured(&protected, call.root()) => drop(early.discard(opened)),
        Some(early) => early.keep(&mut protected),
        None => {}
    }
    protected
}

/// Remembers unprotected paths as failures, and marks those that are new to the user.
fn conclude_unprotected(opened: &Opened, call: &CallContext<'_>, handled: &mut Handled) {
    const MAX_NOTED: usize = 8;
    let lost = handled.unprotected.iter().filter(|lost| !lost.is_replaceable && !lost.is_noted);
    for lost in lost.take(MAX_NOTED) {
        let message = format!("not protected: {lost}");
        opened.note_failure(call.root(), &message);
    }
    // A late process has no way to inform the user.
    if call.deadline.late_turn().is_none() {
        let causes: Vec<String> = handled.unprotected.iter().map(ToString::to_string).collect();
        let is_new = remember_causes(opened, &call.session, &causes);
        handled.unprotected.iter_mut().zip(is_new).for_each(|(lost, new)| lost.is_new = new);
    }
}

/// Captures everything that a call may have changed, and describes its end for the ledger.
fn protect_after(
    opened: &Opened,
    call: &CallContext<'_>,
    outcome: Option<&str>,
    handled: &mut Handled,
) -> Vec<LedgerEvent> {
    let mut entry = CallRecord {
        call: call.id.clone(),
        tool: call.call.tool.clone(),
        input: find_input(call),
        outcome: outcome.map(str::to_owned),
        ended_at: Some(call.time),
        ..CallRecord::default()
    };
    let mut has_begun = false;
    if call.mutates {
        let file = call.paths_file(opened);
        let protected = state::read::<Vec<ProtectedPath>>(&file)
            .unwrap_or_else(|| find_protected_paths(opened, call).0);
        for path in protected {
            match capture_after(opened, &path, call) {
                Ok(None) => {}
                Ok(Some((open_call, tree))) => {
                    if !has_begun {
                        entry.tree_after = Some(tree.to_string());
                        entry.call = open_call.call;
                    }
                    has_begun = true;
                }
                Err(error) => handled.miss(opened, path.path(), &error_chain(&error)),
            }
        }
        state::remove(&file);
    }
    let mut entries = vec![LedgerEvent::Call { session: call.reporter.clone(), call: entry }];
    // The start of the call was not reported, so its effects are not in the ledger yet.
    if call.mutates && !has_begun && handled.failures.is_empty() {
        entries.extend(list_effects(call));
    }
    entries
}

/// Returns the input of a call, if it is known.
fn find_input(call: &CallContext<'_>) -> Option<Value> {
    Some(&call.call.input).filter(|input| !input.is_null()).cloned()
}

/// Lists the effects of a call.
fn list_effects(call: &CallContext<'_>) -> impl Iterator<Item = LedgerEvent> {
    let effects = call.analysis.as_ref().map(|analysis| analysis.effects.as_slice());
    effects.unwrap_or_default().iter().map(move |effect| LedgerEvent::Effect {
        session: call.reporter.clone(),
        effect: EffectRecord {
            turn: 0,
            call: Some(call.id.clone()),
            kind: effect.kind.as_str().to_owned(),
            command: clean_reason(&effect.command),
            workspace: Some(call.root().display().to_string()),
            time: Some(call.time),
        },
    })
}

/// Describes the session for the ledger.
fn describe_session(report: &Report, session: &SessionState) -> LedgerEvent {
    let workspace = &session.workspace.0;
    let starts = matches!(report.event, ReportedEvent::SessionStart);
    let branch = || GitDirectory::find(workspace).and_then(|git| git.head().branch);
    let record = SessionRecord {
        id: session.session.clone(),
        source: report.agent.clone(),
        model: report.model.clone(),
        parent_kind: session.parent.is_some().then_some(ParentKind::Subagent),
        parent_session_id: session.parent.clone(),
        workspace: Some(workspace.display().to_string()),
        git_branch: starts.then(branch).flatten(),
        ..SessionRecord::default()
    };
    LedgerEvent::Session { record: Box::new(record) }
}

impl Handled {
    /// Adds a failure that leaves a path unprotected.
    fn miss(&mut self, opened: &Opened, path: &Path, message: &str) {
        opened.note_missed(path, message);
        self.missed = true;
        self.failures.push(format!("{}: {message}", path.display()));
    }

    /// Adds a failure that leaves no path unprotected.
    fn fail(&mut self, opened: &Opened, path: &Path, message: &str) {
        opened.note_failure(path, message);
        self.failures.push(format!("{}: {message}", path.display()));
    }
}
