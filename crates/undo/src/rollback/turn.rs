//! The undo of a turn: takes back an agent's changes and keeps later changes by others. Each file
//! goes through a three-way merge.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use takeback_tree::{
    Capture, Mode, NewContent, NewEntry, ObjectError, Oid, RelPath, Store, TreeEdit, Workspace,
};

use super::merge::{self, Conflicts, Merged};
use super::{Resolution, RollbackError, TurnUndo};
use crate::history::authorship::{NeighborCall, Node, PresentState, Segment, Timeline};
use crate::history::in_force::Standing;
use crate::history::{History, Row};

/// A file that has been changed since the turn. The turn's change to it therefore cannot simply be
/// taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Conflict {
    pub path: RelPath,
    /// The reason in words.
    pub reason: Cow<'static, str>,
    /// True if the conflict was resolved as the request asks.
    pub resolved: bool,
}

/// A file that others may have changed during the turn, with the reason for the doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct UncertainPath {
    pub path: RelPath,
    /// The reason in words.
    pub reason: Cow<'static, str>,
}

/// The result of undoing the changes to one path.
enum PathUndo {
    /// The path is already as it was before the turn.
    Unchanged,
    /// The path becomes this node, or is deleted if there is none.
    Becomes(Option<NewNode>),
    Conflict(&'static str),
    /// A conflict that was resolved: the path becomes this node, or is deleted if there is none.
    Resolved(Option<NewNode>, &'static str),
}

/// A file, symlink or directory to be written.
#[derive(Clone)]
enum NewNode {
    Known(Node),
    Made(Mode, Vec<u8>),
}

/// The turn to undo, and the edits that take its changes back.
pub(super) struct FoundTurn<'h> {
    pub(super) row: Row<'h>,
    pub(super) edits: Vec<TreeEdit>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) uncertain: Vec<UncertainPath>,
    /// The assumptions that the undo is based on, in words.
    pub(super) assumptions: Vec<String>,
    /// The paths that were not covered before the turn. They are left unchanged.
    pub(super) not_covered: BTreeSet<RelPath>,
    /// The paths that the turn created.
    made: Vec<RelPath>,
}

/// A capture of the current state, and the paths that were captured regardless of the rules.
pub(super) struct CapturedPresent {
    pub(super) capture: Capture,
    pub(super) named: Vec<RelPath>,
}

/// Finds the turn that a request means: the turn of the given row, or else the last turn that
/// changed files and has not been taken back. `capture` captures the current state. If the turn
/// changed paths that are no longer covered, these paths are also captured. `is_elsewhere` returns
/// true if a row's turn made changes outside the workspace that can be taken back. `reporting`
/// lists the agents that report the ends of calls.
pub(super) fn find_turn<'h>(
    workspace: &Workspace<'_>,
    history: &'h History,
    capture: &mut dyn FnMut(&[RelPath]) -> Result<Capture, RollbackError>,
    is_elsewhere: &dyn Fn(usize) -> bool,
    reporting: &BTreeSet<String>,
    options: &TurnUndo,
) -> Result<(FoundTurn<'h>, CapturedPresent), RollbackError> {
    let Standing { in_force, undone } = history.standing();
    let rows: Vec<Row<'h>> = match options.row {
        Some(number) => vec![history.row(number)?],
        None => history.rows().filter(|row| in_force.contains(&row.number)).collect(),
    };
    if let Some(number) = options.row
        && rows[0].turn().is_none()
    {
        return Err(RollbackError::NotATurn(number));
    }
    let neighbors = NeighborCall::read_all(workspace)?;
    let find = |row: Row<'h>, present: &CapturedPresent| {
        let CapturedPresent { capture, named } = present;
        let state = PresentState { tree: capture.tree, uncovered: &capture.uncovered, named };
        let timeline = Timeline::of(history, Some(state)).doubt_missing_ends(reporting);
        let timeline = timeline.with_neighbors(&neighbors);
        let found = undo_row(workspace.store(), &timeline, &capture.tree, row, options);
        found.map_err(|error| RollbackError::TurnLost(row.number, error))
    };
    let past = Timeline::of(history, None);
    let named = history.named_paths();
    let mut present = CapturedPresent { capture: capture(&named)?, named };
    for row in rows {
        let hidden = find_hidden_paths(workspace.store(), &past, row, &present)
            .map_err(|error| RollbackError::TurnLost(row.number, error))?;
        if !hidden.is_empty() {
            present.named.extend(hidden);
            present.capture = capture(&present.named)?;
        }
        let turn = find(row, &present)?;
        // Skip turns without changes that can be taken back. In a turn that has already been
        // undone, conflicts and uncertain changes do not count: the earlier undo had to leave them
        // as they were.
        let is_done = match undone.contains(&row.number) {
            true => turn.edits.is_empty(),
            false => turn.is_empty(),
        };
        if options.row.is_some() || !is_done || is_elsewhere(row.number) {
            return Ok((turn, present));
        }
    }
    Err(RollbackError::NoTurn)
}

