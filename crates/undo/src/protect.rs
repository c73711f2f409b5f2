//! The way in: what an agent reports becomes checkpoints and entries in the ledger.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use takeback_ledger::{
    CallRecord, EffectRecord, Event as Entry, Ledger, MessageRecord, ParentKind, Recorded,
    SessionRecord, Time,
};
use takeback_tree::Oid;

use crate::calls::Call;
use crate::failures::chain;
use crate::keeper::Keeper;
use crate::notes::{self, CallKey, SessionNote, Turn, file_name};
use crate::places::Place;
use crate::report::{Event, Report, ToolCall, Work};
use crate::repository::Repository;
use crate::shell::{self, ScriptAnalysis, ScriptContext};

/// How long a hook waits for others to let it write into the ledger.
const PATIENCE: Duration = Duration::from_millis(500);

/// What came of a report.
#[derive(Debug, Default)]
pub struct Handled {
    /// Checkpoints that were taken: rows or steps.
    pub checkpoints: Vec<Oid>,
    /// What went wrong, if anything. It is remembered as well.
    pub failures: Vec<String>,
    /// Whether something is not protected because of it.
    pub missed: bool,
    /// What is to be done when nobody waits any more.
    pub later: Option<Later>,
}

/// Work that can wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Later {
    /// Capture a workspace, so that the first checkpoint is fast.
    Warm(PathBuf),
    /// Look after a workspace at the end of a turn.
    Tend {
        /// Where.
        workspace: PathBuf,
        /// Whose turn.
        session: String,
        /// When it ended.
        time: Time,
    },
}

/// Whether the agent of a call has gone on without waiting any longer.
#[derive(Clone, Copy)]
pub(crate) struct GoneOn<'a> {
    flag: &'a AtomicBool,
}

impl GoneOn<'_> {
    /// What was captured before this says no is what the agent left, whatever it does next.
    pub(crate) fn yet(self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }
}

/// A tool call, the workspace that it works in, and whether it may change files.
struct Look<'a> {
    root: PathBuf,
    analysis: Option<ScriptAnalysis>,
    mutates: bool,
    call: Call<'a>,
}

impl Keeper {
    /// Does what a report asks for. Nothing in it is fatal: what went wrong is in the answer.
    pub fn handle(&self, report: &Report) -> Handled {
        self.handle_until(report, &AtomicBool::new(false))
    }

    /// The same for an agent that may stop waiting: what is captured after `gone_on` became true
    /// is late.
    pub fn handle_until(&self, report: &Report, gone_on: &AtomicBool) -> Handled {
        self.handle_in(report, None, GoneOn { flag: gone_on })
    }

    /// The same for a call whose agent was told to go on already; `turn` is what
    /// [`Keeper::current_turn`] said then.
    pub fn handle_late(&self, report: &Report, turn: Turn) -> Handled {
        self.handle_in(report, Some(turn), GoneOn { flag: &AtomicBool::new(true) })
    }

    /// The turn that a call is part of, once its handling has begun.
    pub fn current_turn(&self, report: &Report) -> Option<Turn> {
        Some(self.owner(&self.session_note(&report.session_id())?).1)
    }

