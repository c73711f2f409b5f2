//! Who changed what: the states of a workspace at each moment a call began or ended, and the calls
//! that were running in between.
//!
//! A change while only one session's calls were running belongs to that session. A change while
//! calls of several sessions were running belongs to the session whose call names the path, and is
//! uncertain otherwise. A change between calls is the user's, or another program's.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use takeback_ledger::Time;
use takeback_tree::{Mode, ObjectError, Oid, RelPath, Store, StoreError, Uncovered, Workspace};

use super::History;
use super::record::{CallRef, Checkpoint, Kind, Record};

/// A file, symlink or directory in a tree.
pub(crate) type Node = (Mode, Oid);

/// One change of one path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) before: Option<Node>,
    pub(crate) after: Option<Node>,
    /// True if only the session in question can have made the change.
    pub(crate) certain: bool,
}

/// The changes that some turns made.
#[derive(Default)]
pub(crate) struct Changes {
    /// The changes of each path, in order.
    pub(crate) paths: BTreeMap<RelPath, Vec<Segment>>,
    /// The paths that were not covered before, so whether they changed is not known.
    pub(crate) not_covered: BTreeSet<RelPath>,
}

/// A known state of the workspace.
struct KnownState<'h> {
    /// The position in the order of states: twice the number of the checkpoint, or, between
    /// checkpoints, one less than twice the number of the next one.
    at: u64,
    time: Time,
    tree: Oid,
    /// The topmost paths that the tree does not cover.
    uncovered: Vec<&'h RelPath>,
    /// The paths that were captured even if the rules exclude them.
    named: &'h [RelPath],
}

/// The present state of the workspace.
#[derive(Clone, Copy)]
pub(crate) struct PresentState<'h> {
    pub(crate) tree: Oid,
    pub(crate) uncovered: &'h [Uncovered],
    pub(crate) named: &'h [RelPath],
}

impl KnownState<'_> {
    fn covers(&self, path: &RelPath) -> bool {
        // Inside an uncovered directory, the paths that were named are covered. A named path that is
        // uncovered itself can be made again, or did not fit into the budget.
        let is_named_in = |uncovered: &RelPath| {
            let is_inside = |named: &RelPath| named != uncovered && named.starts_with(uncovered);
            self.named.iter().any(|named| path.starts_with(named) && is_inside(named))
        };
        !self.uncovered.iter().any(|found| path.starts_with(found) && !is_named_in(found))
    }
}

/// A call, and the states between which it was running.
struct Span<'h> {
    call: &'h CallRef,
    /// The number of the row of the call's turn.
    row: Option<usize>,
    from: u64,
    to: u64,
    late: bool,
    /// True if the end of the call is known.
    ended: bool,
}

/// A call in a workspace that is inside this one, or around it.
pub(crate) struct NeighbourCall {
    session: String,
    /// The paths of this workspace that the call may have changed.
    within: Vec<RelPath>,
    from: Time,
    to: Time,
}

/// The known states of a workspace and the calls between them.
pub(crate) struct Timeline<'h> {
    points: Vec<KnownState<'h>>,
    spans: Vec<Span<'h>>,
    neighbours: Vec<NeighbourCall>,
}

