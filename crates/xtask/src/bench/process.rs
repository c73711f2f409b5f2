//! Running programs in order to measure them, from start to end and in a clean environment.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Failure;

/// Prepares a command whose environment has only `PATH`, and a home that does not exist.
pub(crate) fn clean_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// Runs a command to completion, and discards its output.
pub(crate) fn run_to_end(command: &mut Command) -> Result<(), Failure> {
    let status = command.stdout(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {command:?}")) }
}

/// Runs a command and returns its output, without white space at the end.
pub(crate) fn read_output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("failed ({}): {command:?}\n{said}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Runs a command and returns its peak memory in bytes. The kernel keeps that number only while the
/// process is alive, so this function polls it.
pub(crate) fn peak_memory(command: &mut Command) -> Result<u64, Failure> {
    let child = command.stdout(Stdio::null()).spawn();
    let mut child: Child = child.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        peak = peak.max(read_high_water(Path::new(&status)).unwrap_or(0));
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(format!("failed ({status}): {command:?}")),
            None => std::thread::sleep(std::time::Duration::from_micros(300)),
        }
    }
}

/// Reads the peak memory of a process from its status file, in bytes.
pub(crate) fn read_high_water(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Measures the share of the machine's processor time that other processes use.
pub(crate) fn busy_elsewhere() -> f64 {
    let ticks = || -> Option<(f64, f64)> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let fields: Vec<f64> =
            text.lines().next()?.split_whitespace().skip(1).flat_map(str::parse).collect();
        // These are the fields for idle time and for time spent waiting for the disk.
        Some((fields.get(3)? + fields.get(4)?, fields.iter().sum()))
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_secs(1));
    match (before, ticks()) {
        (Some((idle, all)), Some((idle_after, all_after))) if all_after > all => {
            1.0 - (idle_after - idle) / (all_after - all)
        }
        _ => 0.0,
    }
}