/// Finds the paths that a turn changed and that are no longer covered, for example because their
/// directory is now ignored.
fn find_hidden_paths(
    store: &Store,
    past: &Timeline<'_>,
    row: Row<'_>,
    present: &CapturedPresent,
) -> Result<Vec<RelPath>, ObjectError> {
    let CapturedPresent { capture, named } = present;
    if capture.uncovered.is_empty() {
        return Ok(Vec::new());
    }
    let is_hidden = |path: &RelPath| {
        capture.uncovered.iter().any(|uncovered| path.starts_with(&uncovered.path))
            && !named.iter().any(|named| path.starts_with(named))
    };
    let changes = past.collect_changes(store, |_, number| number == Some(row.number))?;
    let files = changes
        .paths
        .into_iter()
        .filter(|(path, segments)| is_hidden(path) && !segments.iter().all(is_about_directories));
    Ok(files.map(|(path, _)| path).collect())
}

/// Works out the edits that take back the changes that a row's turn made.
fn undo_row<'h>(
    store: &Store,
    timeline: &Timeline<'_>,
    present: &Oid,
    row: Row<'h>,
    options: &TurnUndo,
) -> Result<FoundTurn<'h>, ObjectError> {
    let changes = timeline.collect_changes(store, |_, number| number == Some(row.number))?;
    let is_made =
        |segments: &[Segment]| segments.first().is_some_and(|segment| segment.before.is_none());
    let made = changes.paths.iter().filter(|(_, segments)| is_made(segments));
    let mut turn = FoundTurn {
        row,
        edits: Vec::new(),
        conflicts: Vec::new(),
        uncertain: Vec::new(),
        assumptions: changes.assumed.iter().map(|agent| describe_assumption(agent)).collect(),
        made: made.map(|(path, _)| path.clone()).collect(),
        not_covered: changes.not_covered,
    };
    for (path, segments) in &changes.paths {
        turn.undo_path(store, present, path, segments, options)?;
    }
    turn.drop_impossible_edits(store, present)?;
    Ok(turn)
}

fn describe_assumption(agent: &str) -> String {
    format!(
        "{agent} does not report when calls end: everything that changed until its next call, or \
         until the end of the turn, counts as its work"
    )
}

