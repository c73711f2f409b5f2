//! The list of turns on the left: its lines, the selection, and the filter.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use takeback_tree::{Oid, RelPath};
use takeback_undo::RowView;
use takeback_undo::view::text::day_name;
use takeback_undo::view::{Entry, Timeline};

use super::Past;

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListLine {
    /// A problem that the user should know about.
    Problem(String),
    /// The name of a day.
    Day(String),
    /// The session that the entries below belong to.
    Session(String),
    /// An entry, by its index in the timeline.
    Entry(usize),
    /// A step of a turn, by the index of its entry and its index among the steps.
    Step(usize, usize),
}

/// The list of turns, as the screen shows it.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) lines: Vec<ListLine>,
    /// The index of the selected line.
    pub(crate) at: usize,
    /// The index of the first visible line.
    pub(crate) top: usize,
    /// The turns whose steps are shown.
    open: HashSet<Oid>,
    /// The words of the filter: only turns that contain all of them are shown.
    pub(crate) filter: String,
    /// The words of the filter, and the turns whose conversations contain them.
    said: Option<(String, HashSet<Oid>)>,
    /// The paths that each turn changed, in lower case.
    paths: HashMap<Oid, String>,
}

impl List {
    /// Builds the lines again, and keeps the selection if the selected entry or step is still in
    /// the list.
    pub(crate) fn rebuild(
        &mut self,
        past: &Past,
        selected: Option<Oid>,
        now: Timestamp,
        zone: &TimeZone,
    ) {
        let timeline = &past.timeline;
        let problems = past.failures.iter().chain(&timeline.problems);
        let mut lines: Vec<ListLine> = problems.cloned().map(ListLine::Problem).collect();
        let (mut last_day, mut last_session) = (None, None);
        for (place, entry) in timeline.entries.iter().enumerate() {
            if !self.matches(entry, timeline) {
                continue;
            }
            let day = day_name(entry.time(), now, zone);
            let session = entry.session().map(str::to_owned);
            if last_day.as_ref() != Some(&day) {
                lines.push(ListLine::Day(day.clone()));
                last_session = None;
            }
            // An entry without a session, such as a rollback, does not end a group.
            if session.is_some() && last_session != session {
                lines.extend(session.clone().map(ListLine::Session));
                last_session = session;
            }
            lines.push(ListLine::Entry(place));
            if let Entry::Row(row) = entry
                && self.open.contains(&row.id)
            {
                lines.extend((0..row.steps.len()).map(|step| ListLine::Step(place, step)));
            }
            last_day = Some(day);
        }
        self.lines = lines;
        let place = selected.and_then(|id| self.find(&id, timeline));
        self.at = place.unwrap_or(0);
        self.settle(1);
    }

    fn matches(&self, entry: &Entry, timeline: &Timeline) -> bool {
        if self.filter.trim().is_empty() {
            return true;
        }
        // Rollbacks have no text of their own.
        let Entry::Row(row) = entry else { return false };
        let said = self.said.as_ref().filter(|(words, _)| *words == self.filter);
        said.is_some_and(|(_, rows)| rows.contains(&row.id)) || self.has_words(row, timeline)
    }

    /// Returns true if every word of the filter occurs in the row's texts or paths.
    fn has_words(&self, row: &RowView, timeline: &Timeline) -> bool {
        let texts: Vec<String> = timeline.texts(row).map(str::to_lowercase).collect();
        let paths = self.paths.get(&row.id);
        self.filter.split_whitespace().map(str::to_lowercase).all(|word| {
            texts.iter().any(|text| text.contains(&word))
                || paths.is_some_and(|paths| paths.contains(&word))
        })
    }

    /// Returns true if it is known which paths the turns changed.
    pub(crate) fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Sets the paths that each turn changed, which the filter also searches.
    pub(crate) fn set_paths(&mut self, paths: HashMap<Oid, String>) {
        self.paths = paths;
    }

