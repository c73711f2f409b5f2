//! The list of a workspace's checkpoints, as everybody shows it.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_ledger::{Ledger, Time};
use takeback_tree::{AnyPath, Oid, RelPath, StoreError, WorkspaceError};

use crate::failures::Failure;
use crate::history::{History, Row};
use crate::keeper::Keeper;
use crate::record::{Checkpoint, TurnId};
use crate::subject::Subject;

/// How long a list waits for the ledger to be complete.
const PATIENCE: Duration = Duration::from_millis(200);

/// The checkpoints of a workspace.
#[derive(Debug, Serialize)]
pub struct List {
    /// Where.
    pub workspace: AnyPath,
    /// Newest first.
    pub checkpoints: Vec<RowView>,
    /// Checkpoints that could not be taken here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

/// A row.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct RowView {
    pub number: usize,
    pub id: Oid,
    pub time: String,
    pub name: Option<String>,
    pub pinned: bool,
    /// `turn` or `manual`.
    pub kind: &'static str,
    pub reason: String,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub turn: Option<TurnId>,
    pub tool: Option<String>,
    pub prompt: Option<String>,
    pub files_changed: Option<u64>,
    pub insertions: Option<u64>,
    pub deletions: Option<u64>,
    pub effects: Vec<EffectView>,
    pub uncovered: UncoveredView,
    /// Whether the agent had gone on before it was complete.
    pub late: bool,
    pub steps: Vec<StepView>,
}

/// A checkpoint before a call of a turn.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct StepView {
    /// `3.2`
    pub number: String,
    pub id: Oid,
    pub time: String,
    pub reason: String,
    pub tool: Option<String>,
    pub call: Option<String>,
    pub late: bool,
}

/// Something that no rollback reverses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct EffectView {
    pub kind: String,
    pub command: String,
}

/// What a checkpoint does not cover.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct UncoveredView {
    pub count: usize,
    pub paths: Vec<RelPath>,
}

/// A workspace that has checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Elsewhere {
    /// Where.
    pub path: AnyPath,
    /// When it was last captured or restored.
    pub last_touched: Time,
}

impl Keeper {
    /// The checkpoints of a workspace.
    pub fn list(&self, subject: &Subject<'_>) -> Result<List, StoreError> {
        let history = History::of(subject.store, &subject.id)?;
        // Without the ledger the list lacks prompts and effects; that is said where the ledger is
        // looked after.
        let ledger = self.complete_ledger(PATIENCE);
        let effects = ledger.as_ref().map(|ledger| effects_by_row(ledger, subject, &history));
        let mut effects = effects.unwrap_or_default().into_iter();
        let mut counts = self.counts(subject, &history).into_iter();
        let rows = history.rows().map(|row| {
            let counts = counts.next().flatten();
            RowView {
                prompt: ledger.as_ref().and_then(|ledger| prompt(ledger, &row)),
                files_changed: counts.map(|counts| counts.files),
                insertions: counts.map(|counts| counts.insertions),
                deletions: counts.map(|counts| counts.deletions),
                effects: effects.next().unwrap_or_default(),
                ..RowView::new(&row)
            }
        });
        let checkpoints = rows.collect();
        let mut failures = self.failures();
        failures.retain(|failure| failure.workspace.0 == subject.path);
        Ok(List {
            workspace: AnyPath(subject.path.clone()),
            checkpoints,
            failures,
            unreadable: history.unreadable,
        })
    }

    /// The same where there is no store yet.
    pub fn list_nothing(&self, directory: &Path) -> Result<List, WorkspaceError> {
        let workspace = AnyPath(self.root(directory)?);
        let mut failures = self.failures();
        failures.retain(|failure| failure.workspace == workspace);
        Ok(List { workspace, checkpoints: Vec::new(), failures, unreadable: Vec::new() })
    }

    /// Other workspaces that have checkpoints, the latest first.
    pub fn elsewhere(&self, subject: &Subject<'_>) -> Result<Vec<Elsewhere>, StoreError> {
        let store = subject.store;
        let mut found = Vec::new();
        for id in store.pinned_workspaces()?.into_iter().filter(|id| *id != subject.id) {
            if let Ok(Some(info)) = store.workspace_info(&id)
                && !store.pin_names(&id)?.is_empty()
            {
                found.push(Elsewhere { path: info.path, last_touched: Time(info.last_seen) });
            }
        }
        found.sort_by_key(|known| std::cmp::Reverse(known.last_touched));
        Ok(found)
    }
}

impl RowView {
    fn new(row: &Row<'_>) -> RowView {
        let Checkpoint { pin, record } = row.first();
        let call = record.call.as_ref();
        let uncovered = &record.uncovered;
        let steps = (1..).zip(row.steps()).map(|(step, checkpoint)| StepView {
            number: format!("{}.{step}", row.number),
            id: checkpoint.pin.id,
            time: checkpoint.record.time.clone(),
            reason: checkpoint.record.reason.clone(),
            tool: checkpoint.record.call.as_ref().map(|call| call.tool.clone()),
            call: checkpoint.record.call.as_ref().map(|call| call.id.clone()),
            late: checkpoint.record.late,
        });
        RowView {
            number: row.number,
            id: pin.id,
            time: record.time.clone(),
            name: record.name.clone(),
            pinned: record.pinned,
            kind: if row.turn().is_some() { "turn" } else { "manual" },
            reason: record.reason.clone(),
            agent: call.map(|call| call.agent.clone()),
            session: call.map(|call| call.session.clone()),
            turn: call.map(|call| call.turn.clone()),
            tool: call.map(|call| call.tool.clone()),
            prompt: None,
            files_changed: None,
            insertions: None,
            deletions: None,
            effects: Vec::new(),
            uncovered: UncoveredView {
                count: uncovered.len(),
                paths: uncovered.iter().map(|path| path.path.clone()).collect(),
            },
            late: record.late,
            steps: if row.turn().is_some() { steps.collect() } else { Vec::new() },
        }
    }
}

/// What the user had said.
fn prompt(ledger: &Ledger, row: &Row<'_>) -> Option<String> {
    let (session, _) = row.turn()?;
    let turn = ledger.turn_at(session, row.first().record.moment()).ok()??;
    ledger.prompt(session, turn.first_seq).ok()?
}

impl Keeper {
    /// What a row's turn did that nothing reverses.
    pub(crate) fn effects_of_row(&self, subject: &Subject<'_>, row: &Row<'_>) -> Vec<EffectView> {
        let Some(ledger) = self.complete_ledger(PATIENCE) else { return Vec::new() };
        let mut effects = effects_by_row(&ledger, subject, row.history());
        effects.swap_remove(row.number - 1)
    }
}

/// The effects of each row's turn: those of its session from its time until the session's next.
fn effects_by_row(
    ledger: &Ledger,
    subject: &Subject<'_>,
    history: &History,
) -> Vec<Vec<EffectView>> {
    let rows: Vec<Row<'_>> = history.rows().collect();
    let mut effects = vec![Vec::new(); rows.len()];
    let Some(oldest) = rows.iter().map(|row| row.first().record.moment()).min() else {
        return effects;
    };
    let path = subject.path.display().to_string();
    let known = ledger.effects_of(&path, oldest).unwrap_or_default();
    for (session, effect) in known {
        let time = effect.time.unwrap_or_default();
        let row = rows
            .iter()
            .position(|row| row.has_session(&session) && row.first().record.moment() <= time);
        if let Some(row) = row {
            effects[row].push(EffectView { kind: effect.kind, command: effect.command });
        }
    }
    effects
}
