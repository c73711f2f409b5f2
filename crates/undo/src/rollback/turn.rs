//! Taking back what an agent did in a turn while keeping what others did since: a three-way merge
//! per file.

use std::collections::HashMap;

use serde::Serialize;
use takeback_tree::{
    Content, Edit, Entry, Kept, KeptReason, Mode, ObjectError, Oid, RelPath, Store, Uncovered,
    Workspace,
};

use crate::changes::{Changes, Node, Now, Segment, Timeline};
use crate::history::{History, Row};
use crate::keeper::Keeper;
use crate::merge::{self, Conflicts, Merged};
use crate::record::Action;
use crate::rollback::{self, Goal, PlannedRollback, RollbackError, State};
use crate::subject::Subject;

/// How to undo a turn.
#[derive(Clone, Debug, Default)]
pub struct UndoOptions {
    /// The row of the turn; the last one that changed files if not given.
    pub row: Option<usize>,
    /// What happens where others changed the same.
    pub conflicts: Resolution,
    /// Whether what others may have changed is taken back as well.
    pub uncertain: bool,
}

/// What happens to a file that somebody changed since, in the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// It is left alone and named.
    #[default]
    Leave,
    /// What is there now wins.
    Ours,
    /// What was there before the turn wins.
    Theirs,
    /// Both are written, with markers around them.
    Markers,
}

/// A file that was changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Which.
    pub path: RelPath,
    /// In words.
    pub reason: &'static str,
    /// Whether it was resolved as asked.
    pub resolved: bool,
}

/// What becomes of one path.
enum Outcome {
    /// It is undone already.
    Same,
    /// This is what will be there.
    Becomes(Option<NewNode>),
    Conflict(&'static str),
    /// A conflict that was resolved in this way.
    Resolved(Option<NewNode>, &'static str),
}

/// A file, symlink or directory to be written.
#[derive(Clone)]
enum NewNode {
    Known(Node),
    Made(Mode, Vec<u8>),
}

impl Keeper {
    /// Plans to take back what a turn changed.
    pub fn plan_undo<'k, 'w>(
        &'k self,
        workspace: &'w Workspace<'w>,
        history: &History,
        options: &UndoOptions,
    ) -> Result<PlannedRollback<'k, 'w>, RollbackError> {
        let store = workspace.store();
        let mut lock = self.lock(workspace)?;
        let named = history.named();
        let present = lock.capture_readable(&self.capture_options(&self.rules, &named))?;
        let now = Now { tree: present.tree, uncovered: &present.uncovered, named: &named };
        let timeline = Timeline::of(history, Some(now)).with_neighbours(workspace)?;
        let (row, changes, undone) =
            turn_to_undo(store, history, &timeline, &present.tree, options)?;
        let Undone { edits, conflicts, uncertain } = undone;
        let lost = |error| RollbackError::TurnLost(row.number, error);
        let mut paths: Vec<RelPath> = edits.iter().map(|edit| edit.path.clone()).collect();
        let tree = lock.edit(present.tree, &edits)?;
        // Directories that the turn made go with what it made in them.
        for (path, segments) in &changes.paths {
            let is_made = segments.first().is_some_and(|segment| segment.before.is_none());
            let is_in = |tree| store.entry(tree, path).map(|entry| entry.is_some()).map_err(lost);
            if is_made && !paths.contains(path) && is_in(&present.tree)? && !is_in(&tree)? {
                paths.push(path.clone());
            }
        }
        // What is taken back was captured before the turn and is captured now.
        let is_asked_for =
            |uncovered: &Uncovered| paths.iter().any(|path| path.starts_with(&uncovered.path));
        let mut uncovered = present.uncovered;
        uncovered.retain(|uncovered| !is_asked_for(uncovered));
        let goal = Goal {
            checkpoint: row.first().clone(),
            state: State { tree, filter: present.filter, uncovered },
            action: Action::UndoTurn,
            named: named.clone(),
            reverses: None,
            files: true,
            chat: None,
            index: false,
            paths,
        };
        // No paths would mean all of them; without an edit, all of them are as they should be.
        let mut planned = self.plan(workspace, Some(lock), goal, Vec::new())?;
        let kept = changes.not_covered.into_iter();
        let kept = kept.map(|path| Kept { path, reason: KeptReason::NotCovered });
        planned.view.kept.extend(kept);
        planned.view.row = Some(row.number);
        planned.view.effects = self.effects_of_row(&Subject::of(workspace), &row);
        (planned.view.conflicts, planned.view.uncertain) = (conflicts, uncertain);
        Ok(planned)
    }
}

/// The turn that is meant, what it changed, and what taking that back comes to.
fn turn_to_undo<'h>(
    store: &Store,
    history: &'h History,
    timeline: &Timeline<'_>,
    present: &Oid,
    options: &UndoOptions,
) -> Result<(Row<'h>, Changes, Undone), RollbackError> {
    let undo = |row: &Row<'_>| {
        let changes = timeline.changes(store, |_, of| of == Some(row.number))?;
        let mut undone = Undone::default();
        for (path, segments) in &changes.paths {
            undone.add(store, present, path, segments, options)?;
        }
        undone.drop_impossible(store, present)?;
        Ok((changes, undone))
    };
    let lost = |row: &Row<'_>, error| RollbackError::TurnLost(row.number, error);
    if let Some(number) = options.row {
        let row = history.row(number)?;
        if row.turn().is_none() {
            return Err(RollbackError::NotATurn(number));
        }
        let (changes, undone) = undo(&row).map_err(|error| lost(&row, error))?;
        return Ok((row, changes, undone));
    }
    let taken_back = rollback::taken_back(history);
    let is_left = |row: &Row<'_>| {
        let seq = row.first().pin.name.seq;
        row.turn().is_some() && !taken_back.iter().any(|range| range.contains(&seq))
    };
    for row in history.rows().filter(is_left) {
        let (changes, undone) = undo(&row).map_err(|error| lost(&row, error))?;
        // One that changed nothing, or of which nothing is left, is not meant.
        if !undone.is_empty() {
            return Ok((row, changes, undone));
        }
    }
    Err(RollbackError::NoTurn)
}