    /// `late`: the turn that a call was part of when its agent went on.
    fn handle_in(&self, report: &Report, late: Option<Turn>, gone_on: GoneOn<'_>) -> Handled {
        let mut handled = Handled::default();
        let mut note = self.session(report, &mut handled);
        let entries = match &report.event {
            Event::SessionStart => {
                // A subagent works where its parent does.
                let is_first = note.parent.is_none();
                handled.later = is_first.then(|| Later::Warm(note.workspace.0.clone()));
                Vec::new()
            }
            Event::TurnStart { prompt } => self.turn_start(report, &mut note, prompt.as_deref()),
            Event::BeforeTool(call) => {
                // Not every agent says when a turn begins. By the time that a late call is dealt
                // with, others may have.
                if late.is_none() {
                    self.begin_turn_of_call(report, &mut note, &mut handled);
                }
                let look = self.look(report, &note, call, late, gone_on);
                self.before(report, &note, look, &mut handled)
            }
            Event::AfterTool { call, outcome } => {
                let look = self.look(report, &note, call, late, gone_on);
                self.after(report, &note, look, outcome.as_deref(), &mut handled)
            }
            Event::TurnEnd => {
                note.over = true;
                handled.later = Some(self.tend_later(&note));
                vec![Entry::TurnEnd { session: note.session.clone() }]
            }
            Event::SessionEnd => {
                // It may go on.
                note.over = true;
                handled.later = Some(self.tend_later(&note));
                let reason = "ended".to_owned();
                vec![Entry::SessionEnd { session: note.session.clone(), reason }]
            }
        };
        match report.event {
            // Noted before its captures.
            Event::BeforeTool(_) | Event::AfterTool { .. } => {}
            _ => self.remember(&note, &mut handled),
        }
        self.enter(report, &note, entries, &mut handled);
        handled
    }

    fn tend_later(&self, note: &SessionNote) -> Later {
        let (workspace, session) = (note.workspace.0.clone(), note.session.clone());
        Later::Tend { workspace, session, time: self.now() }
    }

    fn remember(&self, note: &SessionNote, handled: &mut Handled) {
        if self.session_note(&note.session).as_ref() != Some(note)
            && let Err(error) = self.set_session_note(note)
        {
            let message = format!("cannot remember the turn: {error}");
            self.fail(handled, &note.workspace.0, &message);
        }
    }

    /// What is known of the session that reports.
    fn session(&self, report: &Report, handled: &mut Handled) -> SessionNote {
        let session = report.session_id();
        let parent = report.parent.as_ref().map(|parent| format!("{}:{parent}", report.agent));
        if let Some(mut note) = self.session_note(&session) {
            note.parent = note.parent.or(parent);
            return note;
        }
        let root = self.root(&report.directory).unwrap_or_else(|error| {
            if !matches!(report.event, Event::TurnEnd | Event::SessionEnd) {
                self.fail(handled, &report.directory, &chain(&error));
            }
            report.directory.clone()
        });
        // It may be one that goes on after a long time.
        let turns = self.ledger().ok().flatten();
        let turns = turns.and_then(|ledger| Some(ledger.turns(&session).ok()?.last()?.turn));
        SessionNote {
            session,
            workspace: (&*root).into(),
            parent,
            turns: turns.unwrap_or(0),
            turn: None,
            over: false,
        }
    }

    /// The session and turn that a session's work belongs to: a subagent's is its parent's.
    fn owner(&self, note: &SessionNote) -> (String, Turn) {
        const DEPTH: usize = 8;
        let parent = |note: &SessionNote| self.session_note(note.parent.as_ref()?);
        let ancestors = std::iter::successors(Some(note.clone()), parent).take(DEPTH);
        let oldest = ancestors.last().expect("it begins with itself");
        (oldest.session.clone(), oldest.current())
    }

    fn turn_start(
        &self,
        report: &Report,
        note: &mut SessionNote,
        prompt: Option<&str>,
    ) -> Vec<Entry> {
        // Some agents report the same turn again.
        if report.turn.is_some() && report.turn == note.turn && !note.over {
            return Vec::new();
        }
        note.begin_turn(report.turn.clone());
        let Some(prompt) = prompt else { return Vec::new() };
        let message = MessageRecord {
            role: "user".into(),
            content: Some(Value::from(prompt)),
            timestamp: Some(self.now()),
            ..MessageRecord::default()
        };
        vec![Entry::Messages { session: note.session.clone(), messages: vec![message] }]
    }

    fn begin_turn_of_call(&self, report: &Report, note: &mut SessionNote, handled: &mut Handled) {
        let is_another = report.turn.is_some() && report.turn != note.turn;
        if note.over || is_another || note.turns == 0 {
            note.begin_turn(report.turn.clone());
        }
        self.remember(note, handled);
    }