impl FoundTurn<'_> {
    fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.conflicts.is_empty() && self.uncertain.is_empty()
    }

    /// Lists the paths that the undo touches. Directories that the turn created are deleted
    /// together with the files that it created in them.
    pub(super) fn touched_paths(
        &self,
        store: &Store,
        present: &Oid,
        target: &Oid,
    ) -> Result<Vec<RelPath>, RollbackError> {
        let lost = |error| RollbackError::TurnLost(self.row.number, error);
        let mut paths: Vec<RelPath> = self.edits.iter().map(|edit| edit.path.clone()).collect();
        for path in &self.made {
            let is_in =
                |tree| store.find_entry(tree, path).map(|entry| entry.is_some()).map_err(lost);
            if !paths.contains(path) && is_in(present)? && !is_in(target)? {
                paths.push(path.clone());
            }
        }
        Ok(paths)
    }

    fn undo_path(
        &mut self,
        store: &Store,
        present: &Oid,
        path: &RelPath,
        segments: &[Segment],
        options: &TurnUndo,
    ) -> Result<(), ObjectError> {
        let is_wanted = options.uncertain || options.taken.contains(path);
        let resolution = options.resolution_of(path);
        let is_used = |segment: &&Segment| segment.doubt.is_none() || is_wanted;
        let used: Vec<&Segment> = segments.iter().filter(is_used).collect();
        let now = store.find_entry(present, path)?;
        let doubt = segments.iter().find_map(|segment| segment.doubt);
        if let Some(doubt) = doubt.filter(|_| !is_wanted) {
            // There is no need to ask about a change that no longer exists.
            let all: Vec<&Segment> = segments.iter().collect();
            let undone = undo_segments(store, now, &all, resolution)?;
            if !matches!(undone, PathUndo::Unchanged) {
                let reason = doubt.reason().into();
                self.uncertain.push(UncertainPath { path: path.clone(), reason });
            }
        }
        if used.is_empty() {
            return Ok(());
        }
        let (becomes, conflict) = match undo_segments(store, now, &used, resolution)? {
            PathUndo::Unchanged => return Ok(()),
            PathUndo::Becomes(node) => (Some(node), None),
            PathUndo::Conflict(reason) => (None, Some((reason, false))),
            PathUndo::Resolved(node, reason) => (Some(node), Some((reason, true))),
        };
        if let Some((reason, resolved)) = conflict {
            self.conflicts.push(Conflict { path: path.clone(), reason: reason.into(), resolved });
        }
        if let Some(node) = becomes {
            self.edits.push(TreeEdit { path: path.clone(), to: node.map(NewNode::into_entry) });
        }
        Ok(())
    }

    /// Turns an edit into a conflict if one of the directories above its path has been replaced by
    /// a file or a symlink.
    fn drop_impossible_edits(&mut self, store: &Store, present: &Oid) -> Result<(), ObjectError> {
        let becomes: HashMap<RelPath, bool> = self
            .edits
            .iter()
            .map(|edit| {
                let is_directory = edit.to.as_ref().is_none_or(|entry| entry.mode.is_directory());
                (edit.path.clone(), is_directory)
            })
            .collect();
        let mut possible = Vec::new();
        for edit in std::mem::take(&mut self.edits) {
            let mut above = edit.path.parent();
            let mut is_possible = true;
            while let Some(path) = above.filter(|path| edit.to.is_some() && !path.is_root()) {
                is_possible &= match becomes.get(&path) {
                    Some(is_directory) => *is_directory,
                    None => {
                        let entry = store.find_entry(present, &path)?;
                        entry.is_none_or(|(mode, _)| mode.is_directory())
                    }
                };
                above = path.parent();
            }
            if is_possible {
                possible.push(edit);
            } else {
                let reason = "its directory has been replaced since".into();
                self.conflicts.push(Conflict { path: edit.path, reason, resolved: false });
            }
        }
        self.edits = possible;
        Ok(())
    }
}

impl NewNode {
    fn into_entry(self) -> NewEntry {
        match self {
            NewNode::Known((mode, oid)) => NewEntry { mode, content: NewContent::Object(oid) },
            NewNode::Made(mode, bytes) => NewEntry { mode, content: NewContent::Bytes(bytes) },
        }
    }

    fn is_node(&self, node: Option<Node>) -> bool {
        matches!(self, NewNode::Known(known) if Some(*known) == node)
    }

    fn mode(&self) -> Mode {
        match self {
            NewNode::Known((mode, _)) | NewNode::Made(mode, _) => *mode,
        }
    }

    fn content(&self, store: &Store) -> Result<Vec<u8>, ObjectError> {
        match self {
            NewNode::Known((_, oid)) => store.blob(oid),
            NewNode::Made(_, bytes) => Ok(bytes.clone()),
        }
    }
}

/// Undoes the changes to one path, last change first.
fn undo_segments(
    store: &Store,
    now: Option<Node>,
    segments: &[&Segment],
    resolution: Resolution,
) -> Result<PathUndo, ObjectError> {
    if segments.iter().all(|segment| is_about_directories(segment)) {
        return Ok(undo_directory(now, segments));
    }
    let mut current = now.map(NewNode::Known);
    let mut resolved = None;
    for segment in segments.iter().rev() {
        match undo_segment(store, current.as_ref(), segment, resolution)? {
            PathUndo::Unchanged => {}
            PathUndo::Becomes(node) => current = node,
            conflict @ PathUndo::Conflict(_) => return Ok(conflict),
            PathUndo::Resolved(node, reason) => {
                current = node;
                resolved = Some(reason);
            }
        }
    }
    Ok(match (current, resolved) {
        (current, Some(reason)) => PathUndo::Resolved(current, reason),
        (None, None) if now.is_none() => PathUndo::Unchanged,
        (Some(node), None) if node.is_node(now) => PathUndo::Unchanged,
        (current, None) => PathUndo::Becomes(current),
    })
}

