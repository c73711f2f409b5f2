//! How much each row changed: counted once, when nobody waits for it, and kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use takeback_tree::{
    DiffOptions, ObjectError, Oid, RelPath, Rules, Side, Store, count_lines, diff,
};

use crate::changes::Timeline;
use crate::history::{History, Row};
use crate::keeper::Keeper;
use crate::notes;
use crate::record::Kind;
use crate::subject::Subject;

/// How much changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Files and symlinks.
    pub files: u64,
    /// Lines that came.
    pub insertions: u64,
    /// Lines that went.
    pub deletions: u64,
}

/// What was counted, and up to which checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Counted {
    until: u64,
    #[serde(flatten)]
    counts: Counts,
}

impl Keeper {
    /// How much each row changed, in the order of the rows: a turn by its calls, a manual
    /// checkpoint until the next row. `None` where nothing is known yet.
    pub(crate) fn counts(&self, subject: &Subject<'_>, history: &History) -> Vec<Option<Counts>> {
        let store = subject.store;
        let path = subject.notes().counts();
        let known: BTreeMap<u64, Counted> = notes::read(&path).unwrap_or_default();
        let mut counted = BTreeMap::new();
        let mut timeline = None;
        let mut all = Vec::new();
        for row in history.rows() {
            let seq = row.first().pin.name.seq;
            let Some(until) = last_word(history, &row) else {
                all.push(None);
                continue;
            };
            let entry = match known.get(&seq).filter(|known| known.until == until) {
                Some(known) => Some(*known),
                None => {
                    let timeline = timeline.get_or_insert_with(|| Timeline::of(history, None));
                    // What cannot be read cannot be counted; the list says so elsewhere.
                    let counts = count(store, history, timeline, &row, &self.rules).ok();
                    counts.map(|counts| Counted { until, counts })
                }
            };
            if let Some(entry) = entry {
                counted.insert(seq, entry);
            }
            all.push(entry.map(|entry| entry.counts));
        }
        if timeline.is_some() {
            // They are counted again next time if this fails.
            let _ = notes::write(&path, &counted);
        }
        all
    }
}

/// The number of the checkpoint with which what a row changed is complete for now.
fn last_word(history: &History, row: &Row<'_>) -> Option<u64> {
    let successor = row.successor().map(|next| next.first().pin.name.seq);
    match row.turn() {
        None => successor,
        Some(_) => {
            let newest = history.all.last()?.pin.name.seq;
            // A call without an end lasts until something else is known.
            let last = row.last().pin.name.seq;
            let is_known = last > row.first().pin.name.seq || newest > last;
            is_known.then_some(last.max(successor.unwrap_or(0)))
        }
    }
}

fn count(
    store: &Store,
    history: &History,
    timeline: &Timeline<'_>,
    row: &Row<'_>,
    rules: &Rules,
) -> Result<Counts, ObjectError> {
    let from = row.first().pin.tree;
    if row.turn().is_none() {
        let to = row.successor().map_or(from, |next| next.first().pin.tree);
        return count_between(store, rules, from, to, &[]);
    }
    let last = row.last();
    // Without an end of its own, the next state is the end.
    let next = history.all.iter().find(|known| known.pin.name.seq > last.pin.name.seq);
    let to = if last.record.kind == Kind::Call { next.unwrap_or(last) } else { last }.pin.tree;
    let mut counts = Counts::default();
    let mut paths = Vec::new();
    for (path, segments) in timeline.changes(store, |_, of| of == Some(row.number))?.paths {
        let before = segments.first().and_then(|segment| segment.before);
        let after = segments.last().and_then(|segment| segment.after);
        // Files that were captured only because a call named them are not in both trees.
        if store.entry(&from, &path)? == before && store.entry(&to, &path)? == after {
            paths.push(path);
        } else if let Some(lines) = count_lines(store, rules, &path, before, after)? {
            counts.files += 1;
            counts.insertions += lines.insertions;
            counts.deletions += lines.deletions;
        }
    }
    if !paths.is_empty() {
        let others = count_between(store, rules, from, to, &paths)?;
        counts.files += others.files;
        counts.insertions += others.insertions;
        counts.deletions += others.deletions;
    }
    Ok(counts)
}

fn count_between(
    store: &Store,
    rules: &Rules,
    from: Oid,
    to: Oid,
    paths: &[RelPath],
) -> Result<Counts, ObjectError> {
    let options = DiffOptions { paths, ..DiffOptions::new(rules) };
    let diff = diff(store, &from, &to, &options)?;
    let is_file = |side: &Side| !side.mode.is_directory();
    let files = diff.changes.iter();
    let files = files.filter(|change| change.from.iter().chain(&change.to).any(is_file));
    let mut counts = Counts { files: files.count() as u64, ..Counts::default() };
    for lines in diff.changes.iter().filter_map(|change| change.lines) {
        counts.insertions += lines.insertions;
        counts.deletions += lines.deletions;
    }
    Ok(counts)
}
