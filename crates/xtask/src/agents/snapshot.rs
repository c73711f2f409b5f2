//! Comparing the contents of directories, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use takeback_base::durable::if_exists;

use crate::Failure;

/// The state of every path in a directory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, FileState>);

#[derive(Clone, PartialEq, Eq)]
enum FileState {
    Directory,
    File { mode: u32, content: Vec<u8> },
    Link(PathBuf),
}

impl Snapshot {
    /// Reads everything in a directory, except one of its entries.
    pub(crate) fn take(directory: &Path, except: &str) -> Result<Snapshot, Failure> {
        let mut things = BTreeMap::new();
        read_directory(directory, Path::new(""), except, &mut things)
            .map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
        Ok(Snapshot(things))
    }

    /// Removes a path and everything below it from the snapshot.
    pub(crate) fn without_path(mut self, path: &str) -> Snapshot {
        self.0.retain(|known, _| !known.starts_with(path));
        self
    }

    /// Replaces the state of one path with its state in another snapshot.
    pub(crate) fn with_path_of(mut self, path: &str, other: &Snapshot) -> Snapshot {
        let thing = other.0.get(Path::new(path)).cloned();
        self.0.extend(thing.map(|thing| (PathBuf::from(path), thing)));
        self
    }

    /// Keeps only the paths at which the two given snapshots differ, and drops all directories.
    pub(crate) fn where_differ(mut self, one: &Snapshot, other: &Snapshot) -> Snapshot {
        self.0.retain(|path, thing| {
            *thing != FileState::Directory && one.0.get(path) != other.0.get(path)
        });
        self
    }

    /// True if the path is a file with this content.
    pub(crate) fn has_file(&self, path: &str, wanted: &str) -> bool {
        let thing = self.0.get(Path::new(path));
        matches!(thing, Some(FileState::File { content, .. }) if content == wanted.as_bytes())
    }

    /// Fails unless this snapshot contains every log of an earlier snapshot, unchanged.
    pub(crate) fn must_keep_logs_of(&self, earlier: &Snapshot) -> Result<(), Failure> {
        let changed = |(path, state): &(&PathBuf, &FileState)| self.0.get(*path) != Some(*state);
        match earlier.0.iter().filter(|(path, _)| is_log(path)).find(changed) {
            None => Ok(()),
            Some((path, _)) => Err(format!("the agent's log {} has changed", path.display())),
        }
    }

    /// Fails unless each log of an earlier snapshot is the beginning of the log in this snapshot.
    pub(crate) fn must_extend_logs_of(&self, earlier: &Snapshot) -> Result<(), Failure> {
        let is_extended = |path: &Path, old: &[u8]| match self.0.get(path) {
            Some(FileState::File { content, .. }) => content.starts_with(old),
            _ => false,
        };
        for (path, state) in &earlier.0 {
            if let FileState::File { content, .. } = state
                && is_log(path)
                && !is_extended(path, content)
            {
                return Err(format!("the agent's log {} has changed", path.display()));
            }
        }
        Ok(())
    }

    /// Fails with a list of the differences unless this snapshot equals the wanted one.
    pub(crate) fn must_be(&self, wanted: &Snapshot, what: &str) -> Result<(), Failure> {
        let mut differences = Vec::new();
        for (path, thing) in &self.0 {
            match wanted.0.get(path) {
                None => differences.push(format!("+ {}", path.display())),
                Some(other) if other != thing => {
                    differences.push(format!("~ {}", path.display()));
                }
                Some(_) => {}
            }
        }
        let missing = wanted.0.keys().filter(|path| !self.0.contains_key(*path));
        differences.extend(missing.map(|path| format!("- {}", path.display())));
        match differences.is_empty() {
            true => Ok(()),
            false => Err(format!("{what} is not as expected:\n{}", differences.join("\n"))),
        }
    }
}

/// Returns true if a file is the log of a session.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Some agents keep a list of all prompts or of all costs, which is not a log of a session.
    let is_list = name.ends_with("history.jsonl") || name == "usage_record.jsonl";
    name.ends_with(".jsonl") && !is_list
}

fn read_directory(
    root: &Path,
    below: &Path,
    except: &str,
    things: &mut BTreeMap<PathBuf, FileState>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(except) {
            continue;
        }
        // An agent may remove its temporary files at any time.
        let Some(thing) = if_exists(read_entry(root, &path, &entry, except, things))? else {
            continue;
        };
        // Sockets and pipes appear and disappear.
        things.extend(thing.map(|thing| (path, thing)));
    }
    Ok(())
}

/// Reads a file, a link, or a directory with everything in it. Returns `None` for anything else.
fn read_entry(
    root: &Path,
    path: &Path,
    entry: &fs::DirEntry,
    except: &str,
    things: &mut BTreeMap<PathBuf, FileState>,
) -> std::io::Result<Option<FileState>> {
    let metadata = entry.metadata()?;
    Ok(if metadata.is_symlink() {
        Some(FileState::Link(fs::read_link(entry.path())?))
    } else if metadata.is_dir() {
        read_directory(root, path, except, things)?;
        Some(FileState::Directory)
    } else if metadata.is_file() {
        let mode = metadata.permissions().mode() & 0o777;
        Some(FileState::File { mode, content: fs::read(entry.path())? })
    } else {
        None
    })
}
