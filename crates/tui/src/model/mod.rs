//! The state of the history screen. Only `update` changes it, and only `view` shows it.

pub(crate) mod dialog;
pub(crate) mod list;
pub(crate) mod pane;
pub(crate) mod plan;
pub(crate) mod reader;

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use takeback_tree::Oid;
use takeback_undo::RowView;
use takeback_undo::view::text::one_line;
use takeback_undo::view::{Entry, Timeline, describe_rollback};

use self::dialog::Dialog;
use self::list::{List, ListLine};
use self::pane::Pane;
use self::plan::{Plan, Wanted};
use self::reader::Reader;
use crate::host::Problem;

/// Content that a worker reads, or the state of the request for it.
#[derive(Debug)]
pub(crate) enum Load<T> {
    /// The content has not been requested.
    Idle,
    Waiting,
    Ready(T),
    Failed(Problem),
}

impl<T> Load<T> {
    pub(crate) fn ready(&self) -> Option<&T> {
        match self {
            Load::Ready(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self, Load::Idle)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Load::Waiting)
    }
}

impl<T> From<Result<T, Problem>> for Load<T> {
    fn from(result: Result<T, Problem>) -> Load<T> {
        match result {
            Ok(value) => Load::Ready(value),
            Err(problem) => Load::Failed(problem),
        }
    }
}

/// The timeline of the workspace, and everything else that the head of the screen shows.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) timeline: Timeline,
    /// The failures in this workspace, such as missed checkpoints, each as a line.
    pub(crate) failures: Vec<String>,
    /// The sessions that are working right now.
    pub(crate) working: Vec<String>,
    /// The number of other workspaces that have checkpoints.
    pub(crate) others: usize,
}

/// A line that tells the user what has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) kind: NoteKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoteKind {
    Done,
    Warning,
}

/// The kind of the selected checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubjectKind {
    Turn,
    Step,
    Manual,
    Rollback,
}

/// The selected checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) id: Oid,
    pub(crate) kind: SubjectKind,
}

impl SubjectKind {
    /// Returns the words on the button that rolls back to a checkpoint of this kind.
    pub(crate) fn words(self) -> &'static str {
        match self {
            SubjectKind::Turn => "Roll back to before this turn",
            SubjectKind::Step => "Roll back to before this step",
            SubjectKind::Manual => "Roll back to this checkpoint",
            SubjectKind::Rollback => "Return to before this rollback",
        }
    }
}

/// The state of the history screen.
#[derive(Debug)]
pub(crate) struct Model {
    /// The path of the workspace, as the screen shows it.
    pub(crate) place: String,
    pub(crate) zone: TimeZone,
    pub(crate) now: Timestamp,
    /// The columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    pub(crate) past: Load<Arc<Past>>,
    pub(crate) list: List,
    pub(crate) pane: Pane,
    /// True if the right pane has the focus.
    pub(crate) is_pane_focused: bool,
    /// The plan for the selection, and the change that the plan makes.
    pub(crate) plan: Load<Box<Plan>>,
    pub(crate) wanted: Option<Wanted>,
    /// The number of the last plan that was requested. Older plans are dropped when they arrive.
    pub(crate) generation: u64,
    pub(crate) dialog: Option<Dialog>,
    /// The sessions, while they are shown in place of the history.
    pub(crate) reader: Option<Reader>,
    /// True if the program shows only sessions, and there is no history to return to.
    pub(crate) is_reader_only: bool,
    pub(crate) note: Option<Note>,
    /// True if the screen must be closed as soon as the plan has been carried out.
    pub(crate) is_leaving: bool,
    /// True while the user types the filter.
    pub(crate) is_filtering: bool,
    pub(crate) has_absolute_times: bool,
    /// Lines to print once the screen is closed.
    pub(crate) last_words: Vec<String>,
}

impl Model {
    pub(crate) fn new(place: String, zone: TimeZone, now: Timestamp, size: (u16, u16)) -> Model {
        Model {
            place,
            zone,
            now,
            size,
            past: Load::Waiting,
            list: List::default(),
            pane: Pane::new(),
            is_pane_focused: false,
            plan: Load::Idle,
            wanted: None,
            generation: 0,
            dialog: None,
            reader: None,
            is_reader_only: false,
            note: None,
            is_leaving: false,
            is_filtering: false,
            has_absolute_times: false,
            last_words: Vec::new(),
        }
    }

    /// Creates the state of the screen with the sessions of all agents.
    pub(crate) fn with_sessions(self) -> Model {
        Model { reader: Some(Reader::new(false)), is_reader_only: true, ..self }
    }

    pub(crate) fn timeline(&self) -> Option<&Timeline> {
        self.past.ready().map(|past| &past.timeline)
    }

    /// Returns the selected entry.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.timeline()?.entries.get(self.list.selected_entry()?)
    }

    /// Returns the selected turn or manual checkpoint.
    pub(crate) fn row(&self) -> Option<&RowView> {
        match self.entry()? {
            Entry::Row(row) => Some(row),
            Entry::Rollback(_) => None,
        }
    }

    /// Returns the selected checkpoint.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let id = self.list.selected_id(self.timeline()?)?;
        let kind = match (self.entry()?, self.list.lines.get(self.list.at)?) {
            (Entry::Rollback(_), _) => SubjectKind::Rollback,
            (Entry::Row(row), ListLine::Step(..)) if row.id != id => SubjectKind::Step,
            (Entry::Row(row), _) if row.kind == "turn" => SubjectKind::Turn,
            (Entry::Row(_), _) => SubjectKind::Manual,
        };
        Some(Subject { id, kind })
    }

    /// Returns the prompt, reason or description of the selected entry, in one line.
    pub(crate) fn subject_words(&self) -> String {
        match self.entry() {
            Some(Entry::Row(row)) => one_line(row.prompt.as_deref().unwrap_or(&row.reason)),
            Some(Entry::Rollback(rollback)) => describe_rollback(rollback),
            None => String::new(),
        }
    }
}
