//! Attributes changes to sessions, based on the known states of a workspace and the calls that ran
//! between them.
//!
//! A call to an editing tool changes only the files that it names (see `claim`). A script may
//! change any file. If only one session's calls were running, a change belongs to that session. If
//! several sessions had calls running, the change belongs to the session whose call names the path.
//! The change is uncertain if no call names the path, or if calls from several sessions name it. A
//! change between calls was made by the user or another program. The changes that takeback's own
//! rollbacks made belong to no call.

mod last_changes;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::rc::Rc;

use takeback_ledger::Time;
use takeback_tree::{
    Mode, ObjectError, Oid, PathChange, RelPath, Store, StoreError, Uncovered, Workspace,
};

use super::History;
use super::claim::{Claim, Doubt, find_claim, find_editor_doubt};
use super::record::{Began, CallRef, Checkpoint, Kind, Record, RollbackRecord};

/// A file, symlink or directory in a tree.
pub(crate) type Node = (Mode, Oid);

/// One change to one path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) before: Option<Node>,
    pub(crate) after: Option<Node>,
    /// The reason why it is uncertain whether the session made the change; `None` if it is certain.
    pub(crate) doubt: Option<Doubt>,
}

/// The result of `Timeline::collect_changes`: the changes that the chosen calls made.
#[derive(Default)]
pub(crate) struct Changes {
    /// The changes to each path, in order.
    pub(crate) paths: BTreeMap<RelPath, Vec<Segment>>,
    /// The paths that became covered only during a call. It is unknown whether the call changed
    /// them.
    pub(crate) not_covered: BTreeSet<RelPath>,
    /// The agents of the calls whose ends were not reported and had to be assumed.
    pub(crate) assumed: BTreeSet<String>,
}

/// A known state of the workspace.
struct KnownState<'h> {
    /// The position in the order of states. Checkpoint `n` is at `2 * n`, and a state that was
    /// captured just before it is at `2 * n - 1`.
    at: u64,
    time: Time,
    tree: Oid,
    /// The topmost paths that the tree does not cover.
    uncovered: Vec<&'h RelPath>,
    /// The paths that were captured regardless of the rules.
    named: Vec<&'h RelPath>,
    /// The rollback that followed this state, if any.
    rollback: Option<&'h RollbackRecord>,
}

/// The current state of the workspace.
#[derive(Clone, Copy)]
pub(crate) struct PresentState<'h> {
    pub(crate) tree: Oid,
    pub(crate) uncovered: &'h [Uncovered],
    pub(crate) named: &'h [RelPath],
}

impl KnownState<'_> {
    fn covers(&self, path: &RelPath) -> bool {
        // Inside an uncovered directory, the named paths are covered. A named path can itself be
        // uncovered if its content can be regenerated or did not fit into the budget.
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
    /// The number of the row that the call's turn is in.
    row: Option<usize>,
    from: u64,
    to: u64,
    /// The latest possible end. It differs from `to` only if the end is assumed.
    latest: u64,
    late: bool,
    end: SpanEnd,
}

/// The extent to which the end of a call is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpanEnd {
    Reported,
    /// The end was not reported. The call is assumed to have ended at its session's next call or at
    /// the end of its turn.
    Assumed,
    /// The end is not known, or the call is still running.
    Unknown,
}

/// A call in a workspace that is inside or around the timeline's workspace.
pub(crate) struct NeighborCall {
    session: String,
    /// The paths in the timeline's workspace that the call may have changed.
    within: Vec<RelPath>,
    from: Time,
    to: Time,
}

/// The known states of a workspace and the calls between them.
pub(crate) struct Timeline<'h> {
    points: Vec<KnownState<'h>>,
    spans: Vec<Span<'h>>,
    neighbors: Rc<[NeighborCall]>,
}

