//! The losses of each ref: the paths that can no longer be read.

use std::collections::HashMap;

use super::graph::{GraphNode, ObjectGraph};
use super::{MAX_NAMED, PinReport, PinState, RECENT_BYTES};
use crate::git::refs::Ref;
use crate::object::{self, ObjectKind};
use crate::pack::read::RecentObjects;
use crate::path::RelPath;
use crate::pins::PinName;
use crate::reachability;

/// The losses of each ref.
pub(super) struct LossReport<'a> {
    graph: &'a ObjectGraph<'a>,
    recent: RecentObjects,
    /// The number of lost paths in each object that is lost or contains a lost object.
    counts: HashMap<u32, u64>,
}

impl<'a> LossReport<'a> {
    pub(super) fn new(graph: &'a ObjectGraph<'a>) -> LossReport<'a> {
        let mut counts: HashMap<u32, u64> = graph.lost().map(|number| (number, 1)).collect();
        for number in find_affected(graph) {
            let inside = graph.parts(number).iter().filter_map(|part| counts.get(part)).sum();
            counts.insert(number, inside);
        }
        LossReport { graph, recent: RecentObjects::new(RECENT_BYTES), counts }
    }

    pub(super) fn report_ref(&mut self, reference: &Ref) -> PinReport {
        let pin: Option<PinName> = reference.name.parse().ok();
        let state = match &reference.id {
            Ok(id) => self.find_state(self.graph.numbers[id], pin.is_some()),
            Err(reason) => PinState::Lost { reason: reason.clone() },
        };
        PinReport { name: reference.name.clone(), pin, state }
    }

    /// Determines how much can still be read of the object that a ref refers to. For a pin, the
    /// only parent of the commit is the attachment.
    fn find_state(&mut self, tip: u32, is_pin: bool) -> PinState {
        if !self.counts.contains_key(&tip) {
            return PinState::Whole;
        }
        match &self.graph.nodes[tip as usize] {
            GraphNode::Lost(reason) => PinState::Lost { reason: reason.clone() },
            GraphNode::Read(ObjectKind::Commit, parts) => {
                let is_attachment_lost =
                    parts[1..].iter().any(|parent| self.counts.contains_key(parent));
                if is_attachment_lost && !is_pin {
                    return PinState::Lost { reason: "an earlier commit is damaged".into() };
                }
                match self.find_state(parts[0], is_pin) {
                    PinState::Whole if is_attachment_lost => {
                        PinState::Partly { lost: Vec::new(), count: 0, attachment: true }
                    }
                    PinState::Partly { lost, count, .. } => {
                        PinState::Partly { lost, count, attachment: is_attachment_lost }
                    }
                    state => state,
                }
            }
            GraphNode::Read(..) => {
                let count = self.counts[&tip];
                PinState::Partly { lost: self.find_lost_paths(tip), count, attachment: false }
            }
        }
    }

    /// Finds the first lost paths in a tree.
    fn find_lost_paths(&mut self, tree: u32) -> Vec<RelPath> {
        let mut lost = Vec::new();
        let mut waiting = vec![(RelPath::root(), tree)];
        while let Some((path, number)) = waiting.pop() {
            if lost.len() == MAX_NAMED {
                break;
            }
            let oid = self.graph.oids[number as usize];
            if let GraphNode::Lost(_) = &self.graph.nodes[number as usize] {
                lost.push(path);
            } else if let Ok((_, content)) =
                self.graph.read_object(oid, &mut self.recent, &mut Vec::new())
            {
                let entries = object::parse_entries(&content)
                    .map_while(Result::ok)
                    .filter(|entry| reachability::kind_of_entry(entry).is_some());
                let first = waiting.len();
                for (entry, part) in entries.zip(self.graph.parts(number)) {
                    if self.counts.contains_key(part) {
                        waiting.push((path.join(entry.name), *part));
                    }
                }
                waiting[first..].reverse();
            }
        }
        lost
    }
}

/// Finds all objects that contain a lost object. In the result, each object comes after all of its
/// parts that are also in the result.
fn find_affected(graph: &ObjectGraph<'_>) -> Vec<u32> {
    let mut waiting: Vec<u32> = graph.lost().collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut outer: HashMap<u32, Vec<u32>> = HashMap::new();
    for number in 0..graph.nodes.len() as u32 {
        for part in graph.parts(number) {
            outer.entry(*part).or_default().push(number);
        }
    }
    let around = |number: u32| outer.get(&number).into_iter().flatten().copied();
    // For each object, the number of its affected parts that are not in the result yet.
    let mut missing: HashMap<u32, usize> = HashMap::new();
    let mut met = waiting.clone();
    while let Some(number) = met.pop() {
        for whole in around(number) {
            let count = missing.entry(whole).or_insert(0);
            if *count == 0 {
                met.push(whole);
            }
            *count += 1;
        }
    }
    let mut ordered = Vec::new();
    while let Some(number) = waiting.pop() {
        for whole in around(number) {
            let count = missing.get_mut(&whole).expect("every affected object was counted above");
            *count -= 1;
            if *count == 0 {
                ordered.push(whole);
                waiting.push(whole);
            }
        }
    }
    ordered
}
