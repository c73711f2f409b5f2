//! The timeline of a workspace: its rows, and the rollbacks between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use takeback_ledger::{Ledger, Time};
use takeback_tree::Oid;
use takeback_undo::history::{WorkspaceRef, known_workspaces, list_workspace};
use takeback_undo::{Action, Failure, History, Opened, RowView};

use super::filter::Filter;
use crate::app::Work;
use crate::problem::WorkError;

/// Everything that the timeline of one workspace shows.
pub(crate) struct Timeline {
    /// The workspace's id.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// The entries, newest first.
    pub(crate) entries: Vec<Entry>,
    /// The place of each entry. The order is that of the checkpoints' numbers: a clock may jump.
    places: Vec<Cursor>,
    /// The titles of the sessions that have one.
    pub(crate) titles: BTreeMap<String, String>,
    /// The sessions that are working right now.
    pub(crate) working: BTreeSet<String>,
    /// The reasons why a part of the history is missing.
    pub(crate) problems: Vec<String>,
}

/// One entry of a timeline.
#[derive(Debug, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A turn or a manual checkpoint.
    Row(Box<RowView>),
    /// A rollback, an undo, or the reversal of one.
    Rollback(RollbackEntry),
}

/// A rollback that was made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RollbackEntry {
    /// The safety checkpoint: the state before the rollback.
    pub(crate) id: Oid,
    pub(crate) time: String,
    pub(crate) action: Action,
    /// The checkpoint that the workspace returned to.
    pub(crate) to: Oid,
    /// The number of paths that the rollback was limited to; 0 if it was not limited.
    pub(crate) paths: usize,
    /// True if only the conversation was taken back.
    pub(crate) chat_only: bool,
    /// The prompt or reason of the row that the rollback returned to.
    pub(crate) subject: Option<String>,
}

/// A part of one or more timelines.
pub(crate) struct Page {
    /// The entries, newest first, each with its timeline.
    pub(crate) entries: Vec<(Arc<Timeline>, usize)>,
    /// The place at which older entries begin; `None` if there are none.
    pub(crate) next: Option<Cursor>,
    /// The number of entries that fit the filter.
    pub(crate) total: usize,
}

/// A place in timelines: all entries before it are older.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    moment: Timestamp,
    workspace: String,
    /// The number of the checkpoint, which puts the entries of a workspace in order.
    seq: u64,
}

impl Entry {
    pub(crate) fn id(&self) -> Oid {
        match self {
            Entry::Row(row) => row.id,
            Entry::Rollback(rollback) => rollback.id,
        }
    }

    pub(crate) fn time(&self) -> Timestamp {
        let text = match self {
            Entry::Row(row) => &row.time,
            Entry::Rollback(rollback) => &rollback.time,
        };
        text.parse().unwrap_or_default()
    }
}

impl Cursor {
    /// Parses a place in the form in which addresses carry it.
    pub(crate) fn parse(text: &str) -> Option<Cursor> {
        let mut parts = text.splitn(3, '-');
        let moment = Timestamp::from_microsecond(parts.next()?.parse().ok()?).ok()?;
        let seq = parts.next()?.parse().ok()?;
        Some(Cursor { moment, seq, workspace: parts.next()?.to_owned() })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.moment.as_microsecond(), self.seq, self.workspace)
    }
}

/// Reads the timeline of a workspace.
pub(crate) fn read_timeline(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
) -> Result<Timeline, WorkError> {
    let history = History::read(workspace.store(), workspace.id())?;
    let list = list_workspace(opened, workspace)?;
    let mut problems = list.unreadable;
    if let Some(error) = list.ledger_error {
        problems.push(format!("prompts and effects are missing: {error}"));
    }
    let mut entries: Vec<Entry> =
        list.checkpoints.into_iter().map(|row| Entry::Row(Box::new(row))).collect();
    let rollbacks = read_rollbacks(&history, &entries);
    entries.extend(rollbacks.into_iter().map(Entry::Rollback));
    let places = sort_entries(&mut entries, &history, workspace);
    let sessions = entries.iter().filter_map(|entry| match entry {
        Entry::Row(row) => row.session.clone(),
        Entry::Rollback(_) => None,
    });
    let sessions: BTreeSet<String> = sessions.collect();
    let titles = match opened.ledger() {
        Ok(Some(ledger)) => read_titles(&ledger, &sessions),
        _ => BTreeMap::new(),
    };
    let working = history.working_sessions().into_iter().map(str::to_owned).collect();
    let (id, path) = (workspace.id().to_string(), workspace.path.clone());
    Ok(Timeline { id, path, entries, places, titles, working, problems })
}

