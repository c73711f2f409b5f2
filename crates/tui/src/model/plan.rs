//! Plans: what the user wants, and what would happen.

use takeback_tree::{Oid, RelPath};
use takeback_undo::hook::quote_word;
use takeback_undo::view::list_files;
use takeback_undo::view::text::{agent_of, count, effect_kinds, group_digits};
use takeback_undo::{Action, FileResolution, Planned, RollbackView};

/// The change that the user wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// Return to a checkpoint.
    Rollback(Oid),
    /// Restore these files from a checkpoint.
    Files(Oid, Vec<RelPath>),
    /// Undo only this turn.
    Undo { turn: Oid, files: Vec<FileResolution>, taken: Vec<RelPath> },
    /// Reverse the last rollback.
    TakeBack,
    /// Repeat the rollback that was last reversed.
    Repeat,
}

/// A plan, and the sessions that are working in the workspace.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) planned: Planned,
    pub(crate) working: Vec<String>,
}

impl Plan {
    /// Returns true if the plan changes something, and nothing is blocking it.
    pub(crate) fn can_be_applied(&self) -> bool {
        !self.planned.is_empty() && !self.planned.is_blocked()
    }
}

/// The verbs that a summary uses.
struct Verbs {
    restore: &'static str,
    delete: &'static str,
    take_back: &'static str,
    leave: &'static str,
}

const FUTURE: Verbs =
    Verbs { restore: "restores", delete: "deletes", take_back: "takes back", leave: "leaves" };

const PAST: Verbs =
    Verbs { restore: "restored", delete: "deleted", take_back: "took back", leave: "left" };

/// Says in one line what a plan does: `restores 12 files, deletes 3`.
pub(crate) fn summarize_plan(view: &RollbackView) -> String {
    let parts = list_parts(view, &FUTURE);
    match parts.is_empty() {
        true => "changes nothing: everything is already in that state".to_owned(),
        false => parts.join(", "),
    }
}

/// Says in one line what was done: `restored 12 files, deleted 3`.
fn summarize_done(view: &RollbackView) -> String {
    let parts = list_parts(view, &PAST);
    match parts.is_empty() {
        true => "no file had to change".to_owned(),
        false => parts.join(", "),
    }
}

fn list_parts(view: &RollbackView, verbs: &Verbs) -> Vec<String> {
    let inner = |paths: fn(&takeback_undo::rollback::ElsewhereView) -> usize| {
        view.elsewhere.iter().map(paths).sum::<usize>()
    };
    let restored =
        list_files(&view.restored).len() + inner(|group| list_files(&group.restored).len());
    let deleted = list_files(&view.deleted).len() + inner(|group| list_files(&group.deleted).len());
    let left = view.conflicts.iter().filter(|conflict| !conflict.resolved).count();
    let mut parts = Vec::new();
    if restored > 0 {
        parts.push(format!("{} {}", verbs.restore, count(restored as u64, "file")));
    }
    if deleted > 0 {
        let number = group_digits(deleted as u64);
        parts.push(match parts.is_empty() {
            true => format!("{} {}", verbs.delete, count(deleted as u64, "file")),
            false => format!("{} {number}", verbs.delete),
        });
    }
    let mut add = |number: usize, verb: &str, noun: &str| {
        if number > 0 {
            parts.push(format!("{verb} {}", count(number as u64, noun)));
        }
    };
    add(view.undone_messages, verbs.take_back, "message");
    add(view.redone_messages, verbs.restore, "message");
    add(left, verbs.leave, "conflict");
    add(view.uncertain.len(), verbs.leave, "uncertain file");
    parts
}

/// Lists the warnings that the user should read before agreeing to a plan.
pub(crate) fn list_warnings(plan: &Plan) -> Vec<String> {
    let view = plan.planned.view();
    let mut warnings = Vec::new();
    if let Some(session) = plan.working.first() {
        warnings.push(format!("{} is working in this workspace right now", agent_of(session)));
    }
    if !view.blocked.is_empty() {
        warnings.push(format!("{} in the way", is_are(view.blocked.len(), "path")));
    }
    if !view.others.is_empty() {
        let files = count(view.others.len() as u64, "file");
        warnings.push(format!("{files} edited since, by you or another agent"));
    }
    if !view.effects.is_empty() {
        let kinds = effect_kinds(&view.effects).join(", ");
        warnings.push(format!("effects that stay: {kinds}"));
    }
    if let Some(moved) = &view.repository {
        warnings.push(match &moved.command {
            Some(command) => format!("HEAD has moved; `{command}` moves it back"),
            None => "HEAD has moved since".to_owned(),
        });
    }
    warnings
}

fn is_are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number as u64, noun))
}

/// Says what was done, how to take it back, and what else the user should know.
pub(crate) fn describe_result(view: &RollbackView) -> Vec<String> {
    let done = match view.action {
        Action::Rollback => "Rolled back",
        Action::UndoTurn => "Undid the turn",
        Action::Undo => "Took that back",
        Action::Redo => "Repeated the rollback",
    };
    let way_back = match (view.safety_checkpoint, view.action) {
        (None, _) => "",
        (_, Action::Undo) => " R repeats it.",
        _ => " U takes that back.",
    };
    let mut lines = vec![format!("{done}: {}.{way_back}", summarize_done(view))];
    for resume in view.sessions.iter().filter_map(|moved| moved.resume.as_ref()) {
        let command: Vec<String> = resume.argv.iter().map(|word| quote_word(word)).collect();
        lines.push(format!("Continue with `{}`.", command.join(" ")));
    }
    for saved in &view.saved {
        lines.push(format!(
            "Another process wrote to a file that was being replaced. Its version is kept as \
             {saved}."
        ));
    }
    let failed = view.elsewhere.iter().filter_map(|group| {
        let error = group.error.as_ref()?;
        Some(format!("{} is left unchanged: {error}.", group.workspace.0.display()))
    });
    lines.extend(failed);
    lines.extend(view.warnings.iter().map(|warning| format!("Warning: {warning}.")));
    lines
}
