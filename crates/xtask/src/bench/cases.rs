//! The measurements, and the trees to which they apply.

use std::path::PathBuf;

use super::measure::{Contender, Times, measure_time, take_turns};
use super::scratch::measure_size;
use super::takeback::{self, Home};
use super::trees::{Shape, Tree};
use super::{Bench, floor, git::Shadow, growth, hook, process, rpc};
use crate::Failure;

/// A checkpoint made by four git commands.
pub(crate) const GIT4: &str = "git4";
/// A checkpoint made by the program, from start to end.
pub(crate) const PROGRAM: &str = "takeback";
/// A checkpoint made by the library, in this process.
pub(crate) const LIBRARY: &str = "library";
/// An unpinned capture that the library makes. takeback makes such a capture before the later calls
/// of a turn if nothing has changed.
pub(crate) const CAPTURE: &str = "capture";
pub(crate) const CP: &str = "cp -a";
pub(crate) const FLOOR: &str = "floor";
pub(crate) const DURABLE_FLOOR: &str = "floor+sync";
pub(crate) const GIT_RESTORE: &str = "git read-tree";
/// A restore, including opening the store, planning, and pinning the safety checkpoint.
pub(crate) const WITH_SAFETY: &str = "library, with safety";
pub(crate) const GIT_VERSION: &str = "git --version";

pub(crate) struct Case {
    pub(crate) name: &'static str,
    shapes: fn(Shape) -> bool,
    pub(crate) measure: fn(&mut Bench, &mut Subject) -> Result<(), Failure>,
}

impl Case {
    pub(crate) fn applies_to(&self, shape: Shape) -> bool {
        (self.shapes)(shape)
    }
}

pub(crate) const CASES: [Case; 10] = [
    Case { name: "first", shapes: |_| true, measure: measure_first },
    Case { name: "unchanged", shapes: |_| true, measure: measure_unchanged },
    Case {
        name: "1 changed",
        shapes: |_| true,
        measure: |bench, on| measure_changed(bench, on, 1),
    },
    Case {
        name: "100 changed",
        shapes: |_| true,
        measure: |bench, on| measure_changed(bench, on, 100),
    },
    Case {
        name: "restore 100",
        shapes: |shape| shape == Shape::Source(10_000),
        measure: measure_restore,
    },
    Case {
        name: "one-shot",
        shapes: |shape| shape == Shape::Source(1_000),
        measure: measure_one_shot,
    },
    Case {
        name: "hook",
        shapes: |shape| hook::SHAPES.contains(&shape),
        measure: hook::measure_hook,
    },
    Case { name: "hook rpc", shapes: |shape| shape == rpc::SHAPE, measure: rpc::measure_rpc },
    Case {
        name: "growth",
        shapes: |shape| shape == Shape::Source(1_000),
        measure: growth::measure_growth,
    },
    Case {
        name: "memory",
        shapes: |shape| shape == Shape::Source(50_000),
        measure: measure_memory,
    },
];

/// A tree, and each contender's store.
pub(crate) struct Subject {
    pub(crate) tree: Tree,
    warm: Option<WarmStores>,
}

/// Stores in which every contender has already captured the tree.
struct WarmStores {
    shadow: Shadow,
    home: Home,
    store: PathBuf,
}

impl Subject {
    pub(crate) fn new(tree: Tree) -> Subject {
        Subject { tree, warm: None }
    }

    fn warm_up(&mut self, bench: &Bench) -> Result<(&mut Tree, &WarmStores), Failure> {
        let Subject { tree, warm } = self;
        let warm = match warm {
            Some(warm) => warm,
            None => {
                let shadow = Shadow::new(bench.scratch.fresh_path("git"), &tree.root)?;
                let home = Home::new(&bench.scratch)?;
                let store = Home::new(&bench.scratch)?.store_directory();
                warm.insert(WarmStores { shadow, home, store })
            }
        };
        // The second capture rereads files that were written just before the first one.
        for _ in 0..2 {
            warm.shadow.save_checkpoint()?;
            process::run_to_end(&mut bench.program.checkpoint_command(&warm.home, &tree.root))?;
            let capture = takeback::capture_tree(&warm.store, &tree.root, true)?;
            if matches!(tree.shape, Shape::Source(count) if capture.files != count as u64) {
                return Err(format!("unexpected number of captured files: {}", capture.files));
            }
        }
        rustix::fs::sync();
        Ok((tree, warm))
    }
}