/// What an undo comes to.
#[derive(Default)]
struct Undone {
    edits: Vec<Edit>,
    conflicts: Vec<Conflict>,
    uncertain: Vec<RelPath>,
}

impl Undone {
    fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.conflicts.is_empty() && self.uncertain.is_empty()
    }

    fn add(
        &mut self,
        store: &Store,
        present: &Oid,
        path: &RelPath,
        segments: &[Segment],
        options: &UndoOptions,
    ) -> Result<(), ObjectError> {
        let is_used = |segment: &&Segment| segment.certain || options.uncertain;
        let used: Vec<&Segment> = segments.iter().filter(is_used).collect();
        if used.len() < segments.len() {
            self.uncertain.push(path.clone());
        }
        if used.is_empty() {
            return Ok(());
        }
        let now = store.entry(present, path)?;
        let (becomes, conflict) = match take_back(store, now, &used, options.conflicts)? {
            Outcome::Same => return Ok(()),
            Outcome::Becomes(node) => (Some(node), None),
            Outcome::Conflict(reason) => (None, Some((reason, false))),
            Outcome::Resolved(node, reason) => (Some(node), Some((reason, true))),
        };
        if let Some((reason, resolved)) = conflict {
            self.conflicts.push(Conflict { path: path.clone(), reason, resolved });
        }
        if let Some(node) = becomes {
            self.edits.push(Edit { path: path.clone(), to: node.map(NewNode::entry) });
        }
        Ok(())
    }

    /// What should be in a directory that is something else by now is a conflict.
    fn drop_impossible(&mut self, store: &Store, present: &Oid) -> Result<(), ObjectError> {
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
                        let entry = store.entry(present, &path)?;
                        entry.is_none_or(|(mode, _)| mode.is_directory())
                    }
                };
                above = path.parent();
            }
            if is_possible {
                possible.push(edit);
            } else {
                let reason = "its directory is something else since";
                self.conflicts.push(Conflict { path: edit.path, reason, resolved: false });
            }
        }
        self.edits = possible;
        Ok(())
    }
}

impl NewNode {
    fn entry(self) -> Entry {
        match self {
            NewNode::Known((mode, oid)) => Entry { mode, content: Content::Known(oid) },
            NewNode::Made(mode, bytes) => Entry { mode, content: Content::Bytes(bytes) },
        }
    }

