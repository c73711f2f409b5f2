//! The checkpoint that holds the files as they were at the end of a turn.
//!
//! The ledger knows which calls belong to which turn, and the history knows the states before and
//! after the calls. If the state after the turn's last call is known, that state is the answer. If
//! not, or if the turn changed no files, the last state before the end of the turn must be the same
//! as the first state after it. Otherwise, the exact state of the files is unknown, and nothing is
//! guessed.

use std::collections::HashSet;

use takeback_ledger::{CallId, Ledger, LedgerError, Time, Turn};

use crate::history::History;
use crate::history::record::{CallRef, Checkpoint, Kind};

/// The state of the files at the end of a turn.
pub(super) enum EndState<'h> {
    /// The files were as in this checkpoint.
    Known(&'h Checkpoint),
    /// The files were as in this checkpoint, provided that the workspace is still in that state.
    IfUnchanged(&'h Checkpoint),
    /// The files are not known. These are the last known state before the end of the turn, and the
    /// first known state after it.
    Unknown(Option<&'h Checkpoint>, Option<&'h Checkpoint>),
}

/// The start or the end of one of the session's calls.
struct KnownCall<'h> {
    /// The index, in the history, of the checkpoint that records this start or end.
    index: usize,
    call: &'h CallRef,
    /// True if this is the end of the call.
    is_end: bool,
    /// The turn of the call, if the ledger knows it.
    turn: Option<i64>,
}

impl<'h> KnownCall<'h> {
    fn key(&self) -> (&'h str, &'h str) {
        (self.call.reporter(), &self.call.id)
    }
}

/// Finds the state of a workspace's files at the end of a session's turn. Without a turn, finds the
/// state after the session's last call.
pub(super) fn find_end_state<'h>(
    ledger: &Ledger,
    history: &'h History,
    session: &str,
    turn: Option<&Turn>,
    workspace: &str,
) -> Result<EndState<'h>, LedgerError> {
    let number = turn.map(|turn| turn.turn);
    let calls = list_calls(ledger, history, session)?;
    let is_own = |call: &&KnownCall<'_>| number.is_none() || call.turn == number;
    let own: Vec<&KnownCall<'h>> = calls.iter().filter(is_own).collect();
    let changing = ledger.changing_calls(session, number, workspace)?;
    if let Some(end) = find_last_end(history, &own, &changing) {
        return Ok(EndState::Known(end));
    }
    let is_before = |call: &&KnownCall<'_>| {
        number.is_none_or(|number| call.turn.is_some_and(|at| at <= number))
    };
    let Some(lower) = calls.iter().filter(is_before).map(|call| call.index).max() else {
        return Ok(find_near_in_time(history, turn));
    };
    let after = calls.iter().filter(|call| !is_before(call) && call.index > lower);
    let upper = after.map(|call| call.index).min();
    let before = &history.all[lower];
    let meanwhile = &history.all[lower + 1..upper.map_or(history.all.len(), |upper| upper + 1)];
    if meanwhile.iter().all(|known| keeps_tree(known, before)) {
        return Ok(match upper {
            Some(_) => EndState::Known(before),
            None => EndState::IfUnchanged(before),
        });
    }
    let next = upper.or_else(|| (lower + 1 < history.all.len()).then_some(lower + 1));
    Ok(EndState::Unknown(Some(before), next.map(|next| &history.all[next])))
}

/// Lists the starts and ends of the calls that a session or its subagents made.
fn list_calls<'h>(
    ledger: &Ledger,
    history: &'h History,
    session: &str,
) -> Result<Vec<KnownCall<'h>>, LedgerError> {
    let (mut calls, mut turns) = (Vec::new(), ledger.call_turns());
    for (index, Checkpoint { record, .. }) in history.all.iter().enumerate() {
        for call in record.calls() {
            if call.session != session && call.reporter() != session {
                continue;
            }
            let began = call.began.as_ref();
            let time = began.and_then(|began| Time::parse(&began.time));
            let id = CallId {
                session,
                reporter: call.reporter(),
                call: &call.id,
                began: time.unwrap_or_else(|| record.moment()),
                late: record.late || began.is_some_and(|began| began.late),
                prompted: record.prompted.as_deref().and_then(Time::parse),
            };
            let turn = turns.find(&id)?.map(|turn| turn.turn);
            calls.push(KnownCall { index, call, is_end: began.is_some(), turn });
        }
    }
    Ok(calls)
}

/// Finds the state after the last of a turn's calls. Returns `None` if the end of one of the calls
/// is not known, or if the start or the end of the last call was captured late. `changing` lists
/// the calls that changed files according to the ledger; the states after some of them may have
/// been pruned.
fn find_last_end<'h>(
    history: &'h History,
    own: &[&KnownCall<'h>],
    changing: &[(String, String)],
) -> Option<&'h Checkpoint> {
    let ended: HashSet<(&str, &str)> =
        own.iter().filter(|call| call.is_end).map(|call| call.key()).collect();
    let has_all = own.iter().all(|call| ended.contains(&call.key()))
        && changing.iter().all(|(session, call)| ended.contains(&(session, call)));
    let is_running = history.open.iter().any(|open| {
        own.iter().any(|call| call.call.reporter() == open.session && call.call.turn == open.turn)
    });
    if !has_all || is_running {
        return None;
    }
    let last = own.iter().filter(|call| call.is_end).max_by_key(|call| call.index)?;
    let is_late = last.call.began.as_ref().is_some_and(|began| began.late);
    let checkpoint = &history.all[last.index];
    (!is_late && !checkpoint.record.late).then_some(checkpoint)
}

/// Returns true if `known`, which is later than `before`, shows that the files were still as in
/// `before`.
fn keeps_tree(known: &Checkpoint, before: &Checkpoint) -> bool {
    let tree = before.pin.tree;
    let is_later = |call: &&CallRef| known.start_of(call) > before.pin.name.seq;
    let began = known.record.calls().filter(is_later).filter_map(|call| call.began.as_ref());
    let rollback = known.record.rollback.as_ref().filter(|done| done.files);
    known.pin.tree == tree
        && began.map(|began| began.tree).all(|began| began == tree)
        && rollback.is_none_or(|done| done.tree == tree)
}

/// Finds the checkpoints before and after the end of a turn by their times. Times are reliable
/// enough for a hint, but not for choosing one of the two checkpoints.
fn find_near_in_time<'h>(history: &'h History, turn: Option<&Turn>) -> EndState<'h> {
    let end = turn.map(|turn| turn.ended_at.unwrap_or(turn.started_at));
    let mut known = history.all.iter().filter(|known| known.record.kind != Kind::After);
    let is_before = |known: &&Checkpoint| end.is_none_or(|end| known.record.moment() <= end);
    let before = known.clone().rev().find(is_before);
    let after = known.find(|known| !is_before(known));
    EndState::Unknown(before, after)
}