    fn before(
        &self,
        report: &Report,
        note: &SessionNote,
        look: Look<'_>,
        handled: &mut Handled,
    ) -> Vec<Entry> {
        let Look { root, analysis, mutates, call } = look;
        let mut entry = CallRecord {
            call: call.id.clone(),
            tool: call.call.tool.clone(),
            input: Some(call.call.input.clone()),
            started_at: Some(call.time),
            workspace: Some(root.display().to_string()),
            ..CallRecord::default()
        };
        if mutates {
            let (mut waiting, left_out) =
                self.places_of(&root, &report.directory, call.call, analysis.as_ref());
            if left_out > 0 {
                let message = format!("{left_out} more paths outside of it are not protected");
                self.miss(handled, &root, &message);
            }
            let mut protected = Vec::new();
            while !waiting.is_empty() {
                let place = waiting.remove(0);
                match self.protect(&place, &call) {
                    Ok((tree, checkpoint)) => {
                        handled.checkpoints.extend(checkpoint);
                        entry.tree_before.get_or_insert(tree.to_string());
                        entry.checkpoint = entry.checkpoint.or(checkpoint.map(|id| id.to_string()));
                        protected.push(place);
                    }
                    Err(error) => {
                        let directory = &report.directory;
                        waiting.extend(self.instead(&place, &error, directory, call.call));
                        self.miss(handled, place.path(), &chain(&error));
                    }
                }
            }
            // If it cannot be noted, the places are found anew.
            let _ = notes::write(&self.places_path(&call), &protected);
        }
        entry.uncertain = call.gone_on.yet();
        let session = note.session.clone();
        let mut entries = vec![Entry::Call { session, call: entry }];
        entries.extend(effects(&call, analysis.as_ref(), &root));
        entries
    }

    fn after(
        &self,
        report: &Report,
        note: &SessionNote,
        look: Look<'_>,
        outcome: Option<&str>,
        handled: &mut Handled,
    ) -> Vec<Entry> {
        let Look { root, analysis, mutates, call } = look;
        let mut entry = CallRecord {
            call: call.id.clone(),
            tool: call.call.tool.clone(),
            outcome: outcome.map(str::to_owned),
            ended_at: Some(call.time),
            ..CallRecord::default()
        };
        let mut has_begun = false;
        if mutates {
            let noted = self.places_path(&call);
            let places = notes::read::<Vec<Place>>(&noted).unwrap_or_else(|| {
                self.places_of(&root, &report.directory, call.call, analysis.as_ref()).0
            });
            for place in places {
                match self.conclude(&place, &call) {
                    Ok(None) => {}
                    Ok(Some((open, tree))) => {
                        if !has_begun {
                            entry.tree_after = Some(tree.to_string());
                            entry.call = open.call;
                        }
                        has_begun = true;
                    }
                    Err(error) => self.miss(handled, place.path(), &chain(&error)),
                }
            }
            notes::remove(&noted);
        }
        let mut entries = vec![Entry::Call { session: note.session.clone(), call: entry }];
        // Nobody told when it began, so its effects are not known either.
        if mutates && !has_begun && handled.failures.is_empty() {
            entries.extend(effects(&call, analysis.as_ref(), &root));
        }
        entries
    }