/// Undoes one change to a path.
fn undo_segment(
    store: &Store,
    now: Option<&NewNode>,
    segment: &Segment,
    resolution: Resolution,
) -> Result<PathUndo, ObjectError> {
    let Segment { before, after, .. } = *segment;
    let is = |node: Option<Node>| match (now, node) {
        (Some(now), node) => now.is_node(node),
        (None, node) => node.is_none(),
    };
    let was = before.map(NewNode::Known);
    if is(after) {
        return Ok(PathUndo::Becomes(was));
    }
    if is(before) {
        return Ok(PathUndo::Unchanged);
    }
    if let (Some(now), Some(before), Some(after)) = (now, before, after)
        && [now.mode(), before.0, after.0].iter().all(|mode| mode.is_file())
    {
        return merge_files(store, now, before, after, resolution);
    }
    let reason = match (now, before, after) {
        (Some(_), None, Some(_)) => "created by the turn, changed since",
        (Some(_), Some(_), None) => "deleted by the turn, recreated since",
        (None, Some(_), Some(_)) => "changed by the turn, deleted since",
        _ => "replaced by another kind of file since",
    };
    Ok(match resolution {
        Resolution::Theirs => PathUndo::Resolved(was, reason),
        Resolution::Ours => PathUndo::Resolved(now.cloned(), reason),
        Resolution::Leave | Resolution::Markers => PathUndo::Conflict(reason),
    })
}

fn is_about_directories(segment: &Segment) -> bool {
    [segment.before, segment.after].iter().flatten().all(|(mode, _)| mode.is_directory())
}

/// Undoes the changes to a directory itself: its creation, its removal, a change of its mode. The
/// files in it are handled separately, and a directory that is not empty is kept.
fn undo_directory(now: Option<Node>, segments: &[&Segment]) -> PathUndo {
    let before = segments.first().and_then(|segment| segment.before);
    let after = segments.last().and_then(|segment| segment.after);
    match (now, before, after) {
        (Some((mode, Oid::EMPTY_TREE)), None, _) if mode.is_directory() => PathUndo::Becomes(None),
        (None, Some((mode, _)), None) => {
            PathUndo::Becomes(Some(NewNode::Known((mode, Oid::EMPTY_TREE))))
        }
        (Some((mode, tree)), Some((before, _)), Some((after, _)))
            if mode.is_directory() && mode == after && before != after =>
        {
            PathUndo::Becomes(Some(NewNode::Known((before, tree))))
        }
        _ => PathUndo::Unchanged,
    }
}

/// Merges permission bits: a mode that has been changed since the turn is kept.
fn merge_modes(now: Mode, before: Mode, after: Mode) -> Mode {
    if now == after { before } else { now }
}

fn merge_files(
    store: &Store,
    now: &NewNode,
    before: Node,
    after: Node,
    resolution: Resolution,
) -> Result<PathUndo, ObjectError> {
    const REASON: &str = "changed by the turn and again since, in the same lines";
    let mode = merge_modes(now.mode(), before.0, after.0);
    let base = store.blob(&after.1)?;
    let ours = now.content(store)?;
    let theirs = store.blob(&before.1)?;
    let conflicts = match resolution {
        Resolution::Leave => Conflicts::Report,
        Resolution::Ours => Conflicts::Ours,
        Resolution::Theirs => Conflicts::Theirs,
        Resolution::Markers => {
            Conflicts::Markers { ours: "now", base: None, theirs: "before the turn" }
        }
    };
    Ok(match merge::merge(&base, &ours, &theirs, conflicts) {
        Merged::Clean(bytes) => PathUndo::Becomes(Some(NewNode::Made(mode, bytes))),
        Merged::Resolved { content, .. } => {
            PathUndo::Resolved(Some(NewNode::Made(mode, content)), REASON)
        }
        Merged::Conflict { .. } => PathUndo::Conflict(REASON),
    })
}