impl<'h> Timeline<'h> {
    /// Puts the states and calls of a history in order. Includes the calls that are still running
    /// and, if given, the current state.
    pub(crate) fn of(history: &'h History, now: Option<PresentState<'h>>) -> Timeline<'h> {
        let mut timeline =
            Timeline { points: Vec::new(), spans: Vec::new(), neighbors: Rc::from([]) };
        for checkpoint in &history.all {
            timeline.add_checkpoint(history, checkpoint);
        }
        timeline.points.sort_by_key(|point| (point.at, point.time));
        if let Some(PresentState { tree, uncovered, named }) = now {
            let uncovered = uncovered.iter().map(|uncovered| &uncovered.path).collect();
            let time = Time(i64::MAX);
            let rollback = None;
            let at = u64::MAX;
            let named = named.iter().collect();
            timeline.points.push(KnownState { at, time, tree, uncovered, named, rollback });
        }
        timeline.add_unended_calls(history);
        let reported = timeline.spans.iter().filter(|span| span.end == SpanEnd::Reported);
        let agents = reported.map(|span| span.call.agent.clone()).collect();
        timeline.doubt_missing_ends(&agents)
    }

    /// Treats the assumed ends of these agents' calls as unknown. These agents do report ends, so a
    /// call without a reported end was refused or interrupted, or its end could not be recorded.
    pub(crate) fn doubt_missing_ends(mut self, agents: &BTreeSet<String>) -> Timeline<'h> {
        for span in &mut self.spans {
            if span.end == SpanEnd::Assumed && agents.contains(&span.call.agent) {
                (span.end, span.to) = (SpanEnd::Unknown, span.latest);
            }
        }
        self
    }

    /// Adds the calls in the workspaces that are inside or around this one.
    pub(crate) fn with_neighbors(self, neighbors: &Rc<[NeighborCall]>) -> Timeline<'h> {
        Timeline { neighbors: Rc::clone(neighbors), ..self }
    }

    fn add_checkpoint(&mut self, history: &'h History, checkpoint: &'h Checkpoint) {
        let (at, record) = (2 * checkpoint.pin.name.seq, &checkpoint.record);
        let uncovered = record.uncovered.iter().map(|uncovered| &uncovered.path).collect();
        let (time, tree) = (record.moment(), checkpoint.pin.tree);
        let named = record.calls().flat_map(|call| &call.named).collect();
        let rollback = record.rollback.as_ref().filter(|done| done.files);
        self.points.push(KnownState { at, time, tree, uncovered, named, rollback });
        // When a history is moved, all its checkpoint numbers grow by the same amount.
        let moved = record.shift(&checkpoint.pin);
        let begins: Vec<(u64, &CallRef, &Began)> = record
            .calls()
            .filter_map(|call| call.began.as_ref().map(|began| (began.seq + moved, call, began)))
            .collect();
        let position = |call: &CallRef, seq: u64| match history.is_pinned_for(call, seq) {
            true => 2 * seq,
            false => 2 * seq - 1,
        };
        for (seq, call, began) in &begins {
            let from = position(call, *seq);
            let time = Time::parse(&began.time).unwrap_or_default();
            let uncovered = began.uncovered.iter().collect();
            let (tree, named, rollback) = (began.tree, call.named.iter().collect(), None);
            self.points.push(KnownState { at: from, time, tree, uncovered, named, rollback });
            // A call whose end was not reported is assumed to have ended at the session's next
            // call, or at the end of the turn if no call follows.
            let (end, to) = match record.kind {
                Kind::After => (SpanEnd::Reported, at),
                _ => {
                    let later = begins.iter().map(|(seq, call, _)| position(call, *seq));
                    let next = later.chain(history.find_next_call(call, *seq).map(|seq| 2 * seq));
                    (SpanEnd::Assumed, next.filter(|next| *next > from).min().unwrap_or(at).min(at))
                }
            };
            let row = history.row_of(call, *seq);
            self.spans.push(Span { call, row, from, to, latest: at, late: began.late, end });
        }
    }

    /// Adds the calls whose end was not reported. A call that is still open is assumed to run until
    /// its session's first checkpoint in another turn, or until now if there is none. Any other
    /// call is assumed to have run until its session's next checkpoint, or until the next known
    /// state if there is none.
    fn add_unended_calls(&mut self, history: &'h History) {
        let name = |call: &'h CallRef| (call.session.as_str(), call.id.as_str());
        let ended: HashSet<_> = self.spans.iter().map(|span| name(span.call)).collect();
        for (index, checkpoint) in history.all.iter().enumerate() {
            let record = &checkpoint.record;
            let Some(call) = &record.call else { continue };
            if record.kind != Kind::Call || call.is_prompt() || ended.contains(&name(call)) {
                continue;
            }
            let from = 2 * checkpoint.pin.name.seq;
            let is_open =
                history.open.iter().any(|open| open.call == call.id && open.seq == record.seq);
            let later = history.all[index + 1..].iter().filter_map(|later| {
                let of = later.record.call.as_ref().filter(|of| of.session == call.session)?;
                Some((2 * later.pin.name.seq, of.turn == call.turn))
            });
            let again = later.into_iter().find(|(_, is_same_turn)| !is_open || !is_same_turn);
            let next = || match is_open {
                true => Some(u64::MAX),
                false => self.points.iter().map(|point| point.at).find(|at| *at > from),
            };
            let end = match again {
                Some((_, true)) => SpanEnd::Assumed,
                _ => SpanEnd::Unknown,
            };
            let Some(to) = again.map(|(at, _)| at).or_else(next) else { continue };
            let row = history.row_of(call, checkpoint.pin.name.seq);
            self.spans.push(Span { call, row, from, to, latest: to, late: record.late, end });
        }
    }

    /// Collects the changes that the chosen calls made. `is_chosen` is called with each call and
    /// the number of its row.
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
                let window = Window { store, from, to, ours: &ours, others: &others };
                let Some((doubt, assumed)) = self.attribute_change(&window, &change)? else {
                    continue;
                };
                changes.assumed.extend(assumed.map(|span| span.call.agent.clone()));
                // A file that has become covered may have existed before, and a file that is no
                // longer covered may still exist.
                if change.from.is_none() && !from.covers(&change.path) {
                    // Directories are left out: their files are listed anyway.
                    if change.to.is_some_and(|(mode, _)| !mode.is_directory()) {
                        changes.not_covered.insert(change.path);
                    }
                } else if change.to.is_some() || to.covers(&change.path) {
                    let segment = Segment { before: change.from, after: change.to, doubt };
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

    /// Finds the members of `paths` whose last change was made neither by `session` nor by a
    /// rollback. Includes paths without a known change. `since` is the number of the first
    /// checkpoint to consider.
    pub(crate) fn find_others_changes(
        &self,
        store: &Store,
        session: &str,
        since: u64,
        mut paths: BTreeSet<RelPath>,
    ) -> Result<BTreeSet<RelPath>, ObjectError> {
        let first = self.points.partition_point(|point| point.at < 2 * since);
        let points = &self.points[first..];
        let mut others = BTreeSet::new();
        for (from, to) in points.iter().zip(points.iter().skip(1)).rev() {
            if from.tree == to.tree || paths.is_empty() {
                continue;
            }
            let is_running = |span: &&Span<'_>| span.from <= from.at && to.at <= span.to;
            let running = self.spans.iter().filter(is_running);
            let (own, other): (Vec<&Span<'_>>, Vec<_>) =
                running.partition(|span| span.call.session == session);
            let window = Window { store, from, to, ours: &own, others: &other };
            for change in store.changed_paths(&from.tree, &to.tree)? {
                if !paths.remove(&change.path) {
                    continue;
                }
                let is_rollback =
                    !matches!(find_rollback_part(store, from, &change)?, RollbackPart::None);
                if !is_rollback && self.attribute_change(&window, &change)?.is_none() {
                    others.insert(change.path);
                }
            }
        }
        others.extend(paths);
        Ok(others)
    }

    /// Decides whether the chosen calls made a change. Returns `None` if they did not. Otherwise
    /// returns the reason for doubt, if any, and the call whose end had to be assumed, if any.
    #[allow(clippy::type_complexity, reason = "two optional values")]
    fn attribute_change<'a>(
        &self,
        window: &Window<'a, '_>,
        change: &PathChange,
    ) -> Result<Option<(Option<Doubt>, Option<&'a Span<'a>>)>, ObjectError> {
        let Window { store, from, to, ours, others } = *window;
        let path = &change.path;
        let is_directory =
            [change.from, change.to].iter().flatten().any(|(mode, _)| mode.is_directory());
        let claims = |span: &&Span<'_>| find_claim(span.call, path, is_directory);
        let claim = ours.iter().map(claims).max().unwrap_or(Claim::None);
        // An agent that `takeback run` started reports its own calls, so the run itself is not
        // treated as another session.
        let is_run_around =
            |span: &&&Span<'_>| span.call.is_run() && !ours.iter().all(|own| own.call.is_run());
        let others = others.iter().filter(|span| !is_run_around(span));
        let other = others.map(claims).max().unwrap_or(Claim::None);
        let mut doubt = match (claim, other) {
            (Claim::None, _) => return Ok(None),
            (Claim::Names, Claim::Names) => Some(Doubt::OtherSession),
            (Claim::Names, _) => None,
            (_, Claim::Names) => return Ok(None),
            (_, Claim::Any | Claim::Unlikely) => Some(Doubt::OtherSession),
            (Claim::Unlikely, Claim::None) => Some(Doubt::NotNamed),
            (Claim::Any, Claim::None) => find_editor_doubt(store, &[from.tree, to.tree], path)?,
        };
        match find_rollback_part(store, from, change)? {
            RollbackPart::All => return Ok(None),
            RollbackPart::Some => doubt = doubt.or(Some(Doubt::Rollback)),
            RollbackPart::None => {}
        }
        let claimants: Vec<&'a Span<'a>> =
            ours.iter().filter(|span| claims(span) == claim).copied().collect();
        let ends = |span: &&&Span<'_>, end| !span.late && span.end == end;
        let is_known = claimants.iter().any(|span| ends(&span, SpanEnd::Reported));
        let assumed = claimants.iter().find(|span| ends(span, SpanEnd::Assumed));
        let assumed = assumed.filter(|_| !is_known);
        if !is_known && assumed.is_none() {
            let is_late = claimants.iter().any(|span| span.late);
            doubt = doubt.or(Some(if is_late { Doubt::Late } else { Doubt::UnknownEnd }));
        }
        if claim != Claim::Names && claimants.iter().all(|span| span.call.is_run()) {
            doubt = doubt.or(Some(Doubt::Run));
        }
        if self.is_shared(window, path) {
            doubt = doubt.or(Some(Doubt::OtherSession));
        }
        Ok(Some((doubt, assumed.copied())))
    }

    /// Returns true if another session's call in a workspace inside or around this one may have
    /// changed a path.
    fn is_shared(&self, window: &Window<'_, '_>, path: &RelPath) -> bool {
        self.neighbors.iter().any(|neighbor| {
            neighbor.is_running(window.from.time, window.to.time)
                && neighbor.within.iter().any(|within| path.starts_with(within))
                && window.ours.iter().all(|span| span.call.session != neighbor.session)
        })
    }
}

