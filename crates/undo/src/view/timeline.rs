//! The timeline of a workspace: its rows, and the rollbacks between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use takeback_ledger::Ledger;
use takeback_tree::{Oid, StoreError, WorkspaceError};

use super::text;
use crate::Opened;
use crate::history::record::Action;
use crate::history::{
    History, RowView, TakeError, WorkspaceRef, find_workspace, finish_interrupted, list_history,
};

/// Everything that the timeline of one workspace shows.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The workspace's id.
    pub id: String,
    /// The directory of the workspace, or the single file.
    pub path: PathBuf,
    /// The entries, newest first. They are ordered by the numbers of their checkpoints, because a
    /// clock may jump.
    pub entries: Vec<Entry>,
    /// The number of each entry's checkpoint.
    pub numbers: Vec<u64>,
    /// The titles of the sessions that have one.
    pub titles: BTreeMap<String, String>,
    /// The sessions whose calls have begun but not ended.
    pub working: BTreeSet<String>,
    /// The reasons why a part of the history is missing.
    pub problems: Vec<String>,
    /// True if there are older entries, which were not read.
    pub is_partial: bool,
}

/// One entry of a timeline.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A turn or a manual checkpoint.
    Row(Box<RowView>),
    /// A rollback, an undo, or the reversal of either.
    Rollback(RollbackEntry),
}

/// A rollback in the timeline.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RollbackEntry {
    /// The safety checkpoint: the state before the rollback.
    pub id: Oid,
    pub time: String,
    pub action: Action,
    /// The checkpoint that the workspace returned to.
    pub to: Oid,
    /// The number of paths that the rollback was limited to; 0 if it was not limited.
    pub paths: usize,
    /// True if only the conversation was taken back.
    pub chat_only: bool,
    /// The prompt or reason of the row that the rollback returned to.
    pub subject: Option<String>,
}

impl Entry {
    /// Returns the id of the entry's first checkpoint.
    pub fn id(&self) -> Oid {
        match self {
            Entry::Row(row) => row.id,
            Entry::Rollback(rollback) => rollback.id,
        }
    }

    /// Returns the time of the entry's first checkpoint.
    pub fn time(&self) -> Timestamp {
        let text = match self {
            Entry::Row(row) => &row.time,
            Entry::Rollback(rollback) => &rollback.time,
        };
        text.parse().unwrap_or_default()
    }

    /// Returns the session of the entry's turn.
    pub fn session(&self) -> Option<&str> {
        match self {
            Entry::Row(row) => row.session.as_deref(),
            Entry::Rollback(_) => None,
        }
    }
}

/// Reads the timeline of the workspace that a path belongs to. Creates nothing: without a store,
/// the timeline is empty. First finishes or reverts a restore that was cut off.
///
/// Without a limit, reads everything. With a limit, reads at least that many of the newest rows, so
/// that a screen can show them before the rest is read.
pub fn read_timeline_at(
    opened: &Opened,
    path: &Path,
    limit: Option<usize>,
) -> Result<Timeline, TakeError> {
    if !opened.has_store() {
        let failed = |source| WorkspaceError::Open { path: path.to_owned(), source };
        let path = opened.find_root(path).map_err(failed)?;
        return Ok(Timeline { path, ..Timeline::default() });
    }
    let workspace = find_workspace(opened, path)?;
    finish_interrupted(opened, &workspace);
    Ok(read_newest(opened, &workspace, limit.unwrap_or(usize::MAX))?)
}

/// Reads the timeline of a workspace.
pub fn read_timeline(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
) -> Result<Timeline, StoreError> {
    read_newest(opened, workspace, usize::MAX)
}

/// Reads the newest entries of a timeline: at most `limit` rows, and the rollbacks between them.
fn read_newest(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    limit: usize,
) -> Result<Timeline, StoreError> {
    let history = History::read(workspace.store(), workspace.id())?;
    let list = list_history(opened, workspace, &history, limit);
    let is_partial = list.checkpoints.len() < history.rows().count();
    let mut problems = list.unreadable;
    if let Some(error) = list.ledger_error {
        problems.push(format!("prompts and effects are missing: {error}"));
    }
    let mut entries: Vec<Entry> =
        list.checkpoints.into_iter().map(|row| Entry::Row(Box::new(row))).collect();
    let rollbacks = read_rollbacks(&history, &entries);
    entries.extend(rollbacks.into_iter().map(Entry::Rollback));
    let mut numbers = sort_entries(&mut entries, &history);
    if is_partial {
        // Rollbacks that are older than the oldest of these rows are left out, because the rows
        // before and between them are missing.
        let is_row = |entry: &Entry| matches!(entry, Entry::Row(_));
        let length = entries.iter().rposition(is_row).map_or(0, |last| last + 1);
        entries.truncate(length);
        numbers.truncate(length);
    }
    let sessions = entries.iter().filter_map(|entry| entry.session().map(str::to_owned));
    let sessions: BTreeSet<String> = sessions.collect();
    let titles = match opened.ledger() {
        Ok(Some(ledger)) => read_titles(&ledger, &sessions),
        _ => BTreeMap::new(),
    };
    let working = history.working_sessions().into_iter().map(str::to_owned).collect();
    let (id, path) = (workspace.id().to_string(), workspace.path.clone());
    Ok(Timeline { id, path, entries, numbers, titles, working, problems, is_partial })
}