impl<'h> Timeline<'h> {
    /// Puts the states and calls of a history in order, with the calls that are still running and,
    /// if it is known, the present state.
    pub(crate) fn of(history: &'h History, now: Option<PresentState<'h>>) -> Timeline<'h> {
        let mut timeline =
            Timeline { points: Vec::new(), spans: Vec::new(), neighbours: Vec::new() };
        for checkpoint in &history.all {
            timeline.add_checkpoint(history, checkpoint);
        }
        timeline.points.sort_by_key(|point| (point.at, point.time));
        if let Some(PresentState { tree, uncovered, named }) = now {
            let uncovered = uncovered.iter().map(|uncovered| &uncovered.path).collect();
            let time = Time(i64::MAX);
            timeline.points.push(KnownState { at: u64::MAX, time, tree, uncovered, named });
        }
        timeline.add_unended_calls(history);
        timeline
    }

    /// Adds the calls in workspaces that are inside this one, or around it.
    pub(crate) fn with_neighbours(
        mut self,
        workspace: &Workspace<'_>,
    ) -> Result<Timeline<'h>, StoreError> {
        let store = workspace.store();
        for id in store.pinned_workspaces()?.into_iter().filter(|id| id != workspace.id()) {
            let Ok(Some(info)) = store.workspace_info(&id) else { continue };
            let (here, there) = (workspace.path(), info.path.0.as_path());
            if !there.starts_with(here) && !here.starts_with(there) {
                continue;
            }
            for known in &History::read(store, &id)?.all {
                self.neighbours.extend(NeighbourCall::read(&known.record, here, there));
            }
        }
        Ok(self)
    }

    fn add_checkpoint(&mut self, history: &'h History, checkpoint: &'h Checkpoint) {
        let (at, record) = (2 * checkpoint.pin.name.seq, &checkpoint.record);
        let uncovered = record.uncovered.iter().map(|uncovered| &uncovered.path).collect();
        let (time, tree) = (record.moment(), checkpoint.pin.tree);
        let named = record.call.as_ref().map_or(&[][..], |call| &call.named);
        self.points.push(KnownState { at, time, tree, uncovered, named });
        let Some(call) = &record.call else { return };
        let Some(began) = &call.began else { return };
        // In a history that was moved, all numbers grew by the same amount.
        let moved = record.shift(&checkpoint.pin);
        let from = 2 * (began.seq + moved) - 1;
        let time = Time::parse(&began.time).unwrap_or_default();
        let uncovered = began.uncovered.iter().collect();
        let (tree, named) = (began.tree, &call.named[..]);
        self.points.push(KnownState { at: from, time, tree, uncovered, named });
        let row = history.row_of(call, began.seq + moved);
        self.spans.push(Span { call, row, from, to: at, late: began.late, ended: true });
    }

    /// Adds the calls whose end was not reported. A call that is still open runs until now, unless
    /// its session has begun another turn. Any other call counts as running until its session's
    /// next checkpoint, or until the next known state if there is none.
    fn add_unended_calls(&mut self, history: &'h History) {
        let name = |call: &'h CallRef| (call.session.as_str(), call.id.as_str());
        let ended: HashSet<_> = self.spans.iter().map(|span| name(span.call)).collect();
        for (index, checkpoint) in history.all.iter().enumerate() {
            let record = &checkpoint.record;
            let Some(call) = &record.call else { continue };
            if record.kind != Kind::Call || ended.contains(&name(call)) {
                continue;
            }
            let from = 2 * checkpoint.pin.name.seq;
            let is_open =
                history.open.iter().any(|open| open.call == call.id && open.seq == record.seq);
            let later = history.all[index + 1..].iter().filter(|later| {
                later.record.call.as_ref().is_some_and(|later| later.session == call.session)
            });
            let is_again = |later: &&Checkpoint| {
                !is_open || later.record.call.as_ref().is_some_and(|later| later.turn != call.turn)
            };
            let again = later.into_iter().find(is_again).map(|again| 2 * again.pin.name.seq);
            let next = || match is_open {
                true => Some(u64::MAX),
                false => self.points.iter().map(|point| point.at).find(|at| *at > from),
            };
            let Some(to) = again.or_else(next) else { continue };
            let row = history.row_of(call, checkpoint.pin.name.seq);
            self.spans.push(Span { call, row, from, to, late: record.late, ended: false });
        }
    }

    /// Collects the changes that the chosen calls made. `is_chosen` gets each call and the number
    /// of its row.
    pub(crate) fn collect_changes(
        &self,
        store: &Store,
        is_chosen: impl Fn(&CallRef, Option<usize>) -> bool,
    ) -> Result<Changes, ObjectError> {
        let mut changes = Changes::default();
        let (ours, others): (Vec<&Span<'_>>, Vec<_>) =
            self.spans.iter().partition(|span| is_chosen(span.call, span.row));
        let Some(begin) = ours.iter().map(|span| span.from).min() else { return Ok(changes) };
        let end = ours.iter().map(|span| span.to).max().unwrap_or(begin);
        let meanwhile = |span: &&&Span<'_>| span.from < end && begin < span.to;
        let others: Vec<&Span<'_>> = others.iter().filter(meanwhile).copied().collect();
        let first = self.points.partition_point(|point| point.at < begin);
        let after = self.points.partition_point(|point| point.at <= end);
        let points = &self.points[first..after];
        for (from, to) in points.iter().zip(points.iter().skip(1)) {
            if from.tree == to.tree {
                continue;
            }
            let is_running = |span: &&&Span<'_>| span.from <= from.at && to.at <= span.to;
            let ours: Vec<&Span<'_>> = ours.iter().filter(is_running).copied().collect();
            let others: Vec<&Span<'_>> = others.iter().filter(is_running).copied().collect();
            if ours.is_empty() {
                continue;
            }
            for change in store.changed_paths(&from.tree, &to.tree)? {
                let Some(certain) = attribute_change(&change.path, &ours, &others) else {
                    continue;
                };
                let is_shared = self.neighbours.iter().any(|neighbour| {
                    neighbour.is_running(from.time, to.time)
                        && neighbour.within.iter().any(|within| change.path.starts_with(within))
                        && ours.iter().all(|span| span.call.session != neighbour.session)
                });
                let certain = certain && !is_shared;
                // A file that became covered was not created, and one that is no longer covered was
                // not deleted.
                if change.from.is_none() && !from.covers(&change.path) {
                    // Directories are left out: their files are listed anyway.
                    if change.to.is_some_and(|(mode, _)| !mode.is_directory()) {
                        changes.not_covered.insert(change.path);
                    }
                } else if change.to.is_some() || to.covers(&change.path) {
                    let segment = Segment { before: change.from, after: change.to, certain };
                    append_segment(changes.paths.entry(change.path).or_default(), segment);
                }
            }
        }
        changes.paths.retain(|_, segments| {
            segments.retain(|segment| !is_same(segment.before, segment.after));
            !segments.is_empty()
        });
        Ok(changes)
    }
}

