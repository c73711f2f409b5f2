//! What is in a directory, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;

/// What is at each path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Thing>);

#[derive(Clone, PartialEq, Eq)]
enum Thing {
    Directory,
    File { mode: u32, content: Vec<u8> },
    Link(PathBuf),
}

impl Snapshot {
    /// Everything in a directory but what is in one of its entries.
    pub(crate) fn of(directory: &Path, except: &str) -> Result<Snapshot, Failure> {
        let mut things = BTreeMap::new();
        read(directory, Path::new(""), except, &mut things)
            .map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
        Ok(Snapshot(things))
    }

    /// The same without a path and what is below it.
    pub(crate) fn without(mut self, path: &str) -> Snapshot {
        self.0.retain(|known, _| !known.starts_with(path));
        self
    }

    /// The same with a new file.
    pub(crate) fn with(mut self, path: &str, content: &str) -> Snapshot {
        let file = Thing::File { mode: 0o644, content: content.into() };
        self.0.insert(PathBuf::from(path), file);
        self
    }

    /// Those of its paths that another one has as well, whatever is there.
    pub(crate) fn only_paths_of(mut self, other: &Snapshot) -> Snapshot {
        self.0.retain(|path, _| other.0.contains_key(path));
        self
    }

    /// Paths that another one does not have.
    pub(crate) fn paths_beyond(&self, other: &Snapshot) -> Vec<&Path> {
        let beyond = self.0.keys().filter(|path| !other.0.contains_key(*path));
        beyond.map(PathBuf::as_path).collect()
    }

    /// It must be like this.
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
        let missing = wanted.paths_beyond(self).into_iter();
        differences.extend(missing.map(|path| format!("- {}", path.display())));
        match differences.is_empty() {
            true => Ok(()),
            false => Err(format!("{what}: it is not as it should be:\n{}", differences.join("\n"))),
        }
    }
}

fn read(
    root: &Path,
    below: &Path,
    except: &str,
    things: &mut BTreeMap<PathBuf, Thing>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(except) {
            continue;
        }
        let metadata = entry.metadata()?;
        let thing = if metadata.is_symlink() {
            Thing::Link(fs::read_link(entry.path())?)
        } else if metadata.is_dir() {
            read(root, &path, except, things)?;
            Thing::Directory
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o777;
            Thing::File { mode, content: fs::read(entry.path())? }
        } else {
            // Sockets and the like come and go.
            continue;
        };
        things.insert(path, thing);
    }
    Ok(())
}
