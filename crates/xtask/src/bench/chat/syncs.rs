//! Syncs: how many a turn needs, and how long one takes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::super::ledger::Latencies;
use super::super::measure::measure_time;
use super::super::scratch::{Scratch, io_failure};
use super::super::this_program;
use super::session::Session;
use crate::Failure;

/// The argument of the process whose syncs are counted.
pub(super) const TRACED: &str = "--traced";

/// The number of turns whose syncs are counted.
const TURNS: usize = 20;

/// The name of a directory. In the trace, its creation marks the beginning of the counted turns.
const MARKER: &str = "marker";

/// Measures how long it takes to sync 4 KB that were appended to a file. Returns the median in
/// milliseconds.
pub(super) fn measure_floor(scratch: &Scratch, rounds: usize) -> Result<f64, Failure> {
    let path = scratch.fresh_path("floor");
    let mut file = File::create(&path).map_err(io_failure("create", &path))?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        file.write_all(&[7; 4096]).map_err(io_failure("write", &path))?;
        let time = measure_time(|| file.sync_data().map_err(io_failure("sync", &path)))?;
        times.push(time.as_secs_f64() * 1e3);
    }
    Ok(Latencies::new(times).per_mille(500))
}

/// Uses strace to count the syncs per turn. Returns `None` if strace is not installed.
pub(super) fn count_syncs(scratch: &Scratch, tree: &Path) -> Result<Option<f64>, Failure> {
    let (base, log) = (scratch.fresh_path("traced"), scratch.fresh_path("syncs"));
    std::fs::create_dir(&base).map_err(io_failure("create", &base))?;
    std::os::unix::fs::symlink(tree, base.join("tree")).map_err(io_failure("link", &base))?;
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,fdatasync,syncfs,mkdir", "-o"]).arg(&log);
    command.arg(this_program()?).args(["bench", "chat", TRACED]).arg(&base);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(_) | Err(_) => return Ok(None),
    }
    let text = std::fs::read_to_string(&log).map_err(io_failure("read", &log))?;
    let turns = text.lines().skip_while(|line| !line.contains(MARKER)).skip(1);
    let syncs = turns.filter(|line| line.contains("sync(")).count();
    Ok(Some(syncs as f64 / TURNS as f64))
}

/// Runs turns in this process while strace logs its syncs. The first turns, which create the files,
/// are not counted.
pub(super) fn run_traced(base: &Path) -> Result<(), Failure> {
    let mut session = begin_session(base)?;
    session.take_turns(5)?;
    let marker = base.join(MARKER);
    std::fs::create_dir(&marker).map_err(io_failure("create", &marker))?;
    session.take_turns(TURNS).map(drop)
}

/// Begins a session that works in the directory `tree`.
pub(super) fn begin_session(base: &Path) -> Result<Session, Failure> {
    let project = base.join("tree").canonicalize().map_err(io_failure("find", base))?;
    Session::begin(&base.join("home"), &project, "traced")
}