impl NeighbourCall {
    /// Reads the record of the end of a call in another workspace.
    fn read(record: &Record, here: &Path, there: &Path) -> Option<NeighbourCall> {
        let call = record.call.as_ref()?;
        let from = Time::parse(&call.began.as_ref()?.time)?;
        let inner = |path: &Path| {
            let inner = path.strip_prefix(here).ok()?;
            RelPath::from_path(inner).ok()
        };
        let path_of = |named: &RelPath| there.join(named.as_path());
        let within: Vec<RelPath> = match call.named.is_empty() {
            // The call may have changed any path that is in both workspaces.
            true => vec![inner(there).unwrap_or(RelPath::root())],
            false => call.named.iter().filter_map(|named| inner(&path_of(named))).collect(),
        };
        let to = record.moment();
        Some(NeighbourCall { session: call.session.clone(), within, from, to })
    }

    fn is_running(&self, from: Time, to: Time) -> bool {
        self.from <= to && from <= self.to
    }
}

/// Decides whether the chosen calls (`ours`) made a change. Returns `None` if they did not;
/// otherwise, returns true if that is certain.
fn attribute_change(path: &RelPath, ours: &[&Span<'_>], others: &[&Span<'_>]) -> Option<bool> {
    let names = |span: &&Span<'_>| span.call.named.iter().any(|named| path.starts_with(named));
    let is_sure = ours.iter().any(|span| span.ended && !span.late);
    if others.is_empty() {
        return Some(is_sure);
    }
    match (ours.iter().any(names), others.iter().any(names)) {
        (true, false) => Some(is_sure),
        (false, true) => None,
        // A call that names the files it changes changes no others.
        (false, false) if others.iter().all(|span| !span.call.named.is_empty()) => Some(is_sure),
        (false, false) if ours.iter().all(|span| !span.call.named.is_empty()) => None,
        _ => Some(false),
    }
}

/// Returns true if two nodes are equal. For directories, only the mode counts: the files in them
/// are compared separately.
pub(crate) fn is_same(one: Option<Node>, other: Option<Node>) -> bool {
    match (one, other) {
        (Some((one, _)), Some((other, _))) if one.is_directory() => one == other,
        (one, other) => one == other,
    }
}

/// Appends a change. A change that begins where the last one ended extends it.
fn append_segment(segments: &mut Vec<Segment>, next: Segment) {
    match segments.last_mut() {
        Some(last) if is_same(last.after, next.before) && last.certain == next.certain => {
            last.after = next.after;
        }
        _ => segments.push(next),
    }
}
