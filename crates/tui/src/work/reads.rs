//! Reads the content that the panes show.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use takeback_tree::{
    ChangeSide, GitDirectory, ObjectError, Oid, RelPath, Store, StoreError, TreeChange,
};
use takeback_undo::history::{
    WorkspaceRef, compare_with_present, find_other_workspaces, find_workspace, history_changed_at,
    revive_workspace,
};
use takeback_undo::rollback::ChosenPaths;
use takeback_undo::view::text::{count, visible};
use takeback_undo::view::{
    DiffView, diff_file, list_changed_paths, list_own_changes, read_timeline_at,
};
use takeback_undo::{CheckpointView, Failure, History, Opened};

use super::Work;
use crate::content::{Versions, add_rows};
use crate::host::{Error, Problem};
use crate::message::{Message, Read};
use crate::model::Past;
use crate::model::pane::{Details, Diff};

/// The number of rows that the first screen shows while the rest is being read.
const FIRST_ROWS: usize = 60;

/// The number of lines in a diff after which further files are left out.
const MAX_LINES: usize = 5_000;

/// The number of files in a diff after which further files are left out.
const MAX_FILES: usize = 200;

/// The maximum size in bytes of a file whose versions are shown.
const MAX_VERSION: u64 = 1 << 20;

impl Work {
    /// Reads the requested content. Returns `None` if nothing has changed, or if a newer request
    /// has replaced this one.
    pub(crate) fn read(
        &self,
        read: &Read,
        seen: &mut Option<SystemTime>,
        is_outdated: &dyn Fn() -> bool,
    ) -> Option<Message> {
        Some(match read {
            Read::Past => {
                *seen = self.last_change();
                Message::Past(self.explain(|opened| self.read_past(opened, None)).map(Arc::new))
            }
            Read::Newest => {
                let read = |opened: &Opened| self.read_past(opened, Some(FIRST_ROWS));
                Message::Past(self.explain(read).map(Arc::new))
            }
            Read::Changes => {
                let changed = self.last_change();
                if changed == *seen {
                    return None;
                }
                *seen = changed;
                Message::Past(self.explain(|opened| self.read_past(opened, None)).map(Arc::new))
            }
            Read::Paths => Message::Paths(
                self.explain(|opened| self.read_paths(opened, is_outdated)).unwrap_or_default(),
            ),
            Read::Said(words) => {
                let rows = self.explain(|opened| self.find_said(opened, words, is_outdated));
                Message::Said(words.clone(), rows.unwrap_or_default())
            }
            Read::Details(id) => Message::Details(
                *id,
                self.explain(|opened| self.read_details(opened, id)).map(Box::new),
            ),
            Read::Diff(id, since) => {
                let diff = self.explain(|opened| self.read_diff(opened, id, *since, is_outdated));
                Message::Diff(*id, *since, diff)
            }
            Read::Conversation(id, columns) => {
                self.host.catch_up();
                let messages = self.explain(|opened| self.read_conversation(opened, id, *columns));
                Message::Conversation(*id, messages)
            }
            Read::Sessions(words) => {
                self.host.catch_up();
                let found = self.explain(|opened| self.find_sessions(opened, words, is_outdated));
                Message::Sessions(words.clone(), found)
            }
            Read::Transcript(session, columns) => {
                let read = self.explain(|opened| self.read_transcript(opened, session, *columns));
                Message::Transcript(session.clone(), read)
            }
            Read::Versions(turn, path) => {
                let versions = self.explain(|opened| self.read_versions(opened, turn, path));
                Message::Versions(path.clone(), versions)
            }
        })
    }

    /// Opens the home, reads from it, and explains the error if that fails.
    pub(super) fn explain<T>(
        &self,
        work: impl FnOnce(&Opened) -> Result<T, Error>,
    ) -> Result<T, Problem> {
        let opened = self.host.open()?;
        work(&opened).map_err(|error| self.host.explain(error))
    }