/// Sorts entries by the numbers of their checkpoints, newest first, and returns their places.
fn sort_entries(
    entries: &mut [Entry],
    history: &History,
    workspace: &WorkspaceRef<'_>,
) -> Vec<Cursor> {
    let rows = history.rows().map(|row| row.first());
    let known = rows.chain(history.rollbacks().map(|(safety, _)| safety));
    let numbers: HashMap<Oid, u64> =
        known.map(|checkpoint| (checkpoint.pin.id, checkpoint.pin.name.seq)).collect();
    // A row that appeared after the history was read is the newest.
    let number = |entry: &Entry| numbers.get(&entry.id()).copied().unwrap_or(u64::MAX);
    entries.sort_by_key(|entry| Reverse(number(entry)));
    let mut latest = Timestamp::MAX;
    let place = |entry: &Entry| {
        latest = latest.min(entry.time());
        Cursor { moment: latest, seq: number(entry), workspace: workspace.id().to_string() }
    };
    entries.iter().map(place).collect()
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
    /// Returns the latest rollback, which "Take that back" reverses.
    pub(crate) fn last_rollback(&self) -> Option<&RollbackEntry> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Rollback(rollback) => Some(rollback),
            Entry::Row(_) => None,
        })
    }

    /// Returns the newest turn in force, or the newest checkpoint: the place where the workspace is
    /// now.
    pub(crate) fn current(&self) -> Option<Oid> {
        let mut rows = self.entries.iter().filter_map(|entry| match entry {
            Entry::Row(row) => Some(row.as_ref()),
            Entry::Rollback(_) => None,
        });
        rows.find(|row| !row.taken_back).map(|row| row.id)
    }

    /// Finds an entry by its id, or the row that a step with this id belongs to.
    pub(crate) fn find(&self, id: &Oid) -> Option<usize> {
        self.entries.iter().position(|entry| match entry {
            Entry::Row(row) => row.id == *id || row.steps.iter().any(|step| step.id == *id),
            Entry::Rollback(rollback) => rollback.id == *id,
        })
    }
}

/// A workspace in a list of workspaces.
pub(crate) struct WorkspaceSummary {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) last_seen: Time,
}

impl Work {
    /// Reads the timeline of a workspace, from the cache if nothing has changed.
    pub(crate) fn timeline(&self, id: &str) -> Result<Arc<Timeline>, WorkError> {
        let workspace = self.workspace(id)?;
        self.app.timelines.read(&self.opened, &workspace)
    }

    /// Reads the timelines of all workspaces.
    pub(crate) fn all_timelines(&self) -> Result<Vec<Arc<Timeline>>, WorkError> {
        let known = known_workspaces(&self.opened)?;
        known.iter().map(|(known, _)| self.app.timelines.read(&self.opened, known)).collect()
    }

    /// Lists all workspaces, the most recently used first.
    pub(crate) fn workspaces(&self) -> Result<Vec<WorkspaceSummary>, WorkError> {
        let known = known_workspaces(&self.opened)?.into_iter();
        let summary = |(known, last_seen): (WorkspaceRef<'_>, Time)| WorkspaceSummary {
            id: known.id().to_string(),
            path: known.path,
            last_seen,
        };
        Ok(known.map(summary).collect())
    }

    /// Returns the failures in a workspace, or in all.
    pub(crate) fn failures(&self, path: Option<&PathBuf>) -> Vec<Failure> {
        let mut failures = self.opened.failures();
        failures.retain(|failure| path.is_none_or(|path| failure.workspace.0 == *path));
        failures
    }
}

/// Takes a page of entries out of timelines, newest first.
pub(crate) fn take_page(timelines: &[Arc<Timeline>], filter: &Filter, limit: usize) -> Page {
    let mut found: Vec<(&Cursor, &Arc<Timeline>, usize)> = Vec::new();
    for timeline in timelines {
        for (index, entry) in timeline.entries.iter().enumerate() {
            if filter.matches(entry, timeline) {
                found.push((&timeline.places[index], timeline, index));
            }
        }
    }
    found.sort_by(|a, b| b.0.cmp(a.0));
    let total = found.len();
    if let Some(before) = &filter.before {
        found.retain(|(cursor, ..)| *cursor < before);
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|(cursor, ..)| (*cursor).clone());
    let entries = found.into_iter().map(|(_, timeline, index)| (timeline.clone(), index)).collect();
    Page { entries, next, total }
}
