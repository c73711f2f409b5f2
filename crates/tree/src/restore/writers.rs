//! The processes that are writing to a file, if `/proc` reveals them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{BlockedPath, BlockedReason};
use crate::capture::UncoveredReason;
use crate::lock::Lock;

/// A process that has a file open for writing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Writer {
    pub pid: u32,
    /// The name of its command.
    pub command: String,
}

/// The bits of an open file's flags that hold the access mode.
const ACCESS: u32 = 0o3;

impl Lock<'_> {
    /// Finds the processes that have a blocked path open for writing, and adds them to the entry
    /// for that path. Looks only at paths that are blocked because they changed.
    pub fn name_writers(&self, blocked: &mut [BlockedPath]) {
        let is_written = |blocked: &BlockedPath| {
            matches!(
                blocked.reason,
                BlockedReason::Changed | BlockedReason::Uncovered(UncoveredReason::Changing)
            )
        };
        let root = self.workspace().path();
        let identity =
            |path: &Path| Some(fs::metadata(path).ok()?).map(|file| (file.dev(), file.ino()));
        let wanted: Vec<(usize, (u64, u64))> = (0..blocked.len())
            .filter(|number| is_written(&blocked[*number]))
            .filter_map(|number| {
                Some((number, identity(&root.join(blocked[number].path.as_path()))?))
            })
            .collect();
        if wanted.is_empty() {
            return;
        }
        for (pid, process) in processes() {
            for file in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
                let Some(found) = identity(&file.path()) else { continue };
                let is_it = |(_, known): &&(usize, (u64, u64))| *known == found;
                let Some((number, _)) = wanted.iter().find(is_it) else { continue };
                let writers = &mut blocked[*number].writers;
                let info = process.join("fdinfo").join(file.file_name());
                if is_open_for_writing(&info) && writers.iter().all(|known| known.pid != pid) {
                    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
                    writers.push(Writer { pid, command: command.trim_end().to_owned() });
                }
            }
        }
    }
}

/// Lists all other processes with their directories in `/proc`.
fn processes() -> Vec<(u32, std::path::PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (pid != std::process::id()).then(|| (pid, entry.path()))
    });
    processes.collect()
}

/// True if a file is open for writing according to `info`, its `/proc/PID/fdinfo/FD`.
fn is_open_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != 0)
}
