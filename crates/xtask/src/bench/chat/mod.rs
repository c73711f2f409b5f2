//! `cargo xtask bench chat`: measures the time that takeback's own agent needs in addition to the
//! time of its model.
//!
//! The model answers immediately, so everything that is measured is overhead: the journal, the
//! ledger, the checkpoints and one local connection per request. Each turn has two requests and one
//! call that writes a file. The turns are run on disk, and again in memory, where a sync costs
//! nothing.

mod model;
mod session;
mod syncs;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::session::Session;
use super::scratch::Scratch;
use super::trees::{Shape, Tree};
use super::{Options, build_and_bench, is_measured_build, process, this_program};
use crate::Failure;
use crate::run::target_directory;

/// The argument that makes the benchmark run nothing but turns, so that a profiler can examine
/// them.
const PROFILED: &str = "--profiled";

/// The number of turns in the long session.
const LONG: usize = 2_000;

/// The number of turns in the other measurements.
const SHORT: usize = 200;

/// A measured number, and the limit that it should not exceed.
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    limit: Option<f64>,
}

pub(crate) fn bench_chat(arguments: &[&str]) -> Result<(), Failure> {
    if let [syncs::TRACED, base] = arguments {
        return syncs::run_traced(Path::new(base));
    }
    if let [PROFILED, base, turns] = arguments {
        let turns = turns.parse().map_err(|_| format!("{turns:?} is not a number"))?;
        return run_profiled(Path::new(base), turns);
    }
    let options = Options::parse(arguments)?;
    if !is_measured_build(&this_program()?) {
        return build_and_bench(&["xtask"], &["chat"], arguments);
    }
    let scratch = Scratch::new(&target_directory().join("bench"), options.keep)?;
    let others = process::busy_elsewhere();
    let measured = measure_all(&scratch, &options);
    scratch.delete_all();
    let figures = measured?;
    print!("{}", to_text(&figures));
    if others > 0.1 {
        println!(
            "note: other processes used {:.0}% of the machine before this run",
            others * 100.0
        );
    }
    if let Some(file) = &options.json {
        std::fs::write(file, to_json(&figures))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

/// Runs turns in the directory `base/tree`, and prints their processor time. This works in any
/// build, so it can be run with a profiler.
fn run_profiled(base: &Path, turns: usize) -> Result<(), Failure> {
    let mut session = syncs::begin_session(base)?;
    session.take_turns(5)?;
    let times = session.take_turns(turns)?;
    let quarter = turns / 4;
    let [resume, work] = session.measure_resume(11)?;
    let figures = [
        ("processor time of a turn, first quarter", times.work(..quarter).per_mille(500)),
        ("processor time of a turn, last quarter", times.work(turns - quarter..).per_mille(500)),
        ("resume, processor time", work.per_mille(500)),
        ("resume", resume.per_mille(500)),
    ];
    for (what, value) in figures {
        println!("{what:<42} {value:>9.2} ms");
    }
    Ok(())
}

fn measure_all(scratch: &Scratch, options: &Options) -> Result<Vec<Figure>, Failure> {
    let (short, long) = if options.quick { (50, 400) } else { (SHORT, LONG) };
    let mut figures = Vec::new();
    let mut add = |what, value, unit, limit| figures.push(Figure { what, value, unit, limit });

    scratch.announce("turns, stored on disk");
    let directory = scratch.fresh_path("chat");
    let tree = make_tree(scratch)?;
    let floor = syncs::measure_floor(scratch, 50)?;
    let times = Session::begin(&directory, &tree, "disk")?.take_turns(short)?;
    add("a turn, stored on disk, median", times.turns().per_mille(500), "ms", None);
    add("… 95th percentile", times.turns().per_mille(950), "ms", None);
    add("… processor time, median", times.work(..).per_mille(500), "ms", Some(5.0));
    add("one sync on this disk, median", floor, "ms", None);
    if let Some(count) = syncs::count_syncs(scratch, &tree)? {
        add("syncs per turn", count, "", None);
    }
    add("first token shown, median", times.first_token().per_mille(500), "ms", Some(2.0));
    add("… 95th percentile", times.first_token().per_mille(950), "ms", None);

    scratch.announce("a long session in memory");
    let memory = MemoryDirectory::create()?;
    let tree = make_tree_in(&memory.0, scratch)?;
    let mut session = Session::begin(&memory.0.join("chat"), &tree, "long")?;
    let times = session.take_turns(long)?;
    let (first, last) = (times.work(..100), times.work(long - 100..));
    add("a turn, stored in memory, median", times.turns().per_mille(500), "ms", None);
    add("… processor time, first 100 turns", first.per_mille(500), "ms", Some(5.0));
    add("… processor time, last 100 turns", last.per_mille(500), "ms", Some(5.0));
    let times = session.take_turns_with_rests(short)?;
    add("… after the ledger was closed", times.work(..).per_mille(500), "ms", Some(5.0));
    add("memory after all turns", read_peak()? / 1e6, "MB", Some(150.0));
    let [resume, work] = session.measure_resume(21)?;
    add("resume after all turns, median", resume.per_mille(500), "ms", None);
    add("… processor time, median", work.per_mille(500), "ms", Some(50.0));
    Ok(figures)
}

fn make_tree(scratch: &Scratch) -> Result<PathBuf, Failure> {
    let tree = Tree::create(Shape::Source(1_000), scratch)?;
    Ok(tree.ok_or("cannot create the files")?.root)
}

/// Creates a tree, and copies it into the directory.
fn make_tree_in(directory: &Path, scratch: &Scratch) -> Result<PathBuf, Failure> {
    let (from, to) = (make_tree(scratch)?, directory.join("tree"));
    process::run_to_end(process::clean_command("cp").arg("-r").arg(from).arg(&to))?;
    Ok(to)
}

/// A directory in memory, which is deleted at the end.
struct MemoryDirectory(PathBuf);

impl MemoryDirectory {
    fn create() -> Result<MemoryDirectory, Failure> {
        let path = Path::new("/dev/shm").join(format!("takeback-bench-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(super::scratch::io_failure("create", &path))?;
        Ok(MemoryDirectory(path))
    }
}

impl Drop for MemoryDirectory {
    fn drop(&mut self) {
        // If this fails, the operating system removes the directory eventually.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read_peak() -> Result<f64, Failure> {
    let peak = process::read_high_water(Path::new("/proc/self/status"));
    Ok(peak.ok_or("cannot read the memory of this process")? as f64)
}

fn to_text(figures: &[Figure]) -> String {
    let mut text =
        "\nOverhead of a turn with two requests and one written file, 1,000 files\n".to_owned();
    for Figure { what, value, unit, limit } in figures {
        let verdict = match limit {
            Some(limit) if value <= limit => format!("  at most {limit}: ok"),
            Some(limit) => format!("  at most {limit}: missed"),
            None => String::new(),
        };
        text.push_str(&format!("  {what:<34} {value:>9.2} {unit:<2}{verdict}\n"));
    }
    text
}

fn to_json(figures: &[Figure]) -> String {
    let figure = |figure: &Figure| {
        json!({
            "what": figure.what, "value": figure.value, "unit": figure.unit, "limit": figure.limit,
        })
    };
    let all: Vec<Value> = figures.iter().map(figure).collect();
    format!("{:#}\n", json!({ "figures": all }))
}
