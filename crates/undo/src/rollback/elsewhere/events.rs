//! The calls and rollbacks that a plan takes back, and the checkpoints that were taken for them in
//! other workspaces.

use std::collections::HashSet;

use takeback_tree::{AnyPath, Oid};

use crate::history::record::{CallRef, Checkpoint, Record, TurnId};
use crate::history::{History, Row};

/// The session, the turn and the id of a call.
type CallKey = (String, TurnId, String);

fn key_of(call: &CallRef) -> CallKey {
    (call.session.clone(), call.turn.clone(), call.id.clone())
}

/// The calls and rollbacks that a plan takes back.
#[derive(Default)]
pub(super) struct TakenBack {
    /// The order of the workspace's events. For most calls in other workspaces, it shows when they
    /// began. The fields below are for the remaining calls.
    order: EventOrder,
    /// True if only the calls of `turns` are taken back.
    is_of_turns: bool,
    /// The turns that are taken back as a whole.
    turns: HashSet<(String, TurnId)>,
    /// The calls that have been made in the workspace since the checkpoint.
    calls: HashSet<CallKey>,
    /// The calls that were made before the checkpoint. Their turns may have the same names as turns
    /// in `turns`, because agents reuse names.
    earlier: HashSet<CallKey>,
    /// The safety checkpoints of the rollbacks that have been made since the checkpoint.
    rollbacks: HashSet<Oid>,
}

/// An event in the workspace, identified by the workspace path and the checkpoint number in its
/// record.
struct KnownEvent {
    workspace: AnyPath,
    seq: u64,
    /// True for the checkpoint that a plan returns to, and for all later events.
    is_since: bool,
}

/// The events in the workspace, oldest first.
#[derive(Default)]
struct EventOrder(Vec<KnownEvent>);

impl EventOrder {
    fn new(history: &History, checkpoint: Oid) -> EventOrder {
        let mut is_since = false;
        let mut events = Vec::new();
        for known in history.events() {
            is_since |= known.pin.id == checkpoint;
            let Record { workspace, seq, imported, .. } = &known.record;
            // The numbers of imported checkpoints come from another program.
            if imported.is_none() {
                events.push(KnownEvent { workspace: workspace.clone(), seq: *seq, is_since });
            }
        }
        EventOrder(events)
    }

    /// Returns true if a call in another workspace began after the checkpoint that the plan returns
    /// to. Returns `None` if that is unknown.
    fn is_since(&self, call: &CallRef) -> Option<bool> {
        let newest = call.newest.as_ref()?;
        let mut known = self.0.iter().filter(|event| event.workspace == newest.workspace);
        match known.clone().rev().find(|event| event.seq <= newest.seq) {
            Some(event) => Some(event.is_since),
            // The event was pruned. The call began before the oldest event that is left.
            None => known.next().map(|_| false),
        }
    }
}

impl TakenBack {
    /// Finds everything that has happened since a checkpoint.
    pub(super) fn since(history: &History, checkpoint: Oid) -> TakenBack {
        let seq = history.all.iter().find(|known| known.pin.id == checkpoint);
        let seq = seq.map_or(u64::MAX, |known| known.pin.name.seq);
        let rows = history.rows().filter(|row| row.first().pin.name.seq >= seq);
        let order = EventOrder::new(history, checkpoint);
        let mut taken_back = TakenBack { order, turns: turns_of(rows), ..TakenBack::default() };
        let mut is_since = false;
        for known in history.events() {
            is_since |= known.pin.id == checkpoint;
            if known.record.rollback.is_some() && is_since {
                taken_back.rollbacks.insert(known.pin.id);
            }
            if known.record.first && is_since {
                let turn = known.record.turn();
                let turn = turn.map(|(session, turn)| (session.to_owned(), turn.clone()));
                taken_back.turns.extend(turn);
            }
            let Some(call) = &known.record.call else { continue };
            let calls = match known.start_of(call) < seq {
                true => &mut taken_back.earlier,
                false => &mut taken_back.calls,
            };
            calls.insert(key_of(call));
        }
        taken_back
    }

    /// Finds the calls that one row's turn made.
    pub(super) fn of_row(history: &History, number: usize) -> TakenBack {
        let Ok(row) = history.row(number) else { return TakenBack::default() };
        let first = &row.first().pin;
        let calls = history.all.iter().filter_map(|known| {
            let call = known.record.call.as_ref()?;
            (known.start_of(call) < first.name.seq).then(|| key_of(call))
        });
        TakenBack {
            order: EventOrder::new(history, first.id),
            is_of_turns: true,
            turns: turns_of([row].into_iter()),
            earlier: calls.collect(),
            ..TakenBack::default()
        }
    }

    pub(super) fn contains(&self, call: &CallRef) -> bool {
        let key = key_of(call);
        let is_in_turn = self.turns.contains(&(call.session.clone(), call.turn.clone()));
        match self.order.is_since(call) {
            Some(is_since) => is_since && (is_in_turn || !self.is_of_turns),
            None => self.calls.contains(&key) || (is_in_turn && !self.earlier.contains(&key)),
        }
    }

    /// Lists, oldest first, the checkpoints and states of another workspace that belong to these
    /// calls and rollbacks.
    pub(super) fn find_events<'h>(&self, history: &'h History) -> Vec<&'h Checkpoint> {
        let is_event = |known: &&Checkpoint| {
            let Record { call, rollback, .. } = &known.record;
            let part_of = rollback.as_ref().and_then(|done| done.part_of);
            part_of.is_some_and(|safety| self.rollbacks.contains(&safety))
                || call.as_ref().is_some_and(|call| self.contains(call))
        };
        history.all.iter().filter(is_event).collect()
    }
}

fn turns_of<'h>(rows: impl Iterator<Item = Row<'h>>) -> HashSet<(String, TurnId)> {
    let turns = rows.filter_map(|row| row.turn());
    turns.map(|(session, turn)| (session.to_owned(), turn.clone())).collect()
}

/// Finds the checkpoint that holds the state of another workspace before the first of the given
/// events.
pub(super) fn find_target<'h>(
    history: &'h History,
    events: &[&'h Checkpoint],
) -> Option<&'h Checkpoint> {
    let before = |event: &&'h Checkpoint| {
        let Some(call) = event.record.call.as_ref() else { return Some(*event) };
        let Some(began) = call.began.as_ref() else { return Some(*event) };
        let start = event.start_of(call);
        let is_it =
            |known: &&Checkpoint| known.pin.name.seq < start && known.pin.tree == began.tree;
        history.all.iter().rev().find(is_it)
    };
    events.iter().find_map(before)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_older_than_all_remaining_events_began_before_the_checkpoint() {
        let event =
            |seq| KnownEvent { workspace: std::path::Path::new("/w").into(), seq, is_since: true };
        let order = EventOrder(vec![event(12), event(13)]);
        let is_since = |workspace: &str, seq: u64| {
            let call: CallRef = serde_json::from_value(json!({
                "agent": "generic", "session": "s", "turn": 2, "id": "c", "tool": "Bash",
                "newest": { "workspace": workspace, "seq": seq },
            }))
            .unwrap();
            order.is_since(&call)
        };
        assert_eq!(is_since("/w", 10), Some(false));
        assert_eq!(is_since("/w", 12), Some(true));
        assert_eq!(is_since("/elsewhere", 10), None);
    }
}
