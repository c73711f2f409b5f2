//! The way in: what an agent reports becomes checkpoints and entries in the ledger.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::{
    CallRecord, EffectRecord, Event as Entry, Ledger, MessageRecord, ParentKind, Recorded,
    SessionRecord, Time,
};
use takeback_tree::{AnyPath, CaptureError, Oid, RelPath, Rules, Workspace, WorkspaceError};

use crate::keeper::{Keeper, TakeError, has_pin};
use crate::notes::{self, CallKey, Notes, OpenCall, SessionNote, StepNote, file_name};
use crate::record::{Began, CallOf, Kind, Record, TurnId};
use crate::report::{Event, Report, ToolCall};
use crate::repository::Repository;
use crate::roots::root_of;
use crate::settings::Granularity;
use crate::shell::{self, Analysis, Surroundings};

/// How long a hook waits for others to let it write into the ledger.
const PATIENCE: Duration = Duration::from_millis(500);

/// At most so many paths outside of the workspace are looked after per call.
const ELSEWHERE: usize = 16;

/// A directory outside of any project is captured only if it is small.
const MAX_FILES_ELSEWHERE: u64 = 2_000;

/// What came of a report.
#[derive(Debug, Default)]
pub struct Handled {
    /// Checkpoints that were taken: rows or steps.
    pub checkpoints: Vec<Oid>,
    /// What went wrong, if anything. It is remembered as well.
    pub failures: Vec<String>,
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

/// What a call may change: a directory or a single file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
enum PlaceKind {
    Directory(AnyPath),
    File(AnyPath),
}

/// The same, and how it is captured.
#[derive(Clone, Serialize, Deserialize)]
struct Place {
    kind: PlaceKind,
    rules: Rules,
    named: Vec<RelPath>,
}

/// A tool call as it is recorded.
struct Call<'a> {
    report: &'a Report,
    call: &'a ToolCall,
    /// The session that reports.
    reporter: String,
    /// The session and turn that it is part of: its parent's, for a subagent.
    session: String,
    turn: TurnId,
    /// What pairs its end with its beginning.
    key: CallKey,
    id: String,
    time: Time,
    late: bool,
}

impl Keeper {
    /// Does what a report asks for. Nothing in it is fatal: what went wrong is in the answer.
    pub fn handle(&self, report: &Report) -> Handled {
        self.handle_in(report, None)
    }

    /// The same for a call whose agent was told to go on already; `turn` is what
    /// [`Keeper::current_turn`] said then.
    pub fn handle_late(&self, report: &Report, turn: TurnId) -> Handled {
        self.handle_in(report, Some(turn))
    }

    /// The turn that a call is part of, once its handling has begun.
    pub fn current_turn(&self, report: &Report) -> Option<TurnId> {
        Some(self.owner(&self.session_note(&report.session_id())?).1)
    }

