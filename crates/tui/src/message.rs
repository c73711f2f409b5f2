//! The messages that change the screen's state, and the commands that follow from them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use takeback_tree::{Oid, RelPath};
use takeback_undo::{LabelChange, RollbackView};

use crate::content::{self, FoundSession, Versions};
use crate::host::Problem;
use crate::input::Input;
use crate::model::Past;
use crate::model::pane::{Details, Diff};
use crate::model::plan::{Plan, Wanted};

/// An event: the user did something, time passed, or a worker is done.
#[derive(Debug)]
pub(crate) enum Message {
    Input(Input),
    /// Time has passed.
    Tick(Timestamp),
    Past(Result<Arc<Past>, Problem>),
    /// The paths that each turn changed, in lower case.
    Paths(HashMap<Oid, String>),
    /// The words of the filter, and the turns whose conversations contain them.
    Said(String, HashSet<Oid>),
    Details(Oid, Result<Box<Details>, Problem>),
    /// A diff. If the flag is true, the diff shows all changes since the turn began, and otherwise
    /// only the turn's own changes.
    Diff(Oid, bool, Result<Diff, Problem>),
    Conversation(Oid, Result<Vec<content::Message>, Problem>),
    Versions(RelPath, Result<Versions, Problem>),
    /// The words to search for, and the results. Without words, these are the latest sessions.
    Sessions(String, Result<Vec<FoundSession>, Problem>),
    /// The messages of a session.
    Transcript(String, Result<Vec<content::Message>, Problem>),
    /// The plan with this number.
    Plan(u64, Result<Box<Plan>, Problem>),
    Applied(Result<Box<RollbackView>, Problem>),
    /// A label was changed, or a checkpoint was taken. The line says what was done.
    Done(Result<String, Problem>),
    /// The command that continues a session.
    Resume(Result<String, Problem>),
    /// Messages that could not be printed while the screen was shown.
    Notes(Vec<String>),
}

/// An action that `update` requests but does not carry out itself.
#[derive(Debug)]
pub(crate) enum Command {
    Read(Read),
    /// Make the plan with this number.
    MakePlan(u64, Wanted),
    Apply(Box<Plan>),
    Label(Oid, LabelChange),
    TakeCheckpoint(String),
    FindResume(String),
    Copy(String),
    /// Show the changes since a checkpoint in the pager.
    PageDiff(Oid),
    Suspend,
    Redraw,
    Quit,
}

/// A request for a worker to read something. The request replaces a waiting request of the same
/// kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Past,
    /// The newest rows of the history, for the first screen.
    Newest,
    /// The whole history, but only if it has changed since it was last read.
    Changes,
    Paths,
    /// The turns whose conversations contain these words.
    Said(String),
    Details(Oid),
    Diff(Oid, bool),
    /// The conversation of a turn, for a pane of this width.
    Conversation(Oid, usize),
    /// The versions of a file that a turn changed.
    Versions(Oid, RelPath),
    /// The messages that contain these words. Without words, the latest sessions.
    Sessions(String),
    /// The messages of a session, for a pane of this width.
    Transcript(String, usize),
}