    /// What a call is about.
    fn look<'a>(
        &self,
        report: &'a Report,
        note: &SessionNote,
        call: &'a ToolCall,
        late: Option<Turn>,
        gone_on: GoneOn<'a>,
    ) -> Look<'a> {
        let root = self.root_for(report, note);
        let analysis = self.analyse(call, &report.directory, &root);
        let mutates = mutates(call, analysis.as_ref());
        let time = self.now();
        let key = match &call.id {
            Some(id) => CallKey { text: id.clone(), is_name: true },
            None => {
                let text = file_name(&[&call.tool, &call.input.to_string()]);
                CallKey { text, is_name: false }
            }
        };
        let id = match (&call.id, mutates) {
            (Some(id), _) => id.clone(),
            // The same command may be run many times in a turn.
            (None, true) => format!("{}-{}", key.text, time.0),
            (None, false) => format!("{}-{}", key.text, note.turns),
        };
        let reporter = note.session.clone();
        let (session, turn) = self.owner(note);
        let turn = late.unwrap_or(turn);
        let call = Call { report, call, reporter, session, turn, key, id, time, gone_on };
        Look { root, analysis, mutates, call }
    }

    /// The workspace that a call works in: the session's if it is in there.
    fn root_for(&self, report: &Report, note: &SessionNote) -> PathBuf {
        let directory = fs::canonicalize(&report.directory).unwrap_or(report.directory.clone());
        let is_workspace = self.places.refusal(&note.workspace.0).is_none();
        if is_workspace && directory.starts_with(&note.workspace.0) {
            return note.workspace.0.clone();
        }
        self.root(&directory).unwrap_or(directory)
    }

    pub(crate) fn analyse(
        &self,
        call: &ToolCall,
        directory: &Path,
        workspace: &Path,
    ) -> Option<ScriptAnalysis> {
        let home = self.places.home.as_deref();
        // In a place that is no workspace, nothing is inside.
        let nowhere = Path::new("/dev/null");
        let is_workspace = self.places.refusal(workspace).is_none();
        let workspace = if is_workspace { workspace } else { nowhere };
        Some(shell::analyze_script(call.script()?, &ScriptContext { directory, workspace, home }))
    }

    /// A checkpoint could not be taken.
    fn miss(&self, handled: &mut Handled, place: &Path, message: &str) {
        self.note_missed(place, message);
        handled.missed = true;
        handled.failures.push(format!("{}: {message}", place.display()));
    }

    fn fail(&self, handled: &mut Handled, place: &Path, message: &str) {
        self.note_failure(place, message);
        handled.failures.push(format!("{}: {message}", place.display()));
    }

    /// Writes into the ledger, or into its spool.
    fn enter(
        &self,
        report: &Report,
        note: &SessionNote,
        entries: Vec<Entry>,
        handled: &mut Handled,
    ) {
        let parent = note.parent.clone();
        let record = SessionRecord {
            id: note.session.clone(),
            source: report.agent.clone(),
            model: report.model.clone(),
            parent_kind: parent.is_some().then_some(ParentKind::Subagent),
            parent_session_id: parent,
            workspace: Some(note.workspace.0.display().to_string()),
            git_branch: match report.event {
                Event::SessionStart => Repository::of(&note.workspace.0)
                    .and_then(|repository| repository.head().branch),
                _ => None,
            },
            ..SessionRecord::default()
        };
        let mut all = vec![Entry::Session { record: Box::new(record) }];
        all.extend(entries);
        let options = self.ledger_options(PATIENCE);
        match Ledger::record_in(&self.ledger_path(), &options, &all, self.now()) {
            Ok(Recorded::Written | Recorded::Spooled { .. }) => {}
            Err(error) => self.fail(handled, &note.workspace.0, &chain(&error)),
        }
    }
}

/// Whether a call may change files.
fn mutates(call: &ToolCall, analysis: Option<&ScriptAnalysis>) -> bool {
    match &call.work {
        Work::Reads => false,
        Work::Shell { .. } => analysis.is_none_or(|analysis| analysis.mutates),
        Work::Changes { .. } => true,
    }
}

/// What a command does that no rollback reverses.
fn effects<'a>(
    call: &'a Call<'_>,
    analysis: Option<&'a ScriptAnalysis>,
    root: &'a Path,
) -> impl Iterator<Item = Entry> + 'a {
    let effects = analysis.map(|analysis| analysis.effects.as_slice()).unwrap_or_default();
    effects.iter().map(move |effect| Entry::Effect {
        session: call.reporter.clone(),
        effect: EffectRecord {
            turn: 0,
            call: Some(call.id.clone()),
            kind: effect.kind.as_str().to_owned(),
            command: crate::record::tidy(&effect.command),
            workspace: Some(root.display().to_string()),
            time: Some(call.time),
        },
    })
}
