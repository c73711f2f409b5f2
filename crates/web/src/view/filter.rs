//! The filter of a timeline, as it appears in the URL.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use takeback_tree::{Oid, RelPath};
use takeback_undo::history::find_rows_with_path;
use takeback_undo::{History, RowView};

use super::timeline::{Cursor, Entry, Timeline};
use crate::app::Work;
use crate::problem::{Problem, WorkError};

/// The parameters that select entries of a timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterQuery {
    /// Only turns of this agent.
    pub(crate) agent: String,
    /// Only turns of this session.
    pub(crate) session: String,
    /// Only turns whose prompt, reason, name or commands contain this text.
    pub(crate) text: String,
    /// Only turns that changed this file or directory, relative to the workspace.
    pub(crate) file: String,
    /// Only turns on this day or later: `2026-11-18`.
    pub(crate) since: String,
    /// Only turns on this day or earlier: `2026-11-18`.
    pub(crate) until: String,
    /// Only entries older than this position, which an earlier page returned as `next`.
    pub(crate) before: String,
}

/// A filter that has been checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    query: FilterQuery,
    words: Vec<String>,
    since: Option<Date>,
    until: Option<Date>,
    zone: Option<TimeZone>,
    path: Option<RelPath>,
    /// The rows that changed the file, if the filter names a file.
    rows: HashSet<Oid>,
    pub(crate) before: Option<Cursor>,
}

impl Filter {
    /// Checks a filter. Days begin and end in the given time zone.
    pub(crate) fn new(query: FilterQuery, zone: &TimeZone) -> Result<Filter, Problem> {
        let day = |text: &str, name: &str| match text {
            "" => Ok(None),
            text => text.parse::<Date>().map(Some).map_err(|_| {
                Problem::invalid(format!("{name} must be a date, such as 2026-11-18"))
            }),
        };
        let before = match query.before.as_str() {
            "" => None,
            text => Some(Cursor::parse(text).ok_or_else(|| {
                Problem::invalid("before must be the value of next from an earlier page")
            })?),
        };
        let path = match query.file.trim_matches('/') {
            "" => None,
            file => Some(
                RelPath::new(file.as_bytes())
                    .map_err(|_| Problem::invalid("file must be a path in the workspace"))?,
            ),
        };
        Ok(Filter {
            path,
            rows: HashSet::new(),
            words: query.text.split_whitespace().map(str::to_lowercase).collect(),
            since: day(&query.since, "since")?,
            until: day(&query.until, "until")?,
            zone: Some(zone.clone()),
            before,
            query,
        })
    }

    pub(crate) fn query(&self) -> &FilterQuery {
        &self.query
    }

    /// Returns true if the filter may exclude entries.
    pub(crate) fn is_active(&self) -> bool {
        let FilterQuery { agent, session, text, file, since, until, .. } = &self.query;
        [agent, session, text, file, since, until].into_iter().any(|value| !value.is_empty())
    }

    /// Finds the rows that changed the file that the filter names.
    pub(crate) fn find_rows(
        mut self,
        work: &Work,
        timelines: &[Arc<Timeline>],
    ) -> Result<Filter, WorkError> {
        let Some(path) = &self.path else { return Ok(self) };
        for timeline in timelines {
            let known = work.workspace(&timeline.id)?;
            let history = History::read(known.store(), known.id())?;
            self.rows.extend(find_rows_with_path(known.store(), &history, path)?);
        }
        Ok(self)
    }

    pub(crate) fn matches(&self, entry: &Entry, timeline: &Timeline) -> bool {
        if !self.has_day(entry) || (self.path.is_some() && !self.rows.contains(&entry.id())) {
            return false;
        }
        match entry {
            Entry::Row(row) => self.has_row(row, timeline),
            // Rollbacks belong to no agent, and have no text of their own.
            Entry::Rollback(_) => {
                let FilterQuery { agent, session, text, .. } = &self.query;
                agent.is_empty() && session.is_empty() && text.is_empty()
            }
        }
    }

    fn has_day(&self, entry: &Entry) -> bool {
        let (None, None) = (self.since, self.until) else {
            let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
            let day = entry.time().to_zoned(zone).date();
            return self.since.is_none_or(|since| day >= since)
                && self.until.is_none_or(|until| day <= until);
        };
        true
    }

    fn has_row(&self, row: &RowView, timeline: &Timeline) -> bool {
        let FilterQuery { agent, session, .. } = &self.query;
        let is_agent = agent.is_empty() || row.agent.as_ref() == Some(agent);
        let is_session = session.is_empty() || row.session.as_ref() == Some(session);
        is_agent && is_session && (self.words.is_empty() || self.has_words(row, timeline))
    }

    /// Returns true if every word occurs somewhere in the row.
    fn has_words(&self, row: &RowView, timeline: &Timeline) -> bool {
        let texts: Vec<String> = timeline.texts(row).map(str::to_lowercase).collect();
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}
