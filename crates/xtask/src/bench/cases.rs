//! What is measured on which tree.

use std::path::PathBuf;

use super::measure::{Contender, Times, take_turns, time};
use super::scratch::size;
use super::takeback::{self, Home};
use super::trees::{Shape, Tree};
use super::{Bench, floor, git::Shadow, growth, hook, process};
use crate::Failure;

/// Four commands of git.
pub(crate) const GIT4: &str = "git4";
/// A checkpoint by the program, from start to end.
pub(crate) const PROGRAM: &str = "takeback";
/// A checkpoint by the library, in this process.
pub(crate) const LIBRARY: &str = "library";
/// The same without the ref that keeps it: what a later call of a turn costs if nothing changed.
pub(crate) const CAPTURE: &str = "capture";
pub(crate) const CP: &str = "cp -a";
pub(crate) const FLOOR: &str = "floor";
pub(crate) const DURABLE_FLOOR: &str = "floor+sync";
pub(crate) const GIT_RESTORE: &str = "git read-tree";
/// The restore with all that comes before it.
pub(crate) const WITH_SAFETY: &str = "library, with safety";
pub(crate) const GIT_VERSION: &str = "git --version";

pub(crate) struct Case {
    pub(crate) name: &'static str,
    shapes: fn(Shape) -> bool,
    pub(crate) measure: fn(&mut Bench, &mut Subject) -> Result<(), Failure>,
}

impl Case {
    pub(crate) fn applies(&self, shape: Shape) -> bool {
        (self.shapes)(shape)
    }
}

pub(crate) const CASES: [Case; 9] = [
    Case { name: "first", shapes: |_| true, measure: first },
    Case { name: "unchanged", shapes: |_| true, measure: unchanged },
    Case { name: "1 changed", shapes: |_| true, measure: |bench, on| changed(bench, on, 1) },
    Case { name: "100 changed", shapes: |_| true, measure: |bench, on| changed(bench, on, 100) },
    Case { name: "restore 100", shapes: |shape| shape == Shape::Source(10_000), measure: restore },
    Case { name: "one-shot", shapes: |shape| shape == Shape::Source(1_000), measure: one_shot },
    Case { name: "hook", shapes: |shape| hook::SHAPES.contains(&shape), measure: hook::hook },
    Case { name: "growth", shapes: |shape| shape == Shape::Source(1_000), measure: growth::growth },
    Case { name: "memory", shapes: |shape| shape == Shape::Source(50_000), measure: memory },
];

/// A tree, and what the contenders know of it.
pub(crate) struct Subject {
    pub(crate) tree: Tree,
    warm: Option<Warm>,
}

/// Everybody has captured the tree before.
struct Warm {
    shadow: Shadow,
    home: Home,
    store: PathBuf,
}

impl Subject {
    pub(crate) fn new(tree: Tree) -> Subject {
        Subject { tree, warm: None }
    }

    fn warm(&mut self, bench: &Bench) -> Result<(&mut Tree, &Warm), Failure> {
        let Subject { tree, warm } = self;
        let warm = match warm {
            Some(warm) => warm,
            None => {
                let shadow = Shadow::new(bench.scratch.fresh("git"), &tree.root)?;
                let home = Home::new(&bench.scratch)?;
                let store = Home::new(&bench.scratch)?.store();
                warm.insert(Warm { shadow, home, store })
            }
        };
        // What the others missed, and once more for what was too new to be trusted.
        for _ in 0..2 {
            warm.shadow.checkpoint()?;
            process::run(&mut bench.program.checkpoint(&warm.home, &tree.root))?;
            let capture = takeback::checkpoint(&warm.store, &tree.root, true)?;
            if matches!(tree.shape, Shape::Source(count) if capture.files != count as u64) {
                return Err(format!("{} files were captured, not all", capture.files));
            }
        }
        rustix::fs::sync();
        Ok((tree, warm))
    }
}

fn first(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let Bench { scratch, program, .. } = &*bench;
    let (root, files) = (&on.tree.root, &on.tree.files);
    let rounds = bench.options.first_rounds(files.len());
    let (mut objects, mut store) = (PathBuf::new(), PathBuf::new());
    let git4 = || {
        let shadow = Shadow::new(scratch.fresh("git"), root)?;
        objects = shadow.objects();
        time(|| shadow.checkpoint())
    };
    let whole = || {
        let mut checkpoint = program.checkpoint(&Home::new(scratch)?, root);
        time(|| process::run(&mut checkpoint))
    };
    let library = || {
        store = Home::new(scratch)?.store();
        time(|| takeback::checkpoint(&store, root, true))
    };
    let cp = || {
        let mut copy = process::command("cp");
        copy.arg("-a").arg(root).arg(scratch.fresh("copy"));
        time(|| process::run(&mut copy))
    };
    let floor = |durable| {
        let out = scratch.fresh("floor");
        time(|| floor::store(files, &out, durable))
    };
    let contenders: Vec<Contender<'_>> = vec![
        (GIT4, Box::new(git4)),
        (PROGRAM, Box::new(whole)),
        (LIBRARY, Box::new(library)),
        (FLOOR, Box::new(|| floor(false))),
        (DURABLE_FLOOR, Box::new(|| floor(true))),
        (CP, Box::new(cp)),
    ];
    let times = take_turns(rounds, contenders)?;
    let (git, ours, whole) = (size(&objects)?, size(&store.join("objects"))?, size(&store)?);
    bench.report.times(on.tree.shape, "first", times);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let sizes = [
        ("objects", ours.blocks as f64 / git.blocks as f64, "× git's loose ones, on disk"),
        ("objects on disk", megabytes(ours.blocks), "MB"),
        ("objects, lengths", megabytes(ours.apparent), "MB"),
        ("git's objects on disk", megabytes(git.blocks), "MB"),
        ("git's objects, lengths", megabytes(git.apparent), "MB"),
        ("whole store on disk", megabytes(whole.blocks), "MB"),
    ];
    for (what, value, unit) in sizes {
        bench.report.figure(on.tree.shape, what, value, unit);
    }
    Ok(())
}

