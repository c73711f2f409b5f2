//! The consequences of a rollback besides files: effects that it cannot reverse, changes by others,
//! the position of HEAD.

use std::collections::BTreeSet;

use takeback_base::errors::error_chain;
use takeback_ledger::Moment;
use takeback_tree::{GitDirectory, Head, Plan, RelPath, StoreError, Workspace};

use super::RollbackError;
use super::elsewhere::ElsewhereView;
use super::planned::{HeadMoved, RollbackView};
use crate::Opened;
use crate::history::authorship::{PresentState, Timeline};
use crate::history::record::{Checkpoint, Kind};
use crate::history::{EffectView, History};
use crate::hook::quote_word;

/// Lists the effects since a checkpoint that no rollback reverses, without duplicates.
pub(super) fn effects_since(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
    checkpoint: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Vec<EffectView> {
    let path = workspace.path().display().to_string();
    let moment = find_moment(history, checkpoint);
    let found = match opened.ledger() {
        Ok(None) => return Vec::new(),
        Ok(Some(ledger)) => ledger
            .effects_since(&path, &moment, checkpoint.record.moment())
            .map_err(|error| error_chain(&error)),
        Err(error) => Err(error_chain(&error)),
    };
    let effects = found.unwrap_or_else(|error| {
        warnings.push(format!("cannot list the effects that no rollback reverses: {error}"));
        Vec::new()
    });
    let mut views: Vec<EffectView> = Vec::new();
    for effect in effects {
        let view = EffectView { kind: effect.kind, command: effect.command };
        if !views.contains(&view) {
            views.push(view);
        }
    }
    views
}

/// Finds the position of a checkpoint in the order of calls.
fn find_moment<'h>(history: &'h History, checkpoint: &'h Checkpoint) -> Moment<'h> {
    if let Some(call) = checkpoint.record.call_id() {
        return Moment::Start(call);
    }
    let events: Vec<&Checkpoint> = history.events().collect();
    let place = events.iter().position(|known| known.pin.id == checkpoint.pin.id);
    let (before, after) = events.split_at(place.unwrap_or(events.len()));
    let start =
        |known: &&'h Checkpoint| known.record.call_id().filter(|_| known.record.kind == Kind::Call);
    Moment::Between(before.iter().rev().find_map(start), after.iter().find_map(start))
}

/// Finds the files to be restored or deleted that were last changed neither by the checkpoint's
/// session nor by a rollback.
pub(super) fn find_others_changes(
    workspace: &Workspace<'_>,
    history: &History,
    checkpoint: &Checkpoint,
    files: &Plan,
    named: &[RelPath],
) -> Result<Vec<RelPath>, RollbackError> {
    let Some(call) = &checkpoint.record.call else { return Ok(Vec::new()) };
    let store = workspace.store();
    let present = PresentState { tree: files.from, uncovered: &files.uncovered, named };
    let timeline = Timeline::of(history, Some(present));
    let mut changed = BTreeSet::new();
    for path in files.writes.iter().chain(&files.deletes) {
        let present = store.find_entry(&files.from, path).map_err(StoreError::from)?;
        if !present.is_some_and(|(mode, _)| mode.is_directory()) {
            changed.insert(path.clone());
        }
    }
    let since = checkpoint.pin.name.seq;
    let others = timeline.find_others_changes(store, &call.session, since, changed);
    Ok(others.map_err(StoreError::from)?.into_iter().collect())
}

/// Warns about a missing repository, unless the plan restores it.
pub(super) fn warn_of_lost_repository(workspace: &Workspace<'_>, view: &mut RollbackView) {
    if view.repository.is_none() || GitDirectory::find(workspace.path()).is_some() {
        return;
    }
    let git = workspace.path().join(".git");
    let is_git = |group: &ElsewhereView| group.workspace.0 == git && !group.restored.is_empty();
    if view.elsewhere.iter().any(is_git) {
        view.repository = None;
    } else {
        let warning = "the repository's data (.git) is missing, and this does not restore it";
        view.warnings.push(warning.into());
    }
}

/// Determines whether HEAD of the workspace's own repository moved since a checkpoint, and which
/// git command moves it back.
pub(super) fn find_moved_head(
    workspace: &Workspace<'_>,
    checkpoint: &Checkpoint,
) -> Option<HeadMoved> {
    let then = checkpoint.record.repository.clone()?;
    let Some(git) = GitDirectory::find(workspace.path()) else {
        return Some(HeadMoved { then, now: Head::default(), command: None });
    };
    let now = git.head();
    if then == now {
        return None;
    }
    // The rollback restores the files itself: only HEAD has to follow.
    let command = match (&then.branch, &then.commit) {
        (Some(branch), Some(commit)) if then.branch != now.branch => {
            let branch = quote_word(&format!("refs/heads/{branch}"));
            Some(format!("git symbolic-ref HEAD {branch} && git reset --soft {}", &commit[..12]))
        }
        (Some(_), Some(commit)) => Some(format!("git reset --soft {}", &commit[..12])),
        (None, Some(commit)) => Some(format!("git update-ref --no-deref HEAD {}", &commit[..12])),
        (_, None) => None,
    };
    Some(HeadMoved { then, now, command })
}