fn measure_first(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let Bench { scratch, program, .. } = &*bench;
    let (root, files) = (&on.tree.root, &on.tree.files);
    let rounds = bench.options.first_rounds(files.len());
    let (mut objects, mut store) = (PathBuf::new(), PathBuf::new());
    let git4 = || {
        let shadow = Shadow::new(scratch.fresh_path("git"), root)?;
        objects = shadow.objects_directory();
        measure_time(|| shadow.save_checkpoint())
    };
    let whole = || {
        let mut checkpoint = program.checkpoint_command(&Home::new(scratch)?, root);
        measure_time(|| process::run_to_end(&mut checkpoint))
    };
    let library = || {
        store = Home::new(scratch)?.store_directory();
        measure_time(|| takeback::capture_tree(&store, root, true))
    };
    let cp = || {
        let mut copy = process::clean_command("cp");
        copy.arg("-a").arg(root).arg(scratch.fresh_path("copy"));
        measure_time(|| process::run_to_end(&mut copy))
    };
    let floor = |durable| {
        let out = scratch.fresh_path("floor");
        measure_time(|| floor::store_all(files, &out, durable))
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
    let (git, ours, whole) =
        (measure_size(&objects)?, measure_size(&store.join("objects"))?, measure_size(&store)?);
    bench.report.add_times(on.tree.shape, "first", times);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let sizes = [
        ("objects", ours.blocks as f64 / git.blocks as f64, "× git's loose objects, on disk"),
        ("objects on disk", megabytes(ours.blocks), "MB"),
        ("objects, lengths", megabytes(ours.apparent), "MB"),
        ("git's objects on disk", megabytes(git.blocks), "MB"),
        ("git's objects, lengths", megabytes(git.apparent), "MB"),
        ("whole store on disk", megabytes(whole.blocks), "MB"),
    ];
    for (what, value, unit) in sizes {
        bench.report.add_figure(on.tree.shape, what, value, unit);
    }
    Ok(())
}

fn measure_unchanged(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm_up(bench)?;
    let (root, files) = (&tree.root, &tree.files);
    let contenders: Vec<Contender<'_>> = vec![
        (GIT4, Box::new(|| measure_time(|| warm.shadow.save_checkpoint()))),
        (
            PROGRAM,
            Box::new(|| {
                let mut checkpoint = bench.program.checkpoint_command(&warm.home, root);
                measure_time(|| process::run_to_end(&mut checkpoint))
            }),
        ),
        (LIBRARY, Box::new(|| measure_time(|| takeback::capture_tree(&warm.store, root, true)))),
        (CAPTURE, Box::new(|| measure_time(|| takeback::capture_tree(&warm.store, root, false)))),
        (FLOOR, Box::new(|| measure_time(|| floor::lstat_all(files)))),
    ];
    let times = take_turns(bench.options.rounds(), contenders)?;
    bench.report.add_times(on.tree.shape, "unchanged", times);
    Ok(())
}

fn measure_changed(bench: &mut Bench, on: &mut Subject, count: usize) -> Result<(), Failure> {
    let (tree, warm) = on.warm_up(bench)?;
    let root = tree.root.clone();
    let contenders: Vec<Contender<'_>> = vec![
        (GIT4, Box::new(|| measure_time(|| warm.shadow.save_checkpoint()))),
        (
            PROGRAM,
            Box::new(|| {
                let mut checkpoint = bench.program.checkpoint_command(&warm.home, &root);
                measure_time(|| process::run_to_end(&mut checkpoint))
            }),
        ),
        (LIBRARY, Box::new(|| measure_time(|| takeback::capture_tree(&warm.store, &root, true)))),
    ];
    let times = take_turns_editing(bench.options.rounds(), tree, count, contenders)?;
    let case = if count == 1 { "1 changed" } else { "100 changed" };
    bench.report.add_times(on.tree.shape, case, times);
    Ok(())
}

/// Makes each contender in turn capture two successive edits. Only the second capture is measured:
/// it also rereads the files of the first edit, which were written too recently to be skipped. Then
/// the other contenders capture the same state without being measured.
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
            tree.edit_files(count)?;
            contenders[turn].1()?;
            tree.edit_files(count)?;
            times.add_round(contenders[turn].1()?);
            for (other, (_, run)) in contenders.iter_mut().enumerate() {
                if other != turn {
                    run()?;
                }
            }
        }
    }
    Ok(times)
}

/// Measures restoring 100 edited files.
fn measure_restore(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm_up(bench)?;
    let root = tree.root.clone();
    let git_tree = warm.shadow.save_checkpoint()?;
    let state = takeback::capture_tree(&warm.store, &root, true)?;
    let (mut git, mut ours) = (Times::new(GIT_RESTORE), Times::new(LIBRARY));
    let mut whole = Times::new(WITH_SAFETY);
    for _ in 0..bench.options.rounds() {
        tree.edit_files(100)?;
        rustix::fs::sync();
        git.add_round(measure_time(|| warm.shadow.restore_tree(&git_tree))?);
        tree.edit_files(100)?;
        rustix::fs::sync();
        let (applied, all) = takeback::restore_tree(&warm.store, &root, &state)?;
        ours.add_round(applied);
        whole.add_round(all);
    }
    bench.report.add_times(on.tree.shape, "restore 100", vec![git, ours, whole]);
    Ok(())
}

fn measure_one_shot(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let (tree, warm) = on.warm_up(bench)?;
    let mut version = process::clean_command("git");
    version.arg("--version");
    let mut checkpoint = bench.program.checkpoint_command(&warm.home, &tree.root);
    let contenders: Vec<Contender<'_>> = vec![
        (PROGRAM, Box::new(|| measure_time(|| process::run_to_end(&mut checkpoint)))),
        (GIT_VERSION, Box::new(|| measure_time(|| process::run_to_end(&mut version)))),
    ];
    let times = take_turns(2 * bench.options.rounds(), contenders)?;
    bench.report.add_times(on.tree.shape, "one-shot", times);
    Ok(())
}

fn measure_memory(bench: &mut Bench, on: &mut Subject) -> Result<(), Failure> {
    let home = Home::new(&bench.scratch)?;
    for what in ["memory, first capture", "memory, unchanged"] {
        let peak =
            process::peak_memory(&mut bench.program.checkpoint_command(&home, &on.tree.root))?;
        bench.report.add_figure(on.tree.shape, what, peak as f64 / 1e6, "MB");
    }
    Ok(())
}