fn unchanged(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm(bench)?;
    let (root, files) = (&tree.root, &tree.files);
    let contenders: Vec<Contender<'_>> = vec![
        (GIT4, Box::new(|| time(|| warm.shadow.checkpoint()))),
        (
            PROGRAM,
            Box::new(|| {
                let mut checkpoint = bench.program.checkpoint(&warm.home, root);
                time(|| process::run(&mut checkpoint))
            }),
        ),
        (LIBRARY, Box::new(|| time(|| takeback::checkpoint(&warm.store, root, true)))),
        (CAPTURE, Box::new(|| time(|| takeback::checkpoint(&warm.store, root, false)))),
        (FLOOR, Box::new(|| time(|| floor::look(files)))),
    ];
    let times = take_turns(bench.options.rounds(), contenders)?;
    bench.report.times(on.tree.shape, "unchanged", times);
    Ok(())
}

fn changed(bench: &mut Bench, on: &mut Subject, count: usize) -> Result<(), Failure> {
    let (tree, warm) = on.warm(bench)?;
    let root = tree.root.clone();
    let contenders: Vec<Contender<'_>> = vec![
        (GIT4, Box::new(|| time(|| warm.shadow.checkpoint()))),
        (
            PROGRAM,
            Box::new(|| {
                let mut checkpoint = bench.program.checkpoint(&warm.home, &root);
                time(|| process::run(&mut checkpoint))
            }),
        ),
        (LIBRARY, Box::new(|| time(|| takeback::checkpoint(&warm.store, &root, true)))),
    ];
    let times = take_turns_editing(bench.options.rounds(), tree, count, contenders)?;
    let case = if count == 1 { "1 changed" } else { "100 changed" };
    bench.report.times(on.tree.shape, case, times);
    Ok(())
}

/// Each contender in turn captures an edit twice in a row: the second time counts, with files of
/// the first edit that are still too new to be trusted. The others catch up meanwhile.
pub(crate) fn take_turns_editing(
    rounds: usize,
    tree: &mut Tree,
    count: usize,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Times>, Failure> {
    let mut times: Vec<Times> = contenders.iter().map(|(name, _)| Times::new(name)).collect();
    for _ in 0..rounds {
        for (turn, times) in times.iter_mut().enumerate() {
            rustix::fs::sync();
            tree.edit(count)?;
            contenders[turn].1()?;
            tree.edit(count)?;
            times.add(contenders[turn].1()?);
            for (other, (_, run)) in contenders.iter_mut().enumerate() {
                if other != turn {
                    run()?;
                }
            }
        }
    }
    Ok(times)
}

/// Back to how 100 files were before an edit.
fn restore(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm(bench)?;
    let root = tree.root.clone();
    let git_tree = warm.shadow.checkpoint()?;
    let state = takeback::checkpoint(&warm.store, &root, true)?;
    let (mut git, mut ours) = (Times::new(GIT_RESTORE), Times::new(LIBRARY));
    let mut whole = Times::new(WITH_SAFETY);
    for _ in 0..bench.options.rounds() {
        tree.edit(100)?;
        rustix::fs::sync();
        git.add(time(|| warm.shadow.restore(&git_tree))?);
        tree.edit(100)?;
        rustix::fs::sync();
        let (applied, all) = takeback::restore(&warm.store, &root, &state)?;
        ours.add(applied);
        whole.add(all);
    }
    bench.report.times(on.tree.shape, "restore 100", vec![git, ours, whole]);
    Ok(())
}

fn one_shot(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm(bench)?;
    let mut version = process::command("git");
    version.arg("--version");
    let mut checkpoint = bench.program.checkpoint(&warm.home, &tree.root);
    let contenders: Vec<Contender<'_>> = vec![
        (PROGRAM, Box::new(|| time(|| process::run(&mut checkpoint)))),
        (GIT_VERSION, Box::new(|| time(|| process::run(&mut version)))),
    ];
    let times = take_turns(2 * bench.options.rounds(), contenders)?;
    bench.report.times(on.tree.shape, "one-shot", times);
    Ok(())
}

fn memory(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let home = Home::new(&bench.scratch)?;
    for what in ["memory, first capture", "memory, unchanged"] {
        let peak = process::peak_memory(&mut bench.program.checkpoint(&home, &on.tree.root))?;
        bench.report.figure(on.tree.shape, what, peak as f64 / 1e6, "MB");
    }
    Ok(())
}