/// Two known states, and the calls that were running in between.
#[derive(Clone, Copy)]
struct Window<'a, 's> {
    store: &'s Store,
    from: &'s KnownState<'a>,
    to: &'s KnownState<'a>,
    ours: &'s [&'a Span<'a>],
    others: &'s [&'a Span<'a>],
}

/// The part of a change that a rollback made.
enum RollbackPart {
    None,
    Some,
    All,
}

/// Determines how much of a change was made by the rollback that followed the state `from`.
fn find_rollback_part(
    store: &Store,
    from: &KnownState<'_>,
    change: &PathChange,
) -> Result<RollbackPart, ObjectError> {
    let path = &change.path;
    let Some(done) = from.rollback.filter(|done| done.is_about(path)) else {
        return Ok(RollbackPart::None);
    };
    let led_to = store.find_entry(&done.tree, path)?;
    Ok(if is_same(led_to, change.to) {
        RollbackPart::All
    } else if is_same(led_to, change.from) {
        RollbackPart::None
    } else {
        RollbackPart::Some
    })
}

impl NeighborCall {
    /// Reads the calls in the workspaces that are inside or around `workspace`.
    pub(crate) fn read_all(workspace: &Workspace<'_>) -> Result<Rc<[NeighborCall]>, StoreError> {
        let store = workspace.store();
        let mut all = Vec::new();
        for id in store.pinned_workspaces()?.into_iter().filter(|id| id != workspace.id()) {
            let Ok(Some(info)) = store.workspace_info(&id) else { continue };
            let (here, there) = (workspace.path(), info.path.0.as_path());
            if !there.starts_with(here) && !here.starts_with(there) {
                continue;
            }
            for known in &History::read(store, &id)?.all {
                all.extend(NeighborCall::read(&known.record, here, there));
            }
        }
        Ok(all.into())
    }

    /// Reads a call in another workspace from the record of its end. `here` is the path of this
    /// workspace, and `there` is the path of the other workspace.
    fn read(record: &Record, here: &Path, there: &Path) -> Option<NeighborCall> {
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
        Some(NeighborCall { session: call.session.clone(), within, from, to })
    }

    fn is_running(&self, from: Time, to: Time) -> bool {
        self.from <= to && from <= self.to
    }
}

/// Returns true if two nodes are equal. For directories, only the modes are compared. The files in
/// them are compared separately.
pub(crate) fn is_same(one: Option<Node>, other: Option<Node>) -> bool {
    match (one, other) {
        (Some((one, _)), Some((other, _))) if one.is_directory() => one == other,
        (one, other) => one == other,
    }
}

/// Appends a change, or extends the last one if the new change continues it with the same doubt.
fn append_segment(segments: &mut Vec<Segment>, next: Segment) {
    match segments.last_mut() {
        Some(last) if is_same(last.after, next.before) && last.doubt == next.doubt => {
            last.after = next.after;
        }
        _ => segments.push(next),
    }
}