    fn is(&self, node: Option<Node>) -> bool {
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

/// Takes changes of one path back, the last one first.
fn take_back(
    store: &Store,
    now: Option<Node>,
    segments: &[&Segment],
    resolution: Resolution,
) -> Result<Outcome, ObjectError> {
    if segments.iter().all(|segment| is_about_directories(segment)) {
        return Ok(take_directory_back(now, segments));
    }
    let mut current = now.map(NewNode::Known);
    let mut resolved = None;
    for segment in segments.iter().rev() {
        match take_one_back(store, current.as_ref(), segment, resolution)? {
            Outcome::Same => {}
            Outcome::Becomes(node) => current = node,
            conflict @ Outcome::Conflict(_) => return Ok(conflict),
            Outcome::Resolved(node, reason) => {
                current = node;
                resolved = Some(reason);
            }
        }
    }
    Ok(match (current, resolved) {
        (current, Some(reason)) => Outcome::Resolved(current, reason),
        (None, None) if now.is_none() => Outcome::Same,
        (Some(node), None) if node.is(now) => Outcome::Same,
        (current, None) => Outcome::Becomes(current),
    })
}

fn take_one_back(
    store: &Store,
    now: Option<&NewNode>,
    segment: &Segment,
    resolution: Resolution,
) -> Result<Outcome, ObjectError> {
    let Segment { before, after, .. } = *segment;
    let is = |node: Option<Node>| match (now, node) {
        (Some(now), node) => now.is(node),
        (None, node) => node.is_none(),
    };
    let was = before.map(NewNode::Known);
    if is(after) {
        return Ok(Outcome::Becomes(was));
    }
    if is(before) {
        return Ok(Outcome::Same);
    }
    if let (Some(now), Some(before), Some(after)) = (now, before, after)
        && [now.mode(), before.0, after.0].iter().all(|mode| mode.is_file())
    {
        return merge_files(store, now, before, after, resolution);
    }
    let reason = match (now, before, after) {
        (Some(_), None, Some(_)) => "made by the turn, changed since",
        (Some(_), Some(_), None) => "deleted by the turn, made anew since",
        (None, Some(_), Some(_)) => "changed by the turn, deleted since",
        _ => "another kind of file since",
    };
    Ok(match resolution {
        Resolution::Theirs => Outcome::Resolved(was, reason),
        Resolution::Ours => Outcome::Resolved(now.cloned(), reason),
        Resolution::Leave | Resolution::Markers => Outcome::Conflict(reason),
    })
}

fn is_about_directories(segment: &Segment) -> bool {
    [segment.before, segment.after].iter().flatten().all(|(mode, _)| mode.is_directory())
}

/// A directory is made, removed and gets another mode without regard to what is in it: that has
/// changes of its own. One that is in use stays.
fn take_directory_back(now: Option<Node>, segments: &[&Segment]) -> Outcome {
    let before = segments.first().and_then(|segment| segment.before);
    let after = segments.last().and_then(|segment| segment.after);
    match (now, before, after) {
        (Some((mode, Oid::EMPTY_TREE)), None, _) if mode.is_directory() => Outcome::Becomes(None),
        (None, Some((mode, _)), None) => {
            Outcome::Becomes(Some(NewNode::Known((mode, Oid::EMPTY_TREE))))
        }
        (Some((mode, tree)), Some((before, _)), Some((after, _)))
            if mode.is_directory() && mode == after && before != after =>
        {
            Outcome::Becomes(Some(NewNode::Known((before, tree))))
        }
        _ => Outcome::Same,
    }
}

/// The permission bits: what was changed since stays.
fn merged_mode(now: Mode, before: Mode, after: Mode) -> Mode {
    if now == after { before } else { now }
}

fn merge_files(
    store: &Store,
    now: &NewNode,
    before: Node,
    after: Node,
    resolution: Resolution,
) -> Result<Outcome, ObjectError> {
    const REASON: &str = "changed by the turn and since, in the same lines";
    let mode = merged_mode(now.mode(), before.0, after.0);
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
        Merged::Clean(bytes) => Outcome::Becomes(Some(NewNode::Made(mode, bytes))),
        Merged::Resolved { content, .. } => {
            Outcome::Resolved(Some(NewNode::Made(mode, content)), REASON)
        }
        Merged::Conflict { .. } => Outcome::Conflict(REASON),
    })
}