    /// Opens the workspace and reads its history.
    pub(super) fn history<'o>(
        &self,
        opened: &'o Opened,
    ) -> Result<(WorkspaceRef<'o>, History), Error> {
        let workspace = find_workspace(opened, &self.directory)?;
        let history = History::read(workspace.store(), workspace.id())?;
        Ok((workspace, history))
    }

    /// Returns the time at which the checkpoints of the workspace last changed.
    fn last_change(&self) -> Option<SystemTime> {
        let opened = self.host.open().ok().filter(|opened| opened.has_store())?;
        let workspace = find_workspace(&opened, &self.directory).ok()?;
        history_changed_at(workspace.store(), workspace.id())
    }

    fn read_past(&self, opened: &Opened, limit: Option<usize>) -> Result<Past, Error> {
        let timeline = read_timeline_at(opened, &self.directory, limit)?;
        let mut working = Vec::new();
        if opened.has_store() {
            let in_calls = timeline.working.iter().map(String::as_str);
            working = takeback_runtime::find_working_sessions(opened, &timeline.path, in_calls)?;
        }
        let failures = opened.failures().into_iter();
        let own = failures.filter(|failure| failure.workspace.0 == timeline.path);
        let failures = own.map(|failure| describe_failure(&failure)).collect();
        let others = match timeline.entries.is_empty() {
            true => find_other_workspaces(opened, &self.directory)?.len(),
            false => 0,
        };
        Ok(Past { timeline, failures, working, others })
    }

    fn read_paths(
        &self,
        opened: &Opened,
        is_outdated: &dyn Fn() -> bool,
    ) -> Result<HashMap<Oid, String>, Error> {
        if !opened.has_store() {
            return Ok(HashMap::new());
        }
        let (workspace, history) = self.history(opened)?;
        let paths = list_changed_paths(workspace.store(), &history, is_outdated).into_iter();
        let join = |paths: Vec<RelPath>| {
            let paths: Vec<String> =
                paths.iter().map(|path| path.to_string().to_lowercase()).collect();
            paths.join("\n")
        };
        Ok(paths.map(|(id, paths)| (id, join(paths))).collect())
    }

    fn read_details(&self, opened: &Opened, id: &Oid) -> Result<Details, Error> {
        let (workspace, history) = self.history(opened)?;
        let found = history.find(workspace.store(), &id.to_string())?.checkpoint;
        let mut changes = list_own_changes(opened, &workspace, &history, found, &[])?;
        // The files of a directory stay together.
        changes.sort_by(|a, b| (a.path.parent(), &a.path).cmp(&(b.path.parent(), &b.path)));
        let head = GitDirectory::find(&workspace.path).map(|git| git.head());
        Ok(Details { checkpoint: CheckpointView::new(found), changes, head })
    }

    fn read_diff(
        &self,
        opened: &Opened,
        id: &Oid,
        since: bool,
        is_outdated: &dyn Fn() -> bool,
    ) -> Result<Diff, Error> {
        let (workspace, history) = self.history(opened)?;
        let found = history.find(workspace.store(), &id.to_string())?.checkpoint;
        let changes = match since {
            false => list_own_changes(opened, &workspace, &history, found, &[])?,
            true => {
                let (open, _revived) = revive_workspace(opened, &workspace.path)?;
                compare_with_present(opened, &open, &history, found, &ChosenPaths::default())?
                    .changes
            }
        };
        let mut diff = Diff::default();
        for (place, change) in changes.iter().enumerate() {
            if place >= MAX_FILES || diff.rows.len() >= MAX_LINES || is_outdated() {
                diff.left_out = changes.len() - place;
                break;
            }
            let lines = diff_file(workspace.store(), change, DiffView::default());
            add_rows(&mut diff.rows, change, lines.map_err(StoreError::from)?);
        }
        Ok(diff)
    }

    fn read_versions(
        &self,
        opened: &Opened,
        turn: &Oid,
        path: &RelPath,
    ) -> Result<Versions, Error> {
        let (workspace, history) = self.history(opened)?;
        let found = history.find(workspace.store(), &turn.to_string())?.checkpoint;
        let paths = [path.clone()];
        let own = list_own_changes(opened, &workspace, &history, found, &paths)?;
        let (open, _revived) = revive_workspace(opened, &workspace.path)?;
        let chosen = paths.to_vec().into();
        let since = compare_with_present(opened, &open, &history, found, &chosen)?.changes;
        let side = |changes: &[TreeChange], side: fn(&TreeChange) -> Option<ChangeSide>| {
            changes.iter().find(|change| change.path == *path).and_then(side)
        };
        let before = side(&own, |change| change.from);
        let now = match since.iter().any(|change| change.path == *path) {
            true => side(&since, |change| change.to),
            // The file is now the same as before the turn.
            false => before,
        };
        let read = |side| read_lines(workspace.store(), side).map_err(StoreError::from);
        Ok(Versions {
            before: read(before)?,
            after: read(side(&own, |change| change.to))?,
            now: read(now)?,
        })
    }
}

/// Reads the lines of one side of a change. Returns `None` if there is no file.
fn read_lines(store: &Store, side: Option<ChangeSide>) -> Result<Option<Vec<String>>, ObjectError> {
    let Some(side) = side.filter(|side| !side.mode.is_directory()) else { return Ok(None) };
    if side.size > MAX_VERSION {
        return Ok(Some(vec!["(too large to show)".to_owned()]));
    }
    let content = store.blob(&side.oid)?;
    Ok(Some(visible(&String::from_utf8_lossy(&content)).lines().map(str::to_owned).collect()))
}

/// Says how often checkpoints failed, and why.
fn describe_failure(failure: &Failure) -> String {
    let what = match failure.checkpoint {
        true => format!("{} failed", count(failure.count, "checkpoint")),
        false => count(failure.count, "failure"),
    };
    format!("{what}: {}", failure.message)
}