    /// Finds the agent that changed a path in a later turn.
    pub(crate) fn find_later_agent<'t>(
        &self,
        timeline: &'t Timeline,
        place: usize,
        path: &RelPath,
    ) -> Option<&'t str> {
        let path = path.to_string().to_lowercase();
        timeline.entries[..place].iter().find_map(|entry| {
            let Entry::Row(row) = entry else { return None };
            let is_changed = self.paths.get(&row.id)?.lines().any(|line| line == path);
            row.agent.as_deref().filter(|_| is_changed && !row.taken_back)
        })
    }

    /// Sets the turns whose conversations contain the words of the filter.
    pub(crate) fn set_said(&mut self, words: String, rows: HashSet<Oid>) {
        self.said = Some((words, rows));
    }

    /// Returns the index of the selected entry in the timeline.
    pub(crate) fn selected_entry(&self) -> Option<usize> {
        match self.lines.get(self.at)? {
            ListLine::Entry(place) | ListLine::Step(place, _) => Some(*place),
            ListLine::Problem(_) | ListLine::Day(_) | ListLine::Session(_) => None,
        }
    }

    /// Returns the id of the selected entry or step.
    pub(crate) fn selected_id(&self, timeline: &Timeline) -> Option<Oid> {
        match self.lines.get(self.at)? {
            ListLine::Entry(place) => timeline.entries.get(*place).map(Entry::id),
            ListLine::Step(place, step) => match timeline.entries.get(*place)? {
                Entry::Row(row) => row.steps.get(*step).map(|step| step.id),
                Entry::Rollback(_) => None,
            },
            ListLine::Problem(_) | ListLine::Day(_) | ListLine::Session(_) => None,
        }
    }

    fn find(&self, id: &Oid, timeline: &Timeline) -> Option<usize> {
        self.lines.iter().position(|line| match line {
            ListLine::Entry(place) => timeline.entries[*place].id() == *id,
            ListLine::Step(place, step) => match &timeline.entries[*place] {
                // The first step of a turn is the turn itself.
                Entry::Row(row) => *step > 0 && row.steps[*step].id == *id,
                Entry::Rollback(_) => false,
            },
            ListLine::Problem(_) | ListLine::Day(_) | ListLine::Session(_) => false,
        })
    }

    /// Selects an entry or a step by its id. Returns false if it is not shown.
    pub(crate) fn select(&mut self, id: &Oid, timeline: &Timeline) -> bool {
        let found = self.find(id, timeline);
        self.at = found.unwrap_or(self.at);
        found.is_some()
    }

    /// Moves the selection up or down by a number of selectable lines.
    pub(crate) fn move_by(&mut self, distance: isize) {
        let step = distance.signum();
        for _ in 0..distance.unsigned_abs() {
            let mut next = self.at;
            loop {
                match next.checked_add_signed(step).filter(|next| *next < self.lines.len()) {
                    Some(place) => next = place,
                    None => return,
                }
                if self.is_selectable(next) {
                    break;
                }
            }
            self.at = next;
        }
    }

    /// Selects the first or the last entry.
    pub(crate) fn move_to_end(&mut self, is_last: bool) {
        self.at = if is_last { self.lines.len().saturating_sub(1) } else { 0 };
        self.settle(if is_last { -1 } else { 1 });
    }

    /// Selects a line by its index, if the line can be selected.
    pub(crate) fn select_line(&mut self, line: usize) -> bool {
        let is_selectable = self.is_selectable(line);
        if is_selectable {
            self.at = line;
        }
        is_selectable
    }

    fn is_selectable(&self, line: usize) -> bool {
        matches!(self.lines.get(line), Some(ListLine::Entry(_) | ListLine::Step(..)))
    }

    /// Moves the selection from a heading to the next entry in the given direction.
    fn settle(&mut self, step: isize) {
        while self.at < self.lines.len() && !self.is_selectable(self.at) {
            match self.at.checked_add_signed(step) {
                Some(next) => self.at = next,
                None => return,
            }
        }
        if self.at >= self.lines.len() {
            self.at = self.lines.len().saturating_sub(1);
        }
    }

    /// Shows or hides the steps of the selected turn. Returns false if nothing changes, for example
    /// because the turn has only one step.
    pub(crate) fn open_steps(&mut self, is_open: bool, timeline: &Timeline) -> bool {
        let Some(Entry::Row(row)) = self.selected_entry().map(|place| &timeline.entries[place])
        else {
            return false;
        };
        if !is_open {
            self.select(&row.id, timeline);
            return self.open.remove(&row.id);
        }
        row.steps.len() > 1 && self.open.insert(row.id)
    }

    /// Returns true if the steps of a turn are shown.
    pub(crate) fn is_open(&self, id: &Oid) -> bool {
        self.open.contains(id)
    }

    /// Scrolls until the selection is on the screen, together with the headings above it.
    pub(crate) fn scroll_to_selection(&mut self, height: usize) {
        let mut first = self.at;
        while first > 0 && !self.is_selectable(first - 1) {
            first -= 1;
        }
        if first < self.top {
            self.top = first;
        }
        if self.at >= self.top + height {
            self.top = self.at + 1 - height;
        }
        self.top = self.top.min(self.lines.len().saturating_sub(1));
    }
}
