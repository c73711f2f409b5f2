//! The timeline of a workspace, divided into pages.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use takeback_ledger::Time;
use takeback_undo::history::{WorkspaceRef, known_workspaces};
pub(crate) use takeback_undo::view::{Entry, RollbackEntry};
use takeback_undo::{Failure, Opened, view};

use super::filter::Filter;
use crate::app::Work;
use crate::problem::WorkError;

/// A timeline, with the position of each entry among the entries of all workspaces.
pub(crate) struct Timeline {
    view: view::Timeline,
    places: Vec<Cursor>,
}

impl Deref for Timeline {
    type Target = view::Timeline;

    fn deref(&self) -> &view::Timeline {
        &self.view
    }
}

/// A part of one or more timelines.
pub(crate) struct Page {
    /// The entries, newest first, each with its timeline.
    pub(crate) entries: Vec<(Arc<Timeline>, usize)>,
    /// The position at which older entries begin; `None` if there are none.
    pub(crate) next: Option<Cursor>,
    /// The number of entries that match the filter.
    pub(crate) total: usize,
}

/// A position in timelines, between newer and older entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    moment: Timestamp,
    workspace: String,
    /// The number of the checkpoint, which puts the entries of a workspace in order.
    seq: u64,
}

impl Cursor {
    /// Parses a position, in the form that URLs contain.
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
    let view = view::read_timeline(opened, workspace)?;
    let mut latest = Timestamp::MAX;
    let place = |(entry, seq): (&Entry, &u64)| {
        latest = latest.min(entry.time());
        Cursor { moment: latest, seq: *seq, workspace: view.id.clone() }
    };
    let places = view.entries.iter().zip(&view.numbers).map(place).collect();
    Ok(Timeline { view, places })
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

    /// Returns the failures in one workspace, or in all workspaces.
    pub(crate) fn failures(&self, path: Option<&PathBuf>) -> Vec<Failure> {
        let mut failures = self.opened.failures();
        failures.retain(|failure| path.is_none_or(|path| failure.workspace.0 == *path));
        failures
    }
}

/// Selects a page of entries from timelines, newest first.
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
