//! Facts that the user should know about a rollback: effects that it cannot reverse, changes by
//! others, and the position of HEAD.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use takeback_base::errors::error_chain;
use takeback_ledger::Moment;
use takeback_tree::{GitDirectory, Head, Plan, RelPath, StoreError, Workspace};

use super::RollbackError;
use super::planned::{HeadMoved, Planned, RollbackView};
use crate::Opened;
use crate::history::authorship::{PresentState, Timeline};
use crate::history::record::{Checkpoint, Kind};
use crate::history::{EffectView, History};
use crate::hook::quote_word;
use crate::hook::state::WorkspaceState;

/// Lists the effects since a checkpoint, without duplicates.
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

/// Finds the files to restore or delete whose last change was made neither by the checkpoint's
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

/// Warns about missing repositories, unless the plan restores them.
pub(super) fn warn_of_lost_repositories(
    opened: &Opened,
    workspace: &Workspace<'_>,
    planned: &mut Planned,
) {
    let Planned { work, view } = planned;
    let paths = &work.goal.paths;
    let is_restored = |git: &Path, view: &RollbackView| {
        let mut groups = view.elsewhere.iter();
        groups.any(|group| group.workspace.0 == git && !group.restored.is_empty())
    };
    if view.repository.is_some() && GitDirectory::find(workspace.path()).is_none() {
        if is_restored(&workspace.path().join(".git"), view) {
            view.repository = None;
        } else {
            let warning =
                "the repository's data (.git) is missing, and this rollback does not restore it";
            view.warnings.push(warning.into());
        }
    }
    for git in find_inner_repositories(opened, workspace) {
        // There is nothing to warn about if the directory that contains the repository is also
        // missing, and this rollback does not restore it.
        let directory = git.parent().and_then(|above| above.strip_prefix(workspace.path()).ok());
        let directory = directory.and_then(|inner| RelPath::from_path(inner).ok());
        let is_meant = directory.is_some_and(|directory| {
            let has_files = workspace.path().join(directory.as_path()).is_dir()
                || view.restored.iter().any(|path| path.starts_with(&directory));
            let is_asked = |asked: &RelPath| directory.starts_with(asked);
            has_files && (paths.is_empty() || paths.iter().any(is_asked))
        });
        if is_meant && git.symlink_metadata().is_err() && !is_restored(&git, view) {
            let warning = format!(
                "the repository's data {} is missing, and this rollback does not restore it",
                git.display()
            );
            view.warnings.push(warning);
        }
    }
}

/// Lists the `.git` of each known repository inside a workspace: those found when the workspace's
/// last session began, and those that could not be captured.
fn find_inner_repositories(opened: &Opened, workspace: &Workspace<'_>) -> BTreeSet<PathBuf> {
    let known = WorkspaceState::new(workspace.notes()).repositories();
    let known = known.iter().map(|inner| workspace.path().join(inner.as_path()).join(".git"));
    let missed = opened.failures().into_iter().filter(|failure| failure.checkpoint);
    let missed = missed.map(|failure| failure.workspace.0);
    let own = workspace.path().join(".git");
    let is_inner =
        |git: &PathBuf| git.ends_with(".git") && *git != own && git.starts_with(workspace.path());
    known.chain(missed).filter(is_inner).collect()
}

/// Determines whether HEAD of the workspace's own repository has moved since a checkpoint, and
/// which git command moves it back.
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
    // The rollback itself restores the files, so the command has to move only HEAD.
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
