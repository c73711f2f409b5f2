//! Questions to the user. The first answer is always the safe one.

use takeback_tree::{Oid, RelPath};
use takeback_undo::{FileResolution, Resolution};

use super::Load;
use super::plan::{Plan, Wanted};
use crate::content::Versions;

/// A question, or the help.
#[derive(Debug)]
pub(crate) enum Dialog {
    Confirm(Box<Confirm>),
    Input(TextInput),
    Help,
}

/// A plan that is waiting for the user's consent.
#[derive(Debug)]
pub(crate) struct Confirm {
    pub(crate) wanted: Wanted,
    /// The words on the button that carries out the plan.
    pub(crate) words: String,
    /// The subject of the turn, for the title.
    pub(crate) subject: String,
    /// The turn that the user could undo instead.
    pub(crate) turn: Option<Oid>,
    pub(crate) plan: Load<Box<Plan>>,
    /// The index of the chosen button. The first one changes nothing.
    pub(crate) button: usize,
    /// The index of the selected file in the list of files that the user has to decide about.
    pub(crate) file: usize,
    pub(crate) top: usize,
    /// The path and the versions of the selected file, if the file has conflicts.
    pub(crate) versions: Load<(RelPath, Versions)>,
    /// The file whose versions were requested last.
    pub(crate) asked: Option<RelPath>,
    /// True while the plan is being carried out.
    pub(crate) is_applied: bool,
    /// True if the plan is not the one that was first shown.
    pub(crate) has_changed: bool,
}

/// A file that the user has to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenQuestion {
    pub(crate) path: RelPath,
    pub(crate) reason: String,
    pub(crate) answer: Answer,
}

/// The answer to a question about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The file has conflicts.
    Conflict(Resolution),
    /// The user or another agent may have changed the file. The value is true if the change is
    /// taken back anyway.
    Doubt(bool),
}

/// The button that does nothing.
pub(crate) const KEEP: &str = "Change nothing";

/// The button that undoes only the turn.
pub(crate) const UNDO: &str = "Undo this turn, keep my edits";

impl Confirm {
    /// Returns the words on the buttons.
    pub(crate) fn buttons(&self) -> Vec<&str> {
        let mut buttons = vec![KEEP];
        let Some(plan) = self.plan.ready() else { return buttons };
        if plan.can_be_applied() {
            buttons.push(&self.words);
        }
        let is_rollback = matches!(self.wanted, Wanted::Rollback(_));
        if is_rollback && self.turn.is_some() && !plan.planned.view().others.is_empty() {
            buttons.push(UNDO);
        }
        buttons
    }

    /// Lists the files that the user has to decide about.
    pub(crate) fn questions(&self) -> Vec<OpenQuestion> {
        let (Wanted::Undo { files, taken, .. }, Some(plan)) = (&self.wanted, self.plan.ready())
        else {
            return Vec::new();
        };
        let view = plan.planned.view();
        let resolution = |path: &RelPath| {
            let own = files.iter().find(|file| file.path == *path);
            own.map_or(Resolution::Leave, |file| file.resolution)
        };
        let conflicts = view.conflicts.iter().map(|found| OpenQuestion {
            path: found.path.clone(),
            reason: found.reason.to_string(),
            answer: Answer::Conflict(resolution(&found.path)),
        });
        let doubts = view.doubts.iter().map(|found| OpenQuestion {
            path: found.path.clone(),
            reason: found.reason.to_string(),
            answer: Answer::Doubt(false),
        });
        let agreed = taken.iter().map(|path| OpenQuestion {
            path: path.clone(),
            reason: "others may have changed it".into(),
            answer: Answer::Doubt(true),
        });
        conflicts.chain(doubts).chain(agreed).collect()
    }

    /// Switches to the next answer for the selected file.
    pub(crate) fn change_answer(&mut self) -> bool {
        let questions = self.questions();
        let (Some(question), Wanted::Undo { files, taken, .. }) =
            (questions.get(self.file), &mut self.wanted)
        else {
            return false;
        };
        let path = question.path.clone();
        match question.answer {
            Answer::Conflict(resolution) => {
                files.retain(|file| file.path != path);
                let resolution = next_resolution(resolution);
                files.push(FileResolution { path, resolution });
            }
            Answer::Doubt(true) => taken.retain(|known| *known != path),
            Answer::Doubt(false) => taken.push(path),
        }
        true
    }
}

fn next_resolution(resolution: Resolution) -> Resolution {
    match resolution {
        Resolution::Leave => Resolution::Theirs,
        Resolution::Theirs => Resolution::Ours,
        Resolution::Ours => Resolution::Markers,
        Resolution::Markers => Resolution::Leave,
    }
}

/// The purpose of a text field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The name of a checkpoint. An empty text removes the name.
    Name(Oid),
    /// The reason for a new checkpoint.
    Checkpoint,
}

/// A text field, and the line that the user has typed so far.
#[derive(Debug)]
pub(crate) struct TextInput {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
}