    fn handle_in(&self, report: &Report, late: Option<TurnId>) -> Handled {
        let mut handled = Handled::default();
        let mut note = self.session(report, &mut handled);
        let entries = match &report.event {
            Event::SessionStart => {
                handled.later = Some(Later::Warm(note.workspace.0.clone()));
                Vec::new()
            }
            Event::TurnStart { prompt } => self.turn_start(report, &mut note, prompt),
            Event::BeforeTool(call) => self.before(report, &mut note, call, late, &mut handled),
            Event::AfterTool { call, outcome } => {
                self.after(report, &note, call, outcome.as_deref(), late, &mut handled)
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
    fn owner(&self, note: &SessionNote) -> (String, TurnId) {
        const DEPTH: usize = 8;
        let parent = |note: &SessionNote| self.session_note(note.parent.as_ref()?);
        let ancestors = std::iter::successors(Some(note.clone()), parent).take(DEPTH);
        let oldest = ancestors.last().expect("it begins with itself");
        (oldest.session.clone(), oldest.turn_id())
    }

    fn turn_start(&self, report: &Report, note: &mut SessionNote, prompt: &str) -> Vec<Entry> {
        // Some agents report the same turn again.
        if report.turn.is_some() && report.turn == note.turn && !note.over {
            return Vec::new();
        }
        note.begin_turn(report.turn.clone());
        let message = MessageRecord {
            role: "user".into(),
            content: Some(Value::from(prompt)),
            timestamp: Some(self.now()),
            ..MessageRecord::default()
        };
        vec![Entry::Messages { session: note.session.clone(), messages: vec![message] }]
    }

    fn before(
        &self,
        report: &Report,
        note: &mut SessionNote,
        call: &ToolCall,
        late: Option<TurnId>,
        handled: &mut Handled,
    ) -> Vec<Entry> {
        let is_another = report.turn.is_some() && report.turn != note.turn;
        // Not every agent says when a turn begins. By the time that a late call is dealt with,
        // others may have.
        if late.is_none() {
            if note.over || is_another || note.turns == 0 {
                note.begin_turn(report.turn.clone());
            }
            self.remember(note, handled);
        }
        let root = self.root_for(report, note);
        let analysis = self.analyse(call, &report.directory, &root);
        let mutates = mutates(call, analysis.as_ref());
        let call = self.call(report, call, note, mutates, late);
        let mut entry = CallRecord {
            call: call.id.clone(),
            tool: call.call.tool.clone(),
            input: Some(call.call.input.clone()),
            started_at: Some(call.time),
            workspace: Some(root.display().to_string()),
            uncertain: call.late,
            ..CallRecord::default()
        };
        if mutates {
            let mut waiting =
                self.places_of(&root, &report.directory, call.call, analysis.as_ref());
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
                        waiting.extend(self.instead(&place, &error, &report.directory));
                        self.miss(handled, place.path(), &chain(&error));
                    }
                }
            }
            // If it cannot be noted, the places are found anew.
            let _ = notes::write(&self.places_path(&call), &protected);
        }
        let session = note.session.clone();
        let mut entries = vec![Entry::Call { session, call: entry }];
        entries.extend(effects(&call, analysis.as_ref(), &root));
        entries
    }

