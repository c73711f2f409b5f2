//! The right pane: its tabs, and what they show about the selected turn.

use std::collections::BTreeSet;

use takeback_tree::{Head, Oid, RelPath, TreeChange};
use takeback_undo::CheckpointView;

use super::Load;
use crate::content::{DiffRow, Message};

/// A tab of the right pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Files,
    Diff,
    Conversation,
    Effects,
    Coverage,
}

impl Tab {
    /// All tabs, in the order in which they are shown.
    pub(crate) const ALL: [Tab; 5] =
        [Tab::Files, Tab::Diff, Tab::Conversation, Tab::Effects, Tab::Coverage];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tab::Files => "Files",
            Tab::Diff => "Diff",
            Tab::Conversation => "Conversation",
            Tab::Effects => "Effects",
            Tab::Coverage => "Coverage",
        }
    }

    /// Returns the next tab or the previous one.
    pub(crate) fn next(self, step: isize) -> Tab {
        let at = self as isize + step;
        Tab::ALL[at.rem_euclid(Tab::ALL.len() as isize) as usize]
    }
}

/// Everything that is known about the selected checkpoint, apart from its diff and conversation.
#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) checkpoint: CheckpointView,
    /// The changes that the turn or the rollback itself made.
    pub(crate) changes: Vec<TreeChange>,
    /// The current commit and branch of the workspace's own repository.
    pub(crate) head: Option<Head>,
}

/// The lines of a diff.
#[derive(Debug, Default)]
pub(crate) struct Diff {
    pub(crate) rows: Vec<DiffRow>,
    /// The number of files that are left out, because the diff is too long.
    pub(crate) left_out: usize,
}

/// The right pane.
#[derive(Debug)]
pub(crate) struct Pane {
    pub(crate) tab: Tab,
    /// The checkpoint that the pane shows.
    pub(crate) subject: Option<Oid>,
    pub(crate) details: Load<Details>,
    pub(crate) diff: Load<Diff>,
    pub(crate) conversation: Load<Vec<Message>>,
    /// The index of the selected file.
    pub(crate) file: usize,
    /// The files that the user has chosen to restore.
    pub(crate) chosen: BTreeSet<RelPath>,
    /// The index of the first visible line.
    pub(crate) top: usize,
    /// The file that the diff scrolls to once the diff is loaded.
    pub(crate) goal: Option<RelPath>,
    /// True if the diff shows all changes since the turn began, not only those of the turn.
    pub(crate) is_since: bool,
    /// True if tool calls are shown in full.
    pub(crate) is_unfolded: bool,
}

impl Pane {
    pub(crate) fn new() -> Pane {
        Pane {
            tab: Tab::Files,
            subject: None,
            details: Load::Idle,
            diff: Load::Idle,
            conversation: Load::Idle,
            file: 0,
            chosen: BTreeSet::new(),
            top: 0,
            goal: None,
            is_since: false,
            is_unfolded: false,
        }
    }

    /// Switches to another checkpoint, and forgets everything about the previous one.
    pub(crate) fn show(&mut self, subject: Option<Oid>) {
        let (tab, is_since, is_unfolded) = (self.tab, self.is_since, self.is_unfolded);
        *self = Pane { tab, subject, is_since, is_unfolded, ..Pane::new() };
    }

    /// Returns the changed files, in the order in which they are shown.
    pub(crate) fn files(&self) -> &[TreeChange] {
        self.details.ready().map_or(&[], |details| &details.changes)
    }

    /// Returns the selected file.
    pub(crate) fn selected_file(&self) -> Option<&TreeChange> {
        self.files().get(self.file)
    }

    /// Adds the selected file to the chosen files, or removes it from them.
    pub(crate) fn toggle_file(&mut self) {
        let Some(path) = self.selected_file().map(|change| change.path.clone()) else { return };
        if !self.chosen.remove(&path) {
            self.chosen.insert(path);
        }
    }

    /// Chooses all files, or none if all are chosen.
    pub(crate) fn toggle_all(&mut self) {
        let all: BTreeSet<RelPath> =
            self.files().iter().map(|change| change.path.clone()).collect();
        self.chosen = if self.chosen == all { BTreeSet::new() } else { all };
    }
}