/// Sorts entries by the numbers of their checkpoints, newest first, and returns these numbers.
fn sort_entries(entries: &mut [Entry], history: &History) -> Vec<u64> {
    let rows = history.rows().map(|row| row.first());
    let known = rows.chain(history.rollbacks().map(|(safety, _)| safety));
    let numbers: HashMap<Oid, u64> =
        known.map(|checkpoint| (checkpoint.pin.id, checkpoint.pin.name.seq)).collect();
    let number = |entry: &Entry| numbers[&entry.id()];
    entries.sort_by_key(|entry| Reverse(number(entry)));
    entries.iter().map(number).collect()
}

fn read_rollbacks(history: &History, rows: &[Entry]) -> Vec<RollbackEntry> {
    let find_subject = |to: Oid| {
        rows.iter().find_map(|entry| match entry {
            Entry::Row(row) if row.id == to || row.steps.iter().any(|step| step.id == to) => {
                Some(row.prompt.clone().unwrap_or_else(|| row.reason.clone()))
            }
            _ => None,
        })
    };
    let made = history.rollbacks().filter(|(_, done)| done.part_of.is_none());
    made.map(|(safety, done)| RollbackEntry {
        id: safety.pin.id,
        time: safety.record.time.clone(),
        action: done.action,
        to: done.to,
        paths: done.paths.len(),
        chat_only: !done.files,
        subject: find_subject(done.to),
    })
    .collect()
}

fn read_titles(ledger: &Ledger, sessions: &BTreeSet<String>) -> BTreeMap<String, String> {
    let title = |id: &String| {
        let title = ledger.session(id).ok()?.title?;
        Some((id.clone(), title)).filter(|(_, title)| !title.trim().is_empty())
    };
    sessions.iter().filter_map(title).collect()
}

impl Timeline {
    /// Returns the latest rollback, which can be taken back.
    pub fn last_rollback(&self) -> Option<&RollbackEntry> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Rollback(rollback) => Some(rollback),
            Entry::Row(_) => None,
        })
    }

    /// Returns the newest row that has not been taken back: the turn or checkpoint that led to the
    /// current state of the workspace.
    pub fn current(&self) -> Option<Oid> {
        let mut rows = self.entries.iter().filter_map(|entry| match entry {
            Entry::Row(row) => Some(row.as_ref()),
            Entry::Rollback(_) => None,
        });
        rows.find(|row| !row.taken_back).map(|row| row.id)
    }

    /// Finds an entry by its id, or the row that a step with this id belongs to.
    pub fn find(&self, id: &Oid) -> Option<usize> {
        self.entries.iter().position(|entry| match entry {
            Entry::Row(row) => row.id == *id || row.steps.iter().any(|step| step.id == *id),
            Entry::Rollback(rollback) => rollback.id == *id,
        })
    }

    /// Returns the texts of a row that a filter searches: the prompt, the name, the reasons of its
    /// calls, the commands with effects, and the title of its session.
    pub fn texts<'t>(&'t self, row: &'t RowView) -> impl Iterator<Item = &'t str> {
        let title = row.session.as_ref().and_then(|session| self.titles.get(session));
        let texts = [row.prompt.as_ref(), row.name.as_ref(), Some(&row.reason), title];
        let steps = row.steps.iter().map(|step| step.reason.as_str());
        let commands = row.effects.iter().map(|effect| effect.command.as_str());
        texts.into_iter().flatten().map(String::as_str).chain(steps).chain(commands)
    }
}

/// Describes a rollback in one line: `Rolled back to before “tidy up”`.
pub fn describe_rollback(rollback: &RollbackEntry) -> String {
    let action = text::describe_action(rollback.action);
    let subject = rollback.subject.as_deref().map(|text| text::shorten(&text::one_line(text), 80));
    let what = match (rollback.action, subject) {
        (Action::Rollback, Some(subject)) => format!(" to before “{subject}”"),
        (Action::UndoTurn, Some(subject)) => format!(" “{subject}”"),
        _ => String::new(),
    };
    let limit = match (rollback.paths, rollback.chat_only) {
        (0, false) => String::new(),
        (0, true) => " (only the conversation)".to_owned(),
        (paths, _) => format!(" ({})", text::count(paths as u64, "path")),
    };
    format!("{action}{what}{limit}")
}