    fn after(
        &self,
        report: &Report,
        note: &SessionNote,
        call: &ToolCall,
        outcome: Option<&str>,
        late: Option<TurnId>,
        handled: &mut Handled,
    ) -> Vec<Entry> {
        let root = self.root_for(report, note);
        let analysis = self.analyse(call, &report.directory, &root);
        let mutates = mutates(call, analysis.as_ref());
        let call = self.call(report, call, note, mutates, late);
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
                self.places_of(&root, &report.directory, call.call, analysis.as_ref())
            });
            notes::remove(&noted);
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
        }
        let mut entries = vec![Entry::Call { session: note.session.clone(), call: entry }];
        // Nobody told when it began, so its effects are not known either.
        if mutates && !has_begun && handled.failures.is_empty() {
            entries.extend(effects(&call, analysis.as_ref(), &root));
        }
        entries
    }

    fn call<'a>(
        &self,
        report: &'a Report,
        call: &'a ToolCall,
        note: &SessionNote,
        mutates: bool,
        late: Option<TurnId>,
    ) -> Call<'a> {
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
        let (turn, late) = late.map_or((turn, false), |turn| (turn, true));
        Call { report, call, reporter, session, turn, key, id, time, late }
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

    fn analyse(&self, call: &ToolCall, directory: &Path, workspace: &Path) -> Option<Analysis> {
        let home = self.places.home.as_deref();
        // In a place that is no workspace, nothing is inside.
        let nowhere = Path::new("/dev/null");
        let is_workspace = self.places.refusal(workspace).is_none();
        let workspace = if is_workspace { workspace } else { nowhere };
        Some(shell::analyse(&call.command()?, &Surroundings { directory, workspace, home }))
    }

    /// Everything that a call may change.
    fn places_of(
        &self,
        root: &Path,
        directory: &Path,
        call: &ToolCall,
        analysis: Option<&Analysis>,
    ) -> Vec<Place> {
        let mut main = self.place(PlaceKind::Directory(root.into()));
        let is_workspace = self.places.refusal(root).is_none();
        let mut places = Vec::new();
        let outside = analysis.map(|analysis| analysis.outside.as_slice()).unwrap_or_default();
        let named = call.path().map(|path| real(&directory.join(path)));
        // Whoever writes to a link writes to what it leads to.
        let led_to = named.as_ref().and_then(|path| fs::canonicalize(path).ok());
        let outside = outside.iter().map(|path| real(&directory.join(path)));
        let paths = named.into_iter().chain(led_to).chain(outside);
        for path in paths.take(ELSEWHERE) {
            match path.strip_prefix(root) {
                Ok(inner) if is_workspace => main.named.extend(rel_path(inner)),
                _ => places.extend(self.place_elsewhere(&path)),
            }
        }
        // Without anything else to protect, it is a failure that this place cannot be.
        if is_workspace || places.is_empty() {
            places.insert(0, main);
        }
        let mut seen = Vec::new();
        places.retain(|place| {
            let is_new = !seen.contains(&place.kind);
            seen.push(place.kind.clone());
            is_new
        });
        places
    }

    /// Where it is noted which places a call was protected in: by its end, the agent may be
    /// somewhere else.
    fn places_path(&self, call: &Call<'_>) -> PathBuf {
        let name = file_name(&[&call.reporter, &call.key.text]);
        self.checkpoints_directory().join("calls").join(name)
    }

    /// If a session's workspace is too large, the project in it that the call works in.
    fn instead(&self, place: &Place, error: &TakeError, directory: &Path) -> Option<Place> {
        let is_too_large = matches!(error, TakeError::Capture(CaptureError::TooManyFiles { .. }));
        let own = self.root(directory).ok().filter(|_| is_too_large)?;
        let is_within = own != place.path() && own.starts_with(place.path());
        is_within.then(|| self.place(PlaceKind::Directory(AnyPath(own))))
    }

    fn place(&self, kind: PlaceKind) -> Place {
        Place { kind, rules: self.rules.clone(), named: Vec::new() }
    }

    /// What protects a path that is not in the session's workspace: its own workspace, or itself.
    fn place_elsewhere(&self, path: &Path) -> Option<Place> {
        let is_directory = path.is_dir();
        let directory = if is_directory { Some(path) } else { path.parent() };
        let directory = directory.filter(|directory| directory.is_dir())?;
        let root = root_of(directory, &self.places).ok()?;
        if root.is_project {
            let mut place = self.place(PlaceKind::Directory(AnyPath(root.path.clone())));
            place.named.extend(path.strip_prefix(&root.path).ok().and_then(rel_path));
            return Some(place);
        }
        if is_directory {
            let mut place = self.place(PlaceKind::Directory(path.into()));
            place.rules.max_files = place.rules.max_files.min(MAX_FILES_ELSEWHERE);
            return Some(place);
        }
        // Of a new file among temporary ones nothing can be lost.
        let is_temporary = self.places.temporary.iter().any(|root| path.starts_with(real(root)));
        if is_temporary && fs::symlink_metadata(path).is_err() {
            return None;
        }
        Some(self.place(PlaceKind::File(path.into())))
    }

    fn open(&self, place: &Place) -> Result<Workspace<'_>, WorkspaceError> {
        let store = self.store()?;
        match &place.kind {
            PlaceKind::Directory(path) => store.workspace(&path.0, &self.places),
            PlaceKind::File(path) => store.single_file(&path.0, &self.places),
        }
    }

    /// Captures a place before a call. Gives the tree, and the checkpoint if one was needed.
    fn protect(&self, place: &Place, call: &Call<'_>) -> Result<(Oid, Option<Oid>), TakeError> {
        let workspace = self.open(place)?;
        let mut lock = self.lock(&workspace)?;
        let capture = lock.capture(&self.capture_options(&place.rules, &place.named))?;
        let notes = Notes::new(workspace.notes());
        let step = notes.step(&call.session);
        let last =
            step.as_ref().filter(|step| step.turn == call.turn && has_pin(&workspace, step.seq));
        let is_row = match last {
            None => true,
            Some(last) => {
                self.settings.granularity == Granularity::Step && last.tree != capture.tree
            }
        };
        let (seq, tree) = (lock.next_seq()?, capture.tree);
        let uncovered = capture.uncovered.iter().map(|uncovered| uncovered.path.clone()).collect();
        // Even without a step of its own, what the call began with has to be kept.
        let is_known = last.is_some_and(|last| last.tree == tree);
        let mut checkpoint = None;
        if is_row || !is_known {
            let kind = if is_row { Kind::Call } else { Kind::State };
            let reason = call.call.reason(&call.tool());
            let record = Record {
                // The same as that of its effects.
                time: call.time.rfc3339(),
                call: Some(call.of(&place.named)),
                first: last.is_none(),
                late: call.late,
                ..self.record(&mut lock, kind, &reason)?
            };
            let taken = self.pin(&mut lock, tree, record.of(capture))?;
            checkpoint = is_row.then_some(taken.pin.id);
            if is_row {
                let step = StepNote { turn: call.turn.clone(), tree, seq };
                self.keep(&workspace, notes.set_step(&call.session, &step));
            }
        }
        let open = OpenCall {
            session: call.reporter.clone(),
            turn: call.turn.clone(),
            call: call.id.clone(),
            tool: call.call.tool.clone(),
            named: place.named.clone(),
            tree,
            uncovered,
            seq,
            time: call.time,
            late: call.late,
            has_pin: is_row || !is_known,
        };
        self.keep(&workspace, notes.open_call(&call.reporter, &call.key, &open));
        lock.finish(self.system_time())?;
        Ok((tree, checkpoint))
    }

    /// Captures a place after a call. `None` if nothing is known of its beginning.
    fn conclude(
        &self,
        place: &Place,
        call: &Call<'_>,
    ) -> Result<Option<(OpenCall, Oid)>, TakeError> {
        if !place.path().exists() && matches!(place.kind, PlaceKind::Directory(_)) {
            // It is gone altogether: what it was is in the checkpoint before.
            return Ok(None);
        }
        let workspace = self.open(place)?;
        let mut lock = self.lock(&workspace)?;
        let notes = Notes::new(workspace.notes());
        let Some((open, note)) = notes.call(&call.reporter, &call.key) else { return Ok(None) };
        let capture = lock.capture(&self.capture_options(&place.rules, &place.named))?;
        let tree = capture.tree;
        // A call that changed nothing is of interest only if its beginning is a checkpoint: then
        // the next one would be taken for its end.
        if open.has_pin || tree != open.tree {
            let began = Began {
                tree: open.tree,
                seq: open.seq,
                time: open.time.rfc3339(),
                uncovered: open.uncovered.clone(),
                late: open.late || call.late,
            };
            let of = CallOf {
                turn: open.turn.clone(),
                id: open.call.clone(),
                began: Some(began),
                ..call.of(&open.named)
            };
            let reason = format!("after {}", call.tool());
            let record = Record { call: Some(of), ..self.record(&mut lock, Kind::After, &reason)? };
            self.pin(&mut lock, tree, record.of(capture))?;
        }
        notes::remove(&note);
        lock.finish(self.system_time())?;
        Ok(Some((open, tree)))
    }

    /// A note that cannot be written costs accuracy, not a checkpoint.
    fn keep(&self, workspace: &Workspace<'_>, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.note_failure(workspace.path(), &format!("cannot take a note: {error}"));
        }
    }

    /// A checkpoint could not be taken.
    fn miss(&self, handled: &mut Handled, place: &Path, message: &str) {
        self.note_missed(place, message);
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

impl Place {
    fn path(&self) -> &Path {
        match &self.kind {
            PlaceKind::Directory(path) | PlaceKind::File(path) => &path.0,
        }
    }
}

impl Call<'_> {
    fn tool(&self) -> String {
        match self.call.tool.as_str() {
            "" => "a tool".to_owned(),
            tool => tool.to_owned(),
        }
    }

    fn of(&self, named: &[RelPath]) -> CallOf {
        CallOf {
            agent: self.report.agent.clone(),
            session: self.session.clone(),
            subagent: (self.reporter != self.session).then(|| self.reporter.clone()),
            turn: self.turn.clone(),
            id: self.id.clone(),
            tool: self.call.tool.clone(),
            named: named.to_vec(),
            began: None,
        }
    }
}

/// Whether a call may change files.
fn mutates(call: &ToolCall, analysis: Option<&Analysis>) -> bool {
    call.always || analysis.map_or(!call.only_reads(), |analysis| analysis.mutates)
}

/// What a command does that no rollback reverses.
fn effects<'a>(
    call: &'a Call<'_>,
    analysis: Option<&'a Analysis>,
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

/// A path without `.` and `..`, whose directory is canonical as far as it exists. The last name
/// is not followed.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    match (plain.parent(), plain.file_name()) {
        (Some(parent), Some(name)) => {
            let existing = parent.ancestors().find_map(|ancestor| {
                let canonical = fs::canonicalize(ancestor).ok()?;
                Some(canonical.join(parent.strip_prefix(ancestor).ok()?))
            });
            existing.unwrap_or_else(|| parent.to_owned()).join(name)
        }
        _ => plain,
    }
}

fn rel_path(path: &Path) -> Option<RelPath> {
    use std::os::unix::ffi::OsStrExt;
    RelPath::new(path.as_os_str().as_bytes()).ok().filter(|path| !path.is_root())
}

/// An error and the errors behind it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
