//! The archives that the first start over an older layout made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_ledger::Time;

use super::prune::PruneReport;
use crate::Opened;

/// An archive of an older layout.
pub(super) struct Archive {
    pub(super) name: String,
    pub(super) bytes: u64,
    since: Option<Time>,
}

/// Lists the archives of older layouts.
pub(super) fn list_archives(opened: &Opened) -> io::Result<Vec<Archive>> {
    let directory = opened.checkpoints_directory();
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut archives = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stamp) = name.strip_prefix("legacy-") {
            let since = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", stamp).ok();
            let since = since.and_then(|since| since.to_zoned(jiff::tz::TimeZone::UTC).ok());
            let since = since.map(|since| Time(since.timestamp().as_millisecond()));
            archives.push(Archive { bytes: directory_size(&directory.join(&name)), name, since });
        }
    }
    archives.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(archives)
}

/// Deletes the archives that were made before `oldest`.
pub(super) fn prune_archives(
    opened: &Opened,
    oldest: Time,
    report: &mut PruneReport,
) -> io::Result<()> {
    for archive in list_archives(opened)? {
        if archive.since.is_some_and(|since| since < oldest) {
            if !report.dry_run {
                fs::remove_dir_all(opened.checkpoints_directory().join(&archive.name))?;
            }
            report.legacy.push(archive.name);
        }
    }
    Ok(())
}

/// Deletes all archives of older layouts.
pub fn clear_legacy_archives(opened: &Opened) -> io::Result<()> {
    for archive in list_archives(opened)? {
        fs::remove_dir_all(opened.checkpoints_directory().join(archive.name))?;
    }
    Ok(())
}

/// Lists the directories of the archives of older layouts.
pub fn legacy_directories(opened: &Opened) -> Vec<PathBuf> {
    let archives = list_archives(opened).unwrap_or_default();
    archives.iter().map(|archive| opened.checkpoints_directory().join(&archive.name)).collect()
}

/// Adds up the sizes of all files in a directory.
pub(super) fn directory_size(directory: &Path) -> u64 {
    let mut size = 0;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => size += metadata.len(),
                Err(_) => {}
            }
        }
    }
    size
}
