//! The last changes that calls made to individual paths.

use std::collections::{BTreeMap, BTreeSet};

use takeback_tree::{ObjectError, RelPath, Store};

use super::{Node, RollbackPart, Segment, Span, Timeline, Window, find_rollback_part, is_same};

/// The latest changes to a path, newest first. The list stops before the newest change that was not
/// certainly made by a call.
struct LastChanges {
    changes: Vec<Segment>,
    /// The state that the next older change must have led to.
    led_to: Option<Node>,
}

impl Timeline<'_> {
    /// Finds the last changes that calls certainly made to these paths, newest first. Considers
    /// only calls that began after checkpoint `since`. The newest change led to the current state,
    /// and each older change led to the state from which the next newer change started. Changes
    /// that a rollback made are skipped.
    pub(crate) fn find_last_changes(
        &self,
        store: &Store,
        since: u64,
        paths: BTreeSet<RelPath>,
    ) -> Result<BTreeMap<RelPath, Vec<Segment>>, ObjectError> {
        let mut searched: BTreeMap<RelPath, LastChanges> = BTreeMap::new();
        let Some(present) = self.points.last() else { return Ok(BTreeMap::new()) };
        for path in paths {
            let led_to = store.find_entry(&present.tree, &path)?;
            searched.insert(path, LastChanges { changes: Vec::new(), led_to });
        }
        let mut found = BTreeMap::new();
        let first = self.points.partition_point(|point| point.at < 2 * since);
        let points = &self.points[first..];
        for (from, to) in points.iter().zip(points.iter().skip(1)).rev() {
            if from.tree == to.tree || searched.is_empty() {
                continue;
            }
            let is_running = |span: &&Span<'_>| span.from <= from.at && to.at <= span.to;
            let running = self.spans.iter().filter(is_running);
            let (ours, others): (Vec<&Span<'_>>, Vec<_>) =
                running.partition(|span| span.from >= 2 * since);
            let window = Window { store, from, to, ours: &ours, others: &others };
            for change in store.changed_paths(&from.tree, &to.tree)? {
                let Some(last) = searched.get_mut(&change.path) else { continue };
                if matches!(find_rollback_part(store, from, &change)?, RollbackPart::All) {
                    continue;
                }
                let is_next = is_same(last.led_to, change.to);
                let author = if is_next { self.attribute_change(&window, &change)? } else { None };
                if matches!(author, Some((None, _))) {
                    last.led_to = change.from;
                    let (before, after) = (change.from, change.to);
                    last.changes.push(Segment { before, after, doubt: None });
                } else if let Some(last) = searched.remove(&change.path) {
                    found.insert(change.path, last.changes);
                }
            }
        }
        found.extend(searched.into_iter().map(|(path, last)| (path, last.changes)));
        found.retain(|_, changes| !changes.is_empty());
        Ok(found)
    }
}
