//! A long session: what a thousand checkpoints take, and whether they slow the next one down.

use super::cases::{Subject, take_turns_editing};
use super::measure::{Contender, take_turns, time};
use super::scratch::size;
use super::takeback::{self, Home};
use super::{Bench, measure::Times};
use crate::Failure;

const CHECKPOINTS: usize = 1_000;

/// With one checkpoint before it.
pub(crate) const NEW: &str = "new store";
/// With a thousand, each in a pack of its own.
pub(crate) const OLD: &str = "1000 before";
/// With a thousand, packed together.
pub(crate) const OLD_PACKED: &str = "1000 before, gc";

pub(crate) fn growth(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let Subject { tree, .. } = on;
    let root = tree.root.clone();
    let old = Home::new(&bench.scratch)?.store();
    takeback::checkpoint(&old, &root, true)?;
    let start = size(&old.join("objects"))?;
    let mut all = Times::new("each");
    for number in 0..CHECKPOINTS {
        tree.edit(1 + number % 4)?;
        all.add(time(|| takeback::checkpoint(&old, &root, true))?);
    }
    bench.report.figure(tree.shape, "a checkpoint of 1-4 edits", all.median(), "ms");
    let each = |bytes: u64| bytes.saturating_sub(start.apparent) as f64 / CHECKPOINTS as f64 / 1e3;
    let before = size(&old.join("objects"))?;
    bench.report.figure(tree.shape, "growth before gc", each(before.apparent), "KB each");
    compare(bench, on, &old, OLD)?;

    let taken = time(|| takeback::collect_garbage(&old))?;
    let shape = on.tree.shape;
    let (after, whole) = (size(&old.join("objects"))?, size(&old)?);
    bench.report.figure(shape, "gc", taken.as_secs_f64() * 1e3, "ms");
    bench.report.figure(shape, "growth", each(after.apparent), "KB each");
    bench.report.figure(shape, "whole store on disk after gc", whole.blocks as f64 / 1e6, "MB");
    compare(bench, on, &old, OLD_PACKED)
}

/// The next captures with an old store and with a new one.
fn compare(
    bench: &mut Bench,
    on: &mut Subject,
    old: &std::path::Path,
    name: &'static str,
) -> Result<(), Failure> {
    let Subject { tree, .. } = on;
    let root = tree.root.clone();
    let new = Home::new(&bench.scratch)?.store();
    for store in [&*new, old, &*new, old] {
        takeback::checkpoint(store, &root, true)?;
    }
    let contenders = || -> Vec<Contender<'_>> {
        vec![
            (name, Box::new(|| time(|| takeback::checkpoint(old, &root, true)))),
            (NEW, Box::new(|| time(|| takeback::checkpoint(&new, &root, true)))),
        ]
    };
    let rounds = bench.options.rounds();
    let unchanged = take_turns(rounds, contenders())?;
    let changed = take_turns_editing(rounds, tree, 1, contenders())?;
    let shape = tree.shape;
    let packed = name == OLD_PACKED;
    bench.report.times(shape, if packed { "unchanged, gc" } else { "unchanged, old" }, unchanged);
    bench.report.times(shape, if packed { "1 changed, gc" } else { "1 changed, old" }, changed);
    Ok(())
}
