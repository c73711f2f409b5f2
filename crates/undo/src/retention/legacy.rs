//! Repositories in an older layout. They are set aside in archives when the store is created, and
//! the archives are pruned by age.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_base::durable;
use takeback_ledger::Time;
use takeback_tree::ForeignRepository;

use super::prune::PruneReport;
use crate::Opened;

/// An archive of repositories in an older layout.
pub(super) struct Archive {
    pub(super) name: String,
    pub(super) bytes: u64,
    since: Option<Time>,
}

/// Lists the archives of repositories in older layouts.
pub(super) fn list_archives(opened: &Opened) -> io::Result<Vec<Archive>> {
    let directory = opened.checkpoints_directory();
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut archives = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stamp) = name.strip_prefix(ARCHIVE) {
            // If two archives were created in the same second, the name of the later one has a
            // number after the time.
            let stamp = stamp.get(..STAMP_LENGTH).unwrap_or(stamp);
            let since = jiff::civil::DateTime::strptime(STAMP, stamp).ok();
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

/// Deletes all archives of repositories in older layouts.
pub fn clear_legacy_archives(opened: &Opened) -> io::Result<()> {
    for archive in list_archives(opened)? {
        fs::remove_dir_all(opened.checkpoints_directory().join(archive.name))?;
    }
    Ok(())
}

/// Lists the directories that hold archives of repositories in older layouts.
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

/// The prefix of archive names.
const ARCHIVE: &str = "legacy-";

/// The format of the time in archive names.
const STAMP: &str = "%Y%m%d-%H%M%S";

/// The length of a time in the format `STAMP`.
const STAMP_LENGTH: usize = 15;

/// Moves the git repositories at the top level of the checkpoints directory, one per project, into
/// a new archive in that directory. Returns the archive's path, or `None` if no repository was
/// moved.
///
/// The store, earlier archives, links and everything that is not a repository stay in place.
pub(crate) fn archive_repositories(
    checkpoints: &Path,
    now: jiff::Timestamp,
) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(checkpoints) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    let paths = entries.into_iter().map(|entry| entry.path());
    let repositories: Vec<PathBuf> = paths.filter(|path| is_old_repository(path)).collect();
    if repositories.is_empty() {
        return Ok(None);
    }
    let archive = create_archive(checkpoints, now)?;
    for path in repositories {
        let name = path.file_name().expect("it was listed by its name");
        match fs::rename(&path, archive.join(name)) {
            // Another process has already moved the repository.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    // This removes the archive only if no repository was moved into it.
    let is_empty = fs::remove_dir(&archive).is_ok();
    Ok((!is_empty).then_some(archive))
}

fn is_old_repository(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name != OsStr::new("store")
        && !name.to_string_lossy().starts_with(ARCHIVE)
        && !path.is_symlink()
        && ForeignRepository::is_at(path)
}

/// Creates a directory named after the current time.
fn create_archive(checkpoints: &Path, now: jiff::Timestamp) -> io::Result<PathBuf> {
    let name = format!("{ARCHIVE}{}", now.strftime(STAMP));
    let more = (2..).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.clone()).chain(more) {
        let path = checkpoints.join(name);
        match durable::create_new_directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
    unreachable!("there is always another number")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Creates the files that [`ForeignRepository::is_at`] looks for.
    fn create_repository(path: &Path) {
        fs::create_dir_all(path.join("objects")).unwrap();
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    fn names_in(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> =
            entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn old_repositories_are_archived_once() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = directory.path().join("checkpoints");
        let now: jiff::Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        assert_eq!(archive_repositories(&checkpoints, now).unwrap(), None);
        create_repository(&checkpoints.join("store"));
        assert_eq!(archive_repositories(&checkpoints, now).unwrap(), None);
        for name in ["0123456789abcdef", "fedcba9876543210", "legacy-20200101-000000"] {
            create_repository(&checkpoints.join(name));
        }
        fs::create_dir(checkpoints.join("something else")).unwrap();
        fs::write(checkpoints.join(".last_prune"), "1").unwrap();
        create_repository(&directory.path().join("elsewhere"));
        std::os::unix::fs::symlink("../elsewhere", checkpoints.join("link")).unwrap();

        let archive = archive_repositories(&checkpoints, now).unwrap().unwrap();
        assert_eq!(archive, checkpoints.join("legacy-20260304-050607"));
        assert_eq!(names_in(&archive), ["0123456789abcdef", "fedcba9876543210"]);
        assert!(archive.join("fedcba9876543210/HEAD").exists());
        let left = [
            ".last_prune",
            "legacy-20200101-000000",
            "legacy-20260304-050607",
            "link",
            "something else",
            "store",
        ];
        assert_eq!(names_in(&checkpoints), left);
        assert_eq!(archive_repositories(&checkpoints, now).unwrap(), None);

        create_repository(&checkpoints.join("0123456789abcdef"));
        let second = archive_repositories(&checkpoints, now).unwrap().unwrap();
        assert_eq!(second, checkpoints.join("legacy-20260304-050607-2"));
    }
}
