//! Measuring a long session: the size of a thousand checkpoints, and how they affect the next one.

use super::cases::{Subject, take_turns_editing};
use super::measure::{Contender, measure_time, take_turns};
use super::scratch::measure_size;
use super::takeback::{self, Home};
use super::{Bench, measure::Times};
use crate::Failure;

const CHECKPOINTS: usize = 1_000;

/// A new store with only a few checkpoints.
pub(crate) const NEW: &str = "new store";
/// A store with a thousand checkpoints, each in its own pack.
pub(crate) const OLD: &str = "1000 before";
/// A store with a thousand checkpoints that are packed together.
pub(crate) const OLD_PACKED: &str = "1000 before, gc";

pub(crate) fn measure_growth(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let Subject { tree, .. } = on;
    let root = tree.root.clone();
    let old = Home::new(&bench.scratch)?.store_directory();
    takeback::capture_tree(&old, &root, true)?;
    let start = measure_size(&old.join("objects"))?;
    let mut all = Times::new("each");
    for number in 0..CHECKPOINTS {
        tree.edit_files(1 + number % 4)?;
        all.add_round(measure_time(|| takeback::capture_tree(&old, &root, true))?);
    }
    bench.report.add_figure(tree.shape, "a checkpoint of 1-4 edits", all.median(), "ms");
    let each = |bytes: u64| bytes.saturating_sub(start.apparent) as f64 / CHECKPOINTS as f64 / 1e3;
    let before = measure_size(&old.join("objects"))?;
    bench.report.add_figure(tree.shape, "growth before gc", each(before.apparent), "KB each");
    compare_captures(bench, on, &old, OLD)?;

    let taken = measure_time(|| takeback::collect_garbage(&old))?;
    let shape = on.tree.shape;
    let (after, whole) = (measure_size(&old.join("objects"))?, measure_size(&old)?);
    bench.report.add_figure(shape, "gc", taken.as_secs_f64() * 1e3, "ms");
    bench.report.add_figure(shape, "growth", each(after.apparent), "KB each");
    bench.report.add_figure(shape, "whole store on disk after gc", whole.blocks as f64 / 1e6, "MB");
    compare_captures(bench, on, &old, OLD_PACKED)
}

/// Measures captures into a store with many checkpoints and into a new store.
fn compare_captures(
    bench: &mut Bench,
    on: &mut Subject,
    old: &std::path::Path,
    name: &'static str,
) -> Result<(), Failure> {
    let Subject { tree, .. } = on;
    let root = tree.root.clone();
    let new = Home::new(&bench.scratch)?.store_directory();
    for store in [&*new, old, &*new, old] {
        takeback::capture_tree(store, &root, true)?;
    }
    let contenders = || -> Vec<Contender<'_>> {
        vec![
            (name, Box::new(|| measure_time(|| takeback::capture_tree(old, &root, true)))),
            (NEW, Box::new(|| measure_time(|| takeback::capture_tree(&new, &root, true)))),
        ]
    };
    let rounds = bench.options.rounds();
    let unchanged = take_turns(rounds, contenders())?;
    let changed = take_turns_editing(rounds, tree, 1, contenders())?;
    let shape = tree.shape;
    let packed = name == OLD_PACKED;
    bench.report.add_times(
        shape,
        if packed { "unchanged, gc" } else { "unchanged, old" },
        unchanged,
    );
    bench.report.add_times(shape, if packed { "1 changed, gc" } else { "1 changed, old" }, changed);
    Ok(())
}
